// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Which policy a socket belongs to, set by file descriptor.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::raw::Plain;
use crate::{paths, shared};

pub struct Tags(MapHandle);

/// The values of IP_TOS and IPV6_TCLASS that a socket had before imtcp marked it; `None` for one that imtcp left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmarked {
    pub tos: Option<u16>,
    pub tclass: Option<u16>,
}

impl Tags {
    pub fn open() -> Result<Self> {
        let map = MapHandle::from_pinned_path(paths::pin("imtcp_tags"))
            .context("cannot open the map of socket tags: run `imtcp up`")?;
        Ok(Tags(map))
    }

    /// The descriptor that a child keeps (in_child.rs).
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub fn set(&self, socket: BorrowedFd, policy: u64) -> Result<()> {
        // The former mark of its packets stays noted.
        let tag = shared::imtcp_tag { policy, ..self.whole(socket).unwrap_or_default() };
        Ok(self.0.update(&socket.as_raw_fd().to_ne_bytes(), tag.bytes(), MapFlags::ANY)?)
    }

    pub fn get(&self, socket: BorrowedFd) -> Option<u64> {
        self.whole(socket).map(|t| t.policy)
    }

    pub fn unmarked(&self, socket: BorrowedFd) -> Unmarked {
        let tag = self.whole(socket).unwrap_or_default();
        let has = |mark: u32| tag.marked & mark != 0;
        Unmarked {
            tos: has(shared::IMTCP_MARKED_TOS).then_some(tag.tos_before),
            tclass: has(shared::IMTCP_MARKED_TCLASS).then_some(tag.tclass_before),
        }
    }

    fn whole(&self, socket: BorrowedFd) -> Option<shared::imtcp_tag> {
        let value = self.0.lookup(&socket.as_raw_fd().to_ne_bytes(), MapFlags::ANY).ok()??;
        shared::imtcp_tag::from_bytes(&value)
    }

    pub fn clear(&self, socket: BorrowedFd) {
        let _ = self.0.delete(&socket.as_raw_fd().to_ne_bytes());
    }
}
