// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Users who may make cgroups nest them as they like, and name them as they like.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use imtcp_test_support::rules::Rules;
use imtcp_test_support::subject::Subject;
use imtcp_test_support::*;
use nix::fcntl::{openat, OFlag};
use nix::sys::signal::{kill, Signal};
use nix::sys::stat::{mkdirat, Mode};
use nix::unistd::Pid;

/// Makes cgroups within one another, and opens the innermost.
fn nest(within: &Path, name: &str, depth: usize) -> OwnedFd {
    let mut dir = OwnedFd::from(File::open(within).unwrap());
    for _ in 0..depth {
        mkdirat(&dir, name, Mode::from_bits_truncate(0o755)).unwrap();
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        dir = openat(&dir, name, flags, Mode::empty()).unwrap();
    }
    dir
}

fn move_to(pid: i32, dir: impl AsFd) {
    let procs = openat(dir, "cgroup.procs", OFlag::O_WRONLY, Mode::empty()).unwrap();
    nix::unistd::write(procs, pid.to_string().as_bytes()).unwrap();
}

/// A path through so many is longer than the kernel takes.
const LONG: &str = "a-cgroup-whose-name-is-of-as-many-characters-as-a-name-of-a-unit-may-well-have";
const MANY: usize = 80;

#[test]
fn thousands_of_cgroups_within_one_another_cost_a_run_nothing() {
    let Some(_alone) = alone() else { return };
    imtcp_ok(&["up"]);
    let took = || {
        let begun = Instant::now();
        imtcp_ok(&["run", "-q", "--", "true"]);
        begun.elapsed()
    };
    let alone = took();
    let unit = Unit::new();
    let sleep = Background(unit.command("exec sleep 60").spawn().unwrap());
    move_to(sleep.pid(), nest(&unit.0, "c", 1500));
    let beside = took();
    assert!(beside < 2 * alone + Duration::from_millis(300), "{beside:?}, {alone:?} before");
}

#[test]
fn a_process_whose_cgroup_has_no_path_is_attached_with_what_is_around_it() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    let before = subject.tell("look");
    let unit = Unit::new();
    move_to(subject.child.pid(), nest(&unit.0, LONG, MANY));

    let output = imtcp(&["attach", "--pid", &subject.pid()]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("so deep in cgroups that the kernel takes no path to it"), "{said}");
    assert_eq!(subject.tell("look"), before);

    let done = json(&imtcp_ok(&["attach", "--json", "--cgroup", unit.path()]));
    assert_eq!((&done["processes"], &done["sockets"]), (&1.into(), &2.into()), "{done}");
    assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"]);
    imtcp_ok(&["detach", "--cgroup", unit.path()]);
    assert_eq!(subject.tell("look")[0], before[0]);
}

#[test]
fn of_a_process_that_no_path_leads_to_attach_says_so_inside_a_run_too() {
    let Some(_alone) = alone() else { return };
    let unit = Unit::new();
    // With the mount before it, the path to a file there is longer than the kernel takes.
    for (name, depth) in [(LONG, MANY), (&LONG[..50], 79)] {
        let mut run = unit.command("exec \"$0\" run -q -- sleep 60");
        let run = Background(run.spawn().unwrap());
        eventually("it runs", || !cgroups_left().is_empty());
        let within = cgroups_left().remove(0);
        eventually("its command runs", || !imtcp::cgroup::procs(&within).is_empty());
        let pid = imtcp::cgroup::procs(&within).into_iter().next().unwrap();
        move_to(pid, nest(&within, name, depth));
        let output = imtcp(&["attach", "--pid", &pid.to_string()]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("so deep in cgroups that the kernel takes no path to it"), "{said}");
        run.signal(libc::SIGTERM);
        run.finish();
    }
}

#[test]
fn what_somebody_puts_in_the_place_of_a_cgroup_of_ours_is_left_alone() {
    let Some(_alone) = alone() else { return };
    let unit = Unit::new();
    let mut sleep = Background(unit.command("exec sleep 60").spawn().unwrap());
    eventually("it is in the unit", || imtcp::cgroup::procs(&unit.0).contains(&sleep.pid()));
    imtcp_ok(&["attach", "--pid", &sleep.pid().to_string()]);
    let ours = cgroups_left().remove(0);
    imtcp::cgroup::move_pid(sleep.pid(), &unit.0).unwrap();
    fs::remove_dir(&ours).unwrap();
    let theirs = || {
        fs::create_dir(&ours).unwrap();
        std::os::unix::fs::chown(&ours, Some(65534), None).unwrap();
        fs::create_dir(ours.join("inner")).unwrap();
    };
    theirs();
    let other = Background(Unit(ours.clone()).command("exec sleep 60").spawn().unwrap());
    eventually("it is there", || imtcp::cgroup::procs(&ours).contains(&other.pid()));
    let status = text(&imtcp(&["status"]).stdout);
    assert!(status.contains("it was moved to another cgroup"), "{status}");
    sleep.0.kill().unwrap();
    sleep.0.wait().unwrap();
    imtcp_ok(&["run", "-q", "--", "true"]);
    assert!(ours.join("inner").exists());
    assert!(imtcp::cgroup::procs(&ours).contains(&other.pid()));
    let status = json(&imtcp_ok(&["status", "--json"]));
    assert_eq!(status["attachments"], serde_json::json!([]), "{status}");
    drop(other);
}

#[test]
fn who_removes_a_cgroup_of_ours_gets_no_process_into_another() {
    let Some(_alone) = alone() else { return };
    let unit = Unit::new();
    let dir = unit.0.join("imtcp-run-1");
    let own = imtcp::cgroup::Own::create(&dir).unwrap();
    fs::remove_dir(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, Some(65534), None).unwrap();
    let sleep = Background(unit.command("exec sleep 60").spawn().unwrap());
    assert!(own.take(sleep.pid()).is_err());
    assert!(imtcp::cgroup::Own::require(&dir).is_err());
    assert!(imtcp::cgroup::Own::create(&dir).is_err());
}

#[test]
fn a_process_that_leaves_what_a_rule_gave_it_is_followed() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let unit = Unit::new();
    let rules = Rules::new();
    let program = rules.0.path("imtcp-test-python");
    let Some(python) = python3() else { return };
    std::os::unix::fs::symlink(python, &program).unwrap();
    let Some(mut subject) = Subject::start_as(&net, &program) else { return };
    rules.write("python", "command = \"imtcp-test-python\"");
    let watch = rules.watch();
    watch.says("rule python: process ");
    for _ in 0..2 {
        imtcp::cgroup::move_pid(subject.child.pid(), &unit.0).unwrap();
        watch.says("rule python: process ");
        assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"]);
    }
    watch.end();
}

#[test]
fn a_run_whose_command_nests_cgroups_leaves_none() {
    let Some(_alone) = alone() else { return };
    let script = format!(
        "cd {}$(sed -n s/^0:://p /proc/self/cgroup) && mkdir inner && cd -P inner || exit 1; \
         for i in $(seq {MANY}); do mkdir {LONG} && cd -P {LONG} || exit 1; done; \
         sleep 60 >/dev/null 2>&1 & echo $! >cgroup.procs",
        imtcp::cgroup::mount().unwrap().display()
    );
    let output = imtcp(&["run", "--", "sh", "-c", &script]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("/inner are moved to "), "{said}");
    assert!(said.contains("left running: sleep"), "{said}");
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
    let left = said.split("(pid ").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    kill(Pid::from_raw(left.parse().unwrap()), Signal::SIGKILL).unwrap();
}

#[test]
fn a_cgroup_that_is_named_as_one_of_ours_is_covered_by_a_rule() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let unit = Unit::new();
    let evil = unit.0.join("imtcp-run-backup.service");
    fs::create_dir(&evil).unwrap();
    let Some(mut subject) = Subject::start(&net) else { return };
    imtcp::cgroup::move_pid(subject.child.pid(), &evil).unwrap();
    let rules = Rules::new();
    rules.write("backup", "unit = \"imtcp-run-backup.service\"");
    let watch = rules.watch();
    watch.says("rule backup: cgroup ");
    assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"]);
    imtcp::cgroup::remove(&evil, &unit.0).unwrap();
    watch.end();
}
