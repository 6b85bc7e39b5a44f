// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! How `imtcp run` ends: what its line tells, and what is left of it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use imtcp_test_support::*;

/// Leaves what fits into the socket's buffer to the kernel; `None` without python3.
fn leaving(net: &Net, bytes: u32, then: &str) -> Option<Vec<String>> {
    if !python3_is_there() {
        return None;
    }
    let (host, port) = net.peer();
    let script = format!(
        "import os, socket\n\
         s = socket.socket()\n\
         s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200000)\n\
         s.connect(('{host}', {port}))\n\
         s.sendall(bytes({bytes}))\n{then}"
    );
    Some(["python3".into(), "-c".into(), script].to_vec())
}

fn run_of(net: &Net, options: &[&str], command: &[String]) -> std::process::Output {
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    net.run(&[options, &["--"], &command].concat())
}

/// The runs that are listed with a connection to this net's server; those of tests before may
/// not be over yet.
fn runs_to(net: &Net) -> Vec<serde_json::Value> {
    runs_with(&net.peer().1)
}

/// The runs whose command has this in it.
fn runs_with(text: &str) -> Vec<serde_json::Value> {
    let mut all = json(&imtcp_ok(&["status", "--json"]))["runs"].as_array().unwrap().clone();
    all.retain(|run| run["command"].as_str().unwrap().contains(text));
    all
}

/// The file in which a run is registered.
fn file_of(run: &serde_json::Value) -> String {
    format!("/run/imtcp/runs/{:016x}.json", run["policy"].as_u64().unwrap())
}

/// Waits until the run is neither listed nor registered. A connection that ends while `status` looks is no longer
/// listed, and the file goes at the next look.
fn nothing_is_left_of(run: &serde_json::Value, net: &Net) {
    let file = file_of(run);
    eventually("nothing is left", || runs_to(net).is_empty() && !Path::new(&file).exists());
}

#[test]
fn what_is_in_the_socket_when_the_command_ends_is_waited_for_and_counted() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(command) = leaving(&net, 3_000_000, "") else { return };
    let summary = summary(&run_of(&net, &["--json"], &command));
    assert!(summary["bytes_acked"].as_u64() >= Some(3_000_000), "{summary}");
    assert_eq!(summary["queued_bytes"], 0, "{summary}");
}

#[test]
fn what_a_command_in_another_network_namespace_leaves_is_counted() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(command) = leaving(&net, 200_000, "") else { return };
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    let there = ["ip", "netns", "exec", net.client_ns()];
    let options = ["run", "--json", "--max-rate", "400k", "--"];
    let summary = summary(&imtcp(&[&options[..], &there, &command].concat()));
    assert_eq!(summary["connections"], 1, "{summary}");
    assert!(summary["queued_bytes"].as_u64() >= Some(1), "{summary}");
    eventually("the connection has ended", || runs_to(&net).is_empty());
}

#[test]
fn the_line_goes_to_the_named_file_and_the_parameters_come_from_one_here_also_inside_ip_netns_exec()
{
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    fs::write(scratch.path("slow.conf"), "[ledbat]\ntarget = 20\n").unwrap();
    let (host, port) = net.peer();
    let script = format!(
        "import socket, subprocess, sys\n\
         s = socket.create_connection(('{host}', {port}))\n\
         subprocess.run(sys.argv[1:], check=True)\n\
         print('mine', file=sys.stderr)"
    );
    let options = ["run", "--mode", "ledbat", "--config", "slow.conf", "--json", "-o", "line.json"];
    let output = std::process::Command::new("ip")
        .args(["netns", "exec", net.client_ns(), IMTCP.as_str()])
        .args(options)
        .args(["--", "python3", "-c", &script, IMTCP.as_str(), "status"])
        .current_dir(scratch.path("."))
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.as_str()), (Some(0), "mine\n"));
    assert!(text(&output.stdout).contains("ledbat, target=20, no limits"), "{output:?}");
    let line = fs::read_to_string(scratch.path("line.json")).unwrap();
    assert_eq!(json(&line)["connections"], 1, "{line}");
    assert!(json(&line)["yielded_pct"].is_null(), "only bg's yielding is counted: {line}");
}

#[test]
fn a_file_for_the_line_that_cannot_be_is_told_before_the_command_begins() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    let (began, line) = (scratch.path("began"), scratch.path("none/line"));
    let output =
        imtcp(&["run", "-o", line.to_str().unwrap(), "--", "touch", began.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.starts_with("imtcp: cannot write ") && said.contains("none/line: No such"),
        "{said}"
    );
    assert!(!began.exists());
}

#[test]
fn a_file_for_the_line_is_as_it_was_where_the_command_cannot_be_started() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    let (old, new) = (scratch.path("old"), scratch.path("new"));
    fs::write(&old, "a line of the run before, and a long one, longer than what comes").unwrap();
    for file in [&old, &new] {
        let output = imtcp(&["run", "-o", file.to_str().unwrap(), "--", "/no/such/command"]);
        assert_eq!(output.status.code(), Some(127), "{output:?}");
    }
    assert!(fs::read_to_string(&old).unwrap().starts_with("a line of the run before"));
    assert!(!new.exists());
    for file in [&old, &new] {
        imtcp_ok(&["run", "-o", file.to_str().unwrap(), "--", "true"]);
        let line = fs::read_to_string(file).unwrap();
        assert_eq!(line, "imtcp: saw no TCP connection of the command\n");
    }
    imtcp_ok(&["run", "-o", "/dev/null", "--", "true"]);
    // A log that the command writes to is not emptied.
    let mut log = fs::OpenOptions::new().append(true).open(&new).unwrap();
    std::io::Write::write_all(&mut log, b"earlier\n").unwrap();
    let status = std::process::Command::new(&*IMTCP)
        .args(["run", "-o", "/dev/stdout", "--", "echo", "hello"])
        .stdout(log)
        .status();
    assert!(status.unwrap().success());
    let text = fs::read_to_string(&new).unwrap();
    let line = "imtcp: saw no TCP connection of the command\n";
    assert_eq!(text, format!("{line}earlier\nhello\n{line}"));
}

#[test]
fn what_is_still_on_its_way_is_said_and_the_run_listed_with_its_limits_until_it_is_over() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(command) = leaving(&net, 200_000, "") else { return };
    let started = Instant::now();
    let line = text(&run_of(&net, &["--max-rate", "400k"], &command).stderr);
    assert!(line.contains("(at most 400 kbit/s); "), "{line}");
    assert!(line.contains("kB more still on their way; "), "{line}");
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    let listed = runs_to(&net);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((&listed[0]["ended"], &listed[0]["connections"]), (&true.into(), &1.into()));
    assert_eq!((&listed[0]["max_bps"], &listed[0]["in_force"]), (&400_000.into(), &true.into()));
    let status = imtcp_ok(&["status"]);
    assert!(status.contains("bg, at most 400 kbit/s (imtcp's pid "), "{status}");
    assert!(
        status
            .contains(", which has ended; open: 1 connection): python3 -c import os, socket s = "),
        "{status}"
    );
    nothing_is_left_of(&listed[0], &net);
}

#[test]
fn a_signal_ends_the_wait_for_what_is_on_its_way() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let pid_file = scratch.path("pid");
    let then = format!("open('{}', 'w').write(str(os.getpid()))", pid_file.display());
    let Some(command) = leaving(&net, 200_000, &then) else { return };
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    let running = net.run_spawn(&[&["--max-rate", "400k", "--"], &command[..]].concat());
    let pid = || fs::read_to_string(&pid_file).ok()?.parse().ok();
    eventually("the command has ended", || pid().is_some_and(|p| !imtcp_common::procfs::exists(p)));
    let asked = Instant::now();
    running.signal(libc::SIGINT);
    let output = running.finish();
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    assert_eq!(output.status.code(), Some(0), "the command had ended before");
    assert!(text(&output.stderr).contains("still on their way"), "{}", text(&output.stderr));
}

#[test]
fn a_killed_run_is_listed_with_its_limits_while_its_connections_go_on() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let client = client.to_str().unwrap();
    let mut running =
        net.run_spawn(&["--max-rate", "5M", "--", client, &host, &port, "1000", "60"]);
    eventually("it connects", || connections("client-static").len() == 1);
    let pid = connections("client-static")[0]["pid"].as_i64().unwrap() as i32;
    running.signal(libc::SIGKILL);
    running.0.wait().unwrap();
    let listed = runs_to(&net);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((&listed[0]["ended"], &listed[0]["max_bps"]), (&true.into(), &5_000_000.into()));
    assert_eq!(cgroups_left(), [] as [&Path; 0], "status has swept them");
    assert_eq!(connections("client-static")[0]["mode"], "bg");
    // SAFETY: our own grandchild.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    nothing_is_left_of(&listed[0], &net);
}

/// A daemon: it listens, with a connection open or without, and tells each client its control.
fn daemon(net: &Net, port: u16, holds: bool) -> String {
    let (host, peer) = net.peer();
    let connect = if holds {
        format!("o = socket.create_connection(('{host}', {peer}))")
    } else {
        String::new()
    };
    format!(
        "import os, socket\n\
         s = socket.create_server(('', {port}))\n\
         {connect}\n\
         if os.fork(): os._exit(0)\n\
         os.setsid()\n\
         null = os.open('/dev/null', os.O_RDWR)\n\
         for fd in 0, 1, 2: os.dup2(null, fd)\n\
         while True:\n\
         \x20   c, _ = s.accept()\n\
         \x20   c.sendall(c.getsockopt(6, 13, 16).split(b'\\0')[0])\n\
         \x20   c.close()\n"
    )
}

#[test]
fn a_daemon_that_a_run_leaves_has_the_default_for_new_connections_and_is_told_and_listed() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let default = net.read_in_client("/proc/sys/net/ipv4/tcp_congestion_control");
    for (port, holds) in [(7801, false), (7802, true)] {
        let script = daemon(&net, port, holds);
        let output = net.run(&["--json", "--max-rate", "5M", "--", "python3", "-c", &script]);
        let left = summary(&output)["left_behind"].clone();
        let pid = left[0]["pid"].as_i64().unwrap_or_else(|| panic!("{output:?}")) as i32;
        let address = std::net::SocketAddr::new(CLIENT.parse().unwrap(), port);
        let mut control = String::new();
        let mut client = net.connect_from_server(address).unwrap();
        std::io::Read::read_to_string(&mut client, &mut control).unwrap();
        assert_eq!(control, default.trim(), "holds a connection: {holds}");

        let listed = runs_with(&port.to_string());
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0]["left_behind"], left);
        assert_eq!((&listed[0]["ended"], &listed[0]["in_force"]), (&true.into(), &holds.into()));
        let status = imtcp_ok(&["status"]);
        let told = format!(
            "; left running: python3 (pid {pid}), whose new connections have the default control \
             (`imtcp attach --pid {pid} --max-rate 5M` covers them)): python3"
        );
        assert!(status.contains(&told), "{status}");
        // SAFETY: our own grandchild.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        eventually("nothing is listed", || runs_with(&port.to_string()).is_empty());
    }
}

#[test]
fn a_run_ends_within_ten_seconds_whose_command_leaves_connections_that_come_and_go() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let (host, port) = net.peer();
    // Ended at once: a closed one with data has the run wait for that.
    let script = format!(
        "import os, socket, struct, sys, time\n\
         null = os.open('/dev/null', os.O_RDWR)\n\
         if os.fork(): time.sleep(0.5); os._exit(0)\n\
         for fd in 0, 1, 2: os.dup2(null, fd)\n\
         end = time.monotonic() + 30\n\
         while time.monotonic() < end:\n\
         \x20   s = socket.create_connection(('{host}', {port}))\n\
         \x20   s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n\
         \x20   s.close()\n"
    );
    let began = Instant::now();
    let output = net.run(&["--json", "--", "python3", "-c", &script]);
    let elapsed = began.elapsed();
    let pid = summary(&output)["left_behind"][0]["pid"].as_i64().unwrap() as i32;
    // SAFETY: our own grandchild.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    assert!(summary(&output)["connections"].as_u64() > Some(0), "{output:?}");
}

#[test]
fn the_line_says_what_is_left_running_and_what_to_do() {
    let Some(_alone) = alone() else { return };
    let output = imtcp(&["run", "--", "sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!"]);
    let pid: i32 = text(&output.stdout).trim().parse().unwrap();
    let line = format!(
        "imtcp: saw no TCP connection of the command; left running: sleep (pid {pid}), whose new connections have \
         the default control (`imtcp attach --pid {pid}` covers them)\n"
    );
    assert_eq!(text(&output.stderr), line);
    // SAFETY: our own grandchild.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    // One that ends with the command is none.
    let output = imtcp(&["run", "--", "sh", "-c", "sleep 0.05 &"]);
    assert_eq!(text(&output.stderr), "imtcp: saw no TCP connection of the command\n");
}

#[test]
fn a_line_for_standard_output_goes_there() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    let output = std::process::Command::new(&*IMTCP)
        .args(["run", "-o", "-", "--", "echo", "hello"])
        .current_dir(scratch.path("."))
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "hello\nimtcp: saw no TCP connection of the command\n");
    assert!(!scratch.path("-").exists());
}

#[test]
fn down_leaves_nothing_of_a_run_that_has_ended() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(command) = leaving(&net, 200_000, "") else { return };
    assert!(run_of(&net, &["-q", "--max-rate", "400k"], &command).status.success());
    let listed = runs_to(&net);
    assert_eq!(listed.len(), 1, "{listed:?}");
    imtcp_ok(&["down"]);
    assert!(!Path::new(&file_of(&listed[0])).exists());
}

#[test]
fn on_a_lan_the_line_says_why_nothing_was_measured() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let line = text(&net.run(&["--", client.to_str().unwrap(), &host, &port, "1000"]).stderr);
    assert!(line.contains("available bandwidth not measured (a round trip of "), "{line}");
    assert!(line.contains(" is too short)"), "{line}");
}

#[test]
fn a_command_that_is_not_found_leaves_imtcp_as_it_was() {
    let Some(_alone) = alone() else { return };
    let is_up = || imtcp(&["status"]).status.success();
    let mistyped = || {
        let output = imtcp(&["run", "--", "no-such-command-anywhere"]);
        assert_eq!(output.status.code(), Some(127));
        let error = text(&output.stderr);
        assert_eq!(error, "imtcp: no-such-command-anywhere: command not found\n");
    };
    imtcp_ok(&["up"]);
    mistyped();
    assert!(is_up());
    imtcp_ok(&["down"]);
    mistyped();
    assert!(!is_up());
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
}

#[test]
fn where_run_cannot_be_written_a_run_that_is_over_is_not_said_to_have_been_taken_down() {
    let Some(_alone) = alone() else { return };
    let left = imtcp(&["run", "-q", "--", "sh", "-c", "setsid sleep 1 >/dev/null 2>&1 &"]);
    assert!(left.status.success());
    std::thread::sleep(std::time::Duration::from_millis(1200));
    let read_only = "mount --bind /run /run && mount -o remount,bind,ro /run && exec \"$0\" status";
    let mut status = std::process::Command::new("unshare");
    let status = status.args(["--mount", "sh", "-c", read_only, &IMTCP]).output().unwrap();
    let said = text(&status.stdout);
    assert!(!said.contains("imtcp down"), "{said}");
}

/// Killed, or its disk full, while it was being registered.
#[test]
fn what_was_begun_and_never_registered_is_swept_by_the_next_command() {
    let Some(_alone) = alone() else { return };
    imtcp_ok(&["run", "-q", "--", "true"]);
    let file = "/run/imtcp/runs/00000000000000ff.json";
    fs::write(file, "").unwrap();
    let half = std::path::PathBuf::from("/run/imtcp/runs/00000000000000fe.new");
    fs::write(&half, "{\"pid\": 1").unwrap();
    let mut touch = std::process::Command::new("touch");
    assert!(touch.args(["-d", "2 minutes ago"]).arg(&half).status().unwrap().success());
    imtcp_ok(&["run", "-q", "--", "true"]);
    assert_eq!(fs::read_dir("/run/imtcp/runs").unwrap().count(), 0);
}

/// As in a container that shares the kernel and not /run.
#[test]
fn what_another_run_directory_has_registered_is_left_alone() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let first = net.run_spawn(&["--max-rate", "9M", "--", "sleep", "4"]);
    eventually("it runs", || !runs_with("sleep 4").is_empty());
    let elsewhere = "mount -t tmpfs none /run && exec \"$0\" run -q -- true";
    let mut other = std::process::Command::new("unshare");
    let other = other.args(["--mount", "sh", "-c", elsewhere, &IMTCP]).output().unwrap();
    assert!(other.status.success(), "{}", text(&other.stderr));
    let run = runs_with("sleep 4").remove(0);
    assert_eq!(run["in_force"], true, "{run}");
    first.finish();
}
