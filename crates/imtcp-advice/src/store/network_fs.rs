// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! SQLite on a network file system: refused. Its WAL mode needs memory that all processes share, and
//! locks that always hold; over a network there is neither, and a history can be damaged.
//! (<https://sqlite.org/wal.html>, "Disadvantages", and <https://sqlite.org/howtocorrupt.html>, 2.1.)

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::statfs;

use crate::error::{Error, Result};

/// `f_type` of statfs(2), from Linux's `magic.h` and the file systems' own headers.
const NETWORK: [(u32, &str); 14] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x1983_0326, "BeeGFS"),
    (0x786f_4256, "vboxsf"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
];

/// FUSE is a way to make file systems of any kind: its mount names which.
const FUSE: u32 = 0x6573_5546;
const NETWORK_BY_FUSE: [&str; 10] = [
    "fuse.sshfs",
    "fuse.ceph",
    "fuse.ceph-fuse",
    "fuse.glusterfs",
    "fuse.s3fs",
    "fuse.rclone",
    "fuse.gcsfuse",
    "fuse.davfs2",
    "fuse.juicefs",
    "fuse.cifs",
];

/// Refuses a SQLite history that would be there.
pub(super) fn refuse(path: &Path) -> Result<()> {
    let target = target(path);
    let dir = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = if target.exists() { &target } else { dir };
    // Where the kernel does not tell, opening does.
    let Ok(found) = statfs(place) else { return Ok(()) };
    // A C long of 64 bits holds 32 of them, with or without their sign.
    let magic = found.filesystem_type().0 as u32;
    let kind = match magic {
        FUSE => std::fs::metadata(place).ok().and_then(|m| mounted(m.dev())),
        _ => None,
    };
    match network(magic, kind.as_deref()) {
        None => Ok(()),
        Some(kind) => Err(Error::Open {
            db: path.display().to_string(),
            why: format!(
                "it is on a network file system ({kind}), where SQLite loses data: put it on a local \
                 disk, or use PostgreSQL (--db postgres://…)"
            ),
        }),
    }
}

/// Where a link leads, be there a file or none yet: SQLite makes it there.
pub(super) fn target(path: &Path) -> PathBuf {
    let mut target = path.to_path_buf();
    // As many links as the kernel follows.
    for _ in 0..40 {
        let Ok(next) = std::fs::read_link(&target) else { break };
        target = target.parent().unwrap_or(Path::new("")).join(next);
    }
    target
}

/// The network file system that this is, if it is one.
fn network(magic: u32, fuse_kind: Option<&str>) -> Option<String> {
    if magic == FUSE {
        return fuse_kind.filter(|kind| NETWORK_BY_FUSE.contains(kind)).map(str::to_string);
    }
    NETWORK.iter().find(|(known, _)| *known == magic).map(|(_, name)| name.to_string())
}

/// The kind of what is mounted from a device.
fn mounted(device: u64) -> Option<String> {
    kind_of(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, device)
}

/// As proc_pid_mountinfo(5) has it: `36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw`.
fn kind_of(mountinfo: &str, device: u64) -> Option<String> {
    let device = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let device = format!("{}:{}", device.0, device.1);
    let line = mountinfo.lines().find(|line| line.split(' ').nth(2) == Some(&device))?;
    let (_, after) = line.split_once(" - ")?;
    after.split(' ').next().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_told_from_local_ones_by_their_magic_number() {
        for (magic, name) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x0102_1997, "9p")] {
            assert_eq!(network(magic, None).as_deref(), Some(name));
        }
        // ext4, btrfs, xfs, tmpfs, overlayfs.
        for local in [0xef53, 0x9123_683e, 0x5846_5342, 0x0102_1994, 0x794c_7630] {
            assert_eq!(network(local, None), None);
        }
    }

    #[test]
    fn of_fuse_the_mount_tells_whether_it_is_a_network() {
        assert_eq!(network(FUSE, Some("fuse.sshfs")).as_deref(), Some("fuse.sshfs"));
        assert_eq!(network(FUSE, Some("fuseblk")), None);
        assert_eq!(network(FUSE, None), None);
        let mounts = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
                      80 22 0:52 / /mnt/far\\040away rw - fuse.sshfs me@host: rw,user_id=0\n";
        let device = nix::sys::stat::makedev(0, 52);
        assert_eq!(kind_of(mounts, device).as_deref(), Some("fuse.sshfs"));
        assert_eq!(kind_of(mounts, nix::sys::stat::makedev(9, 9)), None);
    }

    #[test]
    fn a_link_counts_as_where_it_leads_also_where_nothing_is_yet() {
        let dir = tempfile::tempdir().unwrap();
        let link = |name: &str, to: &str| {
            std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
        };
        link("relative", "other/history.db");
        link("twice", "relative");
        link("absolute", "/mnt/far/history.db");
        link("circle", "circle");
        assert_eq!(target(&dir.path().join("twice")), dir.path().join("other/history.db"));
        assert_eq!(target(&dir.path().join("absolute")), Path::new("/mnt/far/history.db"));
        assert_eq!(target(&dir.path().join("none")), dir.path().join("none"));
        target(&dir.path().join("circle"));
    }

    #[test]
    fn a_local_disk_is_no_network() {
        let dir = tempfile::tempdir().unwrap();
        refuse(&dir.path().join("history.db")).unwrap();
    }
}
