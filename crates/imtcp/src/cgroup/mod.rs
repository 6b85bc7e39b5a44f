// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Cgroups of version 2: made for a run, left without a trace.

mod own;
mod removal;
mod tree;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Result};
use imtcp_bpf::Obstacle;
use imtcp_common::format;
use imtcp_common::procfs::{self, Cgroup2};

pub use self::own::Own;
pub use self::removal::{remove, remove_telling, thaw};
pub use self::tree::{ids, procs, visit, Cgroup};

pub fn mount() -> Result<PathBuf, Obstacle> {
    procfs::cgroup2_mount().ok_or_else(|| {
        // Version 1 has a directory for each controller; there version 2 is one of them.
        let beside_version_1 = procfs::has_cgroup1();
        let remedy = if beside_version_1 {
            "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"
        } else {
            "mount -t cgroup2 none /sys/fs/cgroup"
        };
        Obstacle::new("cgroup version 2 is not mounted", format!("mount it: `{remedy}`"))
    })
}

/// The directory of a process's cgroup.
pub fn of_pid(pid: i32) -> Result<PathBuf> {
    mount()?;
    let too_deep = || {
        anyhow!(
            "process {pid} is so deep in cgroups that the kernel takes no path to it: take one around it, with \
             `--cgroup`"
        )
    };
    let path = procfs::cgroup(pid).ok_or_else(|| match procfs::is_alive(pid) {
        true => too_deep(),
        false => anyhow!("there is no process {pid}"),
    })?;
    require_text(Path::new(&path))?;
    let mounted = procfs::cgroup2().and_then(|mounted| dir_of(&mounted, &path));
    if mounted.as_ref().is_some_and(|dir| dir.as_os_str().len() > LONGEST_PATH) {
        return Err(too_deep());
    }
    mounted.filter(|dir| dir.join("cgroup.procs").exists()).ok_or_else(|| {
        anyhow!(
            "the cgroup {} of process {pid} cannot be seen from here (a container, or a cgroup \
             namespace): call imtcp where /sys/fs/cgroup shows it, on the host",
            format::short_name(&path)
        )
    })
}

/// The kernel takes no longer path, and files of a cgroup of ours in it have names, too.
pub const LONGEST_PATH: usize = libc::PATH_MAX as usize - 100;

/// Records name a cgroup by its path, as text.
fn require_text(path: &Path) -> Result<()> {
    match path.to_str() {
        Some(text) if !text.contains(char::REPLACEMENT_CHARACTER) => Ok(()),
        _ => bail!(
            "the name of the cgroup {} is no text (UTF-8), and imtcp could not find it again: take \
             one around it",
            path.display()
        ),
    }
}

/// Where a mount shows a cgroup. Outside of a cgroup namespace paths begin with /../, and the names
/// above are not told.
fn dir_of(mounted: &Cgroup2, path: &str) -> Option<PathBuf> {
    let within = Path::new(path).strip_prefix(&mounted.root).ok()?;
    let is_known = |path: &str| path.split('/').all(|part| part != "..");
    let known = is_known(path) && is_known(&mounted.root);
    known.then(|| mounted.dir.join(within).components().collect())
}

/// The same for one of the whole hierarchy, as /proc and programs in the kernel name it.
pub fn shown_at(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

/// The kernel's number of a cgroup, which one that is made anew under the same name does not have.
pub fn id(dir: &Path) -> Option<u64> {
    Some(fs::metadata(dir).ok()?.ino())
}

pub fn is_populated(dir: &Path) -> bool {
    fs::read_to_string(dir.join("cgroup.events")).is_ok_and(|t| t.contains("populated 1"))
}

pub fn move_pid(pid: i32, to: &Path) -> io::Result<()> {
    fs::write(to.join("cgroup.procs"), pid.to_string())
}

/// The beginning of our cgroups' names; the policy's number follows.
pub const RUN: &str = "imtcp-run-";
pub const ATTACHMENT: &str = "imtcp-attach-";

/// Anybody may give such a name (made.rs).
pub fn has_our_name(dir: &Path) -> bool {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(RUN) || name.starts_with(ATTACHMENT)
}

/// The paths that a user may mean: a full one, or one relative to the mount.
pub fn meant_by(given: &Path) -> Result<Vec<PathBuf>> {
    let relative = mount()?.join(given.strip_prefix("/").unwrap_or(given));
    Ok(given.is_absolute().then(|| given.to_path_buf()).into_iter().chain([relative]).collect())
}

/// The cgroup that a user means.
pub fn resolve(given: &Path) -> Result<PathBuf> {
    let mount = mount()?;
    for dir in meant_by(given)? {
        if let Ok(dir) = dir.canonicalize() {
            if dir.starts_with(&mount) && dir.join("cgroup.procs").exists() {
                require_text(&dir)?;
                return Ok(dir);
            }
        }
    }
    bail!(
        "there is no cgroup {} under {}: /proc/PID/cgroup names that of a process",
        given.display(),
        mount.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_shows_what_is_below_its_root_and_nothing_is_taken_for_the_root() {
        let shown = |root: &str, path: &str| {
            dir_of(&Cgroup2 { dir: "/cg".into(), root: root.into() }, path)
        };
        assert_eq!(shown("/", "/a.slice/b"), Some("/cg/a.slice/b".into()));
        assert_eq!(shown("/docker/a", "/docker/a/b"), Some("/cg/b".into()));
        assert_eq!(shown("/docker/a", "/docker/a"), Some("/cg/".into()));
        assert_eq!(shown("/docker/a", "/user.slice"), None);
        assert_eq!(shown("/", "/../other"), None);
        assert_eq!(shown("/", "/a/..x"), Some("/cg/a/..x".into()));
        assert_eq!(shown("/../..", "/"), None);
    }
}
