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
    assert!(said.contains("so deep in cgroups that the kernel does not tell in which"), "{said}");
    assert_eq!(subject.tell("look"), before);

    let done = json(&imtcp_ok(&["attach", "--json", "--cgroup", unit.path()]));
    assert_eq!((&done["processes"], &done["sockets"]), (&1.into(), &2.into()), "{done}");
    assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"]);
    imtcp_ok(&["detach", "--cgroup", unit.path()]);
    assert_eq!(subject.tell("look")[0], before[0]);
}

#[test]
fn a_run_whose_command_nests_cgroups_leaves_none() {
    let Some(_alone) = alone() else { return };
    let script = format!(
        "cd {}$(sed -n s/^0:://p /proc/self/cgroup) && mkdir inner && cd -P inner && \
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
