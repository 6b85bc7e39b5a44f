// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Runs that live, and those that have ended.
//!
//! A run holds a lock on its file while it lives. A file without lock is of a run that has ended
//! (by a SIGKILL, too): it stays while connections still have the run's mode and limits, and is
//! swept by the next command after that.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Result;
use imtcp_bpf::rundir::{file_of, RUNS};
use imtcp_common::procfs;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::mode::Mode;
use crate::param::InForce;
use crate::policy::{self, Handling, Limits};
use crate::state::{read_all, replace, try_lock, write_private, ChangeLock};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// In its own pid namespace.
    pub pid: u32,
    /// The kernel's number of that namespace. An imtcp that did not know of it has left none.
    #[serde(default)]
    pub pid_namespace: Option<u64>,
    pub policy: u64,
    pub mode: Mode,
    #[serde(flatten)]
    pub limits: Limits,
    #[serde(flatten)]
    pub handling: Handling,
    #[serde(default)]
    pub params: InForce,
    pub command: String,
    pub cgroup: PathBuf,
    /// Where processes go that outlive the run.
    pub refuge: PathBuf,
    /// These did.
    #[serde(default)]
    pub left_behind: Vec<LeftBehind>,
}

impl Run {
    fn path(&self) -> PathBuf {
        file_of(RUNS, self.policy)
    }

    /// Saves a run that has ended: the new file has no lock.
    pub(crate) fn save(&self) -> Result<()> {
        replace(&self.path(), self)
    }

    pub fn name(&self) -> String {
        match self.pid_here() {
            Some(pid) => format!("`imtcp run` {pid}"),
            None => "an `imtcp run` of another pid namespace".into(),
        }
    }

    /// The pid of its imtcp; nothing where that would name another process, or none.
    pub fn pid_here(&self) -> Option<u32> {
        let own = procfs::pid_namespace();
        let is_same = self.pid_namespace.is_none() || self.pid_namespace == own;
        is_same.then_some(self.pid)
    }

    /// The command on one line.
    pub fn command_shown(&self) -> String {
        self.command.replace('\n', " ")
    }

    /// What is ordered, for people.
    pub fn orders(&self) -> String {
        policy::told(self.mode, &self.params, &self.limits, self.handling)
    }

    /// The same as options of `imtcp attach`.
    pub fn options(&self) -> String {
        policy::options(self.mode, &self.params, &self.limits, self.handling)
    }
}

/// The registration of a living run.
pub struct Registered {
    run: Run,
    stays: bool,
    _lock: Flock<File>,
}

impl Registered {
    /// Under the change lock, so that no sweep sees the file before its lock.
    pub fn new(run: Run, _lock: &ChangeLock) -> Result<Self> {
        // Under its name when it is whole and locked: nobody finds half of it, whenever we are killed.
        let new = run.path().with_extension("new");
        let file = write_private(&new, &run)?;
        let _lock = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| e)?;
        fs::rename(&new, run.path())?;
        Ok(Registered { run, stays: false, _lock })
    }

    /// The run ends, and connections or processes of it go on.
    pub fn leave(mut self, left_behind: Vec<LeftBehind>) -> Result<()> {
        self.stays = true;
        self.run.left_behind = left_behind;
        self.run.save()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if !self.stays {
            let _ = fs::remove_file(self.run.path());
        }
    }
}

/// Runs that live, or those that have ended and are not swept yet.
pub(crate) fn runs_that(live: bool) -> Vec<(PathBuf, Run)> {
    let mut all = read_all(RUNS);
    all.retain(|(path, _)| try_lock(path).is_none() == live);
    all
}

/// Runs that live.
pub fn living() -> Vec<Run> {
    runs_that(true).into_iter().map(|(_, run)| run).collect()
}

/// Runs that have ended, or were killed. After a sweep: those with open connections.
pub fn ended() -> Vec<Run> {
    runs_that(false).into_iter().map(|(_, run)| run).collect()
}

/// A process that a run's command left running. The run does not cover it any more
/// (docs/adr/0021-a-run-ends-with-its-command.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftBehind {
    pub pid: i32,
    /// With the pid, which is used again.
    pub started_ticks: u64,
    /// When the run ended: it may have ended since, and cannot be asked then. None in a file of an older imtcp.
    #[serde(default)]
    pub parent_pid: Option<i32>,
    pub command: String,
}

impl LeftBehind {
    fn of(pid: i32) -> Option<Self> {
        let started_ticks = procfs::alive_since_ticks(pid)?;
        let parent_pid = procfs::parent(pid);
        Some(LeftBehind { pid, started_ticks, parent_pid, command: procfs::command(pid)? })
    }

    pub fn is_alive(&self) -> bool {
        procfs::alive_since_ticks(self.pid) == Some(self.started_ticks)
    }
}

/// Removes a run's cgroup and moves the processes in it to `refuge`. Tells which they are.
pub fn end_cgroup(dir: &Path, refuge: &Path) -> (Vec<LeftBehind>, Result<()>) {
    let mut moved: Vec<LeftBehind> = Vec::new();
    let removed = cgroup::remove_telling(dir, refuge, |pid| {
        moved.retain(|l| l.pid != pid);
        moved.extend(LeftBehind::of(pid));
    });
    // If all have ended since, some went on in others, which they started after the move.
    if moved.iter().any(LeftBehind::is_alive) {
        moved.retain(LeftBehind::is_alive);
    }
    // Pids begin anew at their highest.
    moved.sort_by_key(|l| (l.started_ticks, l.pid));
    (moved, removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let own = LeftBehind::of(std::process::id() as i32).unwrap();
        assert!(own.is_alive());
        assert!(!LeftBehind { started_ticks: own.started_ticks + 1, ..own }.is_alive());
    }

    #[test]
    fn a_pid_of_another_namespace_is_not_told() {
        let text = r#"{"pid":2,"policy":1,"mode":"bg","command":"a","cgroup":"/","refuge":"/"}"#;
        let older: Run = serde_json::from_str(text).unwrap();
        assert_eq!(older.name(), "`imtcp run` 2");
        let here = Run { pid_namespace: procfs::pid_namespace(), ..older };
        assert_eq!(here.pid_here(), Some(2));
        let elsewhere = Run { pid_namespace: Some(1), ..here };
        assert_eq!(elsewhere.pid_here(), None);
        assert_eq!(elsewhere.name(), "an `imtcp run` of another pid namespace");
    }
}
