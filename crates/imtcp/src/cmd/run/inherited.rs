// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! TCP sockets that the command inherits from us: inetd's connection, systemd's listener, a shell's `3<>/dev/tcp`.
//! They were made before the run, so its cgroup does not cover them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use anyhow::Result;
use imtcp_bpf::is_ours;
use imtcp_bpf::tags::Tags;
use imtcp_common::procfs;
use nix::unistd::getpid;
use serde::{Deserialize, Serialize};

use crate::each_socket;
use crate::mode::Mode;
use crate::open_sockets::{Taking, Unreached, NEUTRAL};
use crate::socket;

/// Sockets that a run has taken, until it gives them back.
#[derive(Default)]
pub struct Inherited {
    taken: Vec<Before>,
    /// Open from the start: later we lack the privilege to open it.
    tags: Option<Tags>,
}

/// A socket and what it had before the run.
struct Before {
    socket: OwnedFd,
    had: Had,
}

#[derive(Clone, Serialize, Deserialize)]
struct Had {
    control: String,
    policy: Option<u64>,
}

impl Inherited {
    /// Gives the run's mode and policy to what the command inherits, and tells what could not be reached.
    pub fn take(policy: u64, mode: Mode) -> Result<(Self, Unreached)> {
        let tags = Tags::open()?;
        let mut taking = Taking::new(policy, mode, BTreeMap::new())?;
        let mut sockets = Vec::new();
        let mut seen = BTreeSet::new();
        for (fd, _) in procfs::sockets(getpid().as_raw()) {
            let Some(socket) = copy_of_inherited(fd) else { continue };
            // One socket may have several descriptors.
            if socket::is_tcp(socket.as_fd()) && seen.insert(socket::cookie(socket.as_fd())?) {
                sockets.push(socket);
            }
        }
        if sockets.is_empty() {
            return Ok((Inherited { taken: Vec::new(), tags: Some(tags) }, taking.unreached));
        }
        let had = had(&sockets, &tags);
        let is_taken = taking.of_copies(&sockets);
        let mut taken = Vec::new();
        for ((socket, had), is_taken) in sockets.into_iter().zip(had).zip(is_taken) {
            match (had, is_taken) {
                (Some(had), true) => taken.push(Before { socket, had }),
                (Some(had), false) => had.restore_tag(socket.as_fd(), &tags),
                (None, _) => {}
            }
        }
        Ok((Inherited { taken, tags: Some(tags) }, taking.unreached))
    }

    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Back to what they had. One whose control was changed meanwhile keeps that.
    pub fn give_back(&mut self) {
        let Some(tags) = &self.tags else { return };
        let taken = std::mem::take(&mut self.taken);
        for before in &taken {
            before.had.restore_tag(before.socket.as_fd(), tags);
        }
        let sockets: Vec<_> = taken.iter().map(|before| before.socket.as_fd()).collect();
        each_socket::on_each(&sockets, &[], |index, socket| taken[index].had.restore(socket));
    }
}

/// The controls and tags of these sockets; `None` for one that is locked.
fn had(sockets: &[OwnedFd], tags: &Tags) -> Vec<Option<Had>> {
    let copies: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    let had = |_, copy: BorrowedFd| {
        Some(Had { control: socket::control(copy).ok()?, policy: tags.get(copy) })
    };
    let (had, _) = each_socket::on_each(&copies, &[tags.as_fd()], had);
    had.into_iter().map(Option::flatten).collect()
}

impl Had {
    fn restore_tag(&self, socket: BorrowedFd, tags: &Tags) {
        match self.policy {
            Some(policy) => drop(tags.set(socket, policy)),
            None => tags.clear(socket),
        }
    }

    fn restore(&self, socket: BorrowedFd) {
        let Ok(now) = socket::control(socket) else { return };
        if !is_ours(&now) {
            return;
        }
        if now == self.control {
            // A control that begins anew reads the tag.
            let _ = socket::set_control(socket, NEUTRAL);
        }
        let _ = socket::set_control(socket, &self.control);
    }
}

/// A copy for us of a descriptor that the command will have; nothing where it closes at exec.
fn copy_of_inherited(fd: i32) -> Option<OwnedFd> {
    // SAFETY: the calls take any number, and a new descriptor is ours.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFD);
        if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
            return None;
        }
        let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0);
        (copy >= 0).then(|| OwnedFd::from_raw_fd(copy))
    }
}
