// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! /run/imtcp: what runs and what is attached is registered there, and its locks keep commands apart.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{bail, Result};
use nix::fcntl::{Flock, FlockArg};

use crate::Obstacle;

pub const DIR: &str = "/run/imtcp";
/// A file for each, by the number of its policy.
pub const RUNS: &str = "/run/imtcp/runs";
pub const ATTACHMENTS: &str = "/run/imtcp/attachments";

/// Where a run or an attachment with this policy is registered.
pub fn file_of(dir: &str, policy: u64) -> PathBuf {
    Path::new(dir).join(format!("{policy:016x}.json"))
}

/// The one reader of the events' ring buffer.
pub fn lock_events() -> Result<Flock<File>> {
    lock_alone("events")?.ok_or_else(|| {
        anyhow::anyhow!(
            "another `imtcp-agent feed` or `imtcp watch --events` is reading the events: end it first"
        )
    })
}

/// None where somebody else has it.
pub fn lock_alone(what: &str) -> Result<Option<Flock<File>>> {
    private_dir(DIR)?;
    let file = open_lock(&format!("{DIR}/{what}.lock"))?;
    Ok(Flock::lock(file, FlockArg::LockExclusiveNonblock).ok())
}

/// For its owner alone: command lines may hold passwords, and whoever opens a lock can hold it. An
/// older imtcp made it for everybody to read.
pub fn private_dir(dir: &str) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.and_then(|()| fs::set_permissions(dir, Permissions::from_mode(0o700)))
        .map_err(|e| Obstacle::unwritable(Path::new(dir), &e))?;
    let owner = fs::metadata(dir)?.uid();
    if owner != 0 {
        bail!(
            "{dir} belongs to uid {owner}, not to root: remove it, if nobody needs what is in it"
        );
    }
    Ok(())
}

pub fn open_lock(path: &str) -> Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    let file = file.map_err(|e| Obstacle::unwritable(Path::new(path), &e))?;
    // An older imtcp made it for everybody to open.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}
