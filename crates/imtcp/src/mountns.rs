// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `ip netns exec` gives its command a fresh /sys, without the BPF file system and the cgroups
//! that the rest of the machine has. There imtcp itself works in the mount namespace that it
//! was called from, and its command goes back to the one that it was started in.

use std::fs::{self, File};
use std::os::fd::AsFd;

use nix::sched::{setns, CloneFlags};
use nix::unistd::fchdir;

use crate::procfs;

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

/// Goes to where the machine's BPF file system and cgroups are, when they are not here.
/// Before there is a second thread.
pub fn leave_bare_sys() -> Option<Home> {
    if has_mounts("self") {
        return None;
    }
    let own = fs::read_link("/proc/self/ns/mnt").ok()?;
    let outer = procfs::ancestors().map(|p| p.to_string()).find(|pid| {
        fs::read_link(format!("/proc/{pid}/ns/mnt")).is_ok_and(|ns| ns != own) && has_mounts(pid)
    })?;
    let home = Home { ns: File::open("/proc/self/ns/mnt").ok()?, cwd: File::open(".").ok()? };
    let outer = File::open(format!("/proc/{outer}/ns/mnt")).ok()?;
    setns(outer.as_fd(), CloneFlags::CLONE_NEWNS).ok()?;
    // The kernel has put us into the root: what the caller wrote as `./file` is where it was.
    let _ = fchdir(&home.cwd);
    Some(home)
}

/// Below /sys: a container's root elsewhere may have both.
fn has_mounts(pid: &str) -> bool {
    let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap_or_default();
    mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        fields.next().is_some_and(|point| point.starts_with("/sys/"))
            && matches!(fields.next(), Some("cgroup2" | "bpf"))
    })
}
