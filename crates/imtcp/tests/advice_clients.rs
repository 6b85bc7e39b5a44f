// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp advice clients`, as an operator calls it. What each format says is tested where it is read.

mod support;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use support::*;

/// As nginx and rsyncd write them, with one line that is neither.
const HTTP: &str = r#"198.51.100.7 - - [22/Nov/2026:04:19:19 +0000] "GET /big.bin HTTP/1.1" 200 3000000 "-" "x"
2001:db8::7 - - [22/Nov/2026:04:20:19 +0000] "GET /big.bin HTTP/1.1" 200 3000 "-" "x"
mirror.example.org - - [22/Nov/2026:04:20:19 +0000] "GET /big.bin HTTP/1.1" 200 3000 "-" "x"
198.51.100.8 - - [22/Nov/2026:04:20:19 +0000] "GET /big.bin HTTP/1.1" 200 99999 "x" 3
"#;
const RSYNC: &str = "2026/11/22 04:16:32 [11046] building file list
2026/11/22 04:16:32 [11046] send UNDETERMINED [198.51.100.7] files () big.bin 5000000
";

fn logs(scratch: &Scratch) -> [String; 2] {
    [("access.log", HTTP), ("rsyncd.log", RSYNC)].map(|(name, text)| {
        let path = scratch.path(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().into()
    })
}

fn clients(args: &[&str]) -> Vec<String> {
    imtcp_ok(&[&["advice", "clients"], args].concat()).lines().map(str::to_string).collect()
}

#[track_caller]
fn refused(args: &[&str], code: i32, says: &str) {
    let output = imtcp(&[&["advice", "clients"], args].concat());
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(says), "{stderr}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
}

#[test]
fn clients_of_several_servers_are_added_up_and_the_greatest_comes_first() {
    let scratch = Scratch::new();
    let [http, rsync] = logs(&scratch);
    let mut command = Command::new(&*IMTCP);
    command.args(["advice", "clients", "--log", &http, &rsync]).env("TZ", "Europe/Berlin");
    let output = command.output().unwrap();
    let shown = text(&output.stdout);
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(
        lines[1].split_whitespace().collect::<Vec<_>>().join(" "),
        // rsyncd wrote at 04:16 in Berlin, nginx with its offset.
        "198.51.100.7 2 8.00 MB 2026-11-22 03:16:32 UTC 2026-11-22 04:19:19 UTC"
    );
    assert!(lines[2].starts_with("2001:db8::7   1          3.00 kB"), "{shown}");
    assert_eq!(lines[3], "6 lines read, 3 transfers");
    assert!(lines[4].starts_with("1 line: about nothing that was sent"), "{shown}");
    assert!(lines[5].contains("named by no address"), "{shown}");
    assert!(lines[6].starts_with("1 line: skipped"), "{shown}");
    assert_eq!(lines.len(), 7);
}

#[test]
fn programs_get_the_same_in_json() {
    let scratch = Scratch::new();
    let [http, rsync] = logs(&scratch);
    let shown = clients(&["--log", &http, &rsync, "--least-bytes", "3001", "--json"]).join("\n");
    let mut learned = json(&shown);
    let client = learned["clients"][0].take();
    assert_eq!((&client["address"], &client["bytes"]), (&"198.51.100.7".into(), &8_000_000.into()));
    assert_eq!(client["last"], "2026-11-22T04:19:19Z");
    let counts = serde_json::json!({"clients": [null], "lines": 6, "transfers": 3, "other": 1,
        "named": 1, "skipped": 1, "forgotten": 0});
    assert_eq!(learned, counts);
}

#[test]
fn the_agent_reads_the_peers_that_are_written_for_it() {
    let scratch = Scratch::new();
    let [http, rsync] = logs(&scratch);
    let file = scratch.path("peers");
    let shown = clients(&["--log", &http, &rsync, "--peers"]).join("\n");
    fs::write(&file, &shown).unwrap();
    let mut peers: Vec<_> = imtcp::agent::listed::peers(&file).unwrap().into_iter().collect();
    peers.sort();
    assert_eq!(peers, ["198.51.100.7", "2001:db8::7"]);
    assert!(shown.contains("\n198.51.100.7  # 2 transfers, 8.00 MB\n"), "{shown}");
    // The agent refuses a file without peers; so does what writes it.
    let least = ["--log", &rsync, "--least-bytes", "5000001", "--peers"];
    refused(&least, 1, "there is no such client: 2 lines read, 1 transfer;");
}

#[test]
fn a_compressed_log_is_refused_before_anything_is_read_and_can_be_piped() {
    let scratch = Scratch::new();
    let [http, _] = logs(&scratch);
    let packed = Command::new("gzip").args(["-c", &http]).output().unwrap().stdout;
    let path = scratch.path("access.log.2.gz");
    fs::write(&path, packed).unwrap();
    let path = path.to_str().unwrap();
    let says = format!("is compressed (gzip): unpack it, as in `zcat {path} | imtcp");
    refused(&["--log", &http, path], 1, &says);

    let mut command = Command::new(&*IMTCP);
    command.args(["advice", "clients", "--format", "nginx", "--log", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(HTTP.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(text(&output.stdout).contains("4 lines read, 2 transfers"));
}

#[test]
fn what_is_no_log_is_told_to_be_none() {
    let scratch = Scratch::new();
    let [http, _] = logs(&scratch);
    refused(&["--log", &http, "/nonexistent/access.log"], 1, "/nonexistent/access.log");
    refused(&["--log", "/etc/passwd"], 1, "no line is of a log that is known");
    refused(&["--log", &http, "--format", "xferlog"], 1, "or --format names the wrong one");
    refused(&["--log", &http, "--format", "iis"], 2, "xferlog");
    refused(&[], 2, "--log");
    assert_eq!(clients(&["--log", "/dev/null"])[1..], ["0 lines read, 0 transfers"]);
}
