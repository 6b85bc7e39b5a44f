// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A cgroup that imtcp has made. Users may own the one around it: while it is empty they can remove it, and make one of
//! theirs of the same name. That is theirs by its owner, and ours is used by its open directory, not by its path.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{anyhow, bail, Context, Result};
use imtcp_bpf::Obstacle;
use nix::fcntl::{openat, OFlag};
use nix::sys::stat::Mode;
use nix::unistd::geteuid;

use super::mount;

pub struct Own(OwnedFd);

impl Own {
    /// Makes it, or says why it cannot: anywhere else than there the limits around it would not hold.
    pub fn create(dir: &Path) -> Result<Self> {
        let parent = dir.parent().unwrap_or(dir);
        let is_root = mount().is_ok_and(|mount| mount == parent);
        Self::make(dir).with_context(|| {
            let limits = if is_root { "" } else { ", whose limits hold nowhere else" };
            format!("cannot make a cgroup within {}{limits}", parent.display())
        })
    }

    fn make(dir: &Path) -> Result<Self> {
        // Whatever the umask: others could make cgroups in it that keep it there.
        match DirBuilder::new().mode(0o755).create(dir) {
            Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => {
                return Err(no_more_within(dir).into())
            }
            other => other.map_err(|e| Obstacle::unwritable(dir, &e))?,
        }
        let own = Own::require(dir)?;
        // Where some cgroups are of threads, each new one must be.
        let kind = dir.join("cgroup.type");
        if fs::read_to_string(&kind).is_ok_and(|k| k.trim() == "domain invalid") {
            if let Err(e) = fs::write(&kind, "threaded") {
                let _ = fs::remove_dir(dir);
                bail!("it takes only cgroups of threads, and this kernel makes none there: {e}");
            }
        }
        Ok(own)
    }

    /// The one at a path; nothing where none of ours is there.
    pub fn open(dir: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        let directory = options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
        let opened = match directory.open(dir) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => {
                return Ok(None)
            }
            opened => opened?,
        };
        let owner = opened.metadata()?.uid();
        let is_own = owner == 0 || owner == geteuid().as_raw();
        Ok(is_own.then(|| Own(opened.into())))
    }

    /// The same, where one must be.
    pub fn require(dir: &Path) -> Result<Self> {
        Own::open(dir)?.ok_or_else(|| {
            anyhow!(
                "the cgroup {} is gone, or somebody has put another in its place",
                dir.display()
            )
        })
    }

    pub fn is_at(dir: &Path) -> bool {
        Own::open(dir).is_ok_and(|own| own.is_some())
    }

    /// To write pids to, 0 for the own one. Fails where it was removed.
    pub fn procs(&self) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        Ok(openat(&self.0, "cgroup.procs", flags, Mode::empty())?.into())
    }

    /// Moves a process into it.
    pub fn take(&self, pid: i32) -> io::Result<()> {
        self.procs()?.write_all(pid.to_string().as_bytes())
    }
}

impl AsFd for Own {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Names the bound that keeps a cgroup from being made: that of one around it.
fn no_more_within(dir: &Path) -> Obstacle {
    let number = |dir: &Path, file| -> Option<u64> {
        fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()
    };
    let descendants = |dir: &Path| -> Option<u64> {
        let stat = fs::read_to_string(dir.join("cgroup.stat")).ok()?;
        stat.lines().find_map(|l| l.strip_prefix("nr_descendants "))?.parse().ok()
    };
    let full = (1..).zip(dir.ancestors().skip(1)).find_map(|(depth, around)| {
        let many = number(around, "cgroup.max.descendants").zip(descendants(around));
        if many.is_some_and(|(most, now)| now >= most) {
            return Some(around.join("cgroup.max.descendants"));
        }
        let deep = number(around, "cgroup.max.depth").is_some_and(|most| depth > most);
        deep.then(|| around.join("cgroup.max.depth"))
    });
    match full {
        Some(file) => Obstacle::new(
            format!("{} allows no more", file.display()),
            format!("`echo max >{}` does", file.display()),
        ),
        None => Obstacle::new(
            "cgroup.max.descendants or cgroup.max.depth, there or above, allows no more",
            "raise it",
        ),
    }
}
