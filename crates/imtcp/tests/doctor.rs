// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Machines on which a run cannot work: `doctor` finds what `run` and `up` would fail on, all say the
//! same, and nothing is left behind.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;

use imtcp_test_support::*;

/// The command after these words of the shell, in a mount namespace of its own, and where it sees no
/// process of another, whose mounts it would use.
fn within(setup: &str, args: &[&str]) -> std::process::Output {
    let script = format!("{setup} && exec \"$0\" \"$@\"");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", &script, &IMTCP])
        .args(args);
    command.output().unwrap()
}

/// Without the numbers of runs, which are in the names of their files and cgroups.
fn without_ids(text: &str) -> String {
    let parts = text.split_inclusive(|c: char| !c.is_ascii_hexdigit());
    parts.filter(|part| part.len() < 16).collect()
}

/// Doctor has one failure there, with this cause and this remedy. The messages of run and up end with the
/// same.
#[track_caller]
fn all_say(cause: &str, remedy: &str, ask: impl Fn(&[&str]) -> std::process::Output, up_too: bool) {
    let output = ask(&["doctor", "--json"]);
    let findings = json(&text(&output.stdout));
    let failed: Vec<_> =
        findings.as_array().unwrap().iter().filter(|f| f["verdict"] == "fail").collect();
    assert_eq!((output.status.code(), failed.len()), (Some(1), 1), "{findings}");
    let part = |key: &str| without_ids(failed[0][key].as_str().unwrap());
    let (found, advice) = (part("found"), part("advice"));
    assert!(found.contains(cause) && advice.contains(remedy), "{found}: {advice}");

    let both: [(&[&str], i32); 2] = [(&["run", "true"], 125), (&["up"], 1)];
    for (args, code) in both.into_iter().take(if up_too { 2 } else { 1 }) {
        let output = ask(args);
        let said = without_ids(&text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.ends_with(&format!("{found}: {advice}\n")), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert_eq!(cgroups_left(), Vec::<PathBuf>::new());
    let runs = fs::read_dir("/run/imtcp/runs").into_iter().flatten().count();
    assert_eq!(runs, 0, "registrations are left");
}

#[test]
fn a_run_that_works_is_tried_and_nothing_of_it_is_left() {
    let Some(_alone) = alone() else { return };
    for is_up in [true, false] {
        imtcp_ok(&[if is_up { "up" } else { "down" }]);
        let output = imtcp(&["doctor"]);
        let said = text(&output.stdout);
        let line = said.lines().find(|line| line.contains("  a run "));
        assert!(line.is_some_and(|l| l.starts_with("ok  ")), "{said}");
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(text(&output.stderr), "");
        assert_eq!(imtcp(&["status"]).status.code(), Some(if is_up { 0 } else { 3 }));
        assert_eq!(cgroups_left(), Vec::<PathBuf>::new());
    }
}

#[test]
fn another_build_that_is_up_is_not_replaced_by_looking() {
    let Some(_alone) = alone() else { return };
    // As a build with other maps would have left it.
    let meta = imtcp_bpf::paths::pin(imtcp_bpf::paths::META);
    let map = ["map", "lookup", "pinned", meta.to_str().unwrap(), "key", "0", "0", "0", "0"];
    let Ok(found) = Command::new("bpftool").arg("--json").args(map).output() else {
        skip("bpftool is missing");
        return;
    };
    let found = json(&text(&found.stdout));
    let mut value: Vec<String> =
        found["value"].as_array().unwrap().iter().map(|b| b.as_str().unwrap().into()).collect();
    // The first byte of layout_id.
    value[16] = if value[16] == "0x00" { "0x01" } else { "0x00" }.into();
    let update = Command::new("bpftool")
        .args(["map", "update"])
        .args(&map[2..])
        .arg("value")
        .args(&value)
        .output()
        .unwrap();
    assert!(update.status.success(), "{}", text(&update.stderr));
    let said = text(&imtcp(&["doctor"]).stdout);
    assert!(said.contains("not tried: another build of imtcp is up"), "{said}");
    assert_eq!(json(&imtcp_ok(&["status", "--json"]))["same_layout"], false);
    imtcp_ok(&["up", "--force"]);
    imtcp_ok(&["down"]);
}

#[test]
fn root_of_a_user_namespace_is_not_root() {
    let Some(_alone) = alone() else { return };
    let ask = |args: &[&str]| {
        let unshare = ["--user", "--map-root-user", &IMTCP];
        Command::new("unshare").args(unshare).args(args).output().unwrap()
    };
    for state in ["up", "down"] {
        imtcp_ok(&[state]);
        all_say("user namespace", "outside of it", ask, true);
    }
}

#[test]
fn without_root_doctor_asks_for_root_and_not_for_what_root_has() {
    use std::os::unix::process::CommandExt;
    let Some(_alone) = alone() else { return };
    // The build directory may be closed to others.
    let scratch = Scratch::new();
    let copy = scratch.path("imtcp");
    fs::copy(&*IMTCP, &copy).unwrap();
    let output = Command::new(&copy).arg("doctor").uid(65534).gid(65534).output().unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("-> start it with sudo\n"), "{said}");
    assert!(said.contains("\n1 must be mended before imtcp works here\n"), "{said}");
    assert!(!said.contains("CAP_SYS_PTRACE") && !said.contains("Permission denied"), "{said}");
}

#[test]
fn root_of_a_container_lacks_a_capability() {
    let Some(_alone) = alone() else { return };
    imtcp_ok(&["down"]);
    let ask = |args: &[&str]| {
        let drop = ["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", &IMTCP];
        Command::new("setpriv").args(drop).args(args).output().unwrap()
    };
    all_say("CAP_SYS_ADMIN is missing", "root lacks it in a container", ask, true);
}

#[test]
fn a_run_directory_that_cannot_be_written_is_named() {
    let Some(_alone) = alone() else { return };
    for state in ["up", "down"] {
        imtcp_ok(&[state]);
        let ask = |args: &[&str]| within("mount -t tmpfs -o ro none /run", args);
        all_say("cannot write /run/imtcp: Read-only file system", "remount,rw /run`", ask, true);
        // Reports that write nothing work all the same.
        let remounted = "mount --bind /run /run && mount -o remount,bind,ro /run";
        let status = within(remounted, &["status"]);
        assert_eq!(status.status.code(), Some(if state == "up" { 0 } else { 3 }), "{status:?}");
        // A page for each file, and no page left.
        let full = "mount -t tmpfs -o size=4k none /run && mkdir -p -m 700 /run/imtcp/runs \
                    /run/imtcp/attachments && echo >/run/fill";
        let ask = |args: &[&str]| within(full, args);
        all_say("/run/imtcp/runs/", "make room", |args| ask(args), false);
    }
}

#[test]
fn cgroups_that_cannot_be_made_are_named() {
    let Some(_alone) = alone() else { return };
    let mount = imtcp::cgroup::mount().unwrap();
    let mount = mount.display();
    for state in ["up", "down"] {
        imtcp_ok(&[state]);
        let read_only = format!("mount -o remount,bind,ro {mount}");
        let ask = |args: &[&str]| within(&read_only, args);
        all_say(
            &format!("cannot write {mount}/"),
            &format!("`mount -o remount,rw {mount}`"),
            |args| ask(args),
            false,
        );
        let none = format!("umount -l {mount}");
        all_say("version 2 is not mounted", "mount -t cgroup2", |a| within(&none, a), false);
        // The programs that the run loaded are gone with it.
        let status = imtcp(&["status"]);
        assert_eq!(status.status.code(), Some(if state == "up" { 0 } else { 3 }));
    }
}

#[test]
fn a_bpf_file_system_that_cannot_be_written_is_named() {
    let Some(_alone) = alone() else { return };
    imtcp_ok(&["down"]);
    let ask = |args: &[&str]| within("mount -o remount,bind,ro /sys/fs/bpf", args);
    all_say("cannot write /sys/fs/bpf/imtcp: ", "remount,rw /sys/fs/bpf`", ask, true);
}

#[test]
fn what_is_up_stays_whole_where_its_bpf_file_system_cannot_be_written() {
    let Some(_alone) = alone() else { return };
    let sleep = Background(Command::new("sleep").arg("60").spawn().unwrap());
    let pid = sleep.pid().to_string();
    let ask = |args: &[&str]| within("mount -o remount,bind,ro /sys/fs/bpf", args);
    let told = |args: &[&str]| {
        let output = ask(args);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        let (cause, remedy) =
            ("cannot write /sys/fs/bpf/imtcp: Read-only", "remount,rw /sys/fs/bpf");
        assert!(said.contains(cause) && said.contains(remedy), "{args:?}: {said}");
    };
    let unit = Unit::new();
    told(&["doctor"]);
    told(&["attach", "--cgroup", unit.path()]);
    imtcp_ok(&["attach", "--pid", &pid]);
    let before = imtcp_ok(&["status"]);
    told(&["detach", "--all"]);
    told(&["down"]);
    told(&["up", "--force"]);
    let without_time = |status: &str| {
        let lines = status.lines().filter(|line| !line.contains("up since"));
        lines.map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(without_time(&imtcp_ok(&["status"])), without_time(&before));
    imtcp_ok(&["detach", "--pid", &pid]);
    imtcp_ok(&["down"]);
}

#[test]
fn what_is_attached_stays_so_where_its_cgroups_cannot_be_seen() {
    let Some(_alone) = alone() else { return };
    let sleep = Background(Command::new("sleep").arg("60").spawn().unwrap());
    let (pid, unit) = (sleep.pid().to_string(), Unit::new());
    imtcp_ok(&["attach", "--pid", &pid]);
    imtcp_ok(&["attach", "--cgroup", unit.path()]);
    let before = cgroups_left();
    let mount = imtcp::cgroup::mount().unwrap();
    // The host's /proc, to see the process.
    let ask = |args: &[&str]| {
        let script = format!("umount -l {} && exec \"$0\" \"$@\"", mount.display());
        let unshare = ["--mount", "sh", "-c", &script, &IMTCP];
        Command::new("unshare").args(unshare).args(args).output().unwrap()
    };
    let status = text(&ask(&["status"]).stdout);
    let told = "what it covers cannot be seen from here: cgroup version 2 is not mounted: mount it";
    assert_eq!(status.matches(told).count(), 2, "{status}");
    for args in [&["detach", "--all"][..], &["detach", "--pid", &pid], &["down"]] {
        let output = ask(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains(" stays attached: cgroup version 2 is not mounted: "), "{said}");
    }
    assert_eq!(cgroups_left(), before);
    let status = json(&imtcp_ok(&["status", "--json"]));
    for attachment in status["attachments"].as_array().unwrap() {
        let (in_sight, in_force) = (&attachment["in_sight"], &attachment["in_force"]);
        assert_eq!((in_sight, in_force), (&true.into(), &true.into()), "{status}");
    }
    // The process ends unseen: who sees the cgroups tidies up.
    drop(sleep);
    ask(&["run", "true"]);
    assert_eq!(cgroups_left(), before);
    imtcp_ok(&["up"]);
    assert_eq!(cgroups_left(), Vec::<PathBuf>::new());
    imtcp_ok(&["detach", "--all"]);
    imtcp_ok(&["down"]);
}

#[test]
fn the_proc_of_another_pid_namespace_is_told() {
    let Some(_alone) = alone() else { return };
    let sleep = Background(Command::new("sleep").arg("60").spawn().unwrap());
    let ask = |args: &[&str]| {
        let unshare = ["--pid", "--fork", &IMTCP];
        Command::new("unshare").args(unshare).args(args).output().unwrap()
    };
    let cause = "/proc is that of another pid namespace";
    all_say(cause, "mount -t proc proc /proc", ask, true);
    let output = ask(&["attach", "--pid", &sleep.pid().to_string()]);
    assert!(text(&output.stderr).contains(cause), "{output:?}");
}

#[test]
fn without_proc_that_is_all_that_is_said() {
    let Some(_alone) = alone() else { return };
    let ask = |args: &[&str]| within("mount -t tmpfs none /proc", args);
    all_say("/proc is not mounted", "mount -t proc proc /proc", ask, true);
    assert_eq!(text(&ask(&["doctor"]).stdout).lines().count(), 3);
}

/// A cgroup with a sock_ops program that lets no other be below it.
struct Taken(PathBuf);

impl Taken {
    fn new() -> Self {
        let name = format!("imtcp-test-{}", std::process::id());
        let dir = imtcp::cgroup::mount().unwrap().join(name);
        fs::create_dir(&dir).unwrap();
        // SAFETY: both calls read attributes of the sizes given, and what those point to.
        unsafe {
            // r0 = 1; exit
            let program: [u64; 2] = [0x0000_0001_0000_00b7, 0x95];
            // BPF_PROG_LOAD, of type sock_ops.
            let load = LoadAttributes {
                kind: 13,
                count: 2,
                instructions: program.as_ptr(),
                licence: c"GPL".as_ptr(),
                rest: [0; 12],
            };
            let size = std::mem::size_of::<LoadAttributes>();
            let loaded = libc::syscall(libc::SYS_bpf, 5, &load, size);
            assert!(loaded >= 0, "{}", std::io::Error::last_os_error());
            // BPF_PROG_ATTACH: where, what, as sock_ops, without BPF_F_ALLOW_MULTI.
            let cgroup = File::open(&dir).unwrap();
            let attach = [cgroup.as_raw_fd() as u32, loaded as u32, 3, 0];
            let done = libc::syscall(libc::SYS_bpf, 8, &attach, 16);
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            libc::close(loaded as i32);
        }
        Taken(dir)
    }
}

#[repr(C)]
struct LoadAttributes {
    kind: u32,
    count: u32,
    instructions: *const u64,
    licence: *const libc::c_char,
    rest: [u64; 12],
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = imtcp::cgroup::remove(&self.0, &imtcp::cgroup::mount().unwrap());
    }
}

#[test]
fn a_program_that_lets_no_other_be_below_it_is_named() {
    let Some(_alone) = alone() else { return };
    let taken = Taken::new();
    let dir = taken.0.display();
    for state in ["up", "down"] {
        imtcp_ok(&[state]);
        let script = format!("echo $$ >{dir}/cgroup.procs && exec \"$0\" \"$@\"");
        let ask = |args: &[&str]| {
            Command::new("sh").args(["-c", &script, &IMTCP]).args(args).output().unwrap()
        };
        let cause = format!("on {dir} lets no other be below it");
        all_say(&cause, &format!("bpftool cgroup detach {dir} sock_ops id "), ask, false);
        let attach = ask(&["attach", "--cgroup", dir.to_string().as_str()]);
        let said = text(&attach.stderr);
        assert!(!attach.status.success() && said.contains(&cause), "{said}");
        let status = imtcp(&["status"]);
        assert_eq!(status.status.code(), Some(if state == "up" { 0 } else { 3 }));
    }
}
