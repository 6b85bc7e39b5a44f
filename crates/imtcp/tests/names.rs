// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Names that others choose: of processes, mount points and cgroups. One byte that is no text hides nothing, and
//! none commands a terminal.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use imtcp_test_support::subject::Subject;
use imtcp_test_support::*;

/// A subject whose process has this name.
const NAMED: &str = r#"
import ctypes, socket, sys
ctypes.CDLL(None).prctl(15, b"b\xff\x1b[2J", 0, 0, 0)
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
name = lambda: s.getsockopt(6, 13, 16).split(b'\0')[0].decode()
print('ready', flush=True)
for line in sys.stdin:
    print(name(), flush=True)
"#;

fn named(net: &Net) -> Option<Subject> {
    let (host, port) = net.peer();
    Subject::of_program(net, NAMED, &[&host, &port])
}

#[test]
fn a_process_whose_name_is_no_text_is_covered_as_any_other() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = named(&net) else { return };
    let before = subject.tell("look");
    let done = json(&imtcp_ok(&["attach", "--json", "--pid", &subject.pid()]));
    assert_eq!((&done["processes"], &done["sockets"]), (&1.into(), &1.into()), "{done}");
    assert_eq!(subject.tell("look"), ["imtcp_bg"]);
    let status = imtcp_ok(&["status"]);
    assert!(status.contains(&format!("process {} (b", subject.pid())), "{status}");
    assert!(status.contains(": bg, no limits; 1 process") && !status.contains('\x1b'), "{status}");
    imtcp_ok(&["detach", "--pid", &subject.pid()]);
    assert_eq!(subject.tell("look"), before);
    let unit = Unit::new();
    imtcp::cgroup::move_pid(subject.child.pid(), &unit.0).unwrap();
    imtcp_ok(&["attach", "--cgroup", unit.path()]);
    assert_eq!(subject.tell("look"), ["imtcp_bg"]);
    imtcp_ok(&["detach", "--all"]);
}

#[test]
fn a_mount_point_whose_name_is_no_text_stops_nothing() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    let point = scratch.path("").join(OsStr::from_bytes(b"m\xff"));
    fs::create_dir(&point).unwrap();
    let line = "mount -t tmpfs x \"$1\" && exec \"$0\" run -q -- true";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", line, IMTCP.as_str()]).arg(&point);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn cgroups_of_strange_names_are_covered_or_refused_with_the_reason() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    let unit = Unit::new();
    let of = |name: &[u8]| unit.0.join(OsStr::from_bytes(name));
    for (name, is_fine) in [(&b"..x"[..], true), (b"y\xffz", false), (b"z\x1b[2J", true)] {
        fs::create_dir(of(name)).unwrap();
        imtcp::cgroup::move_pid(subject.child.pid(), &of(name)).unwrap();
        let output = imtcp(&["attach", "--pid", &subject.pid()]);
        let said = text(&output.stderr) + &text(&output.stdout);
        assert!(!said.contains('\x1b'), "{said:?}");
        assert_eq!(output.status.success(), is_fine, "{said}");
        if is_fine {
            assert_eq!(subject.tell("look")[0], "imtcp_bg");
        } else {
            assert!(
                said.contains(" is no text (UTF-8), and imtcp could not find it again"),
                "{said}"
            );
        }
        imtcp_ok(&["detach", "--all"]);
        assert_eq!(fs::read_dir("/run/imtcp/attachments").unwrap().count(), 0);
    }
}

#[test]
fn what_status_recommends_for_a_cgroup_of_a_strange_name_is_one_word_of_a_shell() {
    let Some(_alone) = alone() else { return };
    let unit = Unit::new();
    let detach_of_removed = |name: &str| {
        let dir = unit.0.join(name);
        fs::create_dir(&dir).unwrap();
        imtcp_ok(&["attach", "--cgroup", dir.to_str().unwrap()]);
        fs::remove_dir(&dir).unwrap();
        let status = imtcp_ok(&["status"]);
        let (_, recipe) = status.split_once(": it was removed (`").expect(&status);
        recipe.split_once("` ").unwrap().0.to_string()
    };
    let scratch = Scratch::new();
    let recipe = detach_of_removed("x;touch pwned 'y");
    let line = recipe.replacen("imtcp", &IMTCP, 1);
    let done = Command::new("sh").args(["-c", &line]).current_dir(scratch.path(".")).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{line}: {done:?}");
    assert_eq!(fs::read_dir(scratch.path(".")).unwrap().count(), 0, "{line}");
    assert_eq!(json(&imtcp_ok(&["status", "--json"]))["attachments"], serde_json::json!([]));
    assert_eq!(detach_of_removed("z\x1b[2J"), "imtcp detach");
    imtcp_ok(&["detach", "--all"]);
}

#[test]
fn a_thread_of_the_kernel_is_named_as_that() {
    let Some(_alone) = alone() else { return };
    let output = imtcp(&["attach", "--pid", "2"]);
    let said = text(&output.stderr);
    let of_kernel =
        said.contains("process 2 is a thread of the kernel") || said.contains("no process 2");
    assert!(output.status.code() == Some(1) && of_kernel, "{said}");
}

#[test]
fn a_command_of_one_word_with_blanks_is_understood_as_that() {
    let Some(_alone) = alone() else { return };
    let output = imtcp(&["run", "--", "rsync -a x y"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("leave out the quotes"), "{}", text(&output.stderr));
}

#[test]
fn who_waits_for_another_command_says_so_and_status_does_not_wait() {
    let Some(_alone) = alone() else { return };
    imtcp_ok(&["up"]);
    let holder = Command::new("flock").args(["/run/imtcp/lock", "sleep", "4"]).spawn();
    let Ok(holder) = holder else { return skip("flock is not there") };
    let _holder = Background(holder);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let began = std::time::Instant::now();
    imtcp_ok(&["status"]);
    assert!(began.elapsed().as_secs() < 2, "it waited");
    let output = imtcp(&["run", "-q", "--", "true"]);
    assert!(output.status.success());
    let told = "imtcp: waiting for another imtcp command, which changes something\n";
    assert_eq!(text(&output.stderr), told);
}
