// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp watch` on real connections, and on a real terminal.

mod support;

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use support::*;

#[test]
fn watch_knows_the_process_and_what_is_not_known_is_null() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(client) = static_client() else { return };
    let (host, port) = net.peer();
    let client = client.to_str().unwrap();
    let running = net.run_spawn(&["-q", "--", client, &host, &port, "50000", "30"]);
    let mut found = Vec::new();
    eventually("the connection is seen", || {
        found = connections(&net.server.to_string());
        found.iter().any(|c| c["command"].as_str().is_some_and(|c| c.starts_with("client")))
    });
    let c = &found[0];
    assert!(c["pid"].is_i64() && c["cookie"].as_u64() > Some(0), "{c}");
    assert_eq!((&c["mode"], &c["state"]), (&"bg".into(), &"established".into()));
    assert_eq!(c["dst"], net.server.to_string());
    assert!(c["avail_last_bps"].is_null() || c["avail_last_bps"].as_u64() > Some(0));
    assert!(c["policy"].as_u64() > Some(0));
    let table = imtcp_ok(&["watch", "--once"]);
    assert!(table.contains("PEER") && table.contains(&net.server.to_string()), "{table}");
    running.signal(libc::SIGTERM);
    running.finish();
}

#[test]
fn the_rate_is_that_of_now() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let client = client.to_str().unwrap();
    let run = |bytes| {
        net.run_spawn(&["-q", "--max-rate", "10M", "--", client, &host, &port, bytes, "30"])
    };
    let (busy, idle) = (run("100000000"), run("2000000"));
    let of = |run: &Background| {
        let tree = imtcp::procfs::tree(run.pid());
        let all = connections_over("0.5", &net.server.to_string());
        all.into_iter().find(|c| tree.iter().any(|pid| c["pid"] == *pid))
    };
    eventually("one sends", || {
        let rate = of(&busy).and_then(|c| c["rate_bps"].as_u64());
        rate.is_some_and(|bps| (5_000_000..15_000_000).contains(&bps))
    });
    eventually("the other does not any more", || {
        of(&idle)
            .is_some_and(|c| c["rate_bps"] == 0 && c["bytes_acked"].as_u64() >= Some(2_000_000))
    });
    for run in [busy, idle] {
        run.signal(libc::SIGTERM);
        run.finish();
    }
}

#[test]
fn results_stream_as_events() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    imtcp_ok(&["up"]);
    let mut events = Background(
        Command::new(&*IMTCP)
            .args(["watch", "--events", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let Some(client) = static_client() else { return };
    let (host, port) = net.peer();
    let send = [client.to_str().unwrap(), &host, &port, "10000000"];
    let measure = ["--json", "--mode", "measure", "--"];
    let summary = summary(&net.run(&[&measure[..], &send].concat()));
    sleep(Duration::from_millis(500));
    let second_reader = imtcp(&["watch", "--events", "--json"]);
    assert_eq!(second_reader.status.code(), Some(1), "one reader at a time");
    events.0.kill().unwrap();
    let output = events.finish();
    let results: Vec<_> = text(&output.stdout).lines().map(json).collect();
    let results: Vec<_> = results.iter().filter(|r| r["mode"] == "measure").collect();
    assert!(!results.is_empty(), "{summary}");
    for r in results {
        assert_eq!(r["outcome"] == "valid", r["avail_bps"].as_u64().is_some(), "{r}");
    }
}

#[test]
fn events_begin_with_now_and_are_tied_to_their_connection() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let client = client.to_str().unwrap();
    let send = ["-q", "--mode", "measure", "--", client, &host, &port, "10000000"];
    let now_us = || {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
        Duration::from(now).as_micros() as u64
    };
    let watch = |more: &[&str], work: &mut dyn FnMut()| {
        let mut command = Command::new(&*IMTCP);
        command.args(["watch", "--events", "--json"]).args(more).stdout(Stdio::piped());
        let mut watch = Background(command.spawn().unwrap());
        work();
        sleep(Duration::from_millis(500));
        watch.0.kill().unwrap();
        let all: Vec<_> = text(&watch.finish().stdout).lines().map(json).collect();
        all.into_iter().filter(|e| e["cookie"].is_u64()).collect::<Vec<_>>()
    };

    assert!(net.run(&send).status.success());
    let began_us = now_us();
    let old = watch(&["--from-start"], &mut || {});
    assert!(old.iter().any(|e| e["t_us"].as_u64() < Some(began_us)), "{old:?}");

    assert!(net.run(&send).status.success());
    let began_us = now_us();
    let (mut cookie, mut row) = (0, String::new());
    let new = watch(&[], &mut || {
        let running = net.run_spawn(&[&send[..], &["30"]].concat());
        let server = net.server.to_string();
        eventually("all is sent", || {
            let all = connections(&server);
            cookie = all.first().map_or(0, |c| c["cookie"].as_u64().unwrap());
            all.iter().any(|c| c["bytes_acked"].as_u64() >= Some(10_000_000))
        });
        row = imtcp_ok(&["watch", "--once", "--filter", &server]);
        running.signal(libc::SIGTERM);
        running.finish();
    });
    assert!(new.iter().all(|e| e["t_us"].as_u64() >= Some(began_us)), "{new:?}");
    assert!(new.iter().any(|e| e["cookie"].as_u64() == Some(cookie)), "{cookie}: {new:?}");
    assert!(row.lines().next().unwrap().ends_with("COOKIE"), "{row}");
    assert!(row.contains(&format!("  {cookie}\n")), "{row}");
}

/// What a terminal gets, until it has this.
fn read_until(terminal: &mut std::fs::File, wanted: &str) -> String {
    let mut seen = Vec::new();
    let mut chunk = [0; 4096];
    while !text(&seen).contains(wanted) {
        // The other end is closed: an error, as of a line that was hung up.
        let n = terminal.read(&mut chunk).unwrap_or(0);
        assert!(n > 0, "{wanted:?} is not in {:?}", text(&seen));
        seen.extend_from_slice(&chunk[..n]);
    }
    text(&seen)
}

#[test]
fn a_watch_that_is_killed_gives_the_terminal_back() {
    let Some(_alone) = alone() else { return };
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let mut command = Command::new(&*IMTCP);
        command.args(["watch", "--interval", "60"]);
        let mut watch = on_terminal(command);
        let seen = read_until(&mut watch.master, "q quit");
        assert!(seen.contains("\x1b[?1049h"), "it draws on the other screen: {seen:?}");
        watch.child.signal(signal);
        let seen = read_until(&mut watch.master, "\x1b[?25h");
        assert!(seen.contains("\x1b[?1049l"), "{seen:?}");
        assert_eq!(watch.child.finish().status.code(), Some(128 + signal));
    }
}
