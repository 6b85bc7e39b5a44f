// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! TCP sockets that the command of `imtcp run` inherits: held back as its own, and given back at the end.

use imtcp_test_support::*;

/// Runs a Python script in the client's namespace that finds the server in `peer`, the command under test in `imtcp`
/// and has `control(socket)`; what it prints. `None` without Python.
fn script(net: &Net, script: &str) -> Option<String> {
    if !python3_is_there() {
        return None;
    }
    let (host, port) = net.peer();
    let before = format!(
        "import os, socket, subprocess, sys\n\
         peer, imtcp = ('{host}', {port}), '{}'\n\
         control = lambda s: s.getsockopt(6, 13, 16).split(b'\\0')[0].decode()\n",
        *IMTCP
    );
    let output = net.command("python3").args(["-c", &(before + script)]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(text(&output.stdout))
}

#[test]
fn a_connection_that_the_command_inherits_is_held_back_counted_and_given_back() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let said = script(
        &net,
        "s = socket.create_connection(peer)\n\
         before = control(s)\n\
         tell = 'import socket, sys; s = socket.socket(fileno=1); '\\\n\
         \x20   'sys.stderr.write(s.getsockopt(6, 13, 16).split(b\"\\\\0\")[0].decode() + \"\\\\n\"); '\\\n\
         \x20   's.sendall(bytes(500000))'\n\
         run = [imtcp, 'run', '--json', '--max-rate', '4M', '--', sys.executable, '-c', tell]\n\
         done = subprocess.run(run, stdout=s, stderr=subprocess.PIPE, check=True)\n\
         print(done.stderr.decode(), end='')\n\
         print(before == control(s))\n",
    );
    let Some(said) = said else { return };
    let lines: Vec<_> = said.lines().collect();
    assert_eq!((lines[0], lines[2]), ("imtcp_bg", "True"), "{said}");
    let summary = json(lines[1]);
    assert_eq!(summary["connections"], 1, "{said}");
    let seconds = summary["elapsed_us"].as_f64().unwrap() / 1e6;
    let acked = summary["bytes_acked"].as_f64().unwrap();
    assert!(acked > 100_000.0 && acked * 8.0 / seconds < 5e6, "{said}");
}

#[test]
fn what_a_command_accepts_from_a_listener_that_it_inherits_is_held_back() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let said = script(
        &net,
        "s = socket.create_server(('', 7811))\n\
         before = control(s)\n\
         serve = 'import socket; s = socket.socket(fileno=0); '\\\n\
         \x20   'c = socket.create_connection((\"127.0.0.1\", 7811)); a, _ = s.accept(); '\\\n\
         \x20   'print(a.getsockopt(6, 13, 16).split(b\"\\\\0\")[0].decode())'\n\
         run = [imtcp, 'run', '-q', '--', sys.executable, '-c', serve]\n\
         subprocess.run(run, stdin=s, check=True)\n\
         print(before == control(s))\n",
    );
    let Some(said) = said else { return };
    assert_eq!(said, "imtcp_bg\nTrue\n");
}

#[test]
fn a_socket_of_an_outer_run_goes_back_to_it() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let said = script(
        &net,
        "outer = '''\n\
         import socket, subprocess, sys\n\
         s = socket.create_connection((sys.argv[2], int(sys.argv[3])))\n\
         control = lambda: s.getsockopt(6, 13, 16).split(b'\\\\0')[0].decode()\n\
         tell = 'import socket; s = socket.socket(fileno=0); print(s.getsockopt(6, 13, 16).split(b\"\\\\\\\\0\")[0].decode())'\n\
         run = [sys.argv[1], 'run', '-q', '--mode', 'lp', '--', sys.executable, '-c', tell]\n\
         subprocess.run(run, stdin=s, check=True)\n\
         print(control())\n\
         s.sendall(bytes(200000))\n\
         '''\n\
         run = [imtcp, 'run', '--json', '--', sys.executable, '-c', outer, imtcp, peer[0], str(peer[1])]\n\
         done = subprocess.run(run, stderr=subprocess.PIPE, check=True)\n\
         print(done.stderr.decode(), end='')\n",
    );
    let Some(said) = said else { return };
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[..2], ["imtcp_lp", "imtcp_bg"], "{said}");
    assert!(json(lines[2])["bytes_acked"].as_u64() >= Some(200_000), "{said}");
}
