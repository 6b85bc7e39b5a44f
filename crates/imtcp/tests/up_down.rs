// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `up` and `down` on the running kernel. Each test begins and ends with imtcp down.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use imtcp_bpf::{netns, paths};
use imtcp_test_support::*;

fn registered() -> bool {
    let available = netns::available_ccs();
    imtcp_bpf::usual_controls().all(|c| available.iter().any(|a| a == c))
}

#[test]
fn up_twice_and_down_twice_are_fine() {
    let Some(_alone) = alone() else { return };
    imtcp_ok(&["down"]);
    assert_eq!(json(&imtcp_ok(&["up", "--json"]))["action"], "loaded");
    assert!(registered());
    assert_eq!(json(&imtcp_ok(&["up", "--json"]))["action"], "already");
    let status = json(&imtcp_ok(&["status", "--json"]));
    assert_eq!(status["up"], true);
    assert_eq!(status["programs"], json(&imtcp_ok(&["version", "--json"]))["programs"]);
    assert_eq!(json(&imtcp_ok(&["down", "--json"]))["was_up"], true);
    assert!(!registered());
    assert!(!paths::dir().exists(), "pins are left");
    assert_eq!(json(&imtcp_ok(&["down", "--json"]))["was_up"], false);
    let status = imtcp(&["status", "--json"]);
    assert_eq!(json(&text(&status.stdout))["up"], false);
    assert_eq!(status.status.code(), Some(3), "as systemctl has it of a service that does not run");
    assert!(text(&imtcp(&["status"]).stdout).starts_with("imtcp is not up"));
}

#[test]
fn up_says_that_it_allowed_nocc_or_took_it_away() {
    let Some(_alone) = alone() else { return };
    let up = |more: &[&str]| json(&imtcp_ok(&[&["up", "--json"], more].concat()));
    for (more, action) in [
        (&["--allow-nocc"][..], "changed"),
        (&["--allow-nocc"], "already"),
        (&[], "changed"),
        (&[], "already"),
    ] {
        let said = up(more);
        assert_eq!(said["action"], action, "{said}");
        assert_eq!(said["nocc"], !more.is_empty(), "{said}");
        assert_eq!(said["nocc_changed"], action == "changed", "{said}");
    }
    assert!(imtcp_ok(&["up", "--allow-nocc"]).contains("mode nocc is allowed from now on"));
    assert!(imtcp_ok(&["status"]).contains("mode nocc    allowed to root"));
    assert!(imtcp_ok(&["up"]).contains("mode nocc is not allowed any more"));
}

#[test]
fn what_needs_imtcp_says_how_to_load_it() {
    let Some(_alone) = alone() else { return };
    imtcp_ok(&["down"]);
    for args in [&["--once"][..], &["--json"], &["--events"], &[]] {
        let output = imtcp(&[&["watch"], args].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {error}");
        assert_eq!(error, "imtcp: imtcp is not up: `sudo imtcp up` loads it\n", "{args:?}");
    }
    let scratch = Scratch::new();
    let output = agent(&["feed", "--spool", scratch.path("spool").to_str().unwrap()]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error, "imtcp-agent: imtcp is not up: `sudo imtcp up` loads it\n");
}

#[test]
fn an_upgrade_leaves_no_moment_without_the_names() {
    let Some(_alone) = alone() else { return };
    if !imtcp_bpf::probe::has_struct_ops_links() {
        skip("this kernel replaces congestion controls only with a gap");
        return;
    }
    imtcp_ok(&["up"]);
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        let watcher = s.spawn(|| {
            let mut looks = 0;
            while !stop.load(Ordering::Relaxed) {
                assert!(registered(), "absent at look {looks}");
                looks += 1;
            }
            looks
        });
        for _ in 0..3 {
            assert_eq!(json(&imtcp_ok(&["up", "--force", "--json"]))["action"], "upgraded");
        }
        stop.store(true, Ordering::Relaxed);
        assert!(watcher.join().unwrap() > 100);
    });
    imtcp_ok(&["down"]);
}

#[test]
fn an_upgrade_leaves_no_complaint_in_the_kernel_s_log() {
    let Some(_alone) = alone() else { return };
    if !imtcp_bpf::probe::has_struct_ops_links() {
        skip("this kernel replaces congestion controls in another way");
        return;
    }
    let complaints = || {
        let log = Command::new("dmesg").output().ok().filter(|o| o.status.success())?;
        Some(text(&log.stdout).matches("registered or non-unique key").count())
    };
    let Some(before) = complaints() else {
        skip("dmesg does not work here");
        return;
    };
    assert_eq!(json(&imtcp_ok(&["up", "--force", "--json"]))["action"], "upgraded");
    assert_eq!(complaints(), Some(before));
    imtcp_ok(&["down"]);
}

#[test]
fn connections_keep_working_and_stay_visible_through_an_upgrade() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    imtcp_ok(&["up"]);
    let mut stream = net.connect();
    set_control(&stream, "imtcp_bg");
    still_sends(&mut stream);
    let done = json(&imtcp_ok(&["up", "--force", "--json"]));
    assert_eq!(done["records_kept"], true);
    still_sends(&mut stream);
    let port = stream.local_addr().unwrap().port();
    assert_eq!(connections(&format!("{CLIENT}:{port}")).len(), 1);
    imtcp_ok(&["down"]);
}

#[test]
fn down_leaves_connections_alive_and_moves_them_to_the_default() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    imtcp_ok(&["up"]);
    net.write_in_client("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
    let mut streams = [net.connect(), net.connect()];
    set_control(&streams[0], "imtcp_bg");
    set_control(&streams[1], "imtcp");
    streams.iter_mut().for_each(still_sends);
    let report = json(&imtcp_ok(&["down", "--json"]));
    assert!(report["moved_connections"].as_u64() >= Some(2), "{report}");
    assert_eq!(report["still_using"], 0);
    for stream in &mut streams {
        assert_eq!(control_of(stream), "reno");
        still_sends(stream);
    }
}

#[test]
fn down_sets_another_default_where_imtcp_was_it() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    imtcp_ok(&["up"]);
    net.write_in_client(path, "imtcp_bg");
    let mut stream = net.connect();
    assert_eq!(control_of(&stream), "imtcp_bg");
    let report = json(&imtcp_ok(&["down", "--json"]));
    assert_eq!(report["defaults_changed"].as_array().unwrap().len(), 1, "{report}");
    assert!(!net.read_in_client(path).starts_with("imtcp"));
    still_sends(&mut stream);
    assert!(!control_of(&stream).starts_with("imtcp"));
}

#[test]
fn down_says_which_runs_lose_their_limits_and_the_run_says_it_too() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let (host, port) = net.peer();
    let client = client.to_str().unwrap();
    let limited = ["--max-rate", "10M", "--", client, &host, &port, "100000", "30"];
    let run = net.run_spawn(&limited);
    let server = net.server.to_string();
    let acked = || connections(&server).iter().any(|c| c["bytes_acked"].as_u64() >= Some(100_000));
    eventually("the bytes are sent", acked);
    let said = imtcp_ok(&["down"]);
    let line = said.lines().find(|l| l.contains(&format!("(pid {})", run.pid())));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(line.ends_with("goes on with the default, without its limits (at most 10.0 Mbit/s)"));
    // Programs that are loaded later are another's.
    for again in [false, true] {
        if again {
            imtcp_ok(&["up"]);
        }
        let status = text(&imtcp(&["status"]).stdout);
        let row =
            status.lines().find(|l| l.starts_with("run ")).unwrap_or_else(|| panic!("{status}"));
        assert!(row.contains("no longer in force since `imtcp down`"), "{status}");
    }
    assert_eq!(json(&imtcp_ok(&["status", "--json"]))["runs"][0]["in_force"], false);
    run.signal(libc::SIGTERM);
    let line = text(&run.finish().stderr);
    assert!(
        line.starts_with("imtcp: taken down during the run; until then 100 kB sent; "),
        "{line}"
    );
    imtcp_ok(&["down"]);
}

/// A run's command in the shell's words: to send so many bytes to the peer, and to wait for a file.
fn send_and_wait(net: &Net, bytes: u64, file: &Path) -> Option<(String, String)> {
    let (host, port) = net.peer();
    let send = format!("{} {host} {port} {bytes}", static_client()?.display());
    Some((send, format!("until [ -e {} ]; do sleep 0.05; done", file.display())))
}

#[test]
fn a_run_that_down_ended_gets_nothing_from_a_later_up() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let go = scratch.path("go");
    let Some((send, wait)) = send_and_wait(&net, 100_000, &go) else { return };
    let stop = "trap 'kill $first $second' TERM";
    let line = format!("{send} 30 & first=$!; {wait}; {send} 30 & second=$!; {stop}; wait; wait");
    let run = net.run_spawn(&["--max-rate", "10M", "--dscp", "le", "--", "sh", "-c", &line]);
    let server = net.server.to_string();
    eventually("the first connection is imtcp's", || connections(&server).len() == 1);
    imtcp_ok(&["down"]);
    imtcp_ok(&["up"]);
    std::fs::write(&go, "").unwrap();
    let open = || {
        let sockets = net.command("ss").args(["-tinH", "dst", &server]).output();
        text(&sockets.unwrap().stdout)
    };
    eventually("the second is open", || open().matches("ESTAB").count() == 2);
    assert!(!open().contains("imtcp"), "{}", open());
    run.signal(libc::SIGTERM);
    run.finish();
    imtcp_ok(&["down"]);
}

#[test]
fn a_ceiling_outlasts_an_upgrade_in_place() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let go = scratch.path("go");
    let Some((send, wait)) = send_and_wait(&net, 2_000_000, &go) else { return };
    let line = format!("{send} & {wait}; {send}; wait");
    let run = net.run_spawn(&["--json", "--max-rate", "10M", "--", "sh", "-c", &line]);
    let server = net.server.to_string();
    eventually("the first connection is open", || !connections(&server).is_empty());
    assert_eq!(json(&imtcp_ok(&["up", "--force", "--json"]))["records_kept"], true);
    std::fs::write(&go, "").unwrap();
    let summary = summary(&run.finish());
    assert_eq!((&summary["taken_down"], &summary["connections"]), (&false.into(), &2.into()));
    let mean = summary["mean_bps"].as_u64().unwrap();
    assert!((5_000_000..12_000_000).contains(&mean), "{summary}");
    imtcp_ok(&["down"]);
}

/// The command where the machine's BPF file system is not to be seen, nor a process that sees it.
fn out_of_sight(args: &[&str], then: &str) -> std::process::Output {
    let hide = format!("mount -t tmpfs none /sys/fs/bpf && {then} && exec \"$0\" \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", &hide, &IMTCP]);
    command.args(args);
    command.output().unwrap()
}

#[test]
fn what_is_pinned_out_of_sight_is_not_taken_for_another_s_and_stays() {
    let Some(_alone) = alone() else { return };
    imtcp_ok(&["up"]);
    let all: [&[&str]; 6] = [
        &["status"],
        &["up"],
        &["down"],
        &["detach", "--all"],
        &["run", "true"],
        &["watch", "--once"],
    ];
    // Somebody may have made the directory there, too.
    let with_dir = all.map(|args| (args, "mkdir /sys/fs/bpf/imtcp"));
    for (args, then) in all.map(|args| (args, "true")).into_iter().chain(with_dir) {
        let output = out_of_sight(args, then);
        let error = text(&output.stderr);
        let code = if args[0] == "run" { 125 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains("cannot be seen from here"), "{args:?}: {error}");
        assert!(error.contains("nsenter") && !error.contains("bpftool"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    assert!(text(&out_of_sight(&["doctor"], "true").stdout).contains("cannot be seen from here"));
    assert_eq!(json(&imtcp_ok(&["status", "--json"]))["up"], true);
    imtcp_ok(&["down"]);
    assert!(text(&out_of_sight(&["status"], "true").stdout).starts_with("imtcp is not up"));
}

#[test]
fn up_that_fails_halfway_leaves_nothing() {
    let Some(_alone) = alone() else { return };
    imtcp_ok(&["down"]);
    let scratch = Scratch::new();
    let object = scratch.path("imtcp.bpf.o");
    std::fs::write(&object, imtcp_bpf::objects::IMTCP).unwrap();
    // The object's controls, in the order in which `up` registers them.
    let names = ["imtcp", "imtcp_bg", "imtcp_fs"];
    let bpftool = |args: &[&str]| Command::new("bpftool").args(args).output();
    let release = |name| drop(bpftool(&["struct_ops", "unregister", "name", name]));
    match bpftool(&["struct_ops", "register", object.to_str().unwrap()]) {
        Ok(done) if done.status.success() => {}
        other => {
            skip(format_args!("bpftool struct_ops register: {other:?}"));
            names.into_iter().for_each(release);
            return;
        }
    }
    let available = netns::available_ccs();
    assert!(names.iter().all(|n| available.iter().any(|a| a == n)), "{available:?}");
    let doctor = text(&imtcp(&["doctor"]).stdout);
    // All these names are taken: the first registration fails.
    let first = imtcp(&["up"]);
    let left_by_first = paths::dir().exists();
    // Only the later ones are: what was registered before must go again.
    release(names[0]);
    let second = imtcp(&["up"]);
    let left = netns::available_ccs();
    names.into_iter().for_each(release);
    for output in [&first, &second] {
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("is registered already"), "{}", text(&output.stderr));
    }
    let verdict = doctor.lines().find(|l| l.contains("registered already, and not by `imtcp up`"));
    assert!(verdict.is_some_and(|l| l.starts_with("FAIL  a run")), "{doctor}");
    assert!(!left_by_first && !paths::dir().exists(), "pins are left");
    assert!(!left.iter().any(|c| c == "imtcp"), "a registration is left");
}

#[test]
fn without_root_one_sentence_says_so() {
    use std::os::unix::process::CommandExt;
    let Some(_alone) = alone() else { return };
    // The build directory may be closed to others.
    let scratch = Scratch::new();
    let copy = scratch.path("imtcp");
    std::fs::copy(&*IMTCP, &copy).unwrap();
    for args in [&["up"][..], &["down"], &["run", "true"], &["watch", "--once"], &["status"]] {
        let output = Command::new(&copy).args(args).uid(65534).gid(65534).output().unwrap();
        let error = text(&output.stderr);
        let code = if args[0] == "run" { 125 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains("needs root") && error.contains("sudo"), "{error}");
    }
}

/// A lock that somebody else can open, somebody else can hold: every run would wait for ever. And
/// what runs is told with its whole command line.
#[test]
fn what_is_kept_of_runs_belongs_to_root_alone_whatever_the_umask() {
    let Some(_alone) = alone() else { return };
    let private = |dir: &Path| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(dir).unwrap().permissions().mode() & 0o077 == 0
    };
    let run = |umask: &str| {
        let script = format!("umask {umask}; exec {} run -- sleep 2", *IMTCP);
        Command::new("sh").args(["-c", &script]).spawn().unwrap()
    };
    let dir = Path::new("/run/imtcp");
    for umask in ["000", "077"] {
        // An older imtcp left it like this.
        let _ = Command::new("chmod").args(["-R", "a+rX"]).arg(dir).output();
        let mut run = run(umask);
        eventually("the run is registered", || {
            std::fs::read_dir(dir.join("runs")).is_ok_and(|mut d| d.next().is_some())
        });
        for part in ["", "runs", "attachments"] {
            assert!(private(&dir.join(part)), "{part} with umask {umask}");
        }
        for entry in std::fs::read_dir(dir.join("runs")).unwrap().flatten() {
            assert!(private(&entry.path()), "{:?} with umask {umask}", entry.path());
        }
        let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "flock", "-n"];
        let held = Command::new("setpriv").args(nobody).args(["/run/imtcp/lock", "true"]).output();
        assert!(!held.unwrap().status.success(), "nobody holds the lock");
        assert!(run.wait().unwrap().success());
    }
}
