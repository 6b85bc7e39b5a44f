// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Which sockets were opened inside some cgroups. The kernel asks the programs of that cgroup about what a socket
//! connects to or accepts, wherever its process is now.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use imtcp_bpf::sockets::Descriptors;

use crate::cgroup;

pub struct OpenedInside {
    /// The ids of the cgroups. None: each cgroup is inside.
    cgroups: Option<BTreeSet<u64>>,
    /// The program that tells, once it was needed.
    own: OnceCell<Descriptors>,
}

/// A program tells of the process that loads it: another process loads its own.
impl Clone for OpenedInside {
    fn clone(&self) -> Self {
        OpenedInside { cgroups: self.cgroups.clone(), own: OnceCell::new() }
    }
}

impl OpenedInside {
    /// Inside these, and those in them.
    pub fn of(dirs: &[PathBuf]) -> Self {
        let is_all = cgroup::mount().is_ok_and(|mount| dirs.contains(&mount));
        let ids = || dirs.iter().flat_map(|dir| cgroup::ids(dir)).collect();
        OpenedInside { cgroups: (!is_all).then(ids), own: OnceCell::new() }
    }

    /// A socket, by a copy of its descriptor.
    pub fn has(&self, copy: BorrowedFd) -> io::Result<bool> {
        let Some(cgroups) = &self.cgroups else { return Ok(true) };
        let own = match self.own.get() {
            Some(own) => own,
            None => {
                let loaded = Descriptors::of_this_process().map_err(io::Error::other)?;
                self.own.get_or_init(|| loaded)
            }
        };
        let cgroup = own.cgroup_of(copy).map_err(io::Error::other)?;
        Ok(cgroup.is_some_and(|cgroup| cgroups.contains(&cgroup)))
    }
}
