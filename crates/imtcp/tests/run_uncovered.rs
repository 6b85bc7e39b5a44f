// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What `imtcp run` says of traffic that it did not hold back: what was seen, and nothing else.

use std::fs;
use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixListener;

use imtcp_test_support::*;

/// The last line, and what the same run says in JSON, of a Python script in the client's namespace;
/// `None` without Python.
fn lines(net: &Net, script: &str) -> Option<(String, serde_json::Value)> {
    if !python3_is_there() {
        return None;
    }
    let line = text(&net.run(&["--", "python3", "-c", script]).stderr);
    Some((line, summary(&net.run(&["--json", "--", "python3", "-c", script]))))
}

/// Connects, and does that with the socket `s`.
fn connected(net: &Net, then: &str) -> String {
    let (host, port) = net.peer();
    format!("import socket\ns = socket.create_connection(('{host}', {port}))\n{then}")
}

#[test]
fn where_nothing_was_seen_the_line_claims_nothing() {
    let Some(_alone) = alone() else { return };
    let line = text(&imtcp(&["run", "--", "true"]).stderr);
    assert_eq!(line, "imtcp: saw no TCP connection of the command\n");
}

/// Chooses a control, and sends with it until all is acknowledged.
fn choose_and_send(name: &str) -> String {
    format!(
        "s.setsockopt(6, 13, b'{name}')\ns.sendall(bytes(100000))\n\
         import fcntl, struct, time\n\
         while struct.unpack('i', fcntl.ioctl(s, 0x5411, bytes(4)))[0]: time.sleep(.01)\n"
    )
}

#[test]
fn a_connection_that_sends_with_another_control_is_told_also_if_it_returns() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let away = choose_and_send("reno");
    let back = away.clone() + &choose_and_send("imtcp_bg");
    for then in [away.clone(), back.clone(), back.clone() + &away, back.clone() + &back] {
        let Some((line, json)) = lines(&net, &connected(&net, &then)) else { return };
        let told =
            "; 1 connection chose another congestion control, not held back nor counted meanwhile";
        assert!(line.contains(told), "{line}");
        for claim in ["nothing sent", "mean ", " % ", "never"] {
            assert!(!line.contains(claim), "{claim}: {line}");
        }
        let told = (&json["connections"], &json["left_connections"]);
        assert_eq!(told, (&1.into(), &1.into()), "{then}");
        assert!(json["mean_bps"].is_null(), "{json}");
    }
    let later = "s.sendall(bytes(300000))\nimport time\ntime.sleep(0.5)\n".to_string() + &away;
    let (line, _) = lines(&net, &connected(&net, &later)).unwrap();
    let told = "imtcp: 300 kB sent while held back; ";
    assert!(line.starts_with(told), "{line}");
    // Nothing was sent meanwhile.
    let choose = |name: &str| format!("s.setsockopt(6, 13, b'{name}')\n");
    let unused = connected(&net, &(choose("reno") + &choose_and_send("imtcp_bg")));
    let (line, json) = lines(&net, &unused).unwrap();
    assert!(!line.contains("another congestion control"), "{line}");
    assert_eq!((&json["connections"], &json["left_connections"]), (&1.into(), &0.into()));
}

#[test]
fn a_connection_that_chooses_one_of_ours_that_holds_nothing_back_is_told() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let foreground = choose_and_send("imtcp_fs");
    let unused = "s.setsockopt(6, 13, b'imtcp_fs')\n".to_string();
    for (options, then, left) in [
        (&[][..], choose_and_send("imtcp"), 1),
        (&[], foreground.clone(), 1),
        (&[], foreground.clone() + &choose_and_send("imtcp"), 1),
        (&[], foreground.clone() + &choose_and_send("reno"), 1),
        (&[], foreground.clone() + &choose_and_send("imtcp_bg"), 1),
        (&[], unused + &choose_and_send("imtcp_bg"), 0),
        // These hold back as well, or no less than the run ordered.
        (&[], choose_and_send("imtcp_lp"), 0),
        (&["--mode", "measure"], foreground.clone(), 0),
    ] {
        let script = connected(&net, &then);
        let output = net.run(&[options, &["--json", "--", "python3", "-c", &script]].concat());
        if !python3_is_there() {
            return;
        }
        assert_eq!(summary(&output)["left_connections"], left, "{options:?}: {then}: {output:?}");
    }
    // One that is open yet, in a process that goes on.
    let open = "import os, time\nif os.fork() == 0: os.close(1); os.close(2); time.sleep(3)";
    let script = connected(&net, &(foreground.clone() + open));
    let output = net.run(&["--json", "--", "python3", "-c", &script]);
    assert_eq!(summary(&output)["left_connections"], 1, "{output:?}");
    let (line, _) = lines(&net, &connected(&net, &foreground)).unwrap();
    assert!(line.starts_with("imtcp: 100 kB sent in ") && line.contains(", mean "), "{line}");
    let told = "; 1 connection chose another congestion control, not held back meanwhile";
    assert!(line.contains(told) && !line.contains(" % "), "{line}");
}

#[test]
fn what_an_attachment_inside_orders_is_no_choice_of_the_command() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let script = connected(
        &net,
        &format!(
            "import os, subprocess\n\
             for w in (['attach', '--mode', 'fs', '--pid'], ['detach', '--pid']):\n\
             \tsubprocess.run(['{}', *w, str(os.getpid())], check=True, stdout=2)\n\
             s.sendall(bytes(1000))",
            *IMTCP
        ),
    );
    let Some((_, json)) = lines(&net, &script) else { return };
    assert_eq!(json["left_connections"], 0, "{json}");
}

#[test]
fn connections_that_had_no_room_for_their_state_are_told_with_the_remedy() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let most = "/proc/sys/net/core/optmem_max";
    if !net.has_in_client(most) {
        skip(format_args!("{most} is of the whole machine on this kernel"));
        return;
    }
    let script = connected(&net, "s.sendall(bytes(100000))");
    // For neither tag nor state, and for the tag alone.
    for room in ["100", "1000"] {
        net.write_in_client(most, room);
        let Some((line, json)) = lines(&net, &script) else { return };
        assert!(line.starts_with("imtcp: 1 connection not held back, "), "{room}: {line}");
        assert!(line.contains("`sysctl -w net.core.optmem_max=131072`"), "{line}");
        assert_eq!((&json["connections"], &json["no_room_connections"]), (&0.into(), &1.into()));
    }
    net.write_in_client(most, "131072");
    let (line, _) = lines(&net, &script).unwrap();
    assert!(line.starts_with("imtcp: 100 kB sent in "), "{line}");
}

#[test]
fn connections_whose_control_the_kernel_refuses_are_told_at_the_end_and_in_status() {
    let Some(_alone) = alone() else { return };
    let link = imtcp_bpf::paths::link_pin("imtcp_lp");
    if !link.exists() {
        skip("without BPF links a control stays registered");
        return;
    }
    let net = Net::new();
    let pins = [link, imtcp_bpf::paths::ops_pin("imtcp_lp")];
    let remove = format!("import os\nfor pin in {pins:?}: os.remove(pin)\nimport time\n");
    let connect = connected(&net, "s.sendall(bytes(1000))\n");
    let status = format!(
        "import subprocess\nprint(subprocess.run(['{}', 'status', '--json'], stdout=-1).stdout.decode())",
        *IMTCP
    );
    // The kernel unregisters it a grace period later.
    let script = format!("{remove}time.sleep(1)\n{connect}{status}");
    let run = ["--mode", "lp", "--json", "--", "python3", "-c", &script];
    let output = net.run(&run);
    if !python3_is_there() {
        return;
    }
    assert_eq!(summary(&output)["refused_connections"], 1, "{output:?}");
    let status = json(&text(&output.stdout));
    assert_eq!(status["runs"][0]["refused_connections"], 1, "{status}");
    imtcp_ok(&["up"]);
    let output = net.run(&["--mode", "lp", "--", "python3", "-c", &script.replace("--json", "-v")]);
    let told = "1 connection not held back, because the kernel refused them the mode's control";
    assert!(text(&output.stderr).contains(told), "{output:?}");
    imtcp_ok(&["up"]);
}

/// A connection by IPv4 on an IPv6 socket.
fn mapped(net: &Net, then: &str) -> String {
    let (host, port) = net.peer();
    format!(
        "import socket\ns = socket.socket(socket.AF_INET6)\n\
         s.connect(('::ffff:{host}', {port}))\n{then}"
    )
}

#[test]
fn ipv4_on_an_ipv6_socket_is_marked_or_told_where_the_kernel_refuses() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let tell = "s.sendall(bytes(1000))\nprint(s.getsockopt(0, 1))";
    let run = |script: &str| {
        let output = net.run(&["--dscp", "le", "--json", "--", "python3", "-c", script]);
        let unmarked = summary(&output)["unmarked_connections"].as_u64();
        (text(&output.stdout), unmarked.unwrap_or_else(|| panic!("{output:?}")))
    };
    assert_eq!(run(&connected(&net, tell)), ("4\n".into(), 0));
    let (tos, unmarked) = run(&mapped(&net, tell));
    assert!(["4\n0", "0\n1"].contains(&format!("{tos}{unmarked}").as_str()), "{tos} {unmarked}");
}

/// The ceiling is of bytes on the wire: with small segments the headers are much of them.
#[test]
fn ipv4_on_an_ipv6_socket_has_the_ceiling_that_ipv4_has() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let seconds = |script: String| {
        // 2 is TCP_MAXSEG.
        let small = script.replace("s.connect", "s.setsockopt(6, 2, 112)\ns.connect");
        let run = ["--mode", "lp", "--max-rate", "1M", "--", "python3", "-c", &small];
        let output = net.run(&run);
        text(&output.stdout).trim().parse::<f64>().unwrap_or_else(|_| panic!("{output:?}"))
    };
    let send = &format!("{SENT}print(sent(s, 150000))");
    let by_ipv4 = mapped(&net, send).replace("AF_INET6", "AF_INET").replace("::ffff:", "");
    let (by_ipv4, by_mapped) = (seconds(by_ipv4), seconds(mapped(&net, send)));
    let ratio = by_mapped / by_ipv4;
    assert!((0.94..1.06).contains(&ratio), "{by_ipv4} s and {by_mapped} s");
}

#[test]
fn what_the_command_sends_by_udp_is_told() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let send = |packets| {
        let (host, port) = net.peer();
        format!(
            "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             for _ in range({packets}): s.sendto(bytes(972), ('{host}', {port}))"
        )
    };
    let Some((line, json)) = lines(&net, &send(100)) else { return };
    let told = "imtcp: saw no TCP connection of the command; 100 kB sent by UDP, not held back\n";
    assert_eq!(line, told);
    assert_eq!(json["uncovered"]["udp_bytes"], 100_000, "{json}");
    // As much as a name that is looked up.
    let (line, _) = lines(&net, &send(1)).unwrap();
    assert_eq!(line, "imtcp: saw no TCP connection of the command\n");
}

#[test]
fn what_the_command_sends_without_tcp_and_udp_is_told() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let (host, _) = net.peer();
    let script = format!(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_RAW, 253)\n\
         for _ in range(100): s.sendto(bytes(980), ('{host}', 0))"
    );
    let Some((line, json)) = lines(&net, &script) else { return };
    assert!(line.contains("; 100 kB sent by IP without TCP or UDP, not held back"), "{line}");
    assert_eq!(json["uncovered"]["other_bytes"], 100_000, "{json}");
    assert_eq!(json["uncovered"]["udp_bytes"], 0, "{json}");
}

#[test]
fn a_connection_that_is_refused_is_told_as_never_made() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let (host, _) = net.peer();
    let script = format!("import socket\nsocket.socket().connect_ex(('{host}', 9))");
    let Some((line, _)) = lines(&net, &script) else { return };
    assert!(line.starts_with("imtcp: 1 connection tried in "), "{line}");
    assert!(line.ends_with(", and none was made\n"), "{line}");
    // One that was made and sent nothing is none of these.
    let (line, _) = lines(&net, &connected(&net, "")).unwrap();
    assert!(!line.contains("none was made"), "{line}");
}

#[test]
fn a_process_that_leaves_between_two_looks_and_ends_at_once_is_told() {
    let Some(_alone) = alone() else { return };
    let elsewhere = format!("imtcp-test-passing-{}", std::process::id());
    let dir = imtcp::cgroup::mount().unwrap().join(&elsewhere);
    fs::create_dir(&dir).unwrap();
    let leave = format!("sleep 0.4; sh -c 'echo $$ >{}/cgroup.procs'; sleep 0.1", dir.display());
    let line = text(&imtcp(&["run", "--", "sh", "-c", &leave]).stderr);
    eventually("it can be removed", || fs::remove_dir(&dir).is_ok());
    assert!(line.contains(&format!("sh moved to the cgroup /{elsewhere}, out of the")), "{line}");
}

/// As `ControlMaster=auto` makes one: bound to another name, and linked to the one that others use.
#[test]
fn a_shared_ssh_connection_of_the_run_itself_is_not_said_to_be_of_another() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let path = scratch.path("cm");
    let path = path.to_str().unwrap();
    let master = format!(
        "import socket, os, time, sys\n\
         s = socket.socket(socket.AF_UNIX)\n\
         s.bind('{path}.abc')\n\
         s.listen()\n\
         os.link('{path}.abc', '{path}')\n\
         os.unlink('{path}.abc')\n\
         time.sleep(float(sys.argv[1]))"
    );
    let client = format!(
        "open('/proc/self/comm', 'w').write('ssh'); import socket; \
         s = socket.socket(socket.AF_UNIX); s.connect('{path}')"
    );
    let both = format!(
        "python3 -c \"{master}\" 1 & until [ -e {path} ]; do sleep .02; done; \
         python3 -c \"{client}\"; sleep .1"
    );
    if !python3_is_there() {
        return;
    }
    let own = text(&net.run(&["--", "sh", "-c", &both]).stderr);
    assert!(!own.contains("a shared ssh connection"), "{own}");
    eventually("it has ended", || std::os::unix::net::UnixStream::connect(path).is_err());
    fs::remove_file(path).unwrap();
    let others = std::process::Command::new("python3").args(["-c", &master, "60"]).spawn();
    let _others = Background(others.unwrap());
    eventually("it listens", || std::path::Path::new(path).exists());
    let of_others = text(&net.run(&["--", "python3", "-c", &client]).stderr);
    assert!(of_others.contains("a shared ssh connection"), "{of_others}");
}

/// Its name does not hide it, where a user moved it.
#[test]
fn a_process_that_leaves_for_a_cgroup_named_as_one_of_ours_is_told() {
    let Some(_alone) = alone() else { return };
    let unit = Unit::new();
    let elsewhere = unit.0.join("imtcp-run-1");
    fs::create_dir(&elsewhere).unwrap();
    for file in [unit.0.join("cgroup.procs"), elsewhere.join("cgroup.procs")] {
        std::os::unix::fs::chown(file, Some(65534), None).unwrap();
    }
    let leave = format!("sh -c 'echo $$ >{}/cgroup.procs'; sleep 0.1", elsewhere.display());
    for leave in [format!("sleep 0.4; {leave}"), leave + "; sleep 0.5"] {
        let line =
            format!("exec \"$0\" run --user nobody -- sh -c \"{}\"", leave.replace('$', "\\$"));
        let said = text(&unit.command(&line).output().unwrap().stderr);
        assert!(said.contains("/imtcp-run-1, out of the run"), "{said}");
    }
}

#[test]
fn a_download_says_for_how_long_it_gave_way() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let server = "import socket\n\
        s = socket.create_server(('', 7778))\n\
        c, _ = s.accept()\n\
        while c.recv(65536): pass";
    let running = net.run_spawn(&["--", "python3", "-c", server]);
    let address = SocketAddr::new(CLIENT.parse().unwrap(), 7778);
    let mut stream = None;
    eventually("the server listens", || {
        stream = net.connect_from_server(address).ok();
        stream.is_some()
    });
    let mut stream = stream.unwrap();
    stream.write_all(&[7; 300_000]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let line = text(&running.finish().stderr);
    assert!(line.starts_with("imtcp: 300 kB received and "), "{line}");
    let told = ["; gave way to a queue ", "; never had to yield"];
    assert!(told.iter().any(|told| line.contains(told)), "{line}");
}

#[test]
fn a_process_that_leaves_the_cgroup_is_told_with_where_it_is() {
    let Some(_alone) = alone() else { return };
    let elsewhere = format!("imtcp-test-{}", std::process::id());
    let dir = imtcp::cgroup::mount().unwrap().join(&elsewhere);
    fs::create_dir(&dir).unwrap();
    let leave = format!("echo $$ >{}/cgroup.procs; exec sleep 0.5", dir.display());
    let leave = [&["--", "sh", "-c"][..], &[&leave]].concat();
    let line = text(&imtcp(&[&["run"][..], &leave].concat()).stderr);
    let json = summary(&imtcp(&[&["run", "--json"][..], &leave].concat()));
    eventually("it can be removed", || fs::remove_dir(&dir).is_ok());
    let told =
        format!(" moved to the cgroup /{elsewhere}, out of the run: `imtcp attach --cgroup /");
    assert!(line.contains(&told), "{line}");
    assert_eq!(json["uncovered"]["moved"]["cgroup"], format!("/{elsewhere}"), "{json}");

    // A run inside keeps its own.
    let inside = ["run", "--", &IMTCP, "run", "-q", "--", "sleep", "0.5"];
    let line = text(&imtcp(&inside).stderr);
    assert!(!line.contains("moved to the cgroup"), "{line}");
}

#[test]
fn a_daemon_that_sends_for_the_command_is_told() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let path = scratch.path("docker.sock");
    let _daemon = UnixListener::bind(&path).unwrap();
    // As C programs do, with the whole structure for an address.
    let ask = format!(
        "import ctypes, socket, struct\n\
         s = socket.socket(socket.AF_UNIX)\n\
         address = struct.pack('H108s', socket.AF_UNIX, b'{}')\n\
         assert ctypes.CDLL(None).connect(s.fileno(), address, len(address)) == 0",
        path.display()
    );
    let Some((line, json)) = lines(&net, &ask) else { return };
    let release = imtcp_bpf::probe::kernel_release();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse::<u32>);
    if (numbers.next(), numbers.next()) < (Some(6), Some(7)) {
        skip(format_args!("Linux {release} does not tell who is asked"));
        return;
    }
    let told = format!("; docker's daemon ({}) sends for it: attach the cont", path.display());
    assert!(line.contains(&told), "{line}");
    assert_eq!(json["uncovered"]["daemons"][0]["path"], path.to_str().unwrap(), "{json}");
}
