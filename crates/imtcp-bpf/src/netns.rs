// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The network namespaces of this machine, and work done inside one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One open network namespace.
pub struct NetNs {
    pub ino: u64,
    file: File,
}

/// Every namespace that a process is in or that has a name under /run/netns.
pub fn all() -> Vec<NetNs> {
    let named = ["/run/netns", "/run/docker/netns"]
        .into_iter()
        .flat_map(fs::read_dir)
        .flatten()
        .flatten()
        .map(|e| e.path());
    let of_processes = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .map(|e| e.path().join("ns/net"));
    let mut found = BTreeMap::new();
    for path in std::iter::once(PathBuf::from("/proc/self/ns/net")).chain(of_processes).chain(named)
    {
        if let Ok(ns) = open(&path) {
            found.entry(ns.ino).or_insert(ns);
        }
    }
    found.into_values().collect()
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
    // linux/nsfs.h: _IO(0xb7, 3)
    const NS_GET_NSTYPE: libc::Ioctl = 0xb703;
    let found = open(path)?;
    // SAFETY: the descriptor is open, and the call takes no argument.
    let kind = unsafe { libc::ioctl(found.file.as_raw_fd(), NS_GET_NSTYPE) };
    match kind {
        libc::CLONE_NEWNET => Ok(found),
        _ => Err(io::Error::other("it is no network namespace")),
    }
}

impl NetNs {
    /// Runs `work` on a thread that is inside the namespace.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let fd = self.file.as_raw_fd();
        std::thread::scope(|scope| {
            scope
                .spawn(move || {
                    // SAFETY: changes the namespace of this thread only, which ends here.
                    if unsafe { libc::setns(fd, libc::CLONE_NEWNET) } != 0 {
                        return Err(io::Error::last_os_error());
                    }
                    Ok(work())
                })
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

/// In one read: the kernel makes the list anew for each, and one that changes between two reads
/// would lose a name at the seam.
pub fn available_ccs() -> Vec<String> {
    // TCP_CA_BUF_MAX of the kernel: 128 names of 16 bytes.
    let mut list = [0; 2048];
    let length = File::open(AVAILABLE_CC).and_then(|mut f| f.read(&mut list)).unwrap_or(0);
    let text = String::from_utf8_lossy(&list[..length]);
    text.split_whitespace().map(str::to_string).collect()
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
