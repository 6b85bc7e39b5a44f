// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp agent --log`: a server's clients become peers. How a log is followed is tested where it is read.

mod support;

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use support::*;

struct Agent {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Agent {
    /// It tests nobody before the first 60 s are over, and reaches no service.
    fn start(scratch: &Scratch) -> Self {
        let mut child = Command::new(&*IMTCP)
            .args(["agent", "--no-connections", "--ping", "60", "--url", "http://127.0.0.1:1"])
            .arg("--spool")
            .arg(scratch.path("spool"))
            .arg("--log")
            .arg(scratch.path("xferlog"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Agent { child, said }
    }

    #[track_caller]
    fn says(&mut self, wanted: &str) {
        let mut line = String::new();
        while !line.contains(wanted) {
            line.clear();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "it never says {wanted}");
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

#[test]
fn a_log_and_a_list_of_peers_exclude_each_other() {
    let output = imtcp(&["agent", "--log", "x", "--peers", "y"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}
