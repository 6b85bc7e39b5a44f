// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! How the packets of what yields are marked, who may change that, and how it ends. What queues do with it is tested in guests
//! (tests/test_marks.py).

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use imtcp_test_support::*;

/// For a test that needs Python. The lock is held for as long as the test lasts.
fn begin() -> Option<(Alone, Net)> {
    let alone = alone()?;
    python3_is_there().then(|| (alone, Net::new()))
}

/// A program that connects, sets options and says what its sockets have, as it is told.
struct Asked {
    process: Background,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Asked {
    fn start(net: &Net) -> Self {
        let (host, port) = net.peer();
        let script = format!(
            "import socket, sys\n\
             def connect(tos=0):\n\
             \x20   s = socket.socket(); s.setsockopt(0, 1, tos); s.connect(('{host}', {port}))\n\
             \x20   s.sendall(b'x'); return s\n\
             def tos(s): return s.getsockopt(0, 1)\n\
             for line in sys.stdin:\n\
             \x20   exec(line[1:]) if line[0] == '!' else print(eval(line), flush=True)\n"
        );
        let mut python = net.command("python3");
        python.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = python.spawn().unwrap();
        let (tell, hear) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Asked { process: Background(process), tell, hear: BufReader::new(hear) }
    }

    fn does(&mut self, statement: &str) {
        writeln!(self.tell, "!{statement}").unwrap();
    }

    fn says(&mut self, expression: &str) -> String {
        writeln!(self.tell, "{expression}").unwrap();
        let mut line = String::new();
        self.hear.read_line(&mut line).unwrap();
        line.trim().into()
    }

    fn pid(&self) -> String {
        self.process.pid().to_string()
    }
}

/// What the command's connection has at its end, which did all of `then` with it.
fn tos_in_a_run(net: &Net, options: &[&str], then: &str) -> String {
    let (host, port) = net.peer();
    let script = format!(
        "import socket\ns = socket.create_connection(('{host}', {port}))\n{then}\n\
         s.sendall(b'x')\nprint(s.getsockopt(0, 1))"
    );
    let output = net.run(&[options, &["-q", "--", "python3", "-c", &script]].concat());
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).trim().into()
}

#[test]
fn what_yields_has_lower_effort_and_what_shares_has_no_mark() {
    let Some((_alone, net)) = begin() else { return };
    let tos = |options: &[&str]| tos_in_a_run(&net, options, "");
    assert_eq!(tos(&[]), "4");
    assert_eq!(tos(&["--mode", "ledbat"]), "4");
    assert_eq!(tos(&["--mode", "measure"]), "0");
    assert_eq!(tos(&["--dscp", "none"]), "0");
    assert_eq!(tos(&["--dscp", "cs1"]), "32");
    assert_eq!(tos(&["--mode", "fs", "--dscp", "af11"]), "40");
}

#[test]
fn a_program_that_marks_its_packets_itself_does_not_undo_it_and_sees_no_error() {
    let Some((_alone, net)) = begin() else { return };
    let own = "s.setsockopt(0, 1, 0x48)\ns.setsockopt(1, 8, 65536)";
    assert_eq!(tos_in_a_run(&net, &[], own), "4");
    assert_eq!(tos_in_a_run(&net, &["--dscp", "none"], own), "72");
    // An option longer than a page is still the kernel's own to judge.
    let long =
        "try: s.setsockopt(0, 64, bytes(5000))\nexcept OSError as e: assert e.errno != 14, e";
    assert_eq!(tos_in_a_run(&net, &[], long), "4");
}

#[test]
fn a_connection_gets_back_its_mark_when_its_attachment_ends() {
    let Some((_alone, net)) = begin() else { return };
    let mut asked = Asked::start(&net);
    asked.does("before = connect(0x48)");
    assert_eq!(asked.says("tos(before)"), "72");
    imtcp_ok(&["attach", "--pid", &asked.pid()]);
    asked.does("plain = connect()");
    asked.does("marked = connect(0x48)");
    let all = "(tos(before), tos(plain), tos(marked))";
    let attached = asked.says(all);
    imtcp_ok(&["detach", "--all"]);
    let detached = asked.says(all);
    asked.does("after = connect()");
    let after = asked.says("tos(after)");
    // What is saved of a socket at a second `attach` is that it was imtcp's.
    imtcp_ok(&["attach", "--pid", &asked.pid()]);
    imtcp_ok(&["attach", "--pid", &asked.pid(), "--dscp", "cs1"]);
    let again = asked.says(all);
    asked.does("marked.setsockopt(6, 13, b'reno')");
    imtcp_ok(&["detach", "--all"]);
    let at_last = asked.says(all);
    asked.process.signal(libc::SIGKILL);
    assert_eq!((attached.as_str(), detached.as_str()), ("(4, 4, 4)", "(72, 0, 72)"));
    assert_eq!(after, "0");
    assert_eq!((again.as_str(), at_last.as_str()), ("(4, 4, 4)", "(72, 0, 72)"));
}

#[test]
fn what_a_run_has_left_has_its_own_mark_after_it_was_attached_and_detached() {
    let Some((_alone, net)) = begin() else { return };
    let scratch = Scratch::new();
    let (host, port) = net.peer();
    let said = scratch.path("said");
    let script = format!(
        "import os, socket, time\n\
         s = socket.socket(); s.setsockopt(0, 1, 0x48); s.connect(('{host}', {port}))\n\
         s.sendall(b'x')\n\
         if os.fork(): os._exit(0)\n\
         os.setsid(); os.close(1); os.close(2)\n\
         while True:\n\
         \x20   open('{0}.new', 'w').write(f\"{{os.getpid()}} {{s.getsockopt(0, 1)}}\")\n\
         \x20   os.rename('{0}.new', '{0}'); time.sleep(0.05)",
        said.display()
    );
    let output = net.run(&["-q", "--", "python3", "-c", &script]);
    assert!(output.status.success(), "{output:?}");
    let read = || std::fs::read_to_string(&said).unwrap_or_default();
    eventually("it goes on", || read().ends_with(" 4"));
    let pid = read().split(' ').next().unwrap().to_string();
    imtcp_ok(&["attach", "--pid", &pid]);
    imtcp_ok(&["detach", "--pid", &pid]);
    eventually("it has its own mark", || read().ends_with(" 72"));
    // SAFETY: our own grandchild.
    unsafe { libc::kill(pid.parse().unwrap(), libc::SIGKILL) };
}

#[test]
fn an_ipv4_connection_of_an_ipv6_listener_gets_back_both_of_its_marks() {
    let Some((_alone, net)) = begin() else { return };
    let mut asked = Asked::start(&net);
    imtcp_ok(&["attach", "--pid", &asked.pid()]);
    asked.does("l = socket.socket(socket.AF_INET6); l.setsockopt(0, 1, 0x48)");
    asked.does("l.setsockopt(41, 67, 0x20); l.bind(('::', 0)); l.listen()");
    asked
        .does("c = socket.create_connection(('127.0.0.1', l.getsockname()[1])); a = l.accept()[0]");
    imtcp_ok(&["detach", "--all"]);
    let back = asked.says("(tos(a), a.getsockopt(41, 67), tos(c))");
    asked.process.signal(libc::SIGKILL);
    assert_eq!(back, "(72, 32, 0)");
}

#[test]
fn a_socket_keeps_the_priority_that_its_program_chose() {
    let Some((_alone, net)) = begin() else { return };
    let mut asked = Asked::start(&net);
    imtcp_ok(&["attach", "--pid", &asked.pid(), "--priority", "none"]);
    asked.does("s = socket.socket(); s.setsockopt(1, 12, 6)");
    let (host, port) = net.peer();
    asked.does(&format!("s.connect(('{host}', {port}))"));
    let attached = asked.says("(tos(s), s.getsockopt(1, 12))");
    imtcp_ok(&["detach", "--all"]);
    let detached = asked.says("(tos(s), s.getsockopt(1, 12))");
    asked.process.signal(libc::SIGKILL);
    assert_eq!((attached.as_str(), detached.as_str()), ("(4, 6)", "(0, 6)"));
}

#[test]
fn in_a_run_within_a_run_a_program_does_not_undo_the_mark_either() {
    let Some((_alone, net)) = begin() else { return };
    let (host, port) = net.peer();
    let script = format!(
        "import socket\ns = socket.create_connection(('{host}', {port}))\n\
         s.setsockopt(0, 1, 0x48)\nprint(s.getsockopt(0, 1))"
    );
    let inner = ["-q", "--dscp", "cs1", "--", &IMTCP, "run", "-q", "--", "python3", "-c", &script];
    let output = net.run(&inner);
    assert_eq!(text(&output.stdout).trim(), "4", "{output:?}");
}

#[test]
fn options_that_the_kernel_refuses_are_refused_within_a_run_too() {
    let Some((_alone, net)) = begin() else { return };
    let then = "def refused(level, name, value):\n\
        \x20   try: s.setsockopt(level, name, value)\n\
        \x20   except OSError as e: return e.errno\n\
        assert refused(41, 67, 4) == 92, 'IPv6 on IPv4'\n\
        assert refused(0xdead, 1, 1) == 92, 'no such level'\n\
        v6 = socket.socket(socket.AF_INET6)\n\
        s, v4 = v6, s\n\
        assert refused(41, 67, b'x') == 22, 'too short'\n\
        s = v4";
    assert_eq!(tos_in_a_run(&net, &[], then), "4");
}

#[test]
fn down_gives_back_each_mark_and_what_was_accepted_has_its_listeners() {
    let Some((_alone, net)) = begin() else { return };
    let mut asked = Asked::start(&net);
    imtcp_ok(&["attach", "--pid", &asked.pid()]);
    asked.does(
        "l = socket.socket(); l.setsockopt(0, 1, 0x20); l.bind(('127.0.0.1', 0)); l.listen()",
    );
    asked.does("c = socket.create_connection(l.getsockname()); a = l.accept()[0]");
    let attached = asked.says("(tos(l), tos(c), tos(a))");
    imtcp_ok(&["down"]);
    let down = asked.says("(tos(l), tos(c), tos(a))");
    asked.process.signal(libc::SIGKILL);
    assert_eq!((attached.as_str(), down.as_str()), ("(4, 4, 4)", "(32, 0, 32)"));
    assert!(!std::path::Path::new("/sys/fs/bpf/imtcp").exists());
}

#[test]
fn a_killed_run_marks_nothing_that_is_connected_later() {
    let Some((_alone, net)) = begin() else { return };
    let scratch = Scratch::new();
    let (go, said) = (scratch.path("go"), scratch.path("said"));
    let (host, port) = net.peer();
    let script = format!(
        "import os, socket, time\n\
         while not os.path.exists('{}'): time.sleep(0.02)\n\
         s = socket.create_connection(('{host}', {port})); s.sendall(b'x')\n\
         s.setsockopt(0, 1, 0x48)\n\
         open('{}.new', 'w').write(str(s.getsockopt(0, 1)))\n\
         os.rename('{}.new', '{}')",
        go.display(),
        said.display(),
        said.display(),
        said.display(),
    );
    let mut run = net.run_spawn(&["-q", "--", "setsid", "python3", "-c", &script]);
    eventually("it runs", || {
        cgroups_left().first().is_some_and(|dir| !imtcp::cgroup::procs(dir).is_empty())
    });
    run.signal(libc::SIGKILL);
    run.0.wait().unwrap();
    imtcp_ok(&["status"]);
    std::fs::write(&go, "").unwrap();
    eventually("it has connected", || said.exists());
    assert_eq!(std::fs::read_to_string(&said).unwrap(), "72");
}

/// A firewall's program, as systemd and others attach one: no packet leaves. Others may be attached below it in its place.
fn let_nothing_out(unit: &Unit) {
    const PROG_LOAD: libc::c_long = 5;
    const PROG_ATTACH: libc::c_long = 8;
    const CGROUP_SKB: u32 = 8;
    const EGRESS: u32 = 1;
    const ALLOW_OVERRIDE: u32 = 1;
    // r0 = 0; exit
    let program: [u64; 2] = [0xb7, 0x95];
    let license = c"GPL";
    // union bpf_attr of uapi/linux/bpf.h.
    let mut load = [0u32; 30];
    (load[0], load[1]) = (CGROUP_SKB, 2);
    let pointers = [program.as_ptr() as u64, license.as_ptr() as u64];
    for (i, pointer) in pointers.into_iter().enumerate() {
        (load[2 + 2 * i], load[3 + 2 * i]) = (pointer as u32, (pointer >> 32) as u32);
    }
    load[17] = EGRESS;
    let dir = std::fs::File::open(&unit.0).unwrap();
    // SAFETY: the program and its licence live through the first call, and the kernel keeps none of the attributes.
    unsafe {
        let loaded = libc::syscall(libc::SYS_bpf, PROG_LOAD, load.as_ptr(), size_of_val(&load));
        assert!(loaded >= 0, "{}", std::io::Error::last_os_error());
        let attach =
            [std::os::fd::AsRawFd::as_raw_fd(&dir) as u32, loaded as u32, EGRESS, ALLOW_OVERRIDE];
        let size = size_of_val(&attach);
        let attached = libc::syscall(libc::SYS_bpf, PROG_ATTACH, attach.as_ptr(), size);
        assert_eq!(attached, 0, "{}", std::io::Error::last_os_error());
        libc::close(loaded as i32);
    }
}

#[test]
fn a_firewall_of_the_cgroup_around_still_holds_within_a_run_and_the_missing_marks_are_told() {
    let Some(_alone) = alone().filter(|_| python3_is_there()) else { return };
    let unit = Unit::new();
    let_nothing_out(&unit);
    let script = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                  try: s.sendto(b'x', ('127.0.0.1', 9)); print('sent')\n\
                  except PermissionError: print('held')";
    for options in ["", "--priority none"] {
        let line = format!("exec \"$0\" run {options} -- python3 -c \"{script}\"");
        let output = unit.command(&line).output().unwrap();
        assert_eq!(text(&output.stdout).trim(), "held", "{options}: {output:?}");
        let told = text(&output.stderr).contains("packets are not marked in full: the program ");
        assert_eq!(told, options.is_empty(), "{output:?}");
    }
}
