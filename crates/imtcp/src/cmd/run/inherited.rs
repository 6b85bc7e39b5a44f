// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! TCP sockets that the command inherits from us: inetd's connection, systemd's listener, a shell's `3<>/dev/tcp`.
//! They were made before the run, so its cgroup does not cover them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use anyhow::Result;
use imtcp_bpf::is_ours;
use imtcp_bpf::tags::Tags;
use imtcp_common::procfs;
use nix::unistd::getpid;

use crate::mode::Mode;
use crate::open_sockets::{Taking, Unreached, NEUTRAL};
use crate::socket;

/// A socket and what it had before the run.
struct Before {
    socket: OwnedFd,
    control: String,
    policy: Option<u64>,
}

/// Sockets that a run has taken, until it gives them back.
#[derive(Default)]
pub struct Inherited {
    taken: Vec<Before>,
    /// Open from the start: later we lack the privilege to open it.
    tags: Option<Tags>,
}

impl Inherited {
    /// Gives the run's mode and policy to what the command inherits, and tells what could not be reached.
    pub fn take(policy: u64, mode: Mode) -> Result<(Self, Unreached)> {
        let own = getpid().as_raw();
        let tags = Tags::open()?;
        let mut taking = Taking::new(policy, mode, BTreeMap::new())?;
        let mut taken = Vec::new();
        let mut seen = BTreeSet::new();
        for (fd, _) in procfs::sockets(own) {
            let Some(socket) = copy_of_inherited(fd) else { continue };
            let copy = socket.as_fd();
            // One socket may have several descriptors.
            if !socket::is_tcp(copy) || !seen.insert(socket::cookie(copy)?) {
                continue;
            }
            let (control, policy) = (socket::control(copy)?, tags.get(copy));
            let before = Before { control, policy, socket };
            match taking.take(own, before.socket.as_fd()) {
                Ok(()) => taken.push(before),
                Err(e) => {
                    before.restore_tag(&tags);
                    taking.unreached.note_socket(&e);
                }
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
        for before in self.taken.drain(..) {
            before.restore(tags);
        }
    }
}

impl Before {
    fn restore_tag(&self, tags: &Tags) {
        let socket = self.socket.as_fd();
        match self.policy {
            Some(policy) => drop(tags.set(socket, policy)),
            None => tags.clear(socket),
        }
    }

    fn restore(&self, tags: &Tags) {
        self.restore_tag(tags);
        let socket = self.socket.as_fd();
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
