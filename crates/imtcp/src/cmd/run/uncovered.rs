// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What a run does that no congestion control of ours holds back. It is watched while the run goes on: the line at the
//! run's end names what was seen, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use imtcp_bpf::uncovered::{self, UnixPeer};
use imtcp_common::procfs;
use nix::unistd::Pid;
use serde::Serialize;

use crate::cgroup;
use crate::made::Made;

/// Everything that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Uncovered {
    /// Sent by UDP; null where this kernel does not count it.
    pub udp_bytes: Option<u64>,
    /// The same by IP without TCP and UDP, and by raw sockets of IP; packet sockets pass by what counts.
    pub other_bytes: Option<u64>,
    /// Written by NFS, of the whole machine, while the run went on.
    pub nfs_bytes: u64,
    /// That the command turned to, and that send by themselves.
    pub daemons: Vec<Daemon>,
    /// The first process that left the run's cgroup.
    pub moved: Option<Moved>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Daemon {
    pub name: &'static str,
    pub path: String,
    /// How to have imtcp hold it back.
    #[serde(skip)]
    pub remedy: &'static str,
    /// It sends nothing itself, and may have had a service send.
    #[serde(skip)]
    pub is_go_between: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    pub command: String,
    pub cgroup: String,
}

/// Looks on.
pub struct Watch {
    counters: uncovered::Uncovered,
    cgroup: PathBuf,
    nfs_before: u64,
    moved: Arc<OnceLock<Moved>>,
}

impl Watch {
    /// Before the command begins, with the privilege to load programs.
    pub fn new(cgroup: &Path, dir: BorrowedFd) -> Self {
        Watch {
            counters: uncovered::Uncovered::watch(dir),
            cgroup: cgroup.to_path_buf(),
            nfs_before: procfs::nfs_bytes_written(),
            moved: Arc::default(),
        }
    }

    /// From the command's start, for as long as this process lives.
    pub fn follow(&self, child: Pid) -> Result<()> {
        let mount = cgroup::mount()?;
        let own = self.cgroup.clone();
        let moved = self.moved.clone();
        thread::Builder::new().name("moved".into()).spawn(move || {
            let mut wait = FIRST_LOOK;
            loop {
                thread::sleep(wait);
                wait = (wait * 2).min(LOOK);
                if let Some(found) = first_outside(&mount, &own, child) {
                    let _ = moved.set(found);
                    return;
                }
            }
        })?;
        Ok(())
    }

    pub fn seen(&self) -> Uncovered {
        let peers = self.counters.unix_peers();
        Uncovered {
            udp_bytes: self.counters.udp_bytes(),
            other_bytes: self.counters.other_bytes(),
            nfs_bytes: procfs::nfs_bytes_written().saturating_sub(self.nfs_before),
            daemons: self.daemons(peers),
            moved: self.moved.get().cloned().or_else(|| self.moved_in_passing()),
        }
    }

    /// Those that are not of the run itself.
    fn daemons(&self, peers: BTreeSet<UnixPeer>) -> Vec<Daemon> {
        let known = |peer: UnixPeer| is_there(&peer).then(|| daemon(peer)).flatten();
        let mut found: Vec<Daemon> = peers.into_iter().filter_map(known).collect();
        if !found.is_empty() {
            let of_run = procfs::unix_sockets_of(&cgroup::procs(&self.cgroup));
            // ssh binds its master to such a name, and links it to the one that others use.
            let made_by = |path: &str, own: &str| {
                own.strip_prefix(path).is_some_and(|end| end.is_empty() || end.starts_with('.'))
            };
            found.retain(|d| !of_run.iter().any(|own| made_by(&d.path, own)));
        }
        found
    }

    /// One that was moved and has ended between two looks. A cgroup that imtcp made may be gone since, and only its
    /// name is left. Only root moves anything there.
    fn moved_in_passing(&self) -> Option<Moved> {
        let mount = cgroup::mount().ok()?;
        self.counters.moved().into_iter().find_map(|moved| {
            // A program sees so many cgroups around a process.
            if cgroup::shown_at(&mount, &moved.cgroup).starts_with(&self.cgroup) {
                return None;
            }
            let is_ours =
                moved.by_root && { Path::new(&moved.cgroup).ancestors() }.any(cgroup::has_our_name);
            (!is_ours).then_some(Moved { command: moved.command, cgroup: moved.cgroup })
        })
    }
}

/// A program of ours sees who is moved; a kernel without it has these looks alone, and whoever leaves and ends
/// between two is not seen. Processes leave soon after their start (su and its session, snap), and each look reads all of /proc.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_secs(5);

fn first_outside(mount: &Path, own: &Path, child: Pid) -> Option<Moved> {
    procfs::tree(child.as_raw()).into_iter().find_map(|pid| {
        let cgroup = procfs::cgroup(pid)?;
        let dir = cgroup::shown_at(mount, &cgroup);
        // Not where a run or an attachment inside has it, which counts it.
        let has_left = !dir.starts_with(own) && !Made::now().holds(&dir);
        has_left.then_some(Moved { command: procfs::command(pid)?, cgroup })
    })
}

/// A command that finds nobody there makes its connections itself. A path from the command's own directory cannot
/// be looked at from here.
fn is_there(peer: &UnixPeer) -> bool {
    is_bare_name(&peer.path) || fs::metadata(&peer.path).is_ok_and(|m| m.file_type().is_socket())
}

fn is_bare_name(path: &str) -> bool {
    DAEMONS.iter().any(|(end, ..)| path == end.trim_start_matches('/'))
}

/// Only those that are known to send what they are asked to: others answer and that is all.
fn daemon(peer: UnixPeer) -> Option<Daemon> {
    let rooted = format!("/{}", peer.path.trim_start_matches('/'));
    let by_path = DAEMONS.iter().find(|(end, ..)| rooted.ends_with(end));
    let (name, remedy) = match by_path {
        Some((_, name, remedy)) => (*name, *remedy),
        None if is_ssh_master(&peer) => {
            ("a shared ssh connection", "give ssh `-o ControlPath=none`")
        }
        None => return None,
    };
    Some(Daemon { name, path: peer.path, remedy, is_go_between: name == SYSTEM_BUS })
}

const SYSTEM_BUS: &str = "the system's D-Bus";

const DAEMONS: [(&str, &str, &str); 7] = [
    (
        "/docker.sock",
        "docker's daemon",
        "attach the container's cgroup, as `imtcp attach --cgroup system.slice/docker-ID.scope`",
    ),
    ("/podman.sock", "podman's service", "`imtcp attach --cgroup system.slice/podman.service`"),
    ("/containerd.sock", "containerd", "`imtcp attach --cgroup system.slice/containerd.service`"),
    ("/snapd.socket", "snapd", "`imtcp attach --cgroup system.slice/snapd.service`"),
    ("/snapd-snap.socket", "snapd", "`imtcp attach --cgroup system.slice/snapd.service`"),
    ("/run/systemd/private", "systemd", "`imtcp attach --cgroup system.slice/NAME.service`"),
    (
        "/dbus/system_bus_socket",
        SYSTEM_BUS,
        "of `systemd-run` `imtcp attach --cgroup system.slice/NAME.service` takes the unit",
    ),
];

/// ssh asks an agent too, but for connections of its own.
fn is_ssh_master(peer: &UnixPeer) -> bool {
    let is_agent = std::env::var_os("SSH_AUTH_SOCK").is_some_and(|s| s == peer.path.as_str())
        || is_agents_name(Path::new(&peer.path));
    peer.command == "ssh" && !is_agent
}

/// As ssh, gpg, keyrings and X servers name theirs. A ControlPath may have their words in it.
fn is_agents_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let dir = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    name.starts_with("agent.")
        || name.starts_with("S.gpg-agent")
        || ["ssh-agent", "ssh-agent.socket", "ssh-agent.sock", "openssh_agent"].contains(&&*name)
        || ["keyring", ".X11-unix"].contains(&&*dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(command: &str, path: &str) -> Option<&'static str> {
        daemon(UnixPeer { command: command.into(), path: path.into() }).map(|d| d.name)
    }

    #[test]
    fn daemons_that_send_are_told_from_those_that_answer() {
        assert_eq!(name_of("docker", "/var/run/docker.sock"), Some("docker's daemon"));
        assert_eq!(name_of("anything", "/run/user/7/podman/podman.sock"), Some("podman's service"));
        assert_eq!(name_of("docker", "docker.sock"), Some("docker's daemon"));
        assert_eq!(name_of("ssh", "/root/.ssh/cm-host:22"), Some("a shared ssh connection"));
        for path in ["/tmp/ssh-x/agent.4", "/run/user/7/gnupg/S.gpg-agent.ssh", "/tmp/.X11-unix/X0"]
        {
            assert_eq!(name_of("ssh", path), None, "{path}");
        }
        for path in ["/root/.ssh/cm-agent-host:22", "/root/X11/cm", "/home/agent/.ssh/cm"] {
            assert_eq!(name_of("ssh", path), Some("a shared ssh connection"), "{path}");
        }
        assert_eq!(name_of("systemd-run", "/run/dbus/system_bus_socket"), Some(SYSTEM_BUS));
        assert_eq!(name_of("curl", "/var/run/nscd/socket"), None);
    }
}
