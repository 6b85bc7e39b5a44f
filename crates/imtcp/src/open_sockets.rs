// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Open sockets of processes that run already, given to a policy.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::Result;
use imtcp_bpf::tags::Tags;
use imtcp_bpf::{control, is_ours, netns};

use crate::policy::Mode;
use crate::socket::{self, Process};
use crate::{format, procfs};

/// A control that every kernel has and every user may choose, and that leaves the window as it is.
pub const NEUTRAL: &str = "reno";

/// What could not be changed, and why.
#[derive(Debug, Default)]
pub struct Unreached {
    pub sockets: usize,
    /// Of these it cannot even be told what they have open.
    pub processes: usize,
    pub because: Option<String>,
}

impl Unreached {
    fn note(&mut self, e: &io::Error) {
        let because = || match (e.kind(), socket::obstacle()) {
            (io::ErrorKind::PermissionDenied, Some(obstacle)) => obstacle,
            (io::ErrorKind::PermissionDenied, None) => {
                "a security module or a filter of system calls refuses pidfd_getfd".into()
            }
            _ => e.to_string(),
        };
        self.because.get_or_insert_with(because);
    }

    pub fn note_socket(&mut self, e: &io::Error) {
        self.sockets += 1;
        self.note(e);
    }

    pub fn is_empty(&self) -> bool {
        self.sockets == 0 && self.processes == 0
    }

    /// In a sentence; nothing where all was reached.
    pub fn text(&self) -> Option<String> {
        let sockets = (self.sockets > 0).then(|| format::count(self.sockets, "open socket"));
        let processes = (self.processes > 0)
            .then(|| format!("what {} opened", format::count(self.processes, "process")));
        let what: Vec<_> = sockets.into_iter().chain(processes).collect();
        let because = self.because.as_deref().unwrap_or("the kernel refuses");
        (!self.is_empty()).then(|| {
            format!(
                "could not reach {} ({because}): these keep their congestion control; new \
                 connections are covered",
                what.join(" and ")
            )
        })
    }
}

/// Gives sockets to a policy, and keeps what they had before.
pub struct Taking {
    policy: u64,
    mode: Mode,
    tags: Tags,
    /// The control of each socket, by its cookie.
    pub saved: BTreeMap<u64, String>,
    pub multipath: usize,
    pub unreached: Unreached,
}

/// The descriptor was closed or its process has ended since we looked.
fn is_gone(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EBADF | libc::ESRCH | libc::ENOENT))
}

impl Taking {
    pub fn new(policy: u64, mode: Mode, saved: BTreeMap<u64, String>) -> Result<Self> {
        let tags = Tags::open()?;
        Ok(Taking { policy, mode, tags, saved, multipath: 0, unreached: Unreached::default() })
    }

    /// Changes the open sockets of one process.
    pub fn of_process(&mut self, pid: i32) {
        let opened = Process::open(pid).and_then(|p| Ok((p, procfs::read_sockets(pid)?)));
        let (process, sockets) = match opened {
            Ok(opened) => opened,
            Err(e) if is_gone(&e) => return,
            Err(e) => {
                self.unreached.processes += 1;
                return self.unreached.note(&e);
            }
        };
        for (fd, _) in sockets {
            let taken = match process.descriptor(fd) {
                Ok(copy) if !socket::is_tcp(copy.as_fd()) => continue,
                Ok(copy) => self.take(pid, copy),
                Err(_) if !is_tcp_name(&socket::protocol_name(pid, fd)) => continue,
                refused => refused.map(drop),
            };
            if let Err(e) = taken.or_else(|e| if is_gone(&e) { Ok(()) } else { Err(e) }) {
                self.unreached.note_socket(&e);
            }
        }
    }

    /// Changes one socket, by a copy of its descriptor in a process.
    pub fn take(&mut self, pid: i32, copy: OwnedFd) -> io::Result<()> {
        let copy = copy.as_fd();
        let (cookie, before) = (socket::cookie(copy)?, socket::control(copy)?);
        // The control's init looks for the tag, so the tag comes first; and a socket that has
        // the control already is set anew, to read it; not by way of the default, for BBR's init
        // would have ours begin with slow start.
        self.tags.set(copy, self.policy).map_err(io::Error::other)?;
        let tagged = match socket::is_multipath(copy) {
            true => self.tag_subflows(pid, cookie),
            false => Ok(()),
        };
        let (ours, had_it) = (is_ours(&before), before == self.mode.control());
        let default = || netns::of_pid(pid).and_then(|ns| ns.run(netns::fallback_cc));
        let back = if ours { default().unwrap_or_else(|_| "cubic".into()) } else { before };
        if had_it {
            let _ = socket::set_control(copy, NEUTRAL);
        }
        let set = tagged.and_then(|()| socket::set_control(copy, self.mode.control()));
        match &set {
            Ok(()) => drop(self.saved.entry(cookie).or_insert(back)),
            Err(_) => self.tags.clear(copy),
        }
        set
    }

    fn tag_subflows(&mut self, pid: i32, master_cookie: u64) -> io::Result<()> {
        self.multipath += 1;
        let ns = netns::of_pid(pid)?;
        control::tag_subflows(&ns, master_cookie, self.policy).map_err(io::Error::other)
    }
}

fn is_tcp_name(name: &str) -> bool {
    name.starts_with("TCP") || name.starts_with("MPTCP")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_reached_is_said_with_the_cause() {
        assert_eq!(Unreached::default().text(), None);
        let because = Some("CAP_SYS_PTRACE is missing".to_string());
        let text = Unreached { sockets: 1, processes: 2, because }.text().unwrap();
        let wanted = "could not reach 1 open socket and what 2 processes opened \
                      (CAP_SYS_PTRACE is missing): ";
        assert!(text.starts_with(wanted), "{text}");
    }
}
