// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `ip netns exec` gives its command a fresh /sys, without the BPF file system and the cgroups
//! that the rest of the machine has. There imtcp itself works in the mount namespace that it
//! was called from, and its command goes back to the one that it was started in.

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;

use imtcp_common::procfs;
use nix::sched::{setns, CloneFlags};
use nix::unistd::fchdir;

use crate::paths;

/// The way back, for the command.
pub struct Home {
    ns: File,
    cwd: File,
}

impl Home {
    pub fn enter(&self) -> nix::Result<()> {
        setns(self.ns.as_fd(), CloneFlags::CLONE_NEWNS)?;
        fchdir(&self.cwd)
    }
}

/// How much of what we need a mount namespace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Has {
    Nothing,
    Some,
    Mounts,
    /// `imtcp up` has pinned its programs there.
    Pins,
}

/// Enters a mount namespace with the machine's BPF file system and cgroups, if this one has none. An ancestor's
/// comes first, then any process's: a daemon may have no ancestor in sight. Call it before there is a second
/// thread.
pub fn leave_bare_sys() -> Option<Home> {
    let here = has("self");
    if here == Has::Pins {
        return None;
    }
    let root = root_of("self")?;
    let mut seen = vec![fs::read_link("/proc/self/ns/mnt").ok()?];
    let mut best = (here, None);
    for pid in procfs::ancestors().chain(procfs::pids()).map(|pid| pid.to_string()) {
        let Ok(ns) = fs::read_link(format!("/proc/{pid}/ns/mnt")) else { continue };
        if seen.contains(&ns) {
            continue;
        }
        // A process may have changed its root: another of its namespace may tell us more.
        if root_of(&pid) != Some(root) {
            continue;
        }
        seen.push(ns);
        if !is_of_our_users(&pid) {
            continue;
        }
        let there = has(&pid);
        if there > best.0 {
            best = (there, Some(pid));
        }
        if there == Has::Pins {
            break;
        }
    }
    let outer = best.1?;
    let home = Home { ns: File::open("/proc/self/ns/mnt").ok()?, cwd: File::open(".").ok()? };
    let outer = File::open(format!("/proc/{outer}/ns/mnt")).ok()?;
    setns(outer.as_fd(), CloneFlags::CLONE_NEWNS).ok()?;
    // The kernel has put us into the root: what the caller wrote as `./file` is where it was.
    let _ = fchdir(&home.cwd);
    Some(home)
}

/// Does the process's mount namespace belong to our user namespace? A user without privileges can mount anything
/// in one of their own, and must not lead us there.
fn is_of_our_users(pid: &str) -> bool {
    // linux/nsfs.h: _IO(0xb7, 1)
    const NS_GET_USERNS: libc::Ioctl = 0xb701;
    let Ok(ns) = File::open(format!("/proc/{pid}/ns/mnt")) else { return false };
    // SAFETY: the descriptor is open and the call takes no argument; what it gives is new and ours.
    let owner = unsafe {
        match libc::ioctl(ns.as_raw_fd(), NS_GET_USERNS) {
            fd if fd < 0 => return false,
            fd => File::from_raw_fd(fd),
        }
    };
    let number = |file: File| Some(file.metadata().ok()?.ino());
    let own = File::open("/proc/self/ns/user").ok().and_then(number);
    own.is_some() && number(owner) == own
}

/// Identifies a process's root directory. A container has another than ours.
fn root_of(pid: &str) -> Option<(u64, u64)> {
    let root = fs::metadata(format!("/proc/{pid}/root/")).ok()?;
    Some((root.dev(), root.ino()))
}

fn has(pid: &str) -> Has {
    // Not those of container's roots elsewhere.
    let mounts = procfs::read_text(format!("/proc/{pid}/mounts")).unwrap_or_default();
    let is_mounted = |wanted: &str| {
        mounts.lines().any(|line| {
            let mut fields = line.split(' ').skip(1);
            fields.next().is_some_and(|point| point.starts_with("/sys/"))
                && fields.next() == Some(wanted)
        })
    };
    if fs::exists(format!("/proc/{pid}/root{}", paths::dir().display())).unwrap_or(false) {
        return Has::Pins;
    }
    match (is_mounted("cgroup2"), is_mounted("bpf")) {
        (true, true) => Has::Mounts,
        (false, false) => Has::Nothing,
        _ => Has::Some,
    }
}
