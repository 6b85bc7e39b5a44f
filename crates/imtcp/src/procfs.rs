// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What /proc tells: which process holds a socket, its cgroup, its children.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub pid: i32,
    pub command: String,
}

pub fn pids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
}

pub fn exists(pid: i32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(false)
}

/// The name of the process, as ps prints it.
pub fn command(pid: i32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&text).trim_end().to_string())
}

/// The inode in `socket:[12345]`.
fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The descriptors of a process that are sockets, with their inodes.
pub fn sockets(pid: i32) -> Vec<(i32, u64)> {
    fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| {
            let link = fs::read_link(e.path()).ok()?;
            let inode = socket_inode(link.to_str()?)?;
            Some((e.file_name().to_str()?.parse().ok()?, inode))
        })
        .collect()
}

/// Finds the processes that hold the given socket inodes. When several share a socket, the
/// one with the lowest pid is named: rather who opened it than who has inherited it.
pub fn owners(inodes: &HashSet<u64>) -> HashMap<u64, Owner> {
    let mut found = HashMap::new();
    if inodes.is_empty() {
        return found;
    }
    let mut all: Vec<_> = pids().collect();
    all.sort_unstable();
    for pid in all {
        let mut name = None;
        for (_, inode) in sockets(pid) {
            if inodes.contains(&inode) {
                let name = name.get_or_insert_with(|| command(pid).unwrap_or_default());
                found.entry(inode).or_insert_with(|| Owner { pid, command: name.clone() });
            }
        }
    }
    found
}

/// The line of the unified hierarchy in /proc/PID/cgroup.
fn unified_path(text: &str) -> Option<&str> {
    text.lines().find_map(|l| l.strip_prefix("0::"))
}

/// The cgroup (version 2) of a process, as a path inside the hierarchy.
pub fn cgroup(pid: i32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    unified_path(&text).map(str::to_string)
}

/// Where cgroup version 2 is mounted: `/sys/fs/cgroup`, or beside version 1 `…/unified`.
pub fn cgroup2_mount() -> Option<PathBuf> {
    cgroup2_in(&fs::read_to_string("/proc/self/mounts").ok()?)
}

fn cgroup2_in(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, dir, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(unescape(dir)))
    })
}

/// Mount points have blanks as `\040` and the like.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

/// What all NFS mounts have sent to their servers by write, as far as they can be seen from here.
pub fn nfs_bytes_written() -> u64 {
    nfs_bytes_in(&fs::read_to_string("/proc/self/mountstats").unwrap_or_default())
}

/// One file system may be mounted at several places, with the same counters at each.
fn nfs_bytes_in(mountstats: &str) -> u64 {
    let mut of_device = HashMap::new();
    let mut device = "";
    for line in mountstats.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("device") => device = words.next().unwrap_or_default(),
            // read and written: by read(2) and write(2), by O_DIRECT, and over the network
            Some("bytes:") => {
                let written: u64 = words.nth(5).and_then(|w| w.parse().ok()).unwrap_or(0);
                of_device.insert(device, written);
            }
            _ => {}
        }
    }
    of_device.values().sum()
}

/// The parent's pid in /proc/PID/stat. The command's name may hold blanks and brackets.
fn parent_in(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

pub fn parent(pid: i32) -> Option<i32> {
    parent_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The processes that this one descends from, its parent first.
pub fn ancestors() -> impl Iterator<Item = i32> {
    std::iter::successors(parent(std::process::id() as i32), |p| parent(*p)).take_while(|p| *p > 0)
}

/// A process and all that descend from it.
pub fn tree(root: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in pids() {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(parent) = parent_in(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        found.extend(children.remove(&found[next]).unwrap_or_default());
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_told_from_other_files() {
        assert_eq!(socket_inode("socket:[12345]"), Some(12345));
        assert_eq!(socket_inode("pipe:[12345]"), None);
        assert_eq!(socket_inode("/dev/null"), None);
    }

    #[test]
    fn the_unified_line_is_found_among_version_1() {
        let text = "9:name=systemd:/\n4:memory:/a\n0::/user.slice/x.scope\n";
        assert_eq!(unified_path(text), Some("/user.slice/x.scope"));
        assert_eq!(unified_path("4:memory:/a\n"), None);
    }

    #[test]
    fn the_mount_of_version_2_is_found_on_hybrid_systems() {
        let text = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                    cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                    cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(cgroup2_in(text), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(cgroup2_in("none /odd\\040dir cgroup2 rw 0 0"), Some("/odd dir".into()));
        assert_eq!(cgroup2_in("tmpfs / tmpfs rw 0 0\n"), None);
    }

    #[test]
    fn what_nfs_has_written_is_counted_once_for_each_file_system() {
        let text = "device rootfs mounted on / with fstype rootfs\n\
                    device a:/x mounted on /mnt with fstype nfs4 statvers=1.1\n\
                    \topts:\trw\n\tbytes:\t1 2 3 4 5 6000 7 8\n\
                    device a:/x mounted on /srv with fstype nfs4 statvers=1.1\n\
                    \tbytes:\t1 2 3 4 5 6000 7 8\n\
                    device b:/y mounted on /y with fstype nfs statvers=1.1\n\
                    \tbytes:\t0 0 0 0 0 50 0 0\n";
        assert_eq!(nfs_bytes_in(text), 6050);
        assert_eq!(nfs_bytes_in("device proc mounted on /proc with fstype proc\n"), 0);
    }

    #[test]
    fn names_with_brackets_do_not_hide_the_parent() {
        assert_eq!(parent_in("12 (a) b) S 34 12 12 0"), Some(34));
        assert_eq!(parent_in(""), None);
    }

    #[test]
    fn this_process_is_its_own_tree() {
        let own = std::process::id() as i32;
        assert_eq!(tree(own).first(), Some(&own));
    }
}
