// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A process to attach: it has an open connection and a listener, and makes a new connection when told.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use crate::{skip, Background, Net};

const PROGRAM: &str = r#"
import socket, sys
host, port, listen, protocol = sys.argv[1], *map(int, sys.argv[2:])
name = lambda s: s.getsockopt(6, 13, 16).split(b'\0')[0].decode()
def connect():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    s.connect((host, port))
    return s
old = connect()
server = socket.create_server(('', listen))
old.sendall(bytes(100000))
print('ready', flush=True)
new = accepted = None
for line in sys.stdin:
    word = line.strip()
    if word == 'connect':
        new = connect()
        new.sendall(bytes(1000))
    elif word == 'accept':
        accepted, _ = server.accept()
    elif word == 'send':
        old.sendall(bytes(100000))
    print(*[name(s) if s else '-' for s in (old, new, server, accepted)], flush=True)
"#;

pub struct Subject {
    pub child: Background,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Subject {
    pub fn start(net: &Net) -> Option<Self> {
        Self::with_protocol(net, &net.peer(), 0)
    }

    /// With connections of this protocol, 0 for TCP, to this peer.
    pub fn with_protocol(net: &Net, peer: &(String, String), protocol: i32) -> Option<Self> {
        Self::of_program(net, PROGRAM, &[&peer.0, &peer.1, "7778", &protocol.to_string()])
    }

    /// Under a name of its own: that of this link to Python.
    pub fn start_as(net: &Net, python: &std::path::Path) -> Option<Self> {
        let (host, port) = net.peer();
        Self::by(net, python.to_str().unwrap(), PROGRAM, &[&host, &port, "7778", "0"])
    }

    /// Another program in Python, which says `ready` and then answers each word with controls.
    pub fn of_program(net: &Net, program: &str, args: &[&str]) -> Option<Self> {
        Self::by(net, "python3", program, args)
    }

    fn by(net: &Net, python: &str, program: &str, args: &[&str]) -> Option<Self> {
        let mut child = net
            .command(python)
            .args(["-c", program])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .inspect_err(|e| skip(format_args!("python3: {e}")))
            .ok()?;
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut subject = Subject { child: Background(child), input, output };
        match subject.line().as_str() {
            "ready" => Some(subject),
            other => {
                skip(format_args!("{other}"));
                None
            }
        }
    }

    fn line(&mut self) -> String {
        self.output.next().unwrap().unwrap()
    }

    /// The controls of the old and a new connection, the listener and an accepted one.
    pub fn tell(&mut self, word: &str) -> Vec<String> {
        writeln!(self.input, "{word}").unwrap();
        self.line().split(' ').map(str::to_string).collect()
    }

    pub fn pid(&self) -> String {
        self.child.pid().to_string()
    }
}
