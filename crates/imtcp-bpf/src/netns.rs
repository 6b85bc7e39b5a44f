// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The network namespaces of this machine, and work done inside one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use imtcp_common::procfs;

use crate::Unseen;

/// One open network namespace.
pub struct NetNs {
    pub ino: u64,
    file: File,
}

/// Looks at every namespace that a process is in or that has a name under /run/netns, but for `skipped`. One is
/// open at a time.
pub fn each(skipped: Option<u64>, mut look: impl FnMut(&NetNs) -> anyhow::Result<()>) -> Unseen {
    let mut unseen = Unseen::default();
    for (ino, paths) in places(&mut unseen) {
        if Some(ino) == skipped {
            continue;
        }
        match open_one(ino, &paths).map_err(anyhow::Error::from) {
            Ok(Some(ns)) => look(&ns).unwrap_or_else(|e| unseen.note(ino, &e)),
            Ok(None) => {}
            Err(e) => unseen.note(ino, &e),
        }
    }
    unseen
}

/// The files of each namespace, by its number.
fn places(unseen: &mut Unseen) -> BTreeMap<u64, Vec<PathBuf>> {
    let mut found: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    let mut add = |path: PathBuf| -> io::Result<()> {
        // Without opening it.
        let ino = fs::metadata(&path)?.ino();
        let of_this = found.entry(ino).or_default();
        // Processes that hold it may end while we look at others.
        if of_this.len() < MOST_PLACES {
            of_this.push(path);
        }
        Ok(())
    };
    let _ = add("/proc/self/ns/net".into());
    for pid in procfs::pids() {
        if add(format!("/proc/{pid}/ns/net").into()).is_ok() {
            continue;
        }
        // The first thread may have ended before the others. A security module may hide a process, as one that
        // ends is: its namespace is mostly that of others.
        for thread in procfs::living_threads(pid) {
            match add(format!("/proc/{pid}/task/{thread}/ns/net").into()).or_else(unless_gone) {
                Err(e) if e.kind() != io::ErrorKind::PermissionDenied => {
                    unseen.note_process(pid, &e)
                }
                _ => {}
            }
        }
    }
    let named = ["/run/netns", "/run/docker/netns"].into_iter().flat_map(fs::read_dir);
    for entry in named.flatten().flatten() {
        let _ = add(entry.path());
    }
    found
}

const MOST_PLACES: usize = 16;

fn open_one(ino: u64, paths: &[PathBuf]) -> io::Result<Option<NetNs>> {
    let mut refused = None;
    for path in paths {
        match open(path) {
            // A name under /run/netns may be a plain file: another mount namespace has the mount on it.
            Ok(ns) if ns.ino == ino && ns.is_network() => return Ok(Some(ns)),
            // Its process has gone elsewhere.
            Ok(_) => {}
            Err(e) => refused = unless_gone(e).err().or(refused),
        }
    }
    refused.map_or(Ok(None), Err)
}

/// A process that has ended takes its files with it.
fn unless_gone(e: io::Error) -> io::Result<()> {
    match e.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => Ok(()),
        _ => Err(e),
    }
}

fn open(path: &Path) -> io::Result<NetNs> {
    let file = File::open(path)?;
    let ino = file.metadata()?.ino();
    Ok(NetNs { ino, file })
}

/// The namespace of a process.
pub fn of_pid(pid: i32) -> io::Result<NetNs> {
    open(Path::new(&format!("/proc/{pid}/ns/net")))
}

/// The namespace of the calling thread.
pub fn of_caller() -> io::Result<NetNs> {
    open(Path::new("/proc/thread-self/ns/net"))
}

/// The namespace of a file, as `ip netns add` makes one below /run/netns.
pub fn of_file(path: &Path) -> io::Result<NetNs> {
    let found = open(path)?;
    match found.is_network() {
        true => Ok(found),
        false => Err(io::Error::other("it is no network namespace")),
    }
}

impl NetNs {
    fn is_network(&self) -> bool {
        // linux/nsfs.h: _IO(0xb7, 3)
        const NS_GET_NSTYPE: libc::Ioctl = 0xb703;
        // SAFETY: the descriptor is open, and the call takes no argument.
        unsafe { libc::ioctl(self.file.as_raw_fd(), NS_GET_NSTYPE) == libc::CLONE_NEWNET }
    }

    /// Takes the calling thread into it.
    pub(crate) fn enter(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open.
        match unsafe { libc::setns(self.file.as_raw_fd(), libc::CLONE_NEWNET) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Is it that of the calling thread?
    pub(crate) fn is_callers(&self) -> bool {
        of_caller().is_ok_and(|here| here.ino == self.ino)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Runs `work` on a thread that is inside the namespace.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            std::thread::Builder::new()
                // Enters with this thread alone, which ends here.
                .spawn_scoped(scope, || self.enter().map(|()| work()))?
                .join()
                .unwrap_or_else(|e| std::panic::resume_unwind(e))
        })
    }
}

const DEFAULT_CC: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE_CC: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The default congestion control of the namespace of the calling thread.
pub fn default_cc() -> String {
    fs::read_to_string(DEFAULT_CC).unwrap_or_default().trim().to_string()
}

pub fn set_default_cc(name: &str) -> io::Result<()> {
    fs::write(DEFAULT_CC, name)
}

/// Nothing where they cannot be read.
pub fn available_ccs() -> Vec<String> {
    read_available_ccs().unwrap_or_default()
}

/// In one read: the kernel makes the list anew for each, and one that changes between two reads
/// would lose a name at the seam.
pub fn read_available_ccs() -> io::Result<Vec<String>> {
    // TCP_CA_BUF_MAX of the kernel: 128 names of 16 bytes.
    let mut list = [0; 2048];
    let length = File::open(AVAILABLE_CC)?.read(&mut list)?;
    let text = String::from_utf8_lossy(&list[..length]);
    Ok(text.split_whitespace().map(str::to_string).collect())
}

/// Has the kernel a congestion control of that name?
pub fn is_registered(control: &str) -> bool {
    available_ccs().iter().any(|a| a == control)
}

const ECN: &str = "/proc/sys/net/ipv4/tcp_ecn";

/// net.ipv4.tcp_ecn of the calling thread's namespace, if connections made here do not ask for ECN with it.
/// 0 is off, and 2 only answers. From 3 on it is AccECN, and 5 only answers.
pub fn ecn_not_asked_for() -> Option<String> {
    let value = fs::read_to_string(ECN).ok()?.trim().to_string();
    matches!(value.as_str(), "0" | "2" | "5").then_some(value)
}

/// Where sockets go when imtcp leaves: the namespace's default, unless that is imtcp itself.
pub fn fallback_cc() -> String {
    let default = default_cc();
    if !default.is_empty() && !crate::is_ours(&default) {
        return default;
    }
    let available = available_ccs();
    if available.iter().any(|a| a == "cubic") { "cubic" } else { "reno" }.to_string()
}
