// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp watch` on real connections, and on a real terminal.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
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
    let none = imtcp_ok(&["watch", "--once", "--filter", "no such"]);
    assert!(
        none.contains("imtcp") && none.contains(" match") && none.contains("'no such'"),
        "{none}"
    );
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

/// Sends, measuring, until this holds for the connection as `watch` shows it.
fn send_until(net: &Net, client: &str, what: &str, mut holds: impl FnMut(&Value) -> bool) {
    let (host, port) = net.peer();
    let send = ["-q", "--mode", "measure", "--", client, &host, &port, "1000000000"];
    let running = net.run_spawn(&send);
    eventually(what, || connections(&net.server.to_string()).first().is_some_and(&mut holds));
    running.signal(libc::SIGTERM);
    running.finish();
}

/// `watch --events --json`, and what it has printed of connections so far.
struct Events {
    _watch: Background,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Events {
    fn new(more: &[&str]) -> Self {
        let mut watch = Command::new(&*IMTCP);
        watch.args(["watch", "--events", "--json"]).args(more).stdout(Stdio::piped());
        let mut watch = watch.spawn().unwrap();
        let out = BufReader::new(watch.stdout.take().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let event = json(&line);
                if event["cookie"].is_u64() {
                    sink.lock().unwrap().push(event);
                }
            }
        });
        Events { _watch: Background(watch), seen }
    }

    fn all(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }

    fn tell_of(&self, connection: &Value) -> bool {
        self.all().iter().any(|e| e["cookie"] == connection["cookie"])
    }
}

#[test]
fn results_stream_as_events() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let events = Events::new(&[]);
    send_until(&net, client.to_str().unwrap(), "a result", |c| events.tell_of(c));
    let second_reader = imtcp(&["watch", "--events", "--json"]);
    assert_eq!(second_reader.status.code(), Some(1), "one reader at a time");
    for r in events.all() {
        assert_eq!(r["mode"], "measure", "{r}");
        assert_eq!(r["outcome"] == "valid", r["avail_bps"].as_u64().is_some(), "{r}");
    }
}

#[test]
fn events_begin_with_now_and_are_tied_to_their_connection() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let client = client.to_str().unwrap();
    let now_us = || {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
        Duration::from(now).as_micros() as u64
    };

    let measured = |c: &Value| c["outcome"].is_string();
    send_until(&net, client, "a measurement that ended", measured);
    let began_us = now_us();
    let old = Events::new(&["--from-start"]);
    eventually("an event from before", || {
        old.all().iter().any(|e| e["t_us"].as_u64() < Some(began_us))
    });
    drop(old);

    send_until(&net, client, "a measurement that ended", measured);
    let began_us = now_us();
    let new = Events::new(&[]);
    let (mut cookie, mut table) = (Value::Null, String::new());
    send_until(&net, client, "a result", |c| {
        cookie = c["cookie"].clone();
        table = imtcp_ok(&["watch", "--once", "--filter", &net.server.to_string()]);
        new.tell_of(c)
    });
    let new = new.all();
    assert!(new.iter().all(|e| e["t_us"].as_u64() >= Some(began_us)), "{new:?}");
    assert!(table.lines().next().unwrap().ends_with("COOKIE"), "{table}");
    assert!(table.contains(&format!("  {cookie}\n")), "{table}");
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
        assert_eq!(watch.child.finish().status.signal(), Some(signal));
    }
}

/// The kernel's buffer for what is read at once has 32 KiB, some seventy records.
#[test]
fn hundreds_of_connections_are_listed_once_each_and_whole() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let streams: Vec<_> = (0..200).map(|_| net.connect()).collect();
    for stream in &streams {
        set_control(stream, "imtcp");
    }
    let mut ports: Vec<_> = streams.iter().map(|s| s.local_addr().unwrap().port()).collect();
    let listed = connections(&net.server.to_string());
    let mut found: Vec<_> = listed
        .iter()
        .map(|c| c["src"].as_str().unwrap().rsplit_once(':').unwrap().1.parse::<u16>().unwrap())
        .collect();
    ports.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, ports);
    for c in &listed {
        assert_eq!((&c["mode"], &c["params"]["N"]), (&"measure".into(), &8.into()), "{c}");
    }
}
