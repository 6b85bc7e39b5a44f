// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What only the kernel knows of sockets: the cgroup that each was opened in, and which of them a file holds.

use std::collections::HashSet;
use std::ffi::CStr;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use libbpf_rs::{Link, Object};

use crate::raw;
use crate::shared::{imtcp_held, imtcp_opened};
use crate::{control, netns, objects, records, walk, Unseen};

/// The program that goes through the descriptors that are sockets.
pub struct Descriptors {
    _object: Object,
    link: OwnedFd,
}

impl Descriptors {
    pub fn of_this_process() -> Result<Self> {
        Self::of(std::process::id())
    }

    /// The sockets of all processes, whether or not /proc shows their descriptors to us.
    pub fn of_all() -> Result<Self> {
        Self::of(0)
    }

    fn of(pid: u32) -> Result<Self> {
        let name = "imtcp_opened";
        let object = objects::load(objects::open_ctl(name)?, "the program that lists descriptors")?;
        let link = raw::link_to_files_of(control::program(&object, name)?.as_fd(), pid);
        let link = link.context("cannot go through the files of processes")?;
        Ok(Descriptors { _object: object, link })
    }

    fn read(&self) -> Result<Vec<imtcp_opened>> {
        Ok(walk::items(self.link.as_fd())?)
    }

    /// The id of the cgroup that a socket was opened in; None if the descriptor is no socket of these.
    pub fn cgroup_of(&self, socket: BorrowedFd) -> Result<Option<u64>> {
        let found = self.read()?.into_iter().find(|o| o.fd == socket.as_raw_fd() as u64);
        Ok(found.map(|opened| opened.cgroup))
    }

    /// The inodes of all these sockets.
    pub fn inodes(&self) -> Result<HashSet<u64>> {
        Ok(self.read()?.into_iter().map(|opened| opened.inode).collect())
    }
}

/// A connection that a file holds: that of a descriptor, or one without.
pub struct Held {
    pub inode: u64,
    /// The id of the cgroup that it was opened in.
    pub cgroup: u64,
    /// Whose it is; 0: nobody's.
    pub policy: u64,
    pub control: String,
    pub peer: SocketAddr,
    pub local_port: u16,
}

impl From<imtcp_held> for Held {
    fn from(held: imtcp_held) -> Self {
        let control = held.cc.map(|c| c as u8);
        let control = CStr::from_bytes_until_nul(&control).unwrap_or_default();
        Held {
            inode: held.inode,
            cgroup: held.cgroup,
            policy: held.policy,
            control: control.to_string_lossy().into_owned(),
            peer: records::address(held.family, &held.daddr, held.dport),
            local_port: held.sport,
        }
    }
}

/// The program that lists sockets which files hold.
pub struct HeldSockets {
    _object: Object,
    link: Link,
}

impl HeldSockets {
    pub fn load() -> Result<Self> {
        let name = "imtcp_held";
        let what = "the program that lists sockets";
        let object = control::load_for(name, Default::default(), what)?;
        let link = control::program(&object, name)?.attach()?;
        Ok(HeldSockets { _object: object, link })
    }

    /// Those of every namespace of the machine that can be looked at.
    pub fn all(&self) -> (Vec<Held>, Unseen) {
        let mut all = Vec::new();
        let unseen = netns::each(None, |ns| {
            let held = walk::items_of::<imtcp_held>(ns, self.link.as_fd())?;
            all.extend(held.into_iter().map(Held::from));
            Ok(())
        });
        (all, unseen)
    }
}
