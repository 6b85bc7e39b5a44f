// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! How the packets of what yields are marked, who may change that, and how it ends. What queues do with it is tested in guests
//! (tests/test_connections.py).

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use imtcp_test_support::*;

/// A program that connects, sets options and says what its sockets have, as it is told.
struct Asked {
    process: Background,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Asked {
    fn start(net: &Net) -> Self {
        let (host, port) = net.peer();
        let script = format!(
            "import socket, sys\n\
             def connect(tos=0):\n\
             \x20   s = socket.socket(); s.setsockopt(0, 1, tos); s.connect(('{host}', {port}))\n\
             \x20   s.sendall(b'x'); return s\n\
             def tos(s): return s.getsockopt(0, 1)\n\
             for line in sys.stdin:\n\
             \x20   exec(line) if '=' in line else print(eval(line), flush=True)\n"
        );
        let mut python = net.command("python3");
        python.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = python.spawn().unwrap();
        let (tell, hear) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Asked { process: Background(process), tell, hear: BufReader::new(hear) }
    }

    fn does(&mut self, statement: &str) {
        writeln!(self.tell, "{statement}").unwrap();
    }

    fn says(&mut self, expression: &str) -> String {
        writeln!(self.tell, "{expression}").unwrap();
        let mut line = String::new();
        self.hear.read_line(&mut line).unwrap();
        line.trim().into()
    }

    fn pid(&self) -> String {
        self.process.pid().to_string()
    }
}

/// What the command's connection has at its end, which did all of `then` with it.
fn tos_in_a_run(net: &Net, options: &[&str], then: &str) -> String {
    let (host, port) = net.peer();
    let script = format!(
        "import socket\ns = socket.create_connection(('{host}', {port}))\n{then}\n\
         s.sendall(b'x')\nprint(s.getsockopt(0, 1))"
    );
    let output = net.run(&[options, &["-q", "--", "python3", "-c", &script]].concat());
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).trim().into()
}

#[test]
fn what_yields_has_lower_effort_and_what_shares_has_no_mark() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let tos = |options: &[&str]| tos_in_a_run(&net, options, "");
    assert_eq!(tos(&[]), "4");
    assert_eq!(tos(&["--mode", "ledbat"]), "4");
    assert_eq!(tos(&["--mode", "measure"]), "0");
    assert_eq!(tos(&["--dscp", "none"]), "0");
    assert_eq!(tos(&["--dscp", "cs1"]), "32");
    assert_eq!(tos(&["--mode", "fs", "--dscp", "af11"]), "40");
}

#[test]
fn a_program_that_marks_its_packets_itself_does_not_undo_it_and_sees_no_error() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let own = "s.setsockopt(0, 1, 0x48)\ns.setsockopt(1, 8, 65536)";
    assert_eq!(tos_in_a_run(&net, &[], own), "4");
    assert_eq!(tos_in_a_run(&net, &["--dscp", "none"], own), "72");
    // An option longer than a page is still the kernel's own to judge.
    let long =
        "try: s.setsockopt(0, 64, bytes(5000))\nexcept OSError as e: assert e.errno != 14, e";
    assert_eq!(tos_in_a_run(&net, &[], long), "4");
}

#[test]
fn a_connection_gets_back_its_mark_when_its_attachment_ends() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let mut asked = Asked::start(&net);
    asked.does("before = connect(0x48)");
    assert_eq!(asked.says("tos(before)"), "72");
    imtcp_ok(&["attach", "--pid", &asked.pid()]);
    asked.does("plain = connect()");
    asked.does("marked = connect(0x48)");
    let attached = asked.says("(tos(before), tos(plain), tos(marked))");
    imtcp_ok(&["detach", "--all"]);
    let detached = asked.says("(tos(before), tos(plain), tos(marked))");
    asked.does("after = connect()");
    let after = asked.says("tos(after)");
    assert_eq!((attached.as_str(), detached.as_str()), ("(72, 4, 4)", "(72, 0, 72)"));
    assert_eq!(after, "0");
    asked.process.signal(libc::SIGKILL);
}

#[test]
fn down_gives_back_each_mark_and_what_was_accepted_has_its_listeners() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let mut asked = Asked::start(&net);
    imtcp_ok(&["attach", "--pid", &asked.pid()]);
    asked.does(
        "l = socket.socket(); l.setsockopt(0, 1, 0x20); l.bind(('127.0.0.1', 0)); l.listen()",
    );
    asked.does("c = socket.create_connection(l.getsockname()); a = l.accept()[0]");
    let attached = asked.says("(tos(l), tos(c), tos(a))");
    imtcp_ok(&["down"]);
    let down = asked.says("(tos(l), tos(c), tos(a))");
    asked.process.signal(libc::SIGKILL);
    assert_eq!((attached.as_str(), down.as_str()), ("(4, 4, 4)", "(32, 0, 32)"));
    assert!(!std::path::Path::new("/sys/fs/bpf/imtcp").exists());
}

#[test]
fn a_killed_run_marks_nothing_that_is_connected_later() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let scratch = Scratch::new();
    let (go, said) = (scratch.path("go"), scratch.path("said"));
    let (host, port) = net.peer();
    let script = format!(
        "import os, socket, time\n\
         while not os.path.exists('{}'): time.sleep(0.02)\n\
         s = socket.create_connection(('{host}', {port})); s.sendall(b'x')\n\
         s.setsockopt(0, 1, 0x48)\n\
         open('{}.new', 'w').write(str(s.getsockopt(0, 1)))\n\
         os.rename('{}.new', '{}')",
        go.display(),
        said.display(),
        said.display(),
        said.display(),
    );
    let mut run = net.run_spawn(&["-q", "--", "setsid", "python3", "-c", &script]);
    eventually("it runs", || {
        cgroups_left().first().is_some_and(|dir| !imtcp::cgroup::procs(dir).is_empty())
    });
    run.signal(libc::SIGKILL);
    run.0.wait().unwrap();
    imtcp_ok(&["status"]);
    std::fs::write(&go, "").unwrap();
    eventually("it has connected", || said.exists());
    assert_eq!(std::fs::read_to_string(&said).unwrap(), "72");
}
