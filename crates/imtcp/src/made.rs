// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The cgroups that runs and attachments have made. Each is registered before it is made. Its name says nothing:
//! users give theirs what names they like.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use imtcp_bpf::rundir::RUNS;

use crate::attachment;
use crate::runs::Run;
use crate::state::read_all;

pub struct Made(BTreeSet<PathBuf>);

impl Made {
    /// Those that are registered now.
    pub fn now() -> Self {
        let runs = read_all::<Run>(RUNS).into_iter().map(|(_, run)| run.cgroup);
        let attached = attachment::all().into_iter().flat_map(|a| a.moved).map(|moved| moved.dir);
        Made(runs.chain(attached).collect())
    }

    pub fn has(&self, dir: &Path) -> bool {
        self.0.contains(dir)
    }

    /// Is one of them there, or around it?
    pub fn holds(&self, dir: &Path) -> bool {
        dir.ancestors().any(|dir| self.has(dir))
    }
}

#[cfg(test)]
impl Made {
    pub fn of(dirs: &[&str]) -> Self {
        Made(dirs.iter().map(PathBuf::from).collect())
    }
}
