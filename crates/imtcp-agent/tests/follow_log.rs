// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp-agent feed --log`: a server's clients become peers. How a log is followed is tested where it is read.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use imtcp_test_support::*;

struct Agent {
    child: Child,
    says: BufReader<ChildStdout>,
    said: String,
}

impl Agent {
    fn start(scratch: &Scratch) -> Self {
        Self::of(scratch, &["xferlog"], &[])
    }

    /// It tests nobody before the first 60 s are over, and reaches no service.
    fn of(scratch: &Scratch, logs: &[&str], more: &[&str]) -> Self {
        // Both outputs in one.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" feed \"$@\" 2>&1"]).arg(&*IMTCP_AGENT);
        command.args(["--no-connections", "--ping", "60", "--url", "http://127.0.0.1:1"]);
        command.arg("--spool").arg(scratch.path("spool")).args(more);
        for log in logs {
            command.arg("--log").arg(scratch.path(log));
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Agent { child, says, said: String::new() }
    }

    #[track_caller]
    fn says(&mut self, wanted: &str) {
        while !self.said.contains(wanted) {
            let more = self.says.read_line(&mut self.said).unwrap();
            assert!(more > 0, "it never says {wanted}: {}", self.said);
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn came(scratch: &Scratch, host: &str) {
    let mut log =
        OpenOptions::new().create(true).append(true).open(scratch.path("xferlog")).unwrap();
    writeln!(log, "Sun Nov 22 04:19:21 2026 0 {host} 6 /f b _ o a u ftp 0 * c").unwrap();
}

#[test]
fn clients_in_a_log_become_peers_and_stay_so_when_the_agent_starts_again() {
    let scratch = Scratch::new();
    let mut agent = Agent::start(&scratch);
    agent.says("0 peers from 1 log, more as they come");
    // The log comes later than the agent.
    came(&scratch, "192.0.2.7");
    agent.says("1 peer from 1 log");
    agent.says("ping of 1 peer");
    drop(agent);
    fs::rename(scratch.path("xferlog"), scratch.path("xferlog.1")).unwrap();
    came(&scratch, "192.0.2.8");
    let mut agent = Agent::start(&scratch);
    agent.says("1 peer from 1 log");
    agent.says("2 peers from 1 log");
}

/// As nginx writes it behind a proxy, X-Forwarded-For last.
fn came_by_proxy(scratch: &Scratch, log: &str, client: &str) {
    let mut log = OpenOptions::new().create(true).append(true).open(scratch.path(log)).unwrap();
    let line = r#"127.0.0.1 - - [22/Nov/2026:04:19:19 +0000] "GET / HTTP/1.1" 200 7 "-" "x""#;
    writeln!(log, "{line} \"{client}\"").unwrap();
}

#[test]
fn why_a_log_names_no_peer_is_said_and_said_again_when_it_changes() {
    let scratch = Scratch::new();
    fs::write(scratch.path("notes"), "what\u{1b}[31m is this\n").unwrap();
    fs::write(scratch.path("log.gz"), b"\x1f\x8b\x08\0\n").unwrap();
    let mut agent = Agent::of(&scratch, &["notes", "log.gz"], &[]);
    agent.says("notes names no peer: no line is of a log that is known");
    agent.says("log.gz: it is compressed (gzip)");
    for _ in 0..2 {
        came_by_proxy(&scratch, "notes", "192.0.2.7");
    }
    agent.says("notes names no peer: all was sent to this host itself: where that is a proxy");
    drop(agent);
    // The next agent says it too, though it has read the lines already.
    let mut agent = Agent::of(&scratch, &["log.gz", "notes"], &[]);
    agent.says("notes names no peer: all was sent to this host itself: where that is a proxy");
}

#[test]
fn a_log_is_read_anew_when_the_options_say_that_its_lines_mean_something_else() {
    let scratch = Scratch::new();
    came_by_proxy(&scratch, "log", "192.0.2.7");
    let mut agent = Agent::of(&scratch, &["log"], &[]);
    agent.says("all was sent to this host itself");
    let kept = scratch.path("spool/followed-logs");
    eventually("it keeps its place", || kept.exists());
    drop(agent);
    let proxy = ["--trusted-proxy", "127.0.0.1"];
    let mut agent =
        Agent::of(&scratch, &["log"], &[&proxy[..], &["--forwarded-field", "2"]].concat());
    agent.says("read in another way: reading them from their beginnings");
    agent.says("field 2 behind the bytes holds no address");
    drop(agent);
    let mut agent = Agent::of(&scratch, &["log"], &proxy);
    agent.says("1 peer from 1 log");
}

#[test]
fn peers_of_another_log_are_none_of_this_one() {
    let scratch = Scratch::new();
    came(&scratch, "192.0.2.7");
    let mut agent = Agent::start(&scratch);
    agent.says("1 peer from 1 log");
    drop(agent);
    fs::write(scratch.path("other"), "").unwrap();
    let mut agent = Agent::of(&scratch, &["other"], &[]);
    agent.says("0 peers from 1 log");
    agent.says("other names no peer: it has no whole line yet");
}

#[test]
fn a_log_and_a_list_of_peers_exclude_each_other() {
    let output = agent(&["feed", "--log", "x", "--peers", "y"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}
