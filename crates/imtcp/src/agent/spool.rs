// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Batches on disk until the service has them. A batch is a file, named so that the oldest
//! sorts first; its id is in it and stays the same however often it is sent.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{anyhow, Context, Result};
use imtcp_advice::record::Record;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde_json::json;

#[derive(Clone)]
pub struct Spool {
    dir: PathBuf,
    most_bytes: u64,
    count: u64,
}

const SUFFIX: &str = "json";

impl Spool {
    pub fn open(dir: &Path, most_bytes: u64) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        // What a kill left half written was never promised to anybody.
        for entry in fs::read_dir(dir)?.flatten() {
            if entry.path().extension().is_some_and(|e| e == "new") {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(Spool { dir: dir.into(), most_bytes, count: 0 })
    }

    /// For one agent alone, as long as what is returned lives.
    pub fn lock(&self) -> Result<Flock<File>> {
        let path = self.dir.join("lock");
        let file = File::options().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| match e {
            Errno::EWOULDBLOCK => {
                let dir = self.dir.display();
                anyhow!("another imtcp agent uses the spool {dir}: name another one with --spool")
            }
            e => anyhow!("cannot lock {}: {e}", path.display()),
        })
    }

    /// Keeps a batch; it is on disk when this returns. Tells how many old batches had to go.
    pub fn put(&mut self, records: &[Record]) -> Result<usize> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.count += 1;
        let name = format!("{:020}-{:06}-{:08x}", now.as_nanos(), self.count, std::process::id());
        let batch = format!("{}-{name}", machine());
        let body = serde_json::to_vec(&json!({ "batch": batch, "records": records }))?;
        let dropped = self.make_room(body.len() as u64)?;
        let path = self.dir.join(format!("{name}.{SUFFIX}"));
        let new = path.with_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&body)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(dropped)
    }

    /// Batches that wait, the oldest first.
    pub fn waiting(&self) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.dir)?.flatten().map(|e| e.path());
        let mut all: Vec<_> =
            entries.filter(|p| p.extension().is_some_and(|e| e == SUFFIX)).collect();
        all.sort();
        Ok(all)
    }

    fn make_room(&self, bytes: u64) -> Result<usize> {
        let waiting = self.waiting()?;
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |m| m.len());
        let mut total: u64 = waiting.iter().map(size).sum();
        let mut dropped = 0;
        for oldest in &waiting {
            if total + bytes <= self.most_bytes {
                break;
            }
            total -= size(oldest).min(total);
            fs::remove_file(oldest)?;
            dropped += 1;
        }
        Ok(dropped)
    }
}

/// So that ids of two machines that share a service never meet.
fn machine() -> String {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let id: String = id.trim().chars().take(32).collect();
    if id.is_empty() {
        nix::unistd::gethostname().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    } else {
        id
    }
}
