// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What /proc tells: which process holds a socket, its cgroup, its children.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

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

/// A file of /proc. Names in it are what others chose: one byte that is no text must not hide the rest.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// The inode in `socket:[12345]`.
fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The descriptors of a process that are sockets, with their inodes; none where they cannot be read.
pub fn sockets(pid: i32) -> Vec<(i32, u64)> {
    read_sockets(pid).unwrap_or_default()
}

/// The same, or why they cannot be read.
pub fn read_sockets(pid: i32) -> io::Result<Vec<(i32, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
        // The names may be read where what is behind them may not.
        let link = match fs::read_link(entry.path()) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(e),
            link => link.unwrap_or_default(),
        };
        let inode = link.to_str().and_then(socket_inode);
        let fd = entry.file_name().to_str().and_then(|name| name.parse().ok());
        found.extend(fd.zip(inode));
    }
    Ok(found)
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

/// TCP sockets that the io_urings of a process hold, by inode: a program may register a socket there and
/// close its descriptor.
pub fn sockets_of_io_uring(pid: i32) -> HashSet<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let rings = entries.filter(|entry| {
        fs::read_link(entry.path()).is_ok_and(|l| l.as_os_str() == "anon_inode:[io_uring]")
    });
    let mut held = HashSet::new();
    for ring in rings {
        let info = format!("/proc/{pid}/fdinfo/{}", ring.file_name().to_string_lossy());
        held.extend(registered_sockets(&read_text(info).unwrap_or_default()));
    }
    if !held.is_empty() {
        let tcp = tcp_inodes(pid);
        held.retain(|inode| tcp.contains(inode));
    }
    held
}

/// The inodes in lines like `    0: socket:[12345]` of an io_uring's fdinfo.
fn registered_sockets(fdinfo: &str) -> impl Iterator<Item = u64> + '_ {
    fdinfo.lines().filter_map(|line| socket_inode(line.split_once(": ")?.1))
}

/// The inodes of the TCP sockets in a process's network namespace.
fn tcp_inodes(pid: i32) -> HashSet<u64> {
    let mut found = HashSet::new();
    for table in ["tcp", "tcp6"] {
        let text = read_text(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let inode = |line: &str| line.split_ascii_whitespace().nth(9)?.parse::<u64>().ok();
        found.extend(text.lines().skip(1).filter_map(inode));
    }
    found
}

/// The names of the Unix sockets that processes hold.
pub fn unix_sockets_of(pids: &BTreeSet<i32>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for pid in pids {
        let held: HashSet<u64> = sockets(*pid).into_iter().map(|(_, inode)| inode).collect();
        let text = read_text(format!("/proc/{pid}/net/unix")).unwrap_or_default();
        let named = text.lines().filter_map(unix_socket_in);
        found.extend(named.filter(|(inode, _)| held.contains(inode)).map(|(_, name)| name.into()));
    }
    found
}

/// The inode and the name in a line of /proc/net/unix; most sockets have no name.
fn unix_socket_in(line: &str) -> Option<(u64, &str)> {
    let mut rest = line.trim_end();
    for _ in 0..6 {
        rest = rest.split_once(' ')?.1.trim_start();
    }
    let (inode, name) = rest.split_once(' ')?;
    Some((inode.parse().ok()?, name))
}

/// The line of the unified hierarchy in /proc/PID/cgroup.
fn unified_path(text: &str) -> Option<&str> {
    text.lines().find_map(|l| l.strip_prefix("0::"))
}

/// The cgroup (version 2) of a process, as a path inside the hierarchy; none where that is longer than the kernel
/// tells. The first thread stays where it was when it ended: one that lives tells.
pub fn cgroup(pid: i32) -> Option<String> {
    let thread = living_threads(pid).next().unwrap_or(pid);
    let text = read_text(format!("/proc/{thread}/cgroup")).ok()?;
    // A kernel tells nothing of such, or its beginning.
    let is_whole = |path: &&str| path.len() < libc::PATH_MAX as usize - 1;
    unified_path(&text).filter(is_whole).map(str::to_string)
}

/// A mount of cgroup version 2: where it is, and which cgroup its directory shows (a container may have
/// but its own).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup2 {
    pub dir: PathBuf,
    pub root: String,
}

/// Where cgroup version 2 is mounted: `/sys/fs/cgroup`, or beside version 1 `…/unified`.
pub fn cgroup2() -> Option<Cgroup2> {
    cgroup2_in(&read_text("/proc/self/mountinfo").ok()?)
}

pub fn cgroup2_mount() -> Option<PathBuf> {
    Some(cgroup2()?.dir)
}

/// Is a hierarchy of version 1 mounted?
pub fn has_cgroup1() -> bool {
    let mounts = read_text("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(2) == Some("cgroup"))
}

fn cgroup2_in(mountinfo: &str) -> Option<Cgroup2> {
    mountinfo.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, dir) = (fields.next()?, fields.next()?);
        kind.starts_with("cgroup2 ")
            .then(|| Cgroup2 { dir: unescape(dir).into(), root: unescape(root) })
    })
}

/// Mount points have blanks as `\040` and the like.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

/// Bytes that all visible NFS mounts have written to their servers.
pub fn nfs_bytes_written() -> u64 {
    nfs_bytes_in(&read_text("/proc/self/mountstats").unwrap_or_default())
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

/// A field of /proc/PID/stat after the command's name, which may hold blanks and brackets. The state,
/// which comes first, is 0.
fn stat_field<T: FromStr>(stat: &str, index: usize) -> Option<T> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// The parent's pid in /proc/PID/stat.
fn parent_in(stat: &str) -> Option<i32> {
    stat_field(stat, 1)
}

pub fn parent(pid: i32) -> Option<i32> {
    parent_in(&read_text(format!("/proc/{pid}/stat")).ok()?)
}

/// When a process that runs began, in clock ticks since boot: a pid is used again, both together are not.
/// One that has ended stays in sight until its parent asks. A process lives while one of its threads does.
pub fn alive_since_ticks(pid: i32) -> Option<u64> {
    living_threads(pid).next()?;
    stat_field(&read_text(format!("/proc/{pid}/stat")).ok()?, 19)
}

/// The threads of a process that have not ended, its first one first.
pub fn living_threads(pid: i32) -> impl Iterator<Item = i32> {
    let others = std::iter::once(pid).flat_map(threads).filter(move |thread| *thread != pid);
    std::iter::once(pid)
        .chain(others)
        .filter(|thread| state(*thread).is_some_and(|state| !matches!(state, 'Z' | 'X')))
}

/// The state of a process or thread, a letter as in /proc.
pub fn state(pid: i32) -> Option<char> {
    stat_field(&read_text(format!("/proc/{pid}/stat")).ok()?, 0)
}

fn threads(pid: i32) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok())
}

/// One thread for each table of descriptors that a process has. Nearly all threads share one.
pub fn descriptor_tables(pid: i32) -> Vec<i32> {
    let mut found: Vec<i32> = Vec::new();
    for thread in living_threads(pid) {
        if !found.iter().any(|other| share_descriptors(*other, thread)) {
            found.push(thread);
        }
    }
    found
}

/// Where the kernel does not tell, a second look at the same table changes nothing. Who may not ask may
/// not look either: one table is enough to find that out.
fn share_descriptors(thread: i32, other: i32) -> bool {
    const KCMP_FILES: i32 = 2;
    // SAFETY: takes integers and compares only.
    match unsafe { libc::syscall(libc::SYS_kcmp, thread, other, KCMP_FILES, 0, 0) } {
        -1 => io::Error::last_os_error().kind() == io::ErrorKind::PermissionDenied,
        order => order == 0,
    }
}

pub fn is_alive(pid: i32) -> bool {
    alive_since_ticks(pid).is_some()
}

/// Has a signal stopped it? A debugger's stop is another one.
pub fn is_stopped(pid: i32) -> bool {
    let stat = read_text(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat_field(&stat, 0) == Some('T')
}

/// Does it run no program, as the kernel's own threads?
pub fn is_of_kernel(pid: i32) -> bool {
    let flags = read_text(format!("/proc/{pid}/stat")).ok().and_then(|s| stat_field::<u32>(&s, 6));
    const PF_KTHREAD: u32 = 0x0020_0000;
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// The process that a thread belongs to.
pub fn process_of(thread: i32) -> Option<i32> {
    let status = read_text(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|l| l.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// The cgroups (version 2) that the threads of a process are in: more than one only where threads have
/// cgroups of their own.
pub fn cgroups_of_threads(pid: i32) -> BTreeSet<String> {
    living_threads(pid)
        .filter_map(|thread| {
            let text = read_text(format!("/proc/{thread}/cgroup")).ok()?;
            unified_path(&text).map(str::to_string)
        })
        .collect()
}

/// The processes that this one descends from, its parent first.
pub fn ancestors() -> impl Iterator<Item = i32> {
    std::iter::successors(parent(std::process::id() as i32), |p| parent(*p)).take_while(|p| *p > 0)
}

/// The kernel's number of the pid namespace whose pids this process sees.
pub fn pid_namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    Some(fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

/// Where this process's arguments begin and end in its memory.
pub fn own_arguments() -> Option<(usize, usize)> {
    let stat = read_text("/proc/self/stat").ok()?;
    Some((stat_field(&stat, 45)?, stat_field(&stat, 46)?))
        .filter(|(start, end)| 0 < *start && start <= end)
}

/// Who descends from whom, at a moment.
pub struct Families(HashMap<i32, Vec<i32>>);

impl Families {
    pub fn now() -> Self {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for pid in pids() {
            if let Some(parent) = parent(pid) {
                children.entry(parent).or_default().push(pid);
            }
        }
        Families(children)
    }

    /// A process and all that descend from it.
    pub fn tree(&self, root: i32) -> Vec<i32> {
        // A pid that was used again while they were read could close a circle.
        let mut seen = HashSet::from([root]);
        let mut found = vec![root];
        let mut next = 0;
        while next < found.len() {
            let children = self.0.get(&found[next]).into_iter().flatten().copied();
            found.extend(children.filter(|child| seen.insert(*child)));
            next += 1;
        }
        found
    }
}

/// A process and all that descend from it.
pub fn tree(root: i32) -> Vec<i32> {
    Families::now().tree(root)
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
    fn a_unix_socket_is_told_by_its_name_which_may_have_blanks() {
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/a b.sock";
        assert_eq!(unix_socket_in(line), Some((12345, "/run/a b.sock")));
        let line = "0000000000000000: 00000002 00000000 00000000 0002 01   345 @/abstract";
        assert_eq!(unix_socket_in(line), Some((345, "@/abstract")));
        let line = "0000000000000000: 00000003 00000000 00000000 0001 03 12346";
        assert_eq!(unix_socket_in(line), None);
        assert_eq!(unix_socket_in("Num       RefCount Protocol Flags    Type St Inode Path"), None);
    }

    #[test]
    fn the_unified_line_is_found_among_version_1() {
        let text = "9:name=systemd:/\n4:memory:/a\n0::/user.slice/x.scope\n";
        assert_eq!(unified_path(text), Some("/user.slice/x.scope"));
        assert_eq!(unified_path("4:memory:/a\n"), None);
    }

    #[test]
    fn the_mount_of_version_2_is_found_on_hybrid_systems() {
        let found = |text| cgroup2_in(text).map(|c| (c.dir, c.root));
        let text = "31 23 0:28 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw\n\
                    32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                    41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(found(text), Some(("/sys/fs/cgroup/unified".into(), "/".into())));
        let text = "41 31 0:38 /docker/a /odd\\040dir rw - cgroup2 none rw\n";
        assert_eq!(found(text), Some(("/odd dir".into(), "/docker/a".into())));
        assert_eq!(found("31 23 0:28 / / rw - tmpfs tmpfs rw\n"), None);
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
    fn sockets_that_io_uring_holds_are_in_its_fdinfo() {
        let text = "SqThread:\t-1\nUserFiles:\t3\n    0: socket:[51]\n    1: /dev/null\n    \
                    2: socket:[7]\nUserBufs:\t0\n";
        assert_eq!(registered_sockets(text).collect::<Vec<_>>(), [51, 7]);
    }

    #[test]
    fn names_with_brackets_do_not_hide_the_parent() {
        assert_eq!(parent_in("12 (a) b) S 34 12 12 0"), Some(34));
        assert_eq!(parent_in(""), None);
    }

    #[test]
    fn a_process_has_one_start() {
        let own = std::process::id() as i32;
        assert!(alive_since_ticks(own).is_some());
        assert_eq!(alive_since_ticks(own), alive_since_ticks(own));
        assert_ne!(alive_since_ticks(own), alive_since_ticks(1));
        assert_eq!(alive_since_ticks(-1), None);
    }

    #[test]
    fn this_process_is_its_own_tree() {
        let own = std::process::id() as i32;
        assert_eq!(tree(own).first(), Some(&own));
    }
}
