// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `run` and `attach` stay within the cgroup that a command is in, with the limits that a unit has, or
//! say why they cannot.

use std::fs;

use imtcp_test_support::*;

/// Where a process of the test's is, with a sentence where it is not within the unit.
#[track_caller]
fn assert_within(pid: i32, unit: &Unit) {
    let dir = imtcp::cgroup::of_pid(pid).unwrap();
    assert!(dir.starts_with(&unit.0) && dir != unit.0, "{dir:?} is not within {:?}", unit.0);
}

/// Threads of it may have cgroups: then each cgroup within it is of threads.
fn unit_with_threads() -> Option<Unit> {
    let unit = Unit::new();
    fs::create_dir(unit.0.join("threads")).unwrap();
    if let Err(e) = fs::write(unit.0.join("threads/cgroup.type"), "threaded") {
        skip(format_args!("this kernel makes no cgroups of threads here: {e}"));
        return None;
    }
    Some(unit)
}

#[test]
fn a_run_in_a_unit_whose_threads_have_cgroups_stays_within_it() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(client) = static_client() else { return };
    let Some(unit) = unit_with_threads() else { return };
    let (host, port) = net.peer();
    let script = format!("cat /proc/self/cgroup; {} {host} {port} 100000", client.display());
    let line =
        format!("exec ip netns exec {} \"$0\" run --json -- sh -c '{script}'", net.client_ns());
    let output = unit.command(&line).output().unwrap();
    let (within, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    let name = unit.0.file_name().unwrap().to_str().unwrap();
    assert!(within.contains(&format!("0::/{name}/imtcp-run-")), "{within}");
    assert_eq!(summary(&output)["connections"], 1, "{said}");
    assert!(cgroups_left().is_empty());
}

#[test]
fn an_attachment_in_such_a_unit_stays_within_it_too() {
    let Some(_alone) = alone() else { return };
    let Some(unit) = unit_with_threads() else { return };
    for dir in [unit.0.clone(), unit.0.join("threads")] {
        let sleep = Background(unit.command("exec sleep 60").spawn().unwrap());
        eventually("it is in the unit", || {
            imtcp::cgroup::of_pid(sleep.pid()).is_ok_and(|d| d == unit.0)
        });
        imtcp::cgroup::move_pid(sleep.pid(), &dir).unwrap();
        let pid = sleep.pid().to_string();
        let done = json(&imtcp_ok(&["attach", "--json", "--pid", &pid]));
        assert_eq!(done["processes"], 1, "{done}");
        assert_within(sleep.pid(), &unit);
        imtcp_ok(&["detach", "--pid", &pid]);
        assert_eq!(imtcp::cgroup::of_pid(sleep.pid()).unwrap(), dir);
        assert!(cgroups_left().is_empty());
    }
}

#[test]
fn a_unit_that_takes_no_cgroup_is_not_left_but_named_with_the_cause() {
    let Some(_alone) = alone() else { return };
    let unit = Unit::new();
    unit.write("cgroup.max.descendants", "0");
    let output = unit.command("exec \"$0\" run -- echo it began").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(125), ""), "{said}");
    assert!(said.contains(&format!("cannot make a cgroup within {}", unit.path())), "{said}");
    assert!(said.contains("cgroup.max.descendants"), "{said}");

    let sleep = Background(unit.command("exec sleep 60").spawn().unwrap());
    eventually("it is in the unit", || imtcp::cgroup::procs(&unit.0).contains(&sleep.pid()));
    let output = imtcp(&["attach", "--pid", &sleep.pid().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cgroup.max.descendants"), "{}", text(&output.stderr));
    assert_eq!(imtcp::cgroup::of_pid(sleep.pid()).unwrap(), unit.0);
    assert!(cgroups_left().is_empty());
    let status = json(&imtcp_ok(&["status", "--json"]));
    assert_eq!(status["attachments"], serde_json::json!([]));
    // Processes of another test's run may live for a moment.
    let runs = status["runs"].as_array().unwrap();
    assert!(runs.iter().all(|run| run["command"] != "echo it began"), "{status}");
}

#[test]
fn a_cgroup_that_cannot_be_seen_is_not_taken_for_the_root() {
    let Some(_alone) = alone() else { return };
    let unit = Unit::new();
    let output = unit.command("exec unshare -C \"$0\" run -- echo it began").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(125), ""), "{said}");
    assert!(said.contains("cannot be seen from here"), "{said}");
}

#[test]
fn a_unit_that_another_user_owns_is_stayed_within() {
    let Some(_alone) = alone() else { return };
    let unit = Unit::new();
    for file in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        std::os::unix::fs::chown(unit.0.join(file), Some(65534), Some(65534)).unwrap();
    }
    let line = "exec \"$0\" run -q --user nobody -- cat /proc/self/cgroup";
    let output = unit.command(line).output().unwrap();
    let name = unit.0.file_name().unwrap().to_str().unwrap();
    let within = text(&output.stdout);
    assert!(within.contains(&format!("0::/{name}/imtcp-run-")), "{within}{}", text(&output.stderr));
    assert!(cgroups_left().is_empty());
}

/// A process with a second thread: it prints the thread's number.
const TWO_THREADS: &str = "import threading, time\n\
    t = threading.Thread(target=time.sleep, args=(60,), daemon=True)\n\
    t.start()\n\
    print(t.native_id, flush=True)\n\
    t.join()";

#[test]
fn threads_that_have_cgroups_of_their_own_are_not_moved_out_of_them() {
    use std::io::BufRead;
    let Some(_alone) = alone() else { return };
    let Some(unit) = unit_with_threads() else { return };
    let mut command = unit.command("exec python3 -c \"$1\"");
    let child = command.arg(TWO_THREADS).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut child = Background(child);
    let mut thread = String::new();
    let out = child.0.stdout.take().unwrap();
    if std::io::BufReader::new(out).read_line(&mut thread).unwrap() == 0 {
        skip("python3 is missing");
        return;
    }
    fs::write(unit.0.join("threads/cgroup.threads"), thread.trim()).unwrap();
    let output = imtcp(&["attach", "--pid", &child.pid().to_string()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("are in several cgroups") && said.contains("--cgroup"), "{said}");
    assert_eq!(imtcp_common::procfs::cgroups_of_threads(child.pid()).len(), 2);
    imtcp_ok(&["attach", "--cgroup", unit.path()]);
    imtcp_ok(&["detach", "--all"]);
    drop(child);
}

#[test]
fn limits_that_end_with_a_cgroup_inside_of_a_run_are_told() {
    let Some(_alone) = alone() else { return };
    let script = "dir=$(sed -n s/0:://p /proc/self/cgroup); inner=$0$dir/inner; mkdir $inner; \
                  sleep 60 >/dev/null 2>&1 & echo $! > $inner/cgroup.procs; echo $!";
    let mount = imtcp::cgroup::mount().unwrap();
    let output = imtcp(&["run", "-q", "--", "sh", "-c", script, mount.to_str().unwrap()]);
    let said = text(&output.stderr);
    kill(text(&output.stdout).trim().parse().unwrap());
    assert!(
        said.contains("/inner are moved to ") && said.contains("limits of the former end"),
        "{said}"
    );
}

fn kill(pid: i32) {
    // SAFETY: a process of this test.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}
