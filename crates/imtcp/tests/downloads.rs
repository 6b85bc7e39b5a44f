// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Downloads of a run or attachment: whose window is steered, from when to when. How they yield is measured in guests
//! (tests/test_downloads.py).

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use imtcp_test_support::*;

const SOME_BYTES: usize = 300_000;

/// For a test that needs Python. The lock is held for as long as the test lasts.
fn begin() -> Option<(Alone, Net)> {
    let alone = alone()?;
    python3_is_there().then(|| (alone, Net::new()))
}

/// A program that accepts connections, reads on command, and prints how large their windows may be.
struct Reader {
    process: Background,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
    port: u16,
}

const SCRIPT: &str = "import socket, sys\n\
    l = socket.create_server(('10.98.0.1', 0))\n\
    print(l.getsockname()[1], flush=True)\n\
    s = None\n\
    for line in sys.stdin:\n\
    \x20   word, *n = line.split()\n\
    \x20   if word == 'accept': s = l.accept()[0]\n\
    \x20   if word == 'read':\n\
    \x20       left = int(n[0])\n\
    \x20       while left: left -= len(s.recv(min(left, 65536)))\n\
    \x20   print(s.getsockopt(6, 10), s.getsockopt(1, 8), flush=True)\n";

impl Reader {
    /// `before` the program: `imtcp run` and its options, or nothing.
    fn start(net: &Net, before: &[&str]) -> Self {
        let words = [before, &["python3", "-c", SCRIPT]].concat();
        let mut command: Command = net.command(words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (tell, hear) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut reader =
            Reader { process: Background(child), tell, hear: BufReader::new(hear), port: 0 };
        reader.port = reader.line().parse().unwrap();
        reader
    }

    fn in_a_run(net: &Net, options: &[&str]) -> Self {
        let run = [&[IMTCP.as_str(), "run"], options, &["--"]].concat();
        Self::start(net, &run)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.hear.read_line(&mut line).unwrap();
        line.trim().into()
    }

    fn says(&mut self, word: &str) -> (usize, usize) {
        writeln!(self.tell, "{word}").unwrap();
        let line = self.line();
        let (clamp, buffer) = line.split_once(' ').unwrap_or_else(|| panic!("{word}: {line}"));
        (clamp.parse().unwrap(), buffer.parse().unwrap())
    }

    fn connected(&mut self, net: &Net) -> TcpStream {
        let to = format!("{CLIENT}:{}", self.port).parse().unwrap();
        let sender = net.connect_from_server(to).unwrap();
        self.says("accept");
        sender
    }

    /// The window's bound before and after so many bytes arrived.
    fn bounds(&mut self, sender: &mut TcpStream) -> (usize, usize) {
        let before = self.says("look").0;
        sender.write_all(&vec![0; SOME_BYTES]).unwrap();
        (before, self.says(&format!("read {SOME_BYTES}")).0)
    }

    fn is_steered(&mut self, sender: &mut TcpStream) -> bool {
        let (before, after) = self.bounds(sender);
        assert!(after > 2000, "the window's bound is {after}");
        before != after && after % 1448 == 0
    }
}

#[test]
fn what_a_run_receives_has_its_window_steered_unless_its_direction_is_send() {
    let Some((_alone, net)) = begin() else { return };
    let steered = |options: &[&str]| {
        let mut reader = Reader::in_a_run(&net, &[&["-q"], options].concat());
        let mut sender = reader.connected(&net);
        reader.is_steered(&mut sender)
    };
    assert!(steered(&[]));
    assert!(steered(&["--direction", "receive"]));
    assert!(steered(&["--mode", "nice", "--direction", "both"]));
    assert!(!steered(&["--direction", "send"]));
    assert!(!steered(&["--mode", "measure"]));
}

#[test]
fn a_direction_that_leaves_sending_alone_takes_no_mode_of_sending() {
    let output = imtcp(&["run", "--direction", "receive", "--mode", "lp", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("leaves what is sent alone, and --mode lp is of that"), "{told}");
}

#[test]
fn small_messages_leave_room_for_full_segments() {
    let Some((_alone, net)) = begin() else { return };
    let mut reader = Reader::in_a_run(&net, &["-q"]);
    let mut sender = reader.connected(&net);
    sender.set_nodelay(true).unwrap();
    for _ in 0..300 {
        sender.write_all(&[7; 100]).unwrap();
        let (bound, _) = reader.says("read 100");
        assert!(bound >= 2 * 1448, "{bound}");
    }
    assert!(reader.is_steered(&mut sender));
}

#[test]
fn the_last_line_and_watch_tell_of_a_download() {
    let Some((_alone, net)) = begin() else { return };
    let mut reader = Reader::in_a_run(&net, &["--json"]);
    let mut sender = reader.connected(&net);
    reader.is_steered(&mut sender);
    let shown = connections_over("0.1", "python3").remove(0);
    assert_eq!(shown["bytes_received"], SOME_BYTES, "{shown}");
    assert!(shown["offered_bytes"].as_u64().unwrap() > 2000, "{shown}");
    assert!(shown["received_rtt_us"].as_u64().unwrap() < 100_000, "{shown}");
    drop((sender, reader.tell));
    let output = reader.process.finish();
    let summary = summary(&output);
    // An end counts as a byte.
    assert_eq!(summary["bytes_received"], SOME_BYTES + 1, "{summary}");
    assert!(summary["received_yielded_pct"].is_u64(), "{summary}");
}

#[test]
fn without_timestamps_nothing_is_held_back_and_the_last_line_says_so() {
    let Some((_alone, net)) = begin() else { return };
    net.write_in_client("/proc/sys/net/ipv4/tcp_timestamps", "0");
    let mut reader = Reader::in_a_run(&net, &[]);
    let mut sender = reader.connected(&net);
    assert!(!reader.is_steered(&mut sender));
    drop((sender, reader.tell));
    let told = text(&reader.process.finish().stderr);
    assert!(told.contains("not held back (without TCP timestamps no download is)"), "{told}");
}

#[test]
fn a_cgroup_that_is_attached_has_its_open_downloads_steered_and_gets_their_windows_back() {
    let Some((_alone, net)) = begin() else { return };
    let unit = Unit::new();
    let mut reader = Reader::start(&net, &["sh", "-c", &in_unit(&unit), "sh"]);
    let mut sender = reader.connected(&net);
    assert!(!reader.is_steered(&mut sender));
    let told = text(&imtcp(&["attach", "--cgroup", unit.path()]).stderr);
    if told.contains("that takes Linux 6.12 or later") {
        skip("this kernel steers no window of an open connection");
        return;
    }
    assert!(reader.is_steered(&mut sender), "{told}");
    imtcp_ok(&["detach", "--all"]);
    let (clamp, buffer) = reader.says("look");
    assert_eq!(clamp, buffer, "all of the buffer may be used again");
    assert!(!reader.is_steered(&mut sender));
    imtcp_ok(&["attach", "--cgroup", unit.path()]);
    assert!(reader.is_steered(&mut sender));
    // Other orders.
    imtcp_ok(&["attach", "--cgroup", unit.path(), "--direction", "send"]);
    let (clamp, buffer) = reader.says("look");
    assert_eq!(clamp, buffer);
    assert!(!reader.is_steered(&mut sender));
}

/// Moves the shell into a unit's cgroup, and then is the program.
fn in_unit(unit: &Unit) -> String {
    format!("echo $$ >{}/cgroup.procs; exec \"$@\"", unit.0.display())
}

#[test]
fn a_process_that_is_attached_is_told_that_its_open_downloads_do_not_yield() {
    let Some((_alone, net)) = begin() else { return };
    let mut reader = Reader::start(&net, &[]);
    let mut sender = reader.connected(&net);
    let told = text(&imtcp(&["attach", "--pid", &reader.process.pid().to_string()]).stderr);
    assert!(told.contains("downloads of "), "{told}");
    assert!(told.contains("they were opened in another cgroup; new ones do"), "{told}");
    assert!(!reader.is_steered(&mut sender));
    // Its listener was opened there, too, so what it accepts is.
    imtcp_ok(&["detach", "--all"]);
}

#[test]
fn a_download_that_goes_on_after_its_run_has_its_window_back() {
    let Some((_alone, net)) = begin() else { return };
    // The shell ends, and what it started goes on.
    let line = "\"$@\" <&3 & exec 3<&-";
    let outer = ["sh", "-c", "exec 3<&0; imtcp=$1; shift; \"$imtcp\" run -q -- \"$@\"", "sh"];
    let before = [&outer[..], &[&IMTCP, "sh", "-c", line, "sh"]].concat();
    let mut reader = Reader::start(&net, &before);
    let mut sender = reader.connected(&net);
    assert!(reader.process.0.wait().unwrap().success());
    let (clamp, buffer) = reader.says("look");
    assert!(clamp == buffer || clamp % 1448 != 0, "{clamp} of {buffer}");
    assert!(!reader.is_steered(&mut sender));
}

#[test]
fn a_run_that_is_killed_goes_on_to_steer_until_it_is_swept() {
    let Some((_alone, net)) = begin() else { return };
    let mut reader = Reader::in_a_run(&net, &["-q"]);
    let mut sender = reader.connected(&net);
    assert!(reader.is_steered(&mut sender));
    reader.process.signal(libc::SIGKILL);
    let _ = reader.process.0.wait();
    let (before, after) = reader.bounds(&mut sender);
    assert!(after % 1448 == 0, "from {before} to {after}");
    // The next command sweeps.
    assert!(imtcp(&["run", "-q", "--", "true"]).status.success());
    let (clamp, buffer) = reader.says("look");
    assert_eq!(clamp, buffer);
    assert!(!reader.is_steered(&mut sender));
    assert!(!std::path::Path::new("/sys/fs/bpf/imtcp/attach").read_dir().is_ok_and(|mut dir| {
        dir.any(|entry| entry.unwrap().file_name().to_string_lossy().ends_with("-run-receive"))
    }));
}

#[test]
fn down_gives_every_window_back() {
    let Some((_alone, net)) = begin() else { return };
    let mut reader = Reader::in_a_run(&net, &["-q"]);
    let mut sender = reader.connected(&net);
    assert!(reader.is_steered(&mut sender));
    imtcp_ok(&["down"]);
    let (clamp, buffer) = reader.says("look");
    assert_eq!(clamp, buffer);
    assert!(!reader.is_steered(&mut sender));
}
