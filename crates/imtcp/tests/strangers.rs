// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Programs of others stop no command: those that keep a socket locked, those in many namespaces, and units without
//! room for another process.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use imtcp_test_support::subject::Subject;
use imtcp_test_support::*;

/// Mounts a file whose pages never come, and has a child send from it: the kernel waits, with the socket's lock. The
/// end of the process that should answer is the end of the wait, so the child must not have its descriptor.
const LOCKER: &str = r#"
import ctypes, os, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
where, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
fuse = os.open('/dev/fuse', os.O_RDWR)
options = f'fd={fuse},rootmode=40000,user_id=0,group_id=0'.encode()
if libc.mount(b'fuse', where.encode(), b'fuse', 0, options):
    print('FUSE:', os.strerror(ctypes.get_errno()), flush=True)
    sys.exit(1)
def attributes(inode, mode, size):
    return struct.pack('<QQQQQQIIIIIIIIII', inode, size, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
def send():
    os.close(fuse)
    libc.prctl(1, 9)
    file = os.open(where + '/f', os.O_RDONLY)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    page = libc.mmap(None, 1 << 20, 1, 2, file, 0)
    s = socket.create_connection((host, port))
    libc.send.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.send(s.fileno(), page, 4096, 0)
    os._exit(0)
if os.fork() == 0:
    send()
while True:
    request = os.read(fuse, 1 << 17)
    _, operation, unique, node = struct.unpack('<IIQQ', request[:24])
    def answer(body=b'', error=0):
        os.write(fuse, struct.pack('<IiQ', 16 + len(body), error, unique) + body)
    file = attributes(2, 0o100644, 1 << 20)
    if operation == 26:
        answer(struct.pack('<IIIIHHIIHHI7I', 7, 31, 65536, 0, 12, 10, 65536, 1, *[0] * 10))
    elif operation == 1:
        answer(struct.pack('<QQQQII', 2, 1, 60, 60, 0, 0) + file)
    elif operation == 3:
        answer(struct.pack('<QII', 60, 0, 0) + (attributes(1, 0o40755, 0) if node == 1 else file))
    elif operation == 14:
        answer(struct.pack('<QII', 1, 0, 0))
    elif operation == 15:
        print('locked', flush=True)
    elif operation not in (2, 42):
        answer(error=-38)
"#;

/// Keeps a socket in the client's namespace locked. `None` where this machine has no FUSE.
fn locker(net: &Net, scratch: &Scratch) -> Option<Background> {
    let mount = scratch.path("mount");
    fs::create_dir_all(&mount).unwrap();
    let (host, port) = net.peer();
    let mut command = net.command("unshare");
    command.args(["-m", "python3", "-c", LOCKER, mount.to_str().unwrap(), &host, &port]);
    let mut child = Background(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    if said.trim() == "locked" {
        return Some(child);
    }
    skip(format_args!("no socket can be kept locked here: {said}"));
    None
}

/// A command that must end within so long. One that the kernel does not let go is left to it.
#[track_caller]
fn ends_within(most: Duration, mut command: Command) -> Output {
    let out = Scratch::new();
    let (stdout, stderr) = (out.path("out"), out.path("err"));
    command.stdin(Stdio::null());
    command.stdout(fs::File::create(&stdout).unwrap()).stderr(fs::File::create(&stderr).unwrap());
    let mut child: Child = command.spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > most {
            let _ = child.kill();
            panic!("{command:?} has not ended within {most:?}: {}", read(&stderr));
        }
        thread::sleep(Duration::from_millis(10));
    };
    Output { status, stdout: fs::read(stdout).unwrap(), stderr: fs::read(stderr).unwrap() }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn imtcp_with(args: &[&str]) -> Command {
    let mut command = Command::new(&*IMTCP);
    command.args(args);
    command
}

/// The least is a second for each of three children; the machine may be busy.
const SOON: Duration = Duration::from_secs(30);

fn move_out(subject: &Subject) {
    let root = imtcp::cgroup::mount().unwrap();
    imtcp::cgroup::move_pid(subject.child.pid(), &root).unwrap();
}

#[test]
fn a_program_that_keeps_a_socket_locked_stops_no_command_of_others() {
    let Some(_alone) = alone() else { return };
    let (net, unit, scratch) = (Net::new(), Unit::new(), Scratch::new());
    let Some(mut subject) = Subject::start(&net) else { return };
    let before = subject.tell("look")[0].clone();
    imtcp::cgroup::move_pid(subject.child.pid(), &unit.0).unwrap();
    imtcp_ok(&["attach", "--cgroup", unit.path()]);
    assert_eq!(subject.tell("connect")[1], "imtcp_bg");
    let Some(locker) = locker(&net, &scratch) else { return drop(imtcp(&["detach", "--all"])) };
    let waits = imtcp_bpf::records::Records::open().unwrap().enters_namespaces();

    let run = ends_within(SOON, imtcp_with(&["run", "--", "sh", "-c", "exit 7"]));
    assert_eq!(run.status.code(), Some(7), "{}", text(&run.stderr));
    for args in [&["status"][..], &["watch", "--once"]] {
        let output = ends_within(SOON, imtcp_with(args));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(i32::from(waits)), "{args:?}: {said}");
        assert_eq!(said.contains("1 network namespace not looked at"), waits, "{args:?}: {said}");
    }
    let detach = ends_within(SOON, imtcp_with(&["detach", "--all"]));
    let said = text(&detach.stderr);
    assert_eq!(detach.status.code(), Some(1), "{said}");
    assert!(said.contains("1 network namespace not looked at"), "{said}");
    assert!(said.contains("keeps a TCP socket locked"), "{said}");
    drop(locker);
    imtcp_ok(&["detach", "--all"]);
    assert_eq!(subject.tell("look")[..2], [before.clone(), before]);
}

#[test]
fn a_socket_that_its_program_keeps_locked_is_told_by_attach_and_holds_nothing_up() {
    let Some(_alone) = alone() else { return };
    let (net, scratch) = (Net::new(), Scratch::new());
    let Some(locker) = locker(&net, &scratch) else { return };
    let pid = locker.pid().to_string();
    let attach = ends_within(SOON, imtcp_with(&["attach", "--pid", &pid]));
    let said = text(&attach.stderr);
    assert_eq!(attach.status.code(), Some(1), "{said}");
    assert!(
        said.contains("could not reach 1 open socket (their programs keep them locked"),
        "{said}"
    );
    let run = ends_within(SOON, imtcp_with(&["run", "-q", "--", "sh", "-c", "exit 7"]));
    assert_eq!(run.status.code(), Some(7), "{}", text(&run.stderr));
    ends_within(SOON, imtcp_with(&["detach", "--pid", &pid]));
    drop(locker);
    imtcp_ok(&["detach", "--all"]);
    assert!(cgroups_left().is_empty());
}

#[test]
fn a_detach_with_few_open_files_gives_back_what_is_in_many_namespaces() {
    let Some(_alone) = alone() else { return };
    // Before the subject: a command that opens all at once has no room for the last.
    let others: Vec<_> = (0..60)
        .map(|_| Background(Command::new("unshare").args(["-n", "sleep", "120"]).spawn().unwrap()))
        .collect();
    let (net, unit) = (Net::new(), Unit::new());
    let Some(mut subject) = Subject::start(&net) else { return };
    let before = subject.tell("look")[0].clone();
    imtcp_ok(&["attach", "--cgroup", unit.path()]);
    imtcp::cgroup::move_pid(subject.child.pid(), &unit.0).unwrap();
    assert_eq!(subject.tell("connect")[1], "imtcp_bg");
    move_out(&subject);
    let script = "ulimit -n 40; exec \"$0\" detach --all";
    let output = Command::new("sh").args(["-c", script, &*IMTCP]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(subject.tell("look")[1], before);
    drop(others);
}

/// A cgroup with a bound on its processes, of version 1 or 2.
struct Few {
    dir: PathBuf,
    _unit: Option<Unit>,
}

impl Few {
    fn new() -> Option<Self> {
        let version_1 = Path::new("/sys/fs/cgroup/pids");
        let few = if version_1.exists() {
            let dir = version_1.join(format!("imtcp-test-{}", std::process::id()));
            fs::create_dir(&dir).unwrap();
            Few { dir, _unit: None }
        } else {
            let mount = imtcp::cgroup::mount().unwrap();
            let _ = fs::write(mount.join("cgroup.subtree_control"), "+pids");
            let unit = Unit::new();
            Few { dir: unit.0.clone(), _unit: Some(unit) }
        };
        if !few.dir.join("pids.max").exists() {
            skip("no cgroup bounds processes here");
            return None;
        }
        Some(few)
    }

    /// imtcp where so many processes and threads may be.
    fn imtcp(&self, most: u32, args: &[&str]) -> Output {
        fs::write(self.dir.join("pids.max"), most.to_string()).unwrap();
        let procs = self.dir.join("cgroup.procs");
        let mut command = imtcp_with(args);
        // SAFETY: one file is opened and written.
        unsafe { command.pre_exec(move || fs::write(&procs, "0")) };
        ends_within(SOON, command)
    }
}

impl Drop for Few {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
    }
}

#[test]
fn where_no_process_can_be_made_each_command_says_so_and_leaves_nothing_half_done() {
    let Some(_alone) = alone() else { return };
    let Some(few) = Few::new() else { return };
    let (net, unit) = (Net::new(), Unit::new());
    let Some(mut subject) = Subject::start(&net) else { return };
    let before = subject.tell("look")[0].clone();
    imtcp::cgroup::move_pid(subject.child.pid(), &unit.0).unwrap();

    let run = few.imtcp(1, &["run", "--", "true"]);
    assert_eq!(run.status.code(), Some(125), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("cannot start a process"), "{}", text(&run.stderr));
    assert!(cgroups_left().is_empty());
    let run = few.imtcp(2, &["run", "--", "sh", "-c", "exit 7"]);
    assert_eq!(run.status.code(), Some(7), "{}", text(&run.stderr));
    assert!(cgroups_left().is_empty());

    imtcp_ok(&["attach", "--cgroup", unit.path()]);
    let detach = few.imtcp(1, &["detach", "--all"]);
    let said = text(&detach.stderr);
    assert_eq!(detach.status.code(), Some(1), "{said}");
    assert!(said.contains("stays attached"), "{said}");
    assert_eq!(subject.tell("connect")[..2], ["imtcp_bg", "imtcp_bg"], "all of it stays");
    imtcp_ok(&["detach", "--all"]);
    assert_eq!(subject.tell("connect")[..2], [before.clone(), before]);
}

#[test]
fn a_cgroup_whose_name_is_no_text_is_a_fault_of_rules_and_no_panic() {
    use std::os::unix::ffi::OsStrExt;
    let Some(_alone) = alone() else { return };
    let (unit, rules) = (Unit::new(), Scratch::new());
    let odd = unit.0.join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    fs::create_dir(&odd).unwrap();
    let name = unit.0.file_name().unwrap().to_str().unwrap();
    fs::write(rules.path("a.toml"), format!("cgroup = \"{name}/odd*\"\n")).unwrap();
    let dir = rules.path("");
    for command in ["list", "test"] {
        let output = imtcp(&["rules", command, "--json", "--dir", dir.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{command}: {}", text(&output.stderr));
        let said = json(&text(&output.stdout));
        assert_eq!(said["rules"][0]["targets"], serde_json::json!([]), "{said}");
        assert!(said["faults"].to_string().contains("is no text"), "{said}");
    }
    fs::remove_dir(odd).unwrap();
}

#[test]
fn without_room_for_open_files_nothing_is_taken_for_another_build() {
    let Some(_alone) = alone() else { return };
    for command in ["doctor", "status"] {
        let script = format!("ulimit -n 8; exec \"$0\" {command}");
        let output = Command::new("sh").args(["-c", &script, &*IMTCP]).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.contains("another build"), "{command}: {said}");
        assert!(said.contains("`ulimit -n 1024`"), "{command}: {said}");
    }
}

/// The BPF file system as a whole, for each mount of it, until this goes.
struct ReadOnly;

impl ReadOnly {
    fn new() -> Self {
        let done = Command::new("mount").args(["-o", "remount,ro", "/sys/fs/bpf"]).status();
        assert!(done.unwrap().success());
        ReadOnly
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = Command::new("mount").args(["-o", "remount,rw", "/sys/fs/bpf"]).status();
    }
}

#[test]
fn where_pins_cannot_be_written_each_command_says_what_to_do() {
    let Some(_alone) = alone() else { return };
    let _read_only = ReadOnly::new();
    let attach = &["attach", "--force", "--cgroup", "/"][..];
    for args in [&["status"][..], &["run", "--", "true"], &["watch", "--once"], attach] {
        let output = imtcp(args);
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{args:?}: {said}");
        assert!(said.contains("remount,rw /sys/fs/bpf`"), "{args:?}: {said}");
    }
}
