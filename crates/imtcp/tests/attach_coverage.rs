// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What an attachment covers, and what it does not any more or never reached: `status` and `attach` tell.

use std::process::{Command, Output};

use imtcp_test_support::subject::Subject;
use imtcp_test_support::*;

fn only_attachment() -> serde_json::Value {
    let status = json(&imtcp_ok(&["status", "--json"]));
    let all = status["attachments"].as_array().unwrap();
    assert_eq!(all.len(), 1, "{status}");
    all[0].clone()
}

#[test]
fn a_cgroup_that_was_made_anew_is_not_covered_until_it_is_attached_again() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    let before = subject.tell("look")[0].clone();
    let unit = Unit::new();
    let attach = ["attach", "--cgroup", unit.path()];
    imtcp_ok(&attach);
    assert_eq!(only_attachment()["in_force"], true);

    unit.make_anew();
    imtcp::cgroup::move_pid(subject.child.pid(), &unit.0).unwrap();
    assert_eq!(subject.tell("connect")[1], before, "nothing covers it");
    imtcp_ok(&["up"]);
    let status = imtcp_ok(&["status"]);
    let told = "covers nothing any more: it was removed and made anew, as when a unit restarts: \
                `imtcp attach --cgroup ";
    assert!(status.contains(told), "{status}");
    let told = only_attachment();
    assert_eq!((&told["replaced"], &told["in_force"]), (&true.into(), &false.into()), "{told}");

    let output = imtcp(&attach);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(" is another cgroup than the one that was attached"), "{said}");
    assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"]);
    let told = only_attachment();
    assert_eq!((&told["replaced"], &told["in_force"]), (&false.into(), &true.into()), "{told}");
    assert_eq!(told["processes"], 1, "{told}");

    // Gone altogether: a name relative to the mount is enough to detach it.
    imtcp::cgroup::move_pid(subject.child.pid(), &imtcp::cgroup::mount().unwrap()).unwrap();
    eventually("the cgroup goes", || std::fs::remove_dir(&unit.0).is_ok());
    let status = imtcp_ok(&["status"]);
    assert!(
        status.contains("covers nothing any more: it was removed (`imtcp detach --cgroup "),
        "{status}"
    );
    imtcp_ok(&["detach", "--cgroup", unit.0.file_name().unwrap().to_str().unwrap()]);
    assert_eq!(json(&imtcp_ok(&["status", "--json"]))["attachments"], serde_json::json!([]));
    assert_eq!(subject.tell("look")[..2], [before.clone(), before]);
}

#[test]
fn a_process_that_was_moved_is_told_and_taken_where_it_is_when_attached_again() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    let before = subject.tell("look")[0].clone();
    let unit = Unit::new();
    imtcp_ok(&["attach", "--pid", &subject.pid()]);
    imtcp::cgroup::move_pid(subject.child.pid(), &unit.0).unwrap();
    assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", before.as_str()]);
    let status = imtcp_ok(&["status"]);
    assert!(
        status.contains("covers no new connections: it was moved to another cgroup"),
        "{status}"
    );
    let told = only_attachment();
    assert_eq!((&told["moved_away"], &told["in_force"]), (&true.into(), &false.into()), "{told}");

    imtcp_ok(&["attach", "--pid", &subject.pid()]);
    assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"]);
    let told = only_attachment();
    assert_eq!((&told["moved_away"], &told["in_force"]), (&false.into(), &true.into()), "{told}");
    let dir = imtcp::cgroup::of_pid(subject.child.pid()).unwrap();
    assert!(dir.starts_with(&unit.0), "within what it was moved to: {dir:?}");
    imtcp_ok(&["detach", "--all"]);
    assert_eq!(imtcp::cgroup::of_pid(subject.child.pid()).unwrap(), unit.0);
    assert!(cgroups_left().is_empty());
}

/// A shell and a child of it, and the child's pid.
fn shell_with_child() -> (Background, i32) {
    let shell = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
    let shell = Background(shell);
    let child = || imtcp_common::procfs::tree(shell.pid()).into_iter().find(|p| *p != shell.pid());
    eventually("it has a child", || child().is_some());
    let child = child().unwrap();
    (shell, child)
}

fn kill(pid: i32) {
    // SAFETY: a process of this test.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[test]
fn a_child_that_was_moved_is_told_and_taken_again() {
    let Some(_alone) = alone() else { return };
    let (shell, child) = shell_with_child();
    let unit = Unit::new();
    let pid = shell.pid().to_string();
    imtcp_ok(&["attach", "--pid", &pid]);
    assert_eq!(only_attachment()["processes"], 2);
    imtcp::cgroup::move_pid(child, &unit.0).unwrap();
    let status = imtcp_ok(&["status"]);
    let told = "does not cover new connections of 1 of its 2 processes, which were moved";
    assert!(status.contains(told), "{status}");
    let told = only_attachment();
    assert_eq!(
        (&told["processes"], &told["processes_elsewhere"]),
        (&1.into(), &1.into()),
        "{told}"
    );
    assert_eq!((&told["moved_away"], &told["in_force"]), (&false.into(), &true.into()), "{told}");
    imtcp_ok(&["attach", "--pid", &pid]);
    assert_eq!(only_attachment()["processes_elsewhere"], 0);
    imtcp_ok(&["detach", "--all"]);
    kill(child);
}

/// A process of this very number, which sleeps.
fn process_with_pid(pid: i32) -> std::io::Result<()> {
    let path = c"/bin/sleep";
    let args = [path.as_ptr(), c"60".as_ptr(), std::ptr::null()];
    // SAFETY: clone_args are integers. The child, whose memory is its own, does nothing but exec.
    unsafe {
        let mut clone: libc::clone_args = std::mem::zeroed();
        clone.exit_signal = libc::SIGCHLD as u64;
        clone.set_tid = &raw const pid as u64;
        clone.set_tid_size = 1;
        match libc::syscall(libc::SYS_clone3, &raw const clone, size_of_val(&clone)) {
            0 => {
                libc::execv(path.as_ptr(), args.as_ptr());
                libc::_exit(127)
            }
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_pid_that_is_used_again_is_another_process() {
    let Some(_alone) = alone() else { return };
    let (shell, orphan) = shell_with_child();
    let pid = shell.pid();
    imtcp_ok(&["attach", "--pid", &pid.to_string()]);
    // Another start than that of the one before, which the kernel counts in hundredths of a second.
    std::thread::sleep(std::time::Duration::from_millis(50));
    drop(shell);
    if let Err(e) = process_with_pid(pid) {
        skip(format_args!("clone3 with a chosen pid: {e}"));
        kill(orphan);
        imtcp_ok(&["detach", "--all"]);
        return;
    }
    let status = imtcp_ok(&["status"]);
    let told = format!("it has ended, and {pid} is another process now; covers 1 process that it");
    assert!(status.contains(&told), "{status}");
    kill(orphan);
    eventually("what it had started has ended", || !imtcp_common::procfs::is_alive(orphan));
    let status = imtcp_ok(&["status"]);
    assert!(status.contains("covers nothing any more: it has ended, and "), "{status}");
    let told = only_attachment();
    assert_eq!((&told["replaced"], &told["in_force"]), (&true.into(), &false.into()), "{told}");

    imtcp_ok(&["attach", "--pid", &pid.to_string()]);
    let told = only_attachment();
    assert_eq!((&told["replaced"], &told["processes"]), (&false.into(), &1.into()), "{told}");
    imtcp_ok(&["detach", "--pid", &pid.to_string()]);
    kill(pid);
    // SAFETY: a child of this test.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

/// `imtcp` whose pidfd_getfd is refused, as by Yama.
fn without_pidfd_getfd(args: &[&str]) -> Output {
    use std::os::unix::process::CommandExt;
    let code = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    // Where it is that system call, EPERM; else all is allowed. The number is the first word.
    let filter = [
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_pidfd_getfd as u32),
        code(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        code(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let mut command = Command::new(&*IMTCP);
    // SAFETY: one system call; the filter lives in the closure.
    unsafe {
        command.args(args).pre_exec(move || {
            let program =
                libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
            match libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    command.output().unwrap()
}

#[test]
fn open_sockets_that_cannot_be_reached_are_counted_with_the_cause() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    let before = subject.tell("look")[0].clone();
    let attach = ["attach", "--json", "--pid", &subject.pid()];
    let output = without_pidfd_getfd(&attach);
    let (said, done) = (text(&output.stderr), json(&text(&output.stdout)));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("could not reach 2 open sockets ("), "{said}");
    assert!(said.contains("refuses pidfd_getfd") || said.contains("ptrace_scope"), "{said}");
    assert_eq!((&done["sockets"], &done["unreached_sockets"]), (&0.into(), &2.into()), "{done}");
    let status = imtcp_ok(&["status"]);
    assert!(status.contains("; when it was attached, imtcp could not reach 2 open "), "{status}");
    assert_eq!(subject.tell("connect")[..2], [before.as_str(), "imtcp_bg"]);
    // With the capability all are reached.
    imtcp_ok(&attach);
    assert_eq!(subject.tell("look")[0], "imtcp_bg");
    assert_eq!(only_attachment()["unreached_sockets"], 0);
    imtcp_ok(&["detach", "--all"]);
}

#[test]
fn without_cap_sys_ptrace_attach_and_doctor_name_it() {
    let Some(_alone) = alone() else { return };
    let sleep = Background(Command::new("sleep").arg("60").spawn().unwrap());
    let pid = sleep.pid().to_string();
    let without = |args: &[&str]| {
        let drop = ["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", IMTCP.as_str()];
        Command::new("setpriv").args(drop).args(args).output()
    };
    let Ok(output) = without(&["attach", "--pid", &pid]) else {
        skip("setpriv of util-linux is missing");
        return;
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let told = "imtcp: could not reach what 1 process opened (CAP_SYS_PTRACE is missing): ";
    assert!(said.starts_with(told), "{said}");
    let status = imtcp_ok(&["status"]);
    let told = "imtcp could not reach what 1 process opened (CAP_SYS_PTRACE is missing)";
    assert!(status.contains(told), "{status}");
    let told = only_attachment();
    assert_eq!(told["unreached_processes"], 1, "{told}");
    assert_eq!(told["unreached_because"], "CAP_SYS_PTRACE is missing", "{told}");
    let doctor = text(&without(&["doctor"]).unwrap().stdout);
    let told = |l: &str| l.starts_with("warn  open sockets") && l.contains("CAP_SYS_PTRACE");
    assert!(doctor.lines().any(told), "{doctor}");
    imtcp_ok(&["detach", "--all"]);
}

const IPPROTO_MPTCP: i32 = 262;
const MULTIPATH_SERVER: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
s.bind(('127.0.0.1', 0))
s.listen()
print(s.getsockname()[1], flush=True)
c = s.accept()[0]
while c.recv(65536): pass
"#;

#[test]
fn multipath_connections_that_are_open_get_the_limits_and_that_later_ones_do_not_is_said() {
    use std::io::BufRead;
    let Some(_alone) = alone() else { return };
    if !std::path::Path::new("/proc/sys/net/mptcp/enabled").exists() {
        skip("this kernel has no multipath TCP");
        return;
    }
    let net = Net::new();
    let server = net
        .command("python3")
        .args(["-c", MULTIPATH_SERVER])
        .stdout(std::process::Stdio::piped())
        .spawn();
    let Ok(mut server) = server else {
        skip("python3 is missing");
        return;
    };
    let mut port = String::new();
    std::io::BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let _server = Background(server);
    let peer = ("127.0.0.1".to_string(), port.trim().to_string());
    let Some(mut subject) = Subject::with_protocol(&net, &peer, IPPROTO_MPTCP) else { return };
    let output = imtcp(&["attach", "--pid", &subject.pid(), "--max-rate", "5M"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("1 connection of multipath TCP: the limits hold for the paths"),
        "{said}"
    );
    assert_eq!(subject.tell("send")[0], "imtcp_bg");
    let to = peer.0 + ":" + &peer.1;
    let subflows: Vec<_> = connections(&to).into_iter().filter(|c| c["dst"] == to).collect();
    assert_eq!(subflows.len(), 1, "{subflows:?}");
    assert_eq!(subflows[0]["policy"], only_attachment()["policy"], "{subflows:?}");
    imtcp_ok(&["detach", "--all"]);
    assert!(!subject.tell("look")[0].starts_with("imtcp"));
}

#[test]
fn of_a_cgroup_with_a_long_name_the_gap_is_told_all_the_same() {
    let Some(_alone) = alone() else { return };
    let unit = Unit::new();
    let dir = unit.0.join("a".repeat(250)).join("b".repeat(250));
    std::fs::create_dir_all(&dir).unwrap();
    imtcp_ok(&["attach", "--cgroup", dir.to_str().unwrap()]);
    std::fs::remove_dir(&dir).unwrap();
    std::fs::create_dir(&dir).unwrap();
    let status = imtcp_ok(&["status"]);
    let row = status.lines().find(|l| l.contains("bbb")).unwrap();
    assert!(row.contains("covers nothing any more: it was removed and made anew"), "{row}");
    assert!(row.contains(" takes it off this list)") && row.contains('…'), "{row}");
    imtcp_ok(&["detach", "--all"]);
}

/// Has one connection, and chooses the control that it is told.
const CHOOSES: &str = r#"
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.sendall(bytes(1000))
print('ready', flush=True)
for line in sys.stdin:
    word, *name = line.split()
    if word == 'choose':
        s.setsockopt(6, 13, name[0].encode())
    print(s.getsockopt(6, 13, 16).split(b'\0')[0].decode(), flush=True)
"#;

#[test]
fn a_connection_that_chose_another_control_is_told_until_it_is_attached_again() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let Some(mut subject) = Subject::of_program(&net, CHOOSES, &[&host, &port]) else { return };
    let attach = ["attach", "--pid", &subject.pid(), "--max-rate", "1M"];
    let told = "; 1 connection chose another congestion control, not held back";
    // The second is ours, and holds nothing back.
    for control in ["reno", "imtcp"] {
        imtcp_ok(&attach);
        assert_eq!(subject.tell("look"), ["imtcp_bg"]);
        assert_eq!(only_attachment()["left_connections"], 0);
        let status = imtcp_ok(&["status"]);
        assert!(!status.contains("chose another"), "{status}");
        assert_eq!(subject.tell(&format!("choose {control}")), [control]);
        assert_eq!(only_attachment()["left_connections"], 1, "{control}");
        let status = imtcp_ok(&["status"]);
        assert!(status.contains(told), "{status}");
    }
    imtcp_ok(&["detach", "--all"]);
}
