// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! imtcp where /sys is another than the machine's.

use std::fs;
use std::process::{Command, Stdio};

use imtcp_test_support::*;

/// Nobody among its ancestors but process 1, which may not let itself be looked at.
#[test]
fn a_daemon_inside_ip_netns_exec_can_use_it() {
    let Some(_alone) = alone() else { return };
    let Some(client) = static_client() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let (host, port) = net.peer();
    let line = format!(
        "\"$0\" run --json -o line.json -- {} {host} {port} 100000 > said 2>&1; echo $? > code",
        client.display()
    );
    // The shell that leaves it ends at once, so that it is an orphan when it begins.
    let orphan = format!("(sleep 0.5; {line}) >/dev/null 2>&1 &");
    let status = Command::new("ip")
        .args(["netns", "exec", net.client_ns(), "setsid", "sh", "-c", &orphan, &IMTCP])
        .current_dir(scratch.path("."))
        .status()
        .unwrap();
    assert!(status.success());
    let code = || fs::read_to_string(scratch.path("code")).unwrap_or_default();
    eventually("it has ended", || code().ends_with('\n'));
    let said = fs::read_to_string(scratch.path("said")).unwrap();
    assert_eq!(code(), "0\n", "{said}");
    let line = fs::read_to_string(scratch.path("line.json")).unwrap();
    assert_eq!(json(&line)["connections"], 1, "{line}");
    assert!(cgroups_left().is_empty());
}

#[test]
fn a_shell_without_the_bpf_file_system_can_use_what_is_up() {
    let Some(_alone) = alone() else { return };
    let script = "umount -l /sys/fs/bpf && exec \"$0\" status --json";
    let output = Command::new("unshare").args(["-m", "sh", "-c", script, &IMTCP]).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(json(&text(&output.stdout))["up"], true);
}

/// `ip netns exec` gives each network namespace files of /etc of its own.
#[test]
fn an_agent_of_tests_alone_knows_the_names_of_its_network_namespace_as_they_come() {
    use std::io::{BufRead, BufReader};
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let scratch = Scratch::new();
    let etc = EtcOf::new(net.client_ns());
    fs::write(etc.0.join("hosts"), "192.0.2.77 now.example\n").unwrap();
    let peers = scratch.path("peers");
    fs::write(&peers, "now.example\nlater.example\n").unwrap();
    let mut agent = Command::new("ip");
    let line = "exec \"$0\" feed --no-connections --ping 60 --url http://127.0.0.1:1 \"$@\" 2>&1";
    agent.args(["netns", "exec", net.client_ns(), "sh", "-c", line, &IMTCP_AGENT]);
    agent.arg("--peers").arg(&peers).arg("--spool").arg(scratch.path("spool"));
    let mut agent = Background(agent.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(agent.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said = String::new();
    let mut says = |wanted: &str| {
        while !said.contains(wanted) {
            said += &lines.next().unwrap_or_else(|| panic!("it never says {wanted}: {said}"));
        }
    };
    says("ping of 1 peer every");
    says("no address of later.example: ");
    // The same file: it is mounted.
    fs::write(etc.0.join("hosts"), "192.0.2.77 now.example\n192.0.2.78 later.example\n").unwrap();
    says("imtcp-agent: 2 peers in ");
    agent.signal(libc::SIGTERM);
    assert_eq!(agent.finish().status.code(), Some(0));
}

/// /etc/netns/NAME while it lives.
struct EtcOf(std::path::PathBuf);

impl EtcOf {
    fn new(netns: &str) -> Self {
        let dir = std::path::Path::new("/etc/netns").join(netns);
        fs::create_dir_all(&dir).unwrap();
        EtcOf(dir)
    }
}

impl Drop for EtcOf {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        // If nobody else has one.
        let _ = fs::remove_dir("/etc/netns");
    }
}

/// A user without privileges may mount things in a namespace of their own, and must not lead root there.
#[test]
fn a_mount_namespace_of_another_user_namespace_is_not_entered() {
    use std::io::BufRead;
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    imtcp_ok(&["down"]);
    let script =
        "mount -t tmpfs none /sys/fs/bpf && mkdir /sys/fs/bpf/imtcp && echo made; exec sleep 60";
    let made = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn();
    let mut bait = Background(made.unwrap());
    let mut line = String::new();
    std::io::BufReader::new(bait.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line != "made\n" {
        skip("no user namespaces, or no mounts in them");
        return;
    }
    let output = Command::new("ip")
        .args(["netns", "exec", net.client_ns(), &IMTCP, "status", "--json"])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "not up: {said}");
    assert_eq!(json(&text(&output.stdout))["up"], false);
}

/// As containers do that see this machine's BPF file system and have a /run of their own.
#[test]
fn commands_with_another_run_directory_change_what_is_loaded_one_at_a_time() {
    let Some(_alone) = alone() else { return };
    let script = "mount -t tmpfs tmpfs /run || exit; for i in 1 2 3 4; do \
                  \"$0\" up --force && \"$0\" down && \"$0\" up || exit; done";
    let begin = || {
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "sh", "-c", script, &IMTCP]);
        shell.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let shells: Vec<_> = (0..3).map(|_| begin()).collect();
    for shell in shells {
        let output = shell.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    imtcp_ok(&["up"]);
    assert_eq!(json(&imtcp_ok(&["status", "--json"]))["up"], true);
}
