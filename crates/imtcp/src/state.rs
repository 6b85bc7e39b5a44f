// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What runs and what is attached, in /run/imtcp.
//!
//! A run holds a lock on its file while it lives. A file without lock is of a run that has ended
//! (by a SIGKILL, too): it stays while connections still have the run's mode and limits, and is
//! swept by the next command after that.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use imtcp_bpf::policy::Policies;
use imtcp_bpf::records::Records;
use imtcp_bpf::rundir::{file_of, lock_alone, open_lock, private_dir, ATTACHMENTS, DIR, RUNS};
use imtcp_bpf::{control, Obstacle};
use imtcp_common::out;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{de::DeserializeOwned, Deserialize, Serialize};

use crate::attachment::Attachment;
use crate::cgroup;
use crate::left_behind::{self, LeftBehind};
use crate::mode::Mode;
use crate::param::InForce;
use crate::policy::{self, Limits};

/// One command at a time changes what is loaded, attached or registered. Its output waits meanwhile: a terminal or
/// pipe that takes nothing for now must not stop the others.
pub struct ChangeLock(Option<Flock<File>>);

impl ChangeLock {
    fn new(lock: Flock<File>) -> Self {
        out::hold();
        ChangeLock(Some(lock))
    }
}

impl Drop for ChangeLock {
    fn drop(&mut self) {
        drop(self.0.take());
        out::release();
    }
}

pub fn lock() -> Result<ChangeLock> {
    Ok(ChangeLock::new(wait_for(open_change_lock()?)?))
}

/// None while another command has it.
pub fn lock_at_once() -> Result<Option<ChangeLock>> {
    let lock = Flock::lock(open_change_lock()?, FlockArg::LockExclusiveNonblock).ok();
    Ok(lock.map(ChangeLock::new))
}

fn open_change_lock() -> Result<File> {
    for dir in [DIR, RUNS, ATTACHMENTS] {
        private_dir(dir)?;
    }
    open_lock(&format!("{DIR}/lock"))
}

/// Waits for another command, and says so if that takes long.
fn wait_for(mut file: File) -> Result<Flock<File>> {
    let begun = Instant::now();
    let mut told = false;
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((file, Errno::EWOULDBLOCK)) => file,
            Err((_, e)) => return Err(e.into()),
        };
        if begun.elapsed() > WAITS_MOST {
            bail!(
                "another imtcp command has held {DIR}/lock for {} s: `fuser {DIR}/lock` names it; end it",
                WAITS_MOST.as_secs()
            );
        }
        if !told && begun.elapsed() > WAITS_SILENTLY {
            eprintln!("imtcp: waiting for another imtcp command, which changes something");
            told = true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Commands take milliseconds, the removal of a cgroup seconds.
const WAITS_SILENTLY: Duration = Duration::from_secs(2);
const WAITS_MOST: Duration = Duration::from_secs(60);

/// Identifies this /run: a container has its own, with other registrations. It is the upper half of the number of
/// each policy that is registered here.
pub fn home() -> u32 {
    let found = fs::metadata(DIR).map_or(0, |dir| dir.ino() ^ dir.dev().rotate_left(16));
    (found ^ found >> 32) as u32
}

/// An id that no other run or attachment has: where it is registered, and 32 random bits.
pub fn new_id() -> u64 {
    let mut random = [0u8; 4];
    // SAFETY: the buffer is as long as told; so few bytes come at once.
    unsafe {
        libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0);
    }
    u64::from(home()) << 32 | u64::from(u32::from_ne_bytes(random))
}

/// The one who applies the rules.
pub fn lock_rules() -> Result<Flock<File>> {
    lock_alone("rules")?.ok_or_else(|| {
        anyhow::anyhow!("another `imtcp rules watch` runs (the service imtcp-rules?): end it first")
    })
}

/// Does somebody apply the rules?
pub fn rules_are_watched() -> bool {
    let lock = Path::new(DIR).join("rules.lock");
    lock.exists() && try_lock(&lock).is_none()
}

/// A new file for its owner alone.
fn create_private(path: &Path) -> Result<File> {
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
    file.map_err(|e| Obstacle::unwritable(path, &e).into())
}

/// The same with a value in it, or none at all where that does not fit on the disk.
fn write_private(path: &Path, value: &impl Serialize) -> Result<File> {
    let mut file = create_private(path)?;
    let text = serde_json::to_vec(value)?;
    if let Err(e) = file.write_all(&text) {
        let _ = fs::remove_file(path);
        return Err(Obstacle::unwritable(path, &e).into());
    }
    Ok(file)
}

/// Nobody reads half of it.
pub(crate) fn replace(path: &Path, value: &impl Serialize) -> Result<()> {
    let new = path.with_extension("new");
    write_private(&new, value)?;
    Ok(fs::rename(new, path)?)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub pid: u32,
    pub policy: u64,
    pub mode: Mode,
    #[serde(flatten)]
    pub limits: Limits,
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
    fn save(&self) -> Result<()> {
        replace(&self.path(), self)
    }

    pub fn name(&self) -> String {
        format!("`imtcp run` {}", self.pid)
    }

    /// The command on one line.
    pub fn command_shown(&self) -> String {
        self.command.replace('\n', " ")
    }

    /// What is ordered, for people.
    pub fn orders(&self) -> String {
        policy::told(self.mode, &self.params, &self.limits)
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

fn read_all<T: DeserializeOwned>(dir: &str) -> Vec<(PathBuf, T)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .filter_map(|p| Some((p.clone(), serde_json::from_slice(&fs::read(&p).ok()?).ok()?)))
        .collect()
}

pub fn attachments() -> Vec<Attachment> {
    read_all(ATTACHMENTS).into_iter().map(|(_, a)| a).collect()
}

fn try_lock(path: &Path) -> Option<Flock<File>> {
    let mut file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    file.rewind().ok()?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()
}

/// Runs that live, or those that have ended and are not swept yet.
fn runs_that(live: bool) -> Vec<(PathBuf, Run)> {
    let mut all = read_all(RUNS);
    all.retain(|(path, _)| try_lock(path).is_none() == live);
    all
}

/// Runs that live.
pub fn runs() -> Vec<Run> {
    runs_that(true).into_iter().map(|(_, run)| run).collect()
}

/// Runs that have ended, or were killed. After a sweep: those with open connections.
pub fn ended_runs() -> Vec<Run> {
    runs_that(false).into_iter().map(|(_, run)| run).collect()
}

/// Removes what ended and killed runs have left. A registration goes when no connection of the run is open
/// and no process that it left behind is alive, or imtcp is down.
pub fn sweep_runs(_lock: &ChangeLock) {
    thaw_attachments();
    let ended = runs_that(false);
    let policies = Policies::open();
    if let Ok(policies) = &policies {
        ended.iter().for_each(|(_, run)| policies.end_for_new(run.policy));
    }
    // Afterwards: what a run had open at its end is among them.
    let used = policies_in_use();
    for (path, mut run) in ended {
        if run.cgroup.exists() {
            // Killed.
            run.left_behind = left_behind::end_cgroup(&run.cgroup, &run.refuge).0;
            let _ = run.save();
        }
        let is_used = used.as_ref().is_some_and(|used| used.contains(&run.policy));
        if let (Ok(policies), Some(_), false) = (&policies, &used, is_used) {
            policies.remove(run.policy);
        }
        let goes_on = policies.is_ok() && run.left_behind.iter().any(LeftBehind::is_alive);
        if !is_used && !goes_on {
            let _ = fs::remove_file(&path);
        }
    }
}

/// A command that was killed while it detached may have left processes that stand still.
fn thaw_attachments() {
    let moved = attachments().into_iter().flat_map(|a| a.moved);
    moved.for_each(|moved| cgroup::thaw(&moved.dir));
}

/// Those that open connections have, where that can be read.
fn policies_in_use() -> Option<BTreeSet<u64>> {
    let mut used = BTreeSet::new();
    Records::open().ok()?.each(|r| _ = used.insert(r.policy)).ok()?;
    Some(used)
}

/// Removes leftovers of a command that was killed, or had a full disk, before it registered anything.
fn sweep_halves() {
    for dir in [RUNS, ATTACHMENTS] {
        let files = fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
        for path in files {
            let is_whole = || {
                let text = fs::read(&path).unwrap_or_default();
                serde_json::from_slice::<serde_json::Value>(&text).is_ok()
            };
            // A run that ends replaces its own file without the change lock: a young one may be that.
            let is_over = match path.extension().is_some_and(|e| e == "json") {
                true => !is_whole(),
                false => cgroup::is_abandoned(&path),
            };
            if is_over {
                let _ = fs::remove_file(&path);
            }
        }
    }
    let of_runs = read_all::<Run>(RUNS).into_iter().map(|(_, run)| run.cgroup);
    let of_attachments = attachments().into_iter().flat_map(|a| a.moved).map(|moved| moved.dir);
    let registered = of_runs.chain(of_attachments).collect();
    if let Ok(mount) = cgroup::mount() {
        cgroup::remove_abandoned(&mount, &registered);
    }
}

/// The same, and what attachments that are over have left.
pub fn sweep(lock: &ChangeLock) {
    sweep_halves();
    sweep_runs(lock);
    let over = |a: &Attachment| a.is_over() && a.require_undoable().is_ok();
    for attachment in attachments().into_iter().filter(over) {
        control::remove_links(attachment.policy, attachment.links);
        for moved in &attachment.moved {
            let _ = cgroup::remove(&moved.dir, &moved.home);
        }
        attachment.forget();
    }
    sweep_policies();
}

/// A policy goes when neither run nor attachment nor connection has it any more.
fn sweep_policies() {
    let (Ok(policies), Some(open)) = (Policies::open(), policies_in_use()) else { return };
    let runs = runs();
    let attachments = attachments();
    // Others are registered in another /run, as a container's.
    for id in policies.ids().into_iter().filter(|id| id >> 32 == u64::from(home())) {
        let used = runs.iter().any(|r| r.policy == id)
            || attachments.iter().any(|a| a.policy == id)
            || open.contains(&id);
        if !used {
            policies.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ() {
        assert_ne!(new_id(), new_id());
    }
}
