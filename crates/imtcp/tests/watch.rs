// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp watch` on real connections, and on a real terminal.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use imtcp_test_support::*;
use nix::poll::{poll, PollFd, PollFlags};
use serde_json::Value;

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
        let tree = imtcp_common::procfs::tree(run.pid());
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

/// A terminal's output, up to this.
fn read_until(terminal: &mut std::fs::File, wanted: &str) -> String {
    read_until_that(terminal, wanted, |seen| seen.contains(wanted))
}

/// The same where blanks are not drawn, but jumped over.
fn read_until_words(terminal: &mut std::fs::File, wanted: &str) {
    let wanted = wanted.replace(' ', "");
    read_until_that(terminal, &wanted, |seen| {
        let is_letter = |c: char| c.is_ascii_alphabetic();
        let after_jump = |part: &str| part.split_once(is_letter).map_or("", |p| p.1).to_string();
        let mut parts = seen.split("\x1b[");
        let first = parts.next().unwrap_or_default().to_string();
        let drawn = first + &parts.map(after_jump).collect::<String>();
        drawn.replace(' ', "").contains(&wanted)
    });
}

fn read_until_that(
    terminal: &mut std::fs::File,
    wanted: &str,
    has_it: impl Fn(&str) -> bool,
) -> String {
    let mut seen = Vec::new();
    let mut chunk = [0; 4096];
    let deadline = Instant::now() + Duration::from_secs(60);
    while !has_it(&text(&seen)) {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis() as u16;
        let mut readable = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
        let some = poll(&mut readable, left).unwrap();
        assert!(some > 0, "{wanted:?} does not come after {:?}", text(&seen));
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

#[test]
fn half_of_a_key_stops_neither_the_view_nor_a_signal_nor_a_hang_up() {
    let Some(_alone) = alone() else { return };
    // Alt-[, a letter's first byte, and a paste without its end.
    for half in [&b"\x1b["[..], b"\xc3", b"\x1b[200~abc"] {
        let typed = || {
            let mut command = Command::new(&*IMTCP);
            command.args(["watch", "--interval", "0.1"]);
            let mut watch = on_terminal(command);
            read_until(&mut watch.master, "q quit");
            watch.master.write_all(half).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(300));
            watch
        };
        let mut watch = typed();
        watch.child.signal(libc::SIGTERM);
        read_until(&mut watch.master, "\x1b[?25h");
        assert_eq!(watch.child.finish().status.signal(), Some(libc::SIGTERM), "{half:?}");

        let watch = typed();
        drop(watch.master);
        assert!(!watch.child.finish().status.success(), "{half:?}");
    }
}

/// As an ssh session that drops, of a shell that passes nothing on.
#[test]
fn a_watch_whose_terminal_goes_ends_with_it() {
    let Some(_alone) = alone() else { return };
    for ignored in [false, true] {
        let mut command = Command::new("bash");
        let trap = if ignored { "trap '' HUP; " } else { "" };
        command.args(["-c", &format!("{trap}exec {} watch --interval 60", *IMTCP)]);
        let mut watch = on_terminal(command);
        read_until(&mut watch.master, "q quit");
        drop(watch.master);
        let ended = watch.child.finish().status;
        assert!(!ended.success(), "{ended:?}");
    }
}

/// A shell's job, as `sudo imtcp watch` is: the kernel stops nothing that no shell waits for.
#[test]
fn a_watch_whose_reader_goes_ends_though_it_has_nothing_to_write() {
    let Some(_alone) = alone() else { return };
    for options in
        [&["--json", "--interval", "60", "--filter", "nothing-has-this"][..], &["--events"]]
    {
        let mut command = std::process::Command::new(&*IMTCP);
        command.arg("watch").args(options).stdout(std::process::Stdio::piped());
        let mut watch = Background(command.spawn().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(watch.0.try_wait().unwrap().is_none(), "{options:?}");
        drop(watch.0.stdout.take());
        eventually("it ends", || watch.0.try_wait().unwrap().is_some());
        let status = watch.0.try_wait().unwrap().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGPIPE));
    }
}

#[test]
fn a_watch_that_is_stopped_gives_the_terminal_back_and_takes_it_again() {
    let Some(_alone) = alone() else { return };
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]).env("TERM", "xterm").env("PS1", "$ ");
    shell.stderr(Stdio::null());
    let mut shell = on_terminal(shell);
    let mut keys = shell.master.try_clone().unwrap();
    let mut type_in = |text: &str| keys.write_all(text.as_bytes()).unwrap();
    type_in(&format!("{} watch --interval 60\n", *IMTCP));
    read_until(&mut shell.master, "q quit");
    for (stop, how) in [("\x1a", "the key"), ("", "a signal")] {
        if stop.is_empty() {
            let children = imtcp_common::procfs::tree(shell.child.pid());
            let watch = children.into_iter().find(|pid| {
                imtcp_common::procfs::command(*pid).is_some_and(|name| name == "imtcp")
            });
            // SAFETY: a child of the shell's, which is there.
            unsafe { libc::kill(watch.unwrap(), libc::SIGTSTP) };
        }
        type_in(stop);
        let seen = read_until(&mut shell.master, "\x1b[?25h");
        assert!(seen.contains("\x1b[?1049l"), "{how}: {seen:?}");
        // The shell reads whole lines again, and shows them.
        type_in("echo is:$((6*7))\n");
        read_until(&mut shell.master, "is:42");
        type_in("fg\n");
        let seen = read_until(&mut shell.master, "q quit");
        assert!(seen.contains("\x1b[?1049h"), "{how}: {seen:?}");
    }
    type_in("q");
    read_until(&mut shell.master, "\x1b[?1049l");
    type_in("exit\n");
    shell.child.finish();
}

#[test]
fn a_watch_says_that_imtcp_is_down_and_goes_on_with_the_next() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let mut json_watch = Command::new(&*IMTCP);
    json_watch.args(["watch", "--json", "--interval", "0.05", "--filter", &net.server.to_string()]);
    let mut screen_watch = Command::new(&*IMTCP);
    screen_watch.args(["watch", "--interval", "0.05"]);
    let events = Events::new(&[]);
    let mut lines =
        Background(json_watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut screen = on_terminal(screen_watch);
    read_until(&mut screen.master, "q quit");
    let mut said = BufReader::new(lines.0.stderr.take().unwrap()).lines();
    let mut said = || said.next().unwrap().unwrap();

    imtcp_ok(&["down"]);
    let wanted = "imtcp: imtcp is not up: `sudo imtcp up` loads it; `watch` goes on then";
    assert_eq!(said(), wanted);
    // All of it is drawn anew then, and not what is different alone.
    let mut drawn_anew = |wanted: &str| {
        thread::sleep(Duration::from_millis(500));
        screen.child.signal(libc::SIGCONT);
        read_until_words(&mut screen.master, wanted);
    };
    drawn_anew("imtcp is not up: `sudo imtcp up` loads it");
    imtcp_ok(&["up"]);
    assert_eq!(said(), "imtcp: it is up again, `watch` goes on");

    let stream = net.connect();
    set_control(&stream, "imtcp");
    let shown = BufReader::new(lines.0.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    assert_eq!(json(&shown)["dst"], net.server.to_string());
    drawn_anew(&net.server.ip().to_string());
    drop(stream);
    let Some(client) = static_client() else { return };
    send_until(&net, client.to_str().unwrap(), "a result", |c| events.tell_of(c));
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
