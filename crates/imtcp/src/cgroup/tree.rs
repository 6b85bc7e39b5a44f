// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A cgroup and those in it. Users nest theirs as they like, and the kernel takes no path to a deep one. So imtcp opens
//! each from the one around it. The work grows with their number alone.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use imtcp_common::procfs;
use nix::dir::Dir;
use nix::fcntl::{open, openat, OFlag};
use nix::sys::stat::Mode;
use nix::unistd::{unlinkat, UnlinkatFlags};

/// One cgroup of a tree, open.
pub struct Cgroup<'a> {
    dir: &'a OwnedFd,
    /// For names and messages: no call takes one that is too long.
    pub path: &'a Path,
}

impl Cgroup<'_> {
    /// The kernel's number of it.
    pub fn id(&self) -> io::Result<u64> {
        Ok(File::from(self.dir.try_clone()?).metadata()?.ino())
    }

    /// Its processes, without those of cgroups in it.
    pub fn procs(&self) -> BTreeSet<i32> {
        // 0: of another pid namespace. Written back, it would mean ourselves.
        let numbers = |file| -> BTreeSet<i32> {
            let text = self.read(file);
            text.lines().filter_map(|l| l.parse().ok()).filter(|pid| *pid != 0).collect()
        };
        let mut found = numbers("cgroup.procs");
        // The kernel lists only threads for a cgroup of threads, and for a process whose first thread ended.
        let threads = numbers("cgroup.threads");
        found.extend(threads.difference(&found.clone()).copied().filter_map(procfs::process_of));
        found
    }

    /// Is a process in it, or in one below?
    pub fn is_populated(&self) -> bool {
        self.read("cgroup.events").contains("populated 1")
    }

    /// Removes it, empty as it must be.
    fn remove(&self) -> io::Result<()> {
        let Some(name) = self.path.file_name() else { return Ok(()) };
        let around = open_dir(self.dir, OsStr::new(".."))?;
        match unlinkat(&around, name, UnlinkatFlags::RemoveDir) {
            Ok(()) | Err(nix::Error::ENOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Empty where it was removed meanwhile.
    fn read(&self, file: &str) -> String {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let mut text = String::new();
        if let Ok(file) = openat(self.dir, file, flags, Mode::empty()) {
            let _ = File::from(file).read_to_string(&mut text);
        }
        text
    }
}

/// Visits a cgroup and those in it, inner ones first, without those that `goes_into` says no of and all in these.
/// One that somebody removes meanwhile is passed over.
pub fn visit(
    top: &Path,
    mut goes_into: impl FnMut(&Cgroup) -> bool,
    mut take: impl FnMut(&Cgroup),
) -> io::Result<()> {
    let Some(mut dir) = unless_gone(open(top, DIRECTORY, Mode::empty()))? else { return Ok(()) };
    let mut path = top.to_path_buf();
    // Names of those within each that is open, which are still to be visited. Only the innermost is open.
    let mut left = vec![names_in(&dir)?];
    while let Some(names) = left.last_mut() {
        if let Some(name) = names.pop() {
            let name = OsStr::from_bytes(name.as_bytes());
            let Some(inner) = unless_gone(open_dir(&dir, name))? else { continue };
            path.push(name);
            if goes_into(&Cgroup { dir: &inner, path: &path }) {
                left.push(names_in(&inner)?);
                dir = inner;
            } else {
                path.pop();
            }
            continue;
        }
        take(&Cgroup { dir: &dir, path: &path });
        left.pop();
        if !left.is_empty() {
            path.pop();
            dir = open_dir(&dir, OsStr::new(".."))?;
        }
    }
    Ok(())
}

/// The same of those that have processes.
pub fn visit_populated(top: &Path, take: impl FnMut(&Cgroup)) -> io::Result<()> {
    visit(top, |cgroup| cgroup.is_populated(), take)
}

/// The processes of a cgroup and of those in it.
pub fn procs(dir: &Path) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    // One that cannot be read is gone.
    let _ = visit_populated(dir, |cgroup| found.extend(cgroup.procs()));
    found
}

/// The kernel's numbers of a cgroup and of those in it.
pub fn ids(dir: &Path) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let _ = visit(dir, |_| true, |cgroup| found.extend(cgroup.id()));
    found
}

/// Removes cgroups without processes, those within first. Fails with the first that stays.
pub fn remove(dir: &Path) -> io::Result<()> {
    let mut stays = None;
    visit(dir, |_| true, |cgroup| stays = stays.take().or(cgroup.remove().err()))?;
    stays.map_or(Ok(()), Err)
}

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

fn open_dir(around: &OwnedFd, name: &OsStr) -> nix::Result<OwnedFd> {
    openat(around, name, DIRECTORY, Mode::empty())
}

/// Nothing where somebody has removed it meanwhile: that ends no walk.
fn unless_gone<T>(done: nix::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(nix::Error::ENOENT | nix::Error::ENODEV) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// The cgroups in one that is open.
fn names_in(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    let opened = open_dir(dir, OsStr::new(".")).and_then(Dir::from_fd);
    let Some(mut entries) = unless_gone(opened)? else { return Ok(Vec::new()) };
    let is_dir = |entry: &nix::dir::Entry| entry.file_type() == Some(nix::dir::Type::Directory);
    let names = entries.iter().filter_map(Result::ok).filter(is_dir);
    let is_inner = |name: &CString| ![c".", c".."].contains(&name.as_c_str());
    Ok(names.map(|entry| entry.file_name().to_owned()).filter(is_inner).collect())
}
