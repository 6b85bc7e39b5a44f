// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Which listeners were opened inside some cgroups. The kernel asks the programs of that cgroup about what a
//! listener accepts, wherever its process is now.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use imtcp_bpf::{control, netns};

use crate::cgroup;

#[derive(Clone)]
pub struct Listeners {
    /// The ids of the cgroups. None: each cgroup is inside.
    cgroups: Option<BTreeSet<u64>>,
    /// Of the namespaces that were asked: the cgroup of each listener, by its cookie.
    found: BTreeMap<u64, BTreeMap<u64, u64>>,
}

impl Listeners {
    /// Inside these, and those in them.
    pub fn inside(dirs: &[PathBuf]) -> Self {
        let mut ids = BTreeSet::new();
        dirs.iter().for_each(|dir| add_ids(dir, &mut ids));
        let is_all = cgroup::mount().is_ok_and(|mount| dirs.contains(&mount));
        Listeners { cgroups: (!is_all).then_some(ids), found: BTreeMap::new() }
    }

    /// A listener of this thread.
    pub fn has(&mut self, thread: i32, cookie: u64) -> io::Result<bool> {
        let Some(cgroups) = &self.cgroups else { return Ok(true) };
        let ns = netns::of_pid(thread)?;
        if let std::collections::btree_map::Entry::Vacant(entry) = self.found.entry(ns.ino) {
            entry.insert(control::listeners(&ns).map_err(io::Error::other)?);
        }
        Ok(self.found[&ns.ino].get(&cookie).is_some_and(|cgroup| cgroups.contains(cgroup)))
    }
}

fn add_ids(dir: &Path, ids: &mut BTreeSet<u64>) {
    ids.extend(cgroup::id(dir));
    cgroup::children(dir).iter().for_each(|child| add_ids(child, ids));
}
