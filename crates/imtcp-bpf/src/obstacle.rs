// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What stands in the way on this machine, and what to do about it. `imtcp doctor` prints the two on
//! lines of their own, every other command as one sentence.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    pub found: String,
    pub remedy: String,
}

impl Obstacle {
    pub fn new(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Obstacle { found: found.into(), remedy: remedy.into() }
    }

    /// A file or directory that imtcp has to make or change, and cannot.
    pub fn unwritable(path: &Path, error: &io::Error) -> Self {
        let remedy = match error.raw_os_error() {
            Some(libc::EROFS) => {
                let mount = mount_point(path);
                let mount = mount.display();
                format!(
                    "make {mount} writable: `mount -o remount,rw {mount}`, or start the container \
                     with it writable, or the unit without Protect… of it"
                )
            }
            Some(libc::ENOSPC | libc::EDQUOT) => "make room on its file system".into(),
            Some(libc::EPERM | libc::EACCES) => {
                "start imtcp as root of the machine, outside of a container".into()
            }
            _ => "look at what is there with `ls -ld`".into(),
        };
        Obstacle::new(format!("cannot write {}: {error}", path.display()), remedy)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.found, self.remedy)
    }
}

impl std::error::Error for Obstacle {}

/// Where the file system of a path is mounted.
fn mount_point(path: &Path) -> PathBuf {
    // One mount point that is no text must not hide the others.
    let mounts = fs::read("/proc/self/mounts").unwrap_or_default();
    deepest_mount(&String::from_utf8_lossy(&mounts), path)
}

fn deepest_mount(mounts: &str, path: &Path) -> PathBuf {
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
    let around = points.filter(|point| path.starts_with(point));
    around.max_by_key(|point| point.components().count()).unwrap_or(Path::new("/")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_on_the_deepest_mount_around_it() {
        let mounts = "none / ext4 rw 0 0\ntmpfs /run tmpfs ro 0 0\ntmpfs /run/user tmpfs rw 0 0\n";
        let of = |path: &str| deepest_mount(mounts, Path::new(path));
        assert_eq!(of("/run/imtcp/lock"), Path::new("/run"));
        assert_eq!(of("/running"), Path::new("/"));
        assert_eq!(deepest_mount("", Path::new("/run")), Path::new("/"));
    }

    #[test]
    fn the_cause_decides_what_to_do() {
        let said = |errno| {
            let error = io::Error::from_raw_os_error(errno);
            Obstacle::unwritable(Path::new("/nowhere/x"), &error).to_string()
        };
        assert!(said(libc::EROFS).starts_with(
            "cannot write /nowhere/x: Read-only file system (os error 30): make / writable: "
        ));
        assert!(said(libc::ENOSPC).ends_with(": make room on its file system"));
        assert!(said(libc::EPERM).ends_with("outside of a container"));
    }
}
