// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp-advice clients`, as an operator calls it. What each format says is tested where it is read.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use imtcp_test_support::*;

/// As nginx and rsyncd write them, with one line that is neither.
const HTTP: &str = r#"198.51.100.7 - - [22/Nov/2026:04:19:19 +0000] "GET /big.bin HTTP/1.1" 200 3000000 "-" "x"
2001:db8::7 - - [22/Nov/2026:04:20:19 +0000] "GET /big.bin HTTP/1.1" 200 3000 "-" "x"
mirror.example.org - - [22/Nov/2026:04:20:19 +0000] "GET /big.bin HTTP/1.1" 200 3000 "-" "x"
198.51.100.8 - - [22/Nov/2026:04:20:19 +0000] "GET /big.bin HTTP/1.1" 200 99999 "x" 200 3
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
    advice_ok(&[&["clients"], args].concat()).lines().map(str::to_string).collect()
}

#[track_caller]
fn refused(args: &[&str], code: i32, says: &str) {
    let output = advice(&[&["clients"], args].concat());
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(says), "{stderr}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
}

#[test]
fn clients_of_several_servers_are_added_up_and_the_greatest_comes_first() {
    let scratch = Scratch::new();
    let [http, rsync] = logs(&scratch);
    let mut command = Command::new(&*IMTCP_ADVICE);
    command.args(["clients", "--log", &http, &rsync]).env("TZ", "Europe/Berlin");
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
    assert!(lines[4].starts_with("1 line: nothing was sent (uploads"), "{shown}");
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
        "local": 0, "proxies": 0, "wrong_field": 0, "named": 1, "skipped": 1, "forgotten": 0});
    assert_eq!(learned, counts);
}

#[test]
fn peers_for_the_agent_have_an_address_a_line_and_a_list_of_none_is_refused() {
    let scratch = Scratch::new();
    let [http, rsync] = logs(&scratch);
    let shown = clients(&["--log", &http, &rsync, "--peers"]).join("\n");
    assert!(shown.contains("\n198.51.100.7  # 2 transfers, 8.00 MB\n"), "{shown}");
    // The agent refuses a file without peers; so does what writes it.
    let least = ["--log", &rsync, "--least-bytes", "5000001", "--peers"];
    refused(&least, 1, "there is no such client: 2 lines read, 1 transfer;");
}

#[test]
fn a_log_packed_by_gzip_is_read_and_other_packed_ones_say_how_to_unpack_them() {
    let scratch = Scratch::new();
    let [http, _] = logs(&scratch);
    let packed = Command::new("gzip").args(["-c", &http]).output().unwrap().stdout;
    let path = scratch.path("access.log.2.gz");
    fs::write(&path, &packed).unwrap();
    let path = path.to_str().unwrap();
    assert!(clients(&["--log", path]).contains(&"4 lines read, 2 transfers".into()));
    fs::write(path, &packed[..packed.len() / 2]).unwrap();
    refused(&["--log", path], 1, "access.log.2.gz");
    fs::write(path, b"\xfd7zXZ\0").unwrap();
    let says = format!("is compressed (xz): unpack it, as in `xzcat {path} | imtcp");
    refused(&["--log", &http, path], 1, &says);

    let mut command = Command::new(&*IMTCP_ADVICE);
    command.args(["clients", "--format", "nginx", "--log", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(HTTP.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(text(&output.stdout).contains("4 lines read, 2 transfers"));
}

#[test]
fn a_log_is_read_with_what_it_was_rotated_to_and_each_file_once() {
    let scratch = Scratch::new();
    let [http, _] = logs(&scratch);
    for name in ["access.log.1", "access.log-20261121", "access.log.bak"] {
        fs::copy(&http, scratch.path(name)).unwrap();
    }
    let packed = Command::new("gzip").args(["-c", &http]).output().unwrap().stdout;
    fs::write(scratch.path("access.log.2.gz"), packed).unwrap();
    let one = scratch.path("access.log.1");
    let told = |args: &[&str]| clients(args).into_iter().find(|l| l.contains(" read, ")).unwrap();
    assert_eq!(told(&["--log", &http]), "4 lines read, 2 transfers");
    let rotated = ["--log", &http, one.to_str().unwrap(), "--rotated"];
    assert_eq!(told(&rotated), "16 lines read, 8 transfers");
    // All files of the directory: rsyncd's log and the copy that is no rotated one, too.
    let directory = scratch.path("");
    let directory = directory.to_str().unwrap();
    assert_eq!(told(&["--log", directory]), "22 lines read, 11 transfers");
    // Other files of a directory are named and left out.
    fs::write(scratch.path("access.log.3.xz"), b"\xfd7zXZ\0").unwrap();
    let output = advice(&["clients", "--log", directory]);
    assert!(text(&output.stdout).contains("22 lines read, 11 transfers"));
    let said = text(&output.stderr);
    assert!(said.contains("access.log.3.xz is left out: it is compressed (xz)"), "{said}");
}

#[test]
fn the_client_that_a_trusted_proxy_names_counts_and_no_other_ones() {
    let scratch = Scratch::new();
    let path = scratch.path("access.log");
    let line = |host: &str, header: &str| {
        format!(
            "{host} - - [22/Nov/2026:04:19:19 +0000] \"GET / HTTP/1.1\" 200 7 \"-\" \"x\" \"{header}\"\n"
        )
    };
    let log = line("10.0.0.2", "192.0.2.200, 203.0.113.50")
        + &line("10.0.0.2", "-")
        + &line("198.51.100.8", "192.0.2.200");
    fs::write(&path, log).unwrap();
    let log = path.to_str().unwrap();
    let addresses = |args: &[&str]| {
        let shown = clients(&[&["--log", log, "--json"], args].concat()).join("\n");
        let all = json(&shown)["clients"].as_array().unwrap().clone();
        all.iter().map(|c| c["address"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(addresses(&[]), ["10.0.0.2", "198.51.100.8"]);
    let behind = ["--trusted-proxy", "10.0.0.0/24"];
    assert_eq!(addresses(&behind), ["198.51.100.8", "203.0.113.50"]);
    refused(&["--log", log, "--trusted-proxy", "proxy"], 2, "write 10.0.0.2 or 10.0.0.0/24");
}

#[test]
fn where_there_is_no_client_the_reason_is_told() {
    let scratch = Scratch::new();
    let path = scratch.path("access.log");
    let log = path.to_str().unwrap();
    let line = |host: &str, request: &str| {
        format!("{host} - - [22/Nov/2026:04:19:19 +0000] \"{request}\" 200 7 \"-\" \"x\"\n")
    };
    let get = "GET / HTTP/1.1";
    for (text, args, says) in [
        (String::new(), &[][..], "the log is empty"),
        (line("127.0.0.1", get), &[], "with --trusted-proxy"),
        (line("10.0.0.2", get), &["--trusted-proxy", "10.0.0.2"], "log X-Forwarded-For"),
        (
            line("10.0.0.2", get),
            &["--trusted-proxy", "10.0.0.2", "--forwarded-field", "2"],
            "field 2 behind the bytes holds no address",
        ),
        (line("mirror.example.org", get), &[], "HostnameLookups"),
        (line("192.0.2.1", "PUT / HTTP/1.1"), &[], "nothing was sent"),
        (line("192.0.2.1", get), &["--least-bytes", "8"], "none got --least-bytes"),
    ] {
        fs::write(&path, text).unwrap();
        let shown = clients(&[&["--log", log], args].concat());
        let last = shown.last().unwrap();
        assert!(last.starts_with("no client: ") && last.contains(says), "{last}");
        refused(&[&["--log", log, "--peers"], args].concat(), 1, says);
    }
    fs::write(&path, "what\u{1b}[31m is this\n").unwrap();
    refused(&["--log", log], 1, "The first such line: what?[31m is this");
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
    let empty = ["0 lines read, 0 transfers", "no client: the log is empty"];
    assert_eq!(clients(&["--log", "/dev/null"])[1..], empty);
}
