// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Cgroups of version 2: made for a run, left without a trace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};

use crate::procfs;

pub fn mount() -> Result<PathBuf> {
    procfs::cgroup2_mount().ok_or_else(|| {
        anyhow::anyhow!(
            "cgroup version 2 is not mounted: \
             `mount -t cgroup2 none /sys/fs/cgroup/unified` mounts it beside version 1"
        )
    })
}

/// The directory of a process's cgroup; the root of the mount when it cannot be seen.
pub fn of_pid(pid: i32) -> Result<PathBuf> {
    let mount = mount()?;
    let path = procfs::cgroup(pid).unwrap_or_default();
    let dir = mount.join(path.trim_start_matches('/'));
    // Outside of this cgroup namespace the path begins with /../.
    let visible = !path.contains("/..") && dir.join("cgroup.procs").exists();
    Ok(if visible { dir } else { mount })
}

/// Makes a cgroup as a child of the given one, or of the root where that cannot be.
pub fn create(parent: &Path, name: &str) -> Result<PathBuf> {
    let mount = mount()?;
    create_in(parent, name)
        .or_else(|e| if parent == mount { Err(e) } else { create_in(&mount, name) })
}

fn create_in(parent: &Path, name: &str) -> Result<PathBuf> {
    let dir = parent.join(name);
    if let Err(e) = fs::create_dir(&dir) {
        if e.kind() != io::ErrorKind::AlreadyExists {
            return Err(e).with_context(|| format!("cannot make the cgroup {}", dir.display()));
        }
    }
    // Below a threaded cgroup a new one takes no processes.
    let kind = fs::read_to_string(dir.join("cgroup.type")).unwrap_or_default();
    if kind.trim() == "domain invalid" || kind.trim() == "threaded" {
        let _ = fs::remove_dir(&dir);
        bail!("{} does not take cgroups with processes", parent.display());
    }
    Ok(dir)
}

/// The processes of a cgroup and of those in it.
pub fn procs(dir: &Path) -> Vec<i32> {
    let mut found: Vec<i32> = own_procs(dir);
    for child in children(dir) {
        found.extend(procs(&child));
    }
    found
}

fn own_procs(dir: &Path) -> Vec<i32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|l| l.parse().ok()).collect()
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

pub fn is_populated(dir: &Path) -> bool {
    fs::read_to_string(dir.join("cgroup.events")).is_ok_and(|t| t.contains("populated 1"))
}

pub fn move_pid(pid: i32, to: &Path) -> io::Result<()> {
    fs::write(to.join("cgroup.procs"), pid.to_string())
}

/// Removes a cgroup and those in it; what still runs there is moved to `refuge`, or to what that was
/// in where it is gone.
pub fn remove(dir: &Path, refuge: &Path) -> Result<usize> {
    let refuge = refuge.ancestors().find(|d| d.join("cgroup.procs").exists()).unwrap_or(refuge);
    let mut moved = 0;
    // Processes may fork while they are moved: again until none is left.
    for _ in 0..100 {
        for child in children(dir) {
            moved += remove(&child, refuge)?;
        }
        for pid in own_procs(dir) {
            match move_pid(pid, refuge) {
                Ok(()) => moved += 1,
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                Err(e) => {
                    return Err(e).with_context(|| {
                        format!("cannot move process {pid} to {}", refuge.display())
                    })
                }
            }
        }
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(moved),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(moved),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                // Dying processes hold it for an instant.
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(e) => return Err(e).with_context(|| format!("cannot remove {}", dir.display())),
        }
    }
    bail!("the cgroup {} does not become empty", dir.display())
}

/// What a user wrote: a full path, or relative to the mount.
pub fn resolve(given: &Path) -> Result<PathBuf> {
    let mount = mount()?;
    let mut candidates = vec![mount.join(given.strip_prefix("/").unwrap_or(given))];
    if given.is_absolute() {
        candidates.insert(0, given.to_path_buf());
    }
    for dir in candidates {
        if let Ok(dir) = dir.canonicalize() {
            if dir.starts_with(&mount) && dir.join("cgroup.procs").exists() {
                return Ok(dir);
            }
        }
    }
    bail!("there is no cgroup {} under {}", given.display(), mount.display())
}
