// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The files in /run/imtcp: of runs and attachments, and the locks of commands.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use imtcp_bpf::rundir::{lock_alone, open_lock, private_dir, ATTACHMENTS, DIR, RUNS};
use imtcp_bpf::Obstacle;
use imtcp_common::out;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{de::DeserializeOwned, Serialize};

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
pub(crate) fn write_private(path: &Path, value: &impl Serialize) -> Result<File> {
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

/// The contents of a directory's files.
pub(crate) fn read_all<T: DeserializeOwned>(dir: &str) -> Vec<(PathBuf, T)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .filter_map(|p| Some((p.clone(), serde_json::from_slice(&fs::read(&p).ok()?).ok()?)))
        .collect()
}

/// None while another process has it.
pub(crate) fn try_lock(path: &Path) -> Option<Flock<File>> {
    // To read: also where /run cannot be written.
    let file = File::open(path).ok()?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ() {
        assert_ne!(new_id(), new_id());
    }
}
