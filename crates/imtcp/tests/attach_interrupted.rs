// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `attach`, `detach` and `down` that did not come to their end: what is left is told, and the next command makes
//! it whole or ends it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use imtcp_bpf::paths;
use imtcp_bpf::policy::Policies;
use imtcp_bpf::rundir::{file_of, ATTACHMENTS};
use imtcp_test_support::subject::Subject;
use imtcp_test_support::*;

fn attachments() -> Vec<serde_json::Value> {
    // Also while imtcp is down.
    let status = json(&text(&imtcp(&["status", "--json"]).stdout));
    status["attachments"].as_array().unwrap().clone()
}

fn links() -> Vec<PathBuf> {
    fs::read_dir(paths::attach_dir()).into_iter().flatten().flatten().map(|e| e.path()).collect()
}

#[track_caller]
fn nothing_is_left() {
    assert_eq!(attachments(), Vec::<serde_json::Value>::new());
    assert_eq!(links(), Vec::<PathBuf>::new());
    assert_eq!(cgroups_left(), Vec::<PathBuf>::new());
}

/// A process and its cgroup, each attached by its option.
fn of_each_kind(test: impl Fn(&mut Subject, [&str; 2])) {
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    let unit = Unit::new();
    imtcp::cgroup::move_pid(subject.child.pid(), &unit.0).unwrap();
    let pid = subject.pid();
    for target in [["--pid", &pid], ["--cgroup", unit.path()]] {
        test(&mut subject, target);
        nothing_is_left();
    }
}

#[test]
fn an_attachment_without_its_links_is_told_and_attached_again_it_covers() {
    let Some(_alone) = alone() else { return };
    of_each_kind(|subject, [option, value]| {
        let before = subject.tell("look")[0].clone();
        imtcp_ok(&["attach", option, value]);
        for link in links() {
            fs::remove_file(link).unwrap();
        }
        // The kernel frees the last reference of a link on a worker.
        eventually("nothing covers it", || subject.tell("connect")[1] == before);
        let told = &attachments()[0];
        assert_eq!((&told["linked"], &told["in_force"]), (&false.into(), &false.into()), "{told}");
        let status = imtcp_ok(&["status"]);
        let remedy = format!("`imtcp attach {option} {value}` again mends it");
        assert!(status.contains("does not cover new connections: "), "{status}");
        assert!(status.contains(&remedy), "{status}");

        imtcp_ok(&["attach", option, value]);
        assert_eq!(subject.tell("connect")[1], "imtcp_bg");
        let told = &attachments()[0];
        assert_eq!((&told["linked"], &told["in_force"]), (&true.into(), &true.into()), "{told}");
        imtcp_ok(&["detach", option, value]);
        assert_eq!(subject.tell("connect")[1], before);
    });
}

#[test]
fn an_attachment_without_its_orders_is_told_and_attached_again_it_covers() {
    let Some(_alone) = alone() else { return };
    of_each_kind(|subject, [option, value]| {
        imtcp_ok(&["attach", option, value]);
        Policies::open().unwrap().remove(attachments()[0]["policy"].as_u64().unwrap());
        assert_eq!(attachments()[0]["in_force"], false);
        let status = imtcp_ok(&["status"]);
        let remedy = format!("`imtcp attach {option} {value}` again makes it whole");
        assert!(status.contains(": no longer in force: ") && status.contains(&remedy), "{status}");

        imtcp_ok(&["attach", option, value]);
        assert_eq!(subject.tell("connect")[1], "imtcp_bg");
        assert_eq!(attachments()[0]["in_force"], true);
        imtcp_ok(&["detach", option, value]);
    });
}

/// Ends a command by SIGKILL so long after its start.
fn killed_after(args: &[&str], after: Duration) {
    let mut command = Command::new(&*IMTCP);
    command.args(args).stderr(Stdio::null()).stdout(Stdio::null());
    let child = Background(command.spawn().unwrap());
    sleep(after);
    child.signal(libc::SIGKILL);
}

#[test]
fn whenever_attach_or_detach_is_killed_another_attach_covers_and_another_detach_leaves_nothing() {
    const TIMES: u32 = 12;
    let Some(_alone) = alone() else { return };
    of_each_kind(|subject, [option, value]| {
        let before = subject.tell("look")[0].clone();
        let took = |args: &[&str]| {
            let began = Instant::now();
            imtcp_ok(args);
            began.elapsed()
        };
        let (attach, detach) = (["attach", option, value], ["detach", option, value]);
        let (attach_took, detach_took) = (took(&attach), took(&detach));
        for i in 0..TIMES {
            killed_after(&attach, attach_took * i / TIMES);
            imtcp_ok(&attach);
            assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"], "attach, {i}");
            assert_eq!(attachments()[0]["in_force"], true, "attach, {i}");

            killed_after(&detach, detach_took * i / TIMES);
            let listed = attachments();
            let control = subject.tell("connect")[1].clone();
            let in_force = listed.first().is_some_and(|a| a["in_force"] == true);
            assert_eq!(in_force, control == "imtcp_bg", "detach, {i}: {listed:?}");
            imtcp_ok(&attach);
            assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"], "detach, {i}");
            imtcp_ok(&detach);
            assert_eq!(subject.tell("connect")[..2], [before.clone(), before.clone()], "{i}");
            // An attach that was killed before it registered anything leaves these.
            for left in cgroups_left() {
                fs::remove_dir(left).unwrap();
            }
            nothing_is_left();
        }
    });
}

/// Gives the root's controllers to the cgroups in it, and takes them back.
struct Controllers(Option<String>);

impl Controllers {
    fn given() -> Self {
        let root = imtcp::cgroup::mount().unwrap();
        let read = |file: &str| fs::read_to_string(root.join(file)).unwrap();
        let given = read("cgroup.subtree_control");
        let name = read("cgroup.controllers").split_whitespace().next().map(str::to_string);
        let missing = name.clone().filter(|name| !given.split_whitespace().any(|g| g == name));
        if let Some(name) = &missing {
            fs::write(root.join("cgroup.subtree_control"), format!("+{name}")).unwrap();
        }
        Controllers(missing)
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        let root = imtcp::cgroup::mount().unwrap();
        if let Some(name) = &self.0 {
            let _ = fs::write(root.join("cgroup.subtree_control"), format!("-{name}"));
        }
    }
}

#[test]
fn down_and_detach_undo_what_they_can_and_name_what_they_cannot() {
    let Some(_alone) = alone() else { return };
    let _controllers = Controllers::given();
    let unit = Unit::new();
    let controllers = fs::read_to_string(unit.0.join("cgroup.controllers")).unwrap();
    let Some(controller) = controllers.split_whitespace().next() else {
        skip("there is no controller of cgroup version 2");
        return;
    };
    let kept = Background(unit.command("exec sleep 600").spawn().unwrap());
    let free = Background(Command::new("sleep").arg("600").spawn().unwrap());
    let (kept_pid, free_pid) = (kept.pid().to_string(), free.pid().to_string());
    eventually("it is in the unit", || {
        imtcp::cgroup::of_pid(kept.pid()).is_ok_and(|dir| dir == unit.0)
    });
    for undo in [&["down"][..], &["detach", "--all"]] {
        imtcp_ok(&["attach", "--pid", &kept_pid]);
        imtcp_ok(&["attach", "--pid", &free_pid]);
        // Now no process may be in the unit itself.
        unit.write("cgroup.subtree_control", &format!("+{controller}"));
        for _ in 0..2 {
            let output = imtcp(undo);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{undo:?}: {said}");
            let cause = format!("cannot move process {kept_pid} (sleep) back to the cgroup ");
            let remedy = format!("`echo -{controller} >{}/cgroup.subtree_control`", unit.path());
            assert!(said.contains(&cause) && said.contains(&remedy), "{undo:?}: {said}");
            assert_eq!(links(), Vec::<PathBuf>::new(), "{undo:?}");
            let left = attachments();
            assert_eq!(left.len(), 1, "{undo:?}: {left:?}");
            assert_eq!(left[0]["in_force"], false, "{undo:?}: {left:?}");
        }
        assert_eq!(paths::dir().exists(), undo[0] != "down");
        unit.write("cgroup.subtree_control", &format!("-{controller}"));
        imtcp_ok(undo);
        assert_eq!(imtcp::cgroup::of_pid(kept.pid()).unwrap(), unit.0);
        nothing_is_left();
    }
}

#[test]
fn whenever_down_is_killed_the_next_command_works() {
    const TIMES: u32 = 12;
    let Some(_alone) = alone() else { return };
    let began = Instant::now();
    imtcp_ok(&["down"]);
    let took = began.elapsed();
    for i in 0..TIMES {
        imtcp_ok(&["up"]);
        killed_after(&["down"], took * i / TIMES);
        imtcp_ok(&["run", "-q", "--", "true"]);
        imtcp_ok(&["up"]);
        killed_after(&["down"], took * i / TIMES);
        imtcp_ok(&["down"]);
        assert!(!paths::dir().exists(), "{i}");
    }
}

/// Where the kernel can detach such a link, a killed `down` leaves one.
#[test]
fn a_link_that_registers_nothing_any_more_is_replaced() {
    let Some(_alone) = alone() else { return };
    let link = paths::link_pin("imtcp_bg");
    let detach = ["link", "detach", "pinned", link.to_str().unwrap()];
    match Command::new("bpftool").args(detach).output() {
        Ok(output) if output.status.success() => {}
        other => return skip(format_args!("bpftool link detach: {other:?}")),
    }
    assert!(!imtcp_bpf::netns::is_registered("imtcp_bg"));
    imtcp_ok(&["run", "-q", "--", "true"]);
    assert!(imtcp_bpf::netns::is_registered("imtcp_bg"));
    imtcp_ok(&["down"]);
    assert!(!Path::new(&link).exists());
}

#[test]
fn a_command_whose_reader_takes_nothing_keeps_no_other_waiting() {
    let Some(_alone) = alone() else { return };
    let sleeping = Background(Command::new("sleep").arg("600").spawn().unwrap());
    let pid = sleeping.pid().to_string();
    let blocked: [&[&str]; 4] =
        [&["attach", "--pid", &pid], &["detach", "--all"], &["down"], &["up", "--json"]];
    for args in blocked {
        let (_reader, writer) = full_pipe();
        let mut command = Command::new(&*IMTCP);
        command.args(args).stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut waiting = Background(command.spawn().unwrap());
        sleep(Duration::from_millis(500));
        let mut other =
            Background(Command::new(&*IMTCP).args(["run", "-q", "--", "true"]).spawn().unwrap());
        eventually("the other ends", || other.0.try_wait().unwrap().is_some());
        assert!(waiting.0.try_wait().unwrap().is_none(), "{args:?} waits for its reader");
    }
    imtcp_ok(&["detach", "--all"]);
}

/// A pipe without room for another byte.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    use nix::fcntl::{fcntl, FcntlArg, OFlag};
    let (reader, mut writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while std::io::Write::write(&mut writer, &[0; 4096]).is_ok() {}
    while std::io::Write::write(&mut writer, &[0]).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, writer)
}

/// The upper limits in the kernel and in `status`.
fn max_bps() -> (u64, u64) {
    let told = &attachments()[0];
    let policy = Policies::open().unwrap().get(told["policy"].as_u64().unwrap()).unwrap();
    (policy.unwrap().max_bps, told["max_bps"].as_u64().unwrap())
}

#[test]
fn where_the_file_of_an_attachment_cannot_be_written_its_orders_stay_what_they_were() {
    let Some(_alone) = alone() else { return };
    of_each_kind(|_, [option, value]| {
        imtcp_ok(&["attach", option, value, "--max-rate", "10M"]);
        let file = file_of(ATTACHMENTS, attachments()[0]["policy"].as_u64().unwrap());
        // As a full /run: the new file cannot be made.
        let in_its_place = file.with_extension("new");
        fs::create_dir(&in_its_place).unwrap();
        let output = imtcp(&["attach", option, value, "--max-rate", "5M"]);
        fs::remove_dir(in_its_place).unwrap();
        assert!(!output.status.success());
        assert_eq!(max_bps(), (10_000_000, 10_000_000));
        imtcp_ok(&["attach", option, value, "--max-rate", "5M"]);
        assert_eq!(max_bps(), (5_000_000, 5_000_000));
        imtcp_ok(&["detach", option, value]);
    });
}

#[test]
fn after_an_attach_that_was_killed_status_has_the_kernels_limits_and_another_attach_mends_them() {
    let Some(_alone) = alone() else { return };
    of_each_kind(|_, [option, value]| {
        imtcp_ok(&["attach", option, value, "--max-rate", "10M"]);
        assert_eq!(attachments()[0]["half_done"], false);
        // Killed after it wrote the file, before it wrote the orders.
        let path = file_of(ATTACHMENTS, attachments()[0]["policy"].as_u64().unwrap());
        let mut file = json(&fs::read_to_string(&path).unwrap());
        file["max_bps"] = 5_000_000.into();
        file["half_done"] = true.into();
        fs::write(&path, file.to_string()).unwrap();

        assert_eq!(max_bps(), (10_000_000, 10_000_000));
        assert_eq!(attachments()[0]["half_done"], true);
        let status = imtcp_ok(&["status"]);
        assert!(status.contains("at most 10.0 Mbit/s"), "{status}");
        assert!(status.contains("; an `imtcp attach` of it goes on or was ended"), "{status}");
        imtcp_ok(&["attach", option, value, "--max-rate", "5M"]);
        assert_eq!(max_bps(), (5_000_000, 5_000_000));
        assert_eq!(attachments()[0]["half_done"], false);
        imtcp_ok(&["detach", option, value]);
    });
}
