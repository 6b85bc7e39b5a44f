// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp run` with real commands and connections.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use imtcp_test_support::*;

#[test]
fn a_static_binarys_connections_use_the_mode() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    imtcp_ok(&["up", "--allow-nocc"]);
    for imtcp_bpf::ModeRow { name: mode, control, .. } in imtcp_bpf::MODES {
        let client = client.to_str().unwrap();
        let output = net.run(&["--json", "--mode", mode, "--", client, &host, &port, "1000000"]);
        let stdout = text(&output.stdout);
        assert!(stdout.contains(&format!("control={control} ")), "{stdout}");
        let summary = summary(&output);
        assert_eq!(summary["connections"], 1, "{summary}");
        assert!(summary["bytes_acked"].as_u64() >= Some(1_000_000), "{summary}");
        assert!(summary["mean_bps"].as_u64() > Some(0), "{summary}");
    }
    imtcp_ok(&["up"]);
}

/// Python without any capability, as a container's root, in the client's namespace: alone, or by `imtcp run`.
fn without_privileges(net: &Net, run: &[&str]) -> Command {
    let setpriv = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "python3", "-c"];
    let words: Vec<&str> = run.iter().copied().chain(setpriv).collect();
    let mut command = net.command(words[0]);
    command.args(&words[1..]);
    command
}

#[test]
fn only_root_gives_the_mode_that_takes_more_than_its_share_and_any_user_chooses_the_others() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() || Command::new("setpriv").arg("-V").output().is_err() {
        return skip("setpriv of util-linux is missing");
    }
    let net = Net::new();
    let (host, port) = net.peer();
    let connected = format!(
        "import socket, sys\ns = socket.create_connection(('{host}', {port}))\n\
         control = lambda: s.getsockopt(6, 13, 16).split(b'\\0')[0].decode()\n"
    );
    let choose = connected.clone()
        + "for name in sys.argv[1:]:\n\
           \ttry: s.setsockopt(6, 13, name.encode())\n\
           \texcept OSError as e: print(name, e.errno)\n\
           \telse: print(control())\n";
    let names = ["imtcp_bg", "imtcp", "imtcp_fs", "imtcp_lp"];
    let said = without_privileges(&net, &[]).arg(choose).args(names).output().unwrap();
    let eperm = format!("imtcp_bg\nimtcp\nimtcp_fs {}\nimtcp_lp\n", libc::EPERM);
    assert_eq!(text(&said.stdout), eperm, "{}", text(&said.stderr));

    let told = connected.clone() + "print(control())";
    let run = [IMTCP.as_str(), "run", "--mode", "fs", "--"];
    let said = without_privileges(&net, &run).arg(told).output().unwrap();
    assert_eq!(text(&said.stdout), "imtcp_fs\n", "{}", text(&said.stderr));

    let waits = connected + "print('ready', flush=True)\nsys.stdin.read(1)\nprint(control(), flush=True)\nsys.stdin.read(1)";
    let mut command = without_privileges(&net, &[]);
    command.arg(waits).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut open = Background(command.spawn().unwrap());
    let mut ready = [0; 6];
    open.0.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    imtcp_ok(&["attach", "--mode", "fs", "--pid", &open.pid().to_string()]);
    open.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let mut control = [0; 9];
    open.0.stdout.as_mut().unwrap().read_exact(&mut control).unwrap();
    imtcp_ok(&["detach", "--all"]);
    assert_eq!(text(&control), "imtcp_fs\n");
}

#[test]
fn a_go_programs_connections_use_the_mode() {
    let Some(_alone) = alone() else { return };
    let Some(client) = go_client() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let output = net.run(&["--json", "--", client.to_str().unwrap(), &host, &port, "500000"]);
    assert!(text(&output.stdout).contains("control=imtcp_bg"), "{}", text(&output.stdout));
    assert!(summary(&output)["bytes_acked"].as_u64() >= Some(500_000));
}

#[test]
fn connections_that_the_command_accepts_use_the_mode() {
    let Some(_alone) = alone() else { return };
    if !python3_is_there() {
        return;
    }
    let net = Net::new();
    let server = "import socket\n\
        s = socket.create_server(('', 7777))\n\
        c, _ = s.accept()\n\
        print(c.getsockopt(6, 13, 16).split(b'\\0')[0].decode(), flush=True)\n\
        c.sendall(bytes(1000000)); c.shutdown(1); c.recv(1)";
    let running = net.run_spawn(&["--json", "--", "python3", "-c", server]);
    let address = SocketAddr::new(CLIENT.parse().unwrap(), 7777);
    let mut stream = None;
    eventually("the server listens", || {
        stream = net.connect_from_server(address).ok();
        stream.is_some()
    });
    let mut stream = stream.unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    stream.shutdown(Shutdown::Both).unwrap();
    let output = running.finish();
    assert_eq!(text(&output.stdout).trim(), "imtcp_bg");
    assert_eq!(received.len(), 1_000_000);
    assert!(summary(&output)["bytes_acked"].as_u64() >= Some(1_000_000));
}

#[test]
fn the_ceiling_holds_for_the_sum_of_parallel_connections() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let one = format!("{} {host} {port} 2000000 >/dev/null &", client.display());
    let line = format!("{one} {one} {one} {one} wait");
    let output = net.run(&["--json", "--max-rate", "10M", "--", "sh", "-c", &line]);
    let summary = summary(&output);
    assert_eq!(summary["connections"], 4);
    let bps = summary["mean_bps"].as_u64().unwrap();
    // 8 MB at 10 Mbit/s take 6.4 s. The first instant, before rates are known, may be faster.
    assert!((5_000_000..11_000_000).contains(&bps), "{bps}");
}

#[test]
fn lpecn_without_ecn_is_told_where_the_connections_are_made() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let path = "/proc/sys/net/ipv4/tcp_ecn";
    for (value, told) in [("0", true), ("2", true), ("1", false)] {
        net.write_in_client(path, value);
        let says = |output: &std::process::Output| {
            let error = text(&output.stderr);
            assert!(output.status.success(), "{error}");
            error.contains(&format!("net.ipv4.tcp_ecn is {value} here"))
        };
        assert_eq!(says(&net.run(&["--mode", "lpecn", "--", "true"])), told, "{value}");
        assert!(!says(&net.run(&["--mode", "lp", "--", "true"])), "lp does not need it");
        let there = Background(net.command("sleep").arg("60").spawn().unwrap());
        let pid = there.pid().to_string();
        assert_eq!(says(&imtcp(&["attach", "--pid", &pid, "--mode", "lpecn"])), told, "{value}");
        imtcp_ok(&["detach", "--all"]);
    }
}

#[test]
fn the_inner_of_two_runs_decides() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let client = client.to_str().unwrap();
    let inner =
        ["--", &IMTCP, "run", "--mode", "measure", "--json", "--", client, &host, &port, "9"];
    let output = net.run(&[&["--json"][..], &inner].concat());
    assert!(text(&output.stdout).contains("control=imtcp "), "{}", text(&output.stdout));
    let stderr = text(&output.stderr);
    let lines: Vec<_> = stderr.lines().map(json).collect();
    assert_eq!(
        (lines[0]["connections"].as_u64(), lines[1]["connections"].as_u64()),
        (Some(1), Some(0))
    );
    assert_eq!(
        (&lines[0]["inner_connections"], &lines[1]["inner_connections"]),
        (&0.into(), &1.into())
    );
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
}

#[test]
fn a_run_inside_a_run_or_an_attachment_has_no_more_than_its_ceiling() {
    let Some(_alone) = alone() else { return };
    let of_inner = |options: &[&str]| {
        let inner = [&["run", "--json"], options, &["--", "true"]].concat();
        let outer = ["run", "-q", "--max-rate", "10M", "--", &IMTCP];
        let output = imtcp(&[&outer[..], &inner].concat());
        (summary(&output), text(&output.stderr))
    };
    for (options, min, max, is_told) in [
        (&[][..], None, 10_000_000, true),
        (&["--min-rate", "15M", "--max-rate", "20M"], Some(10_000_000), 10_000_000, true),
        (&["--max-rate", "5M"], None, 5_000_000, false),
    ] {
        let (summary, said) = of_inner(options);
        assert_eq!((summary["min_bps"].as_u64(), &summary["max_bps"]), (min, &max.into()));
        assert_eq!(said.contains(", so at most 10.0 Mbit/s here too; "), is_told, "{said}");
    }
    let unit = Unit::new();
    imtcp_ok(&["attach", "--cgroup", unit.path(), "--max-rate", "3M"]);
    let output = unit.command("$0 run --json -- true").output().unwrap();
    imtcp_ok(&["detach", "--all"]);
    assert_eq!(summary(&output)["max_bps"], 3_000_000);
    let told = format!("inside cgroup {}, so at most 3.00 Mbit/s here too; ", unit.path());
    assert!(text(&output.stderr).contains(&told), "{}", text(&output.stderr));
}

#[test]
fn the_exit_code_passes_through() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    let plain = scratch.path("plain");
    fs::write(&plain, "no program").unwrap();
    let cases: [(&[&str], i32); 4] = [
        (&["true"], 0),
        (&["sh", "-c", "exit 42"], 42),
        (&["/nonexistent/command"], 127),
        (&[plain.to_str().unwrap()], 126),
    ];
    for (command, code) in cases {
        let output = imtcp(&[&["run", "-q", "--"], command].concat());
        assert_eq!(output.status.code(), Some(code), "{command:?}: {}", text(&output.stderr));
    }
    assert_eq!(imtcp(&["run"]).status.code(), Some(2));
    assert_eq!(imtcp(&["run", "--user", "nobody-at-all", "true"]).status.code(), Some(2));
    assert_eq!(imtcp(&["run", "--advise", "no url", "true"]).status.code(), Some(2));
    assert_eq!(advice(&["ask", "a.host", "--at", "yesterday"]).status.code(), Some(2));
    assert_eq!(imtcp(&["run", "--max-rate", "1X", "true"]).status.code(), Some(2));
    let order = imtcp(&["run", "--min-rate", "2M", "--max-rate", "1M", "true"]);
    assert_eq!(order.status.code(), Some(2), "{}", text(&order.stderr));
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
}

#[test]
fn quiet_is_quiet_and_one_line_is_one_line() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let command = [client.to_str().unwrap(), &host, &port, "100000"];
    assert_eq!(text(&net.run(&[&["--quiet", "--"][..], &command].concat()).stderr), "");
    let line = text(&net.run(&[&["--"][..], &command].concat()).stderr);
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("imtcp: 100 kB sent in"), "{line}");
}

#[test]
fn the_cgroup_is_gone_afterwards() {
    let Some(_alone) = alone() else { return };
    let inside = imtcp(&["run", "-q", "--", "sh", "-c", "grep ^0:: /proc/self/cgroup"]);
    assert!(text(&inside.stdout).contains("/imtcp-run-"), "{}", text(&inside.stdout));
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
}

#[test]
fn a_process_left_behind_goes_back_and_keeps_its_connection() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let pid_file = scratch.path("pid");
    let (host, port) = net.peer();
    let line = format!(
        "{} {host} {port} 1000 60 >{1}.out 2>/dev/null & echo $! >{1}; \
         until [ -s {1}.out ]; do sleep 1; done",
        client.display(),
        pid_file.display(),
    );
    let output = net.run(&["--json", "--", "sh", "-c", &line]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let pid: i32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    assert!(imtcp_common::procfs::exists(pid));
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
    let left = connections(&pid.to_string());
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["mode"], "bg");
    let told = &summary(&output)["left_behind"];
    assert_eq!(told[0]["pid"], pid, "{told}");
    // SAFETY: our own grandchild.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[test]
fn signals_reach_the_command_once() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let script = format!(
        "trap 'echo term >>{0}; exit 7' TERM; trap 'echo usr1 >>{0}' USR1; echo ready >{0}; \
         while :; do sleep 0.05; done",
        log.display()
    );
    let net = Net::new();
    let running = net.run_spawn(&["-q", "--", "sh", "-c", &script]);
    eventually("the command runs", || log.exists());
    running.signal(libc::SIGUSR1);
    eventually("USR1 arrives", || fs::read_to_string(&log).unwrap().contains("usr1"));
    running.signal(libc::SIGTERM);
    assert_eq!(running.finish().status.code(), Some(7));
    assert_eq!(fs::read_to_string(&log).unwrap(), "ready\nusr1\nterm\n");
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
}

#[test]
fn ctrl_c_arrives_once_and_leaves_nothing_behind() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let script = format!(
        "trap 'echo int >>{0}' INT; trap 'exit 3' USR1; echo ready >{0}; \
         while :; do sleep 0.05; done",
        log.display()
    );
    let mut command = net.command(&IMTCP);
    command.args(["run", "-q", "--", "sh", "-c", &script]);
    let mut run = on_terminal(command);
    eventually("the command runs", || log.exists());
    run.master.write_all(b"\x03").unwrap();
    eventually("Ctrl-C arrives", || fs::read_to_string(&log).unwrap().contains("int"));
    sleep(Duration::from_millis(300));
    run.child.signal(libc::SIGUSR1);
    assert_eq!(run.child.finish().status.code(), Some(3));
    assert_eq!(fs::read_to_string(&log).unwrap(), "ready\nint\n");

    // A command that does not catch it.
    let mut command = net.command(&IMTCP);
    command.args(["run", "-q", "--", "sh", "-c", "echo $$ >$0; exec sleep 60"]).arg(&log);
    let mut run = on_terminal(command);
    eventually("the command runs", || {
        fs::read_to_string(&log).unwrap().len() > 1
            && !fs::read_to_string(&log).unwrap().contains("ready")
    });
    sleep(Duration::from_millis(100));
    run.master.write_all(b"\x03").unwrap();
    assert_eq!(run.child.finish().status.signal(), Some(libc::SIGINT));
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
    assert_eq!(json(&imtcp_ok(&["status", "--json"]))["runs"], serde_json::json!([]));
}

fn state_of(pid: i32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('?')
}

#[test]
fn stopping_and_continuing_takes_the_command_along() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let pid_file = scratch.path("pid");
    let script = format!("echo $$ >{}; exec sleep 2", pid_file.display());
    let running = net.run_spawn(&["-q", "--", "sh", "-c", &script]);
    let pid = || fs::read_to_string(&pid_file).ok()?.trim().parse::<i32>().ok();
    eventually("the command runs", || pid().is_some_and(|p| state_of(p) == 'S'));
    let command = pid().unwrap();
    running.signal(libc::SIGTSTP);
    eventually("both stop", || state_of(command) == 'T' && state_of(running.pid()) == 'T');
    running.signal(libc::SIGCONT);
    eventually("both go on", || state_of(command) != 'T' && state_of(running.pid()) != 'T');
    assert_eq!(running.finish().status.code(), Some(0));
}

#[test]
fn a_killed_imtcp_ends_its_hold_and_is_swept() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let (go, out) = (scratch.path("go"), scratch.path("out"));
    let (host, port) = net.peer();
    let script = format!(
        "touch {0}.ready; until [ -e {0} ]; do sleep 0.05; done; {1} {host} {port} 1000 >{2}",
        go.display(),
        client.display(),
        out.display()
    );
    let mut running = net.run_spawn(&["--", "sh", "-c", &script]);
    eventually("the command runs", || Path::new(&format!("{}.ready", go.display())).exists());
    running.signal(libc::SIGKILL);
    running.0.wait().unwrap();
    assert_eq!(cgroups_left().len(), 1, "the command goes on in its cgroup");
    fs::write(&go, "").unwrap();
    eventually("it connects", || fs::read_to_string(&out).is_ok_and(|t| t.contains("control=")));
    assert!(!fs::read_to_string(&out).unwrap().contains("imtcp"), "the hold has ended");
    imtcp_ok(&["up"]);
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
}

#[test]
fn the_command_has_no_descriptors_of_ours() {
    let Some(_alone) = alone() else { return };
    let list = ["sh", "-c", "ls /proc/self/fd"];
    let bare = Command::new(list[0]).args(&list[1..]).stdin(std::process::Stdio::null()).output();
    let inside = imtcp(&[&["run", "-q", "--"][..], &list].concat());
    assert_eq!(text(&inside.stdout), text(&bare.unwrap().stdout));
}

#[test]
fn the_command_runs_as_the_user_asked_for() {
    let Some(_alone) = alone() else { return };
    let script = "id -un; echo $USER; grep CapEff /proc/self/status";
    let output = imtcp(&["run", "-q", "--user", "nobody", "--", "sh", "-c", script]);
    let stdout = text(&output.stdout);
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(lines[..2], ["nobody", "nobody"], "{}", text(&output.stderr));
    assert!(lines[2].ends_with("0000000000000000"), "{stdout}");
}

#[test]
fn imtcp_itself_gives_up_what_it_does_not_need() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let running = net.run_spawn(&["-q", "--", "sleep", "1"]);
    let caps = |pid: i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("CapPrm:"))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    // CAP_DAC_OVERRIDE and CAP_KILL; where the kernel has the records of one namespace at a time
    // only, CAP_SYS_PTRACE and CAP_SYS_ADMIN to find and enter the others.
    let one_namespace = imtcp_bpf::records::Records::open().unwrap().enters_namespaces();
    let kept = 1 << 1 | 1 << 5 | if one_namespace { 1 << 19 | 1 << 21 } else { 0 };
    eventually("it has dropped them", || caps(running.pid()) == Some(kept));
    assert!(running.finish().status.success());
}

#[test]
fn it_works_under_ip_netns_exec() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let output = Command::new("ip")
        .args(["netns", "exec", net.client_ns(), &IMTCP, "run", "--json", "--"])
        .arg(client)
        .args([&host, &port, "100000"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(summary(&output)["connections"], 1);
    assert_eq!(cgroups_left(), [] as [&Path; 0]);
}

#[test]
fn starting_is_quick() {
    let Some(_alone) = alone() else { return };
    imtcp_ok(&["up"]);
    let started = Instant::now();
    imtcp_ok(&["run", "-q", "--", "true"]);
    // Loading one small program; generous for a busy machine.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn a_connection_of_ours_is_not_touched() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let stream = net.connect();
    let before = control_of(&stream);
    assert!(net.run(&["-q", "--", "true"]).status.success());
    assert_eq!(imtcp::socket::control(stream.as_fd()).unwrap(), before);
    assert!(!before.starts_with("imtcp"));
}

/// Everybody may read the kernel's log.
#[test]
fn what_is_logged_of_mode_nocc_names_the_program_and_none_of_its_arguments() {
    let Some(_alone) = alone() else { return };
    imtcp_ok(&["up", "--allow-nocc"]);
    let output = imtcp(&["run", "--mode", "nocc", "--", "true", "--password=secret"]);
    imtcp_ok(&["up"]);
    let said = text(&output.stderr);
    assert!(said.contains("no congestion control (nocc) for run "), "{said}");
    assert!(said.contains(" (true), by ") && !said.contains("secret"), "{said}");
}

#[test]
fn what_a_command_hides_of_its_own_arguments_is_not_shown_by_those_of_the_run() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let running = net.run_spawn(&["-q", "--", "sh", "-c", "sleep 3; true", "user:secret"]);
    let arguments = || fs::read(format!("/proc/{}/cmdline", running.pid())).unwrap();
    let shown =
        || text(&arguments()).split('\0').filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ");
    eventually("it is hidden", || !shown().contains("secret"));
    assert_eq!(shown(), format!("{} run -q -- sh", *IMTCP));
    let status = imtcp_ok(&["status"]);
    assert!(status.contains("sh -c sleep 3; true user:secret"), "root sees it: {status}");
    running.finish();
}

#[test]
fn status_shows_no_pid_of_another_pid_namespace() {
    let Some(_alone) = alone() else { return };
    let mut command = Command::new("unshare");
    command.args(["-pf", "--mount-proc", &IMTCP, "run", "-q", "--", "sleep", "3.0625"]);
    let running = Background(command.stdin(Stdio::null()).spawn().unwrap());
    let listed = || {
        let status = json(&imtcp_ok(&["status", "--json"]));
        let runs = status["runs"].as_array().unwrap().clone();
        runs.into_iter().find(|run| run["command"] == "sleep 3.0625")
    };
    eventually("it runs", || listed().is_some());
    assert!(listed().unwrap()["pid"].is_null(), "{:?}", listed());
    let status = imtcp_ok(&["status"]);
    assert!(status.contains("no limits (in another pid namespace): sleep 3.0625"), "{status}");
    assert!(running.finish().status.success());
}
