// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Sockets that no descriptor of the process's first thread leads to: attached, or told.

use imtcp_test_support::subject::Subject;
use imtcp_test_support::*;

/// A thread of it has the connection: in a table of descriptors of its own, alone since the first thread
/// has ended, registered with io_uring and closed, or in a message of a Unix socket. "take" receives that.
const PROGRAM: &str = r#"
import ctypes, os, socket, sys, threading
how, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
libc = ctypes.CDLL(None)
def connect():
    s = socket.create_connection((host, port))
    s.sendall(bytes(1000))
    return s
def name(s):
    return s.getsockopt(6, 13, 16).split(b'\0')[0].decode()
def register(s):
    IO_URING_SETUP, IO_URING_REGISTER, IORING_REGISTER_FILES = 425, 427, 2
    ring = libc.syscall(IO_URING_SETUP, 4, ctypes.create_string_buffer(120))
    held = ctypes.c_int(s.fileno())
    if libc.syscall(IO_URING_REGISTER, ring, IORING_REGISTER_FILES, ctypes.byref(held), 1):
        print('io_uring is not allowed', flush=True)
        os._exit(0)
    s.close()
def send_to_itself(s):
    pair = socket.socketpair(socket.AF_UNIX)
    socket.send_fds(pair[0], [b'x'], [s.fileno()])
    s.close()
    return pair
def received(pair):
    return socket.socket(fileno=socket.recv_fds(pair[1], 1, 1)[1][0])
def work():
    CLONE_FILES = 0x400
    if how == 'own table' and libc.unshare(CLONE_FILES):
        print('unshare is not allowed', flush=True)
        os._exit(0)
    s = connect()
    if how == 'io_uring':
        register(s)
    print('ready', flush=True)
    for line in sys.stdin:
        if line.strip() == 'send':
            pair = send_to_itself(connect())
        if line.strip() == 'take':
            s = received(pair)
        print(name(s), name(connect()), flush=True)
thread = threading.Thread(target=work)
thread.start()
if how == 'ended':
    EXIT = {'x86_64': 60}.get(os.uname().machine, 93)
    libc.syscall(EXIT, 0)
thread.join()
"#;

fn subject(net: &Net, how: &str) -> Option<Subject> {
    let (host, port) = net.peer();
    Subject::of_program(net, PROGRAM, &[how, &host, &port])
}

/// The old connection and a new one are covered, and given back.
fn both_are_taken_and_given_back(how: &str) {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = subject(&net, how) else { return };
    let before = subject.tell("look");
    let said = imtcp_ok(&["attach", "--pid", &subject.pid()]);
    assert!(said.contains("1 process, 1 open socket;"), "{said}");
    assert_eq!(subject.tell("look"), ["imtcp_bg", "imtcp_bg"]);
    let told = &json(&imtcp_ok(&["status", "--json"]))["attachments"][0];
    assert_eq!((&told["ended"], &told["processes"]), (&false.into(), &1.into()), "{told}");
    assert_eq!(told["in_force"], true, "{told}");
    imtcp_ok(&["detach", "--pid", &subject.pid()]);
    assert_eq!(subject.tell("look"), before);
    assert!(cgroups_left().is_empty());
}

#[test]
fn a_thread_with_its_own_table_of_descriptors_is_reached() {
    both_are_taken_and_given_back("own table");
}

#[test]
fn a_process_lives_while_a_thread_of_it_does() {
    both_are_taken_and_given_back("ended");
}

#[test]
fn a_socket_that_only_io_uring_holds_is_told() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(subject) = subject(&net, "io_uring") else { return };
    let output = imtcp(&["attach", "--pid", &subject.pid()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let told = "could not reach 1 open socket (io_uring holds them without a descriptor)";
    assert!(said.contains(told), "{said}");
    let status = imtcp_ok(&["status"]);
    assert!(status.contains(told), "{status}");
    imtcp_ok(&["detach", "--all"]);
}

#[test]
fn a_connection_that_waits_for_accept_is_told_and_taken_after_it() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(mut subject) = Subject::start(&net) else { return };
    let before = subject.tell("look")[0].clone();
    let _waiting = net.connect_from_server(format!("{CLIENT}:7778").parse().unwrap()).unwrap();
    let attach = ["attach", "--pid", &subject.pid()];
    let output = imtcp(&attach);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let told = "could not reach 1 open socket (a listener has not handed them to its program yet";
    assert!(said.contains(told), "{said}");
    assert_eq!(subject.tell("accept")[3], before);
    imtcp_ok(&attach);
    assert_eq!(subject.tell("look")[3], "imtcp_bg");
    imtcp_ok(&["detach", "--all"]);
}

#[test]
fn a_socket_that_a_unix_socket_carries_is_told_and_taken_after_it_was_received() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let unit = Unit::new();
    let Some(mut subject) = subject(&net, "in flight") else { return };
    imtcp::cgroup::move_pid(subject.child.pid(), &unit.0).unwrap();
    for target in [["--pid", &subject.pid()], ["--cgroup", unit.path()]] {
        subject.tell("send");
        let attach = ["attach", target[0], target[1], "--max-rate", "1M"];
        let output = imtcp(&attach);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let told = "could not reach 1 open socket (no process has a descriptor of them, as of one ";
        assert!(said.contains(told), "{said}");
        let status = imtcp_ok(&["status"]);
        assert!(status.contains(told), "{status}");
        assert_ne!(subject.tell("take")[0], "imtcp_bg");
        imtcp_ok(&attach);
        assert_eq!(subject.tell("look")[0], "imtcp_bg");
        imtcp_ok(&["detach", "--all"]);
    }
}

#[test]
fn a_socket_that_a_unix_socket_carries_in_another_cgroup_is_none_of_an_attachments() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let (unit, other) = (Unit::new(), Unit::new());
    let Some(mut subject) = subject(&net, "in flight") else { return };
    imtcp::cgroup::move_pid(subject.child.pid(), &other.0).unwrap();
    subject.tell("send");
    imtcp_ok(&["attach", "--cgroup", unit.path()]);
    imtcp_ok(&["detach", "--all"]);
    // A socket that it has already needs nothing either.
    subject.tell("take");
    imtcp_ok(&["attach", "--cgroup", other.path()]);
    subject.tell("send");
    imtcp_ok(&["attach", "--cgroup", other.path(), "--max-rate", "1M"]);
    imtcp_ok(&["detach", "--all"]);
}
