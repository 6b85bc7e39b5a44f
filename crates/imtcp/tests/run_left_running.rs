// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What `imtcp run` and `status` say of processes that a run leaves: which control their new connections have.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use imtcp_test_support::*;

#[test]
fn what_is_left_running_within_another_run_is_told_to_have_what_that_one_orders() {
    let Some(_alone) = alone() else { return };
    let inner = "setsid sleep 60 >/dev/null 2>&1 & echo $!";
    let outer = ["run", "-q", "--max-rate", "5M", "--", &IMTCP, "run", "--", "sh", "-c", inner];
    let output = imtcp(&outer);
    let pid: i32 = text(&output.stdout).trim().parse().unwrap();
    // SAFETY: our own grandchild.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let line = text(&output.stderr);
    assert!(line.contains(", whose new connections have what `imtcp run` "), "{line}");
    assert!(line.contains(" orders: bg, at most 5.00 Mbit/s\n"), "{line}");
}

#[test]
fn what_is_said_to_cover_those_left_running_covers_each_of_them() {
    let Some(_alone) = alone() else { return };
    let two = "for i in 1 2; do setsid sleep 60 >/dev/null 2>&1 & echo $!; done";
    let output = imtcp(&["run", "--", "sh", "-c", two]);
    let said = text(&output.stdout);
    let pids: Vec<i32> = said.split_whitespace().map(|p| p.parse().unwrap()).collect();
    let line = text(&output.stderr);
    let remedy =
        format!("`for p in {} {}; do imtcp attach --pid $p; done` covers them", pids[0], pids[1]);
    imtcp_ok(&["attach", "--pid", &pids[0].to_string()]);
    let status = imtcp_ok(&["status"]);
    imtcp_ok(&["detach", "--all"]);
    for pid in pids {
        // SAFETY: our own grandchild.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    assert!(line.contains(&remedy), "{line}");
    let told = "whose new connections have the default control or what process ";
    assert!(status.contains(told), "{status}");
}

#[test]
fn what_is_said_to_cover_those_left_running_gives_them_what_the_run_had() {
    let Some(_alone) = alone() else { return };
    let left = "setsid sleep 60 >/dev/null 2>&1 & echo $!";
    let orders =
        ["--mode", "ledbat", "--min-rate", "150500", "--max-rate", "5M", "--param", "target=20"];
    let output = imtcp(&[&["run"], &orders[..], &["--", "sh", "-c", left]].concat());
    let pid: i32 = text(&output.stdout).trim().parse().unwrap();
    let line = text(&output.stderr);
    let (_, recipe) = line.split_once("(`").expect(&line);
    let recipe = recipe.split_once('`').unwrap().0.replacen("imtcp", &IMTCP, 1);
    let done = std::process::Command::new("sh").args(["-c", &recipe]).output().unwrap();
    let attached = json(&imtcp_ok(&["status", "--json"]))["attachments"][0].clone();
    imtcp_ok(&["detach", "--all"]);
    // SAFETY: our own grandchild.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    assert!(done.status.success(), "{recipe}: {done:?}");
    let has = |key: &str| attached[key].clone();
    assert_eq!((has("mode"), has("min_bps")), ("ledbat".into(), 150_500.into()), "{attached}");
    assert_eq!(has("max_bps"), 5_000_000, "{attached}");
    assert_eq!(has("params")["target"].as_f64(), Some(20.0), "{attached}");
}

#[test]
fn a_run_ends_soon_whose_command_leaves_processes_that_fork_all_the_time() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    let goes_on = scratch.path("goes-on");
    fs::write(&goes_on, "").unwrap();
    // Each has up to 20 children at once, which end soon.
    let storm = format!(
        "i=0; while [ -e {} ]; do sleep 0.02 & i=$((i+1)); [ $((i % 20)) = 0 ] && wait; done",
        goes_on.display()
    );
    let storms = format!(
        "for n in 1 2 3 4; do (trap '' HUP; {storm}) >/dev/null 2>&1 & done; sleep 0.3; kill -9 $$"
    );
    let began = Instant::now();
    // By a signal, so that nothing but the end of the run is waited for.
    let output = imtcp(&["run", "--", "sh", "-c", &storms]);
    let took = began.elapsed();
    let left = cgroups_left();
    fs::remove_file(&goes_on).unwrap();
    let line = text(&output.stderr);
    assert!(line.contains("; left running: sh (pid "), "{line}");
    assert_eq!(left, Vec::<PathBuf>::new(), "{line}");
    assert!(took < Duration::from_millis(2500), "{took:?}: {line}");
}

#[test]
fn the_name_of_what_is_left_running_commands_no_terminal() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let scratch = Scratch::new();
    // C1's CSI, and the override of the direction of writing.
    let script = "import ctypes, os, time\n\
        if os.fork() == 0:\n\
        \x20   os.setsid()\n\
        \x20   ctypes.CDLL(None).prctl(15, b'\\xc2\\x9b31mA\\xe2\\x80\\xae', 0, 0, 0)\n\
        \x20   for fd in 0, 1, 2: os.close(fd)\n\
        \x20   time.sleep(3)\n\
        time.sleep(0.3)";
    let unit = Unit::new();
    let hostile = unit.0.join("z\x1b]0;owned\x07");
    fs::create_dir(&hostile).unwrap();
    imtcp_ok(&["attach", "--cgroup", hostile.to_str().unwrap()]);
    let enter = "echo $$ >\"$1/cgroup.procs\" && shift && exec \"$@\"";
    let file = scratch.path("line");
    let run = |options: &[&str]| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", enter, "sh", hostile.to_str().unwrap(), &IMTCP, "run"]).args(options);
        text(&command.args(["--", "python3", "-c", script]).output().unwrap().stderr)
    };
    let mut told = vec![run(&[]), run(&["--json"])];
    for options in [&["-o", file.to_str().unwrap()][..], &["--json", "-o", file.to_str().unwrap()]]
    {
        run(options);
        told.push(fs::read_to_string(&file).unwrap());
    }
    imtcp_ok(&["detach", "--all"]);
    for line in told {
        assert!(line.contains("31mA"), "{line:?}");
        assert!(!imtcp_common::format::is_escaped(line.trim_end()), "{line:?}");
    }
}

/// A process that goes on in a child again and again, each for so many milliseconds.
fn chain(scratch: &Scratch, each_ms: u32) -> String {
    format!(
        "import os, time\n\
         if os.fork(): time.sleep(0.3); os._exit(0)\n\
         os.setsid()\n\
         for fd in 0, 1, 2: os.close(fd)\n\
         while os.path.exists('{}'):\n\
         \x20   time.sleep({each_ms} / 1000)\n\
         \x20   if os.fork(): os._exit(0)\n",
        scratch.path("goes-on").display()
    )
}

#[test]
fn a_daemon_that_goes_on_in_a_child_while_the_run_ends_is_told() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    for each_ms in [0, 1, 2, 0, 1, 2] {
        let scratch = Scratch::new();
        fs::write(scratch.path("goes-on"), "").unwrap();
        let output = imtcp(&["run", "--", "python3", "-c", &chain(&scratch, each_ms)]);
        let left = cgroups_left();
        fs::remove_file(scratch.path("goes-on")).unwrap();
        let line = text(&output.stderr);
        assert!(line.contains("; left running: python3 (pid "), "{each_ms} ms: {line}");
        assert_eq!(left, Vec::<PathBuf>::new(), "{line}");
    }
}

#[test]
fn processes_that_a_killed_run_holds_still_go_on_outside_of_it_with_the_next_command() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let mut running = net.run_spawn(&["-q", "--", "sleep", "50.125"]);
    eventually("it runs", || !cgroups_left().is_empty());
    let dir = cgroups_left().remove(0);
    eventually("it sleeps", || {
        let pids = imtcp::cgroup::procs(&dir);
        pids.iter().any(|pid| imtcp_common::procfs::command(*pid).is_some_and(|c| c == "sleep"))
    });
    let pid = *imtcp::cgroup::procs(&dir).first().unwrap();
    fs::write(dir.join("cgroup.freeze"), "1").unwrap();
    running.signal(libc::SIGKILL);
    running.0.wait().unwrap();
    let status = imtcp_ok(&["status"]);
    let now = imtcp::cgroup::of_pid(pid).unwrap();
    let is_held = fs::read_to_string(now.join("cgroup.freeze")).is_ok_and(|f| f.trim() == "1");
    // SAFETY: our own grandchild.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    eventually("it ends", || !imtcp_common::procfs::is_alive(pid));
    assert!(!dir.exists() && !is_held, "{}: {status}", now.display());
    assert!(status.contains(&format!("left running: sleep (pid {pid})")), "{status}");
}

#[test]
fn processes_that_a_killed_detach_holds_still_go_on_with_the_next_command() {
    let Some(_alone) = alone() else { return };
    let sleeping = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let sleeping = Background(sleeping);
    imtcp_ok(&["attach", "--pid", &sleeping.pid().to_string()]);
    let dir = imtcp::cgroup::of_pid(sleeping.pid()).unwrap();
    let frozen = || fs::read_to_string(dir.join("cgroup.freeze")).unwrap().trim() == "1";
    fs::write(dir.join("cgroup.freeze"), "1").unwrap();
    assert!(frozen());
    imtcp_ok(&["status"]);
    assert!(!frozen());
    imtcp_ok(&["detach", "--all"]);
}
