// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp attach` and `detach` on processes that run already.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use imtcp_test_support::subject::Subject;
use imtcp_test_support::*;

#[test]
fn attach_changes_what_is_open_and_what_comes_and_detach_gives_it_back() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    net.write_in_client("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
    let Some(mut subject) = Subject::start(&net) else { return };
    let home = imtcp::cgroup::of_pid(subject.child.pid()).unwrap();
    assert_eq!(subject.tell("look"), ["reno", "-", "reno", "-"]);

    let done = json(&imtcp_ok(&["attach", "--json", "--pid", &subject.pid()]));
    assert_eq!((&done["processes"], &done["sockets"]), (&1.into(), &2.into()), "{done}");
    assert_eq!(subject.tell("look"), ["imtcp_bg", "-", "imtcp_bg", "-"]);
    assert_eq!(subject.tell("connect"), ["imtcp_bg", "imtcp_bg", "imtcp_bg", "-"]);
    let to = SocketAddr::new(CLIENT.parse().unwrap(), 7778);
    let _peer = net.connect_from_server(to).unwrap();
    assert_eq!(subject.tell("accept"), ["imtcp_bg"; 4]);
    subject.tell("send");
    let seen = connections(&subject.pid());
    assert_eq!(seen.len(), 3, "{seen:?}");
    let policy = &seen[0]["policy"];
    assert!(seen.iter().all(|c| c["policy"] == *policy && policy.is_u64()), "{seen:?}");
    let status = json(&imtcp_ok(&["status", "--json"]));
    assert_eq!(status["attachments"].as_array().unwrap().len(), 1, "{status}");

    // Again, with another mode.
    imtcp_ok(&["attach", "--pid", &subject.pid(), "--mode", "measure", "--max-rate", "5M"]);
    assert_eq!(subject.tell("look"), ["imtcp"; 4]);

    imtcp_ok(&["detach", "--pid", &subject.pid()]);
    assert_eq!(subject.tell("send"), ["reno"; 4]);
    assert_eq!(subject.tell("connect")[1], "reno");
    assert_eq!(imtcp::cgroup::of_pid(subject.child.pid()).unwrap(), home);
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
    assert_eq!(imtcp(&["detach", "--pid", &subject.pid()]).status.code(), Some(1));
    imtcp_ok(&["detach", "--all"]);
}

#[test]
fn any_mode_can_follow_any_other_on_a_live_connection() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    imtcp_ok(&["up", "--allow-nocc"]);
    let printed = |mode: imtcp_bpf::ModeRow| mode.name.starts_with("paper");
    let mut last_was_printed = false;
    for before in imtcp_bpf::MODES {
        for after in imtcp_bpf::MODES {
            for mode in [before, after] {
                imtcp_ok(&["attach", "--pid", &subject.pid(), "--mode", mode.name]);
                assert_eq!(subject.tell("look")[0], mode.control);
                subject.tell("send");
                // Without ECN on the connection TCP-LP/ECN is TCP-LP from its first ACK on.
                let name = if mode.name == "lpecn" { "lp" } else { mode.name };
                let what = format!("{name} is what a connection shows after {}", before.name);
                eventually(&what, || connections(&subject.pid())[0]["mode"] == name);
                let seen = connections(&subject.pid());
                // Printed controls go down to one, and the next begins there.
                let least = if printed(mode) || last_was_printed { 1 } else { 2 };
                assert!(seen[0]["cwnd_segs"].as_u64() >= Some(least), "{seen:?}");
                last_was_printed = printed(mode);
            }
        }
    }
    imtcp_ok(&["detach", "--all"]);
    imtcp_ok(&["up"]);
}

#[test]
fn a_connection_that_changes_its_mode_is_counted_once_with_its_bytes_once() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    // Leftovers of other tests end or move, and the counters begin anew.
    imtcp_ok(&["down"]);
    imtcp_ok(&["up"]);
    let counted = || {
        let totals = &json(&imtcp_ok(&["status", "--json"]))["totals"];
        ["connections_started", "connections_ended", "bytes_acked_ended"]
            .map(|key| totals[key].as_u64().unwrap())
    };
    let pid = subject.pid();
    let acked = || connections(&pid)[0]["bytes_acked"].as_u64();
    for mode in ["bg", "lp", "measure", "lp"] {
        imtcp_ok(&["attach", "--pid", &subject.pid(), "--mode", mode]);
        let [started, ended, _] = counted();
        assert_eq!((started, ended), (1, 0), "after {mode}");
    }
    let before = acked().unwrap();
    subject.tell("send");
    eventually("all has arrived", || acked() >= Some(before + 100_000));
    imtcp_ok(&["detach", "--all"]);
    let [started, ended, bytes] = counted();
    assert_eq!((started, ended), (1, 1));
    // Bytes sent under reno are not ours.
    assert!((100_000..200_000).contains(&bytes), "{bytes}");
    // Back again: it is the same connection.
    imtcp_ok(&["attach", "--pid", &subject.pid()]);
    assert_eq!(counted()[..2], [1, 0]);
    imtcp_ok(&["detach", "--all"]);
}

#[test]
fn a_cgroup_can_be_attached() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    let dir = imtcp::cgroup::mount().unwrap().join(format!("imtcp-test-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    imtcp::cgroup::move_pid(subject.child.pid(), &dir).unwrap();
    let before = subject.tell("look")[0].clone();

    imtcp_ok(&["attach", "--cgroup", dir.to_str().unwrap()]);
    assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"]);
    let relative = dir.file_name().unwrap().to_str().unwrap();
    imtcp_ok(&["detach", "--cgroup", relative]);
    assert_eq!(subject.tell("send")[..2], [before.clone(), before]);

    drop(subject);
    eventually("the test's cgroup goes", || fs::remove_dir(&dir).is_ok());
}

#[test]
fn descendants_are_attached_too() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(client) = static_client() else { return };
    let (host, port) = net.peer();
    let line = format!("{} {host} {port} 1000 30 >/dev/null & wait", client.display());
    let parent = Background(net.command("sh").args(["-c", &line]).spawn().unwrap());
    let mut last = 0;
    eventually("its child has connected", || {
        let tree = imtcp_common::procfs::tree(parent.pid());
        last = *tree.last().unwrap();
        tree.iter().any(|p| !imtcp_common::procfs::sockets(*p).is_empty())
    });
    imtcp_ok(&["attach", "--pid", &parent.pid().to_string()]);
    assert_eq!(connections(&net.server.to_string()).len(), 1);
    for pid in imtcp_common::procfs::tree(parent.pid()) {
        let dir = imtcp::cgroup::of_pid(pid).unwrap();
        assert!(dir.display().to_string().contains("imtcp-attach-"), "{pid} in {dir:?}");
    }
    imtcp_ok(&["detach", "--all"]);
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
    for pid in imtcp_common::procfs::tree(parent.pid()) {
        // SAFETY: children of this test.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

#[test]
fn of_attachments_inside_one_another_the_inner_decides_and_the_outer_has_what_it_gives_up() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    net.write_in_client("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
    let (inner, outer) = (subject.pid(), std::process::id().to_string());
    let home = imtcp::cgroup::of_pid(subject.child.pid()).unwrap();
    let attach = |pid: &str, mode| imtcp_ok(&["attach", "--pid", pid, "--mode", mode]);
    let detach = |pid: &str| imtcp_ok(&["detach", "--pid", pid]);

    for inner_is_first in [true, false] {
        if inner_is_first {
            attach(&inner, "lp");
            let said = attach(&outer, "bg");
            assert!(said.contains(&format!("process {inner} keeps what it has: ")), "{said}");
        } else {
            attach(&outer, "bg");
            assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"]);
            attach(&inner, "lp");
        }
        assert_eq!(subject.tell("connect")[..2], ["imtcp_lp", "imtcp_lp"]);

        // The inner one ends first.
        let said = detach(&inner);
        assert!(said.contains(&format!("process {outer} has it from now on, ")), "{said}");
        assert_eq!(subject.tell("look")[..2], ["imtcp_bg", "imtcp_bg"]);
        assert_eq!(subject.tell("connect")[1], "imtcp_bg");

        // The outer one does.
        attach(&inner, "lp");
        detach(&outer);
        assert_eq!(subject.tell("connect")[..2], ["imtcp_lp", "imtcp_lp"]);
        detach(&inner);
        assert_eq!(subject.tell("connect")[..2], ["reno", "reno"]);
        assert_eq!(imtcp::cgroup::of_pid(subject.child.pid()).unwrap(), home);
        assert_eq!(cgroups_left(), [] as [&Path; 0]);
    }
}

/// The client's end of its connection, once its process is known; the server's end is this process's.
fn client_end(net: &Net) -> Option<serde_json::Value> {
    let all = connections(&net.server.to_string());
    all.into_iter().find(|c| c["dst"] == net.server.to_string() && c["pid"].is_i64())
}

#[test]
fn a_run_has_again_what_an_attachment_within_it_gives_up_and_that_outlives_the_run() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(client) = static_client() else { return };
    let (host, port) = net.peer();
    let client = client.to_str().unwrap();
    let of_client = || client_end(&net);
    let line = format!("{client} {host} {port} 50000 60 >/dev/null 2>&1 & wait");
    let running = net.run_spawn(&["-q", "--mode", "nice", "--", "sh", "-c", &line]);
    eventually("the connection is seen with its process", || of_client().is_some());
    let pid = of_client().unwrap()["pid"].to_string();
    assert_eq!(of_client().unwrap()["mode"], "nice");
    let policy = of_client().unwrap()["policy"].clone();

    imtcp_ok(&["attach", "--pid", &pid, "--mode", "lp"]);
    assert_eq!(of_client().unwrap()["mode"], "lp");
    let said = imtcp_ok(&["detach", "--pid", &pid]);
    assert!(said.contains("`imtcp run` ") && said.contains(" has it from now on: nice"), "{said}");
    let again = of_client().unwrap();
    assert_eq!((&again["mode"], &again["policy"]), (&"nice".into(), &policy));

    imtcp_ok(&["attach", "--pid", &pid, "--mode", "lp"]);
    running.signal(libc::SIGTERM);
    running.finish();
    let of_process = || imtcp::cgroup::of_pid(pid.parse().unwrap()).unwrap();
    assert!(of_process().display().to_string().contains("imtcp-attach-"), "{:?}", of_process());
    assert_eq!(of_client().unwrap()["mode"], "lp");

    // Moved by somebody else: told, and given back all the same.
    imtcp::cgroup::move_pid(pid.parse().unwrap(), &imtcp::cgroup::mount().unwrap()).unwrap();
    imtcp_ok(&["up"]);
    let status = imtcp_ok(&["status"]);
    let told = format!("it was moved to another cgroup; `imtcp attach --pid {pid}` again takes it");
    assert!(status.contains(&told), "{status}");
    let status = json(&imtcp_ok(&["status", "--json"]));
    assert_eq!(status["attachments"][0]["moved_away"], true, "{status}");
    let said = imtcp_ok(&["detach", "--pid", &pid]);
    assert!(said.contains("given back to 1 open socket"), "{said}");
    assert!(of_client().is_none());
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
    // SAFETY: a child of this test.
    unsafe { libc::kill(pid.parse().unwrap(), libc::SIGKILL) };
}

#[test]
fn a_run_within_an_attachment_goes_on_when_that_ends() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(client) = static_client() else { return };
    let (host, port) = net.peer();
    let own = std::process::id().to_string();
    imtcp_ok(&["attach", "--pid", &own, "--mode", "lp"]);
    let running =
        net.run_spawn(&["-q", "--", client.to_str().unwrap(), &host, &port, "50000", "30"]);
    let of_client = || client_end(&net);
    eventually("the connection is seen with its process", || of_client().is_some());
    let seen = of_client().unwrap();
    assert_eq!(seen["mode"], "bg", "the inner decides: {seen}");
    imtcp_ok(&["detach", "--pid", &own]);
    let dir = imtcp::cgroup::of_pid(seen["pid"].as_i64().unwrap() as i32).unwrap();
    assert!(dir.display().to_string().contains("imtcp-run-"), "{dir:?}");
    assert_eq!(of_client().unwrap()["mode"], "bg");
    running.signal(libc::SIGTERM);
    running.finish();
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
}

#[test]
fn an_attachment_ends_with_its_process() {
    let Some(_alone) = alone() else { return };
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let said = imtcp_ok(&["attach", "--pid", &child.id().to_string()]);
    assert!(said.contains("is attached: bg, no limits; 1 process, 0 open sockets;"), "{said}");
    assert_eq!(cgroups_left().len(), 1);
    let status = imtcp_ok(&["status"]);
    assert!(
        status.contains(&format!("process {} (sleep): bg, no limits; 1 process", child.id())),
        "{status}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let status = imtcp_ok(&["status"]);
    assert!(status.contains("covers nothing any more: it has ended"), "{status}");
    assert_eq!(json(&imtcp_ok(&["status", "--json"]))["attachments"][0]["ended"], true);
    imtcp_ok(&["up"]);
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
    let status = json(&imtcp_ok(&["status", "--json"]));
    assert_eq!(status["attachments"], serde_json::json!([]));
}

#[test]
fn down_detaches() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    let before = subject.tell("look")[0].clone();
    imtcp_ok(&["attach", "--pid", &subject.pid(), "--max-rate", "5M"]);
    assert_eq!(subject.tell("look")[0], "imtcp_bg");
    let said = imtcp_ok(&["down"]);
    let line =
        format!("process {} is detached, without its limits (at most 5.00 Mbit/s)", subject.pid());
    assert!(said.lines().any(|l| l == line), "{said}");
    assert_eq!(subject.tell("send")[0], before);
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
}

#[test]
fn process_1_and_the_root_cgroup_are_refused_and_an_ancestor_warned_of() {
    let Some(_alone) = alone() else { return };
    for target in [["--pid", "1"], ["--cgroup", "/"], ["--cgroup", "."]] {
        let output = imtcp(&[&["attach"][..], &target].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{target:?}: {error}");
        assert!(error.contains("--cgroup system.slice") && error.contains("--force"), "{error}");
        assert_eq!(cgroups_left(), [] as [&Path; 0]);
    }

    // A shell that attaches itself, and stays after.
    let script = "\"$0\" attach --pid $$; true";
    let output = Command::new("sh").args(["-c", script, &IMTCP]).output().unwrap();
    let error = text(&output.stderr);
    assert!(error.contains("(sh) is the one that this command was started from"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(text(&output.stdout).contains("is attached"), "it is taken all the same");
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let output = imtcp(&["attach", "--pid", &child.id().to_string()]);
    assert_eq!(text(&output.stderr), "", "another process is nothing to warn of");
    child.kill().unwrap();
    child.wait().unwrap();
    imtcp_ok(&["detach", "--all"]);
}

#[test]
fn what_cannot_be_attached_is_said() {
    let Some(_alone) = alone() else { return };
    let output = imtcp(&["attach", "--pid", "99999999"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no process"), "{}", text(&output.stderr));
    let output = imtcp(&["attach", "--cgroup", "no/such/group"]);
    assert!(text(&output.stderr).contains("no cgroup"), "{}", text(&output.stderr));
    assert_eq!(imtcp(&["attach"]).status.code(), Some(2));
    for (target, named) in [
        (["--pid", "99999999"], "process 99999999"),
        (["--cgroup", "no/such/group"], "cgroup no/such/group"),
    ] {
        let output = imtcp(&[&["detach"][..], &target].concat());
        let said = format!("imtcp: {named} is not attached: `imtcp status` lists what is\n");
        assert_eq!(text(&output.stderr), said);
    }
}
