// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Batches on disk until the service has them. A batch is a file, and files are numbered: no clock
//! has a say in their order. The batch's id is in it and stays the same however often it is sent.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Context, Result};
use imtcp_client::record::Record;
use imtcp_common::format;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::clock::{Clock, Stamp};
use super::messages::say;

#[derive(Clone)]
pub struct Spool {
    dir: PathBuf,
    most_bytes: u64,
    clock: Clock,
    next: u64,
    dropped: u64,
}

const WAITING: &str = "json";
/// Its group, and everybody.
const MAY_OTHERS_WRITE: u32 = 0o022;
/// Batches that the service never takes.
const REFUSED: &str = "refused";

/// Bytes of records that are sent at once. A line of 64 kbit/s carries them in half of the 15 s that the
/// service leaves a request, and a proxy's usual limit of 1 MiB is far.
const PART_BYTES: usize = 64_000;

/// A file of the spool has no more: 5 000 records by the longest source have 6.5 MB.
const MOST_FILE_BYTES: u64 = 8_000_000;

/// Characters of a machine's id: with what is added the service's limit of 128 for a batch's id holds.
const MACHINE_CHARS: usize = 32;

/// A batch as it is in its file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    batch: String,
    pub records: Vec<Record>,
    /// By whose clock the times are; unknown in a spool of an older imtcp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Stamp>,
}

/// What a file holds.
pub enum Content {
    Batch(Batch),
    NoBatch(String),
    /// The file is no more, as when it had to make room.
    Gone,
}

impl Batch {
    /// The name by which the service knows it.
    pub fn id(&self) -> &str {
        &self.batch
    }

    fn new(records: Vec<Record>, clock: Stamp) -> io::Result<Self> {
        let unique = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
        let batch = format!("{}-{}", machine(), unique.trim());
        Ok(Batch { batch, records, clock: Some(clock) })
    }

    /// The same without these records. Its id follows from them: after a kill the agent sends the rest
    /// under the same id again.
    pub fn without(mut self, indices: &BTreeSet<usize>) -> Self {
        let mut hasher = DefaultHasher::new();
        indices.hash(&mut hasher);
        self.batch = format!("{}-{:016x}", self.batch, hasher.finish());
        let mut index = 0..;
        self.records.retain(|_| index.next().is_some_and(|i| !indices.contains(&i)));
        self
    }

    /// In pieces that a slow line carries. Their ids follow from their places: after a kill the agent
    /// sends the same pieces under the same ids again.
    pub fn parts(self) -> Vec<Self> {
        let mut parts: Vec<Vec<Record>> = Vec::new();
        let mut room = 0;
        for record in self.records {
            let bytes = serde_json::to_vec(&record).map_or(0, |text| text.len() + 1);
            match parts.last_mut().filter(|_| bytes <= room) {
                Some(part) => part.push(record),
                None => {
                    parts.push(vec![record]);
                    room = PART_BYTES;
                }
            }
            room = room.saturating_sub(bytes);
        }
        let is_one = parts.len() == 1;
        let part = |(place, records)| {
            let id = self.batch.clone();
            let batch = if is_one { id } else { format!("{id}-{place}") };
            Batch { batch, records, clock: self.clock.clone() }
        };
        parts.into_iter().enumerate().map(part).collect()
    }

    /// What the service is sent.
    pub fn report(&self, shift_us: i64) -> Vec<u8> {
        let shifted = |r: &Record| Record { time: r.time.saturating_add(shift_us), ..r.clone() };
        let records: Vec<_> = self.records.iter().map(shifted).collect();
        json!({ "batch": self.batch, "records": records }).to_string().into_bytes()
    }
}

impl Spool {
    pub fn open(dir: &Path, most_bytes: u64, clock: Clock) -> Result<Self> {
        // Whom this host talks to is nobody else's affair.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        let named = || format!("cannot make the spool {} (--spool names another)", dir.display());
        made.with_context(named)?;
        require_private(dir)?;
        let mut of_others = 0_u64;
        for entry in fs::read_dir(dir)?.flatten() {
            if entry.path().extension().is_some_and(|e| e == "new") {
                // A kill left it half written: nobody was promised it.
                let _ = fs::remove_file(entry.path());
            } else if entry.metadata().is_ok_and(|m| !is_own(&m)) {
                of_others += 1;
            }
        }
        if of_others > 0 {
            let (files, shown) = (format::count(of_others, "file"), dir.display());
            say!("{files} of other users in the spool {shown}: left out, as anybody may have put them there");
        }
        let mut spool = Spool { dir: dir.into(), most_bytes, clock, next: 0, dropped: 0 };
        let all = spool.with_ending(&[WAITING, REFUSED])?;
        spool.next = all.iter().filter_map(|path| number(path)).max().map_or(0, |last| last + 1);
        Ok(spool)
    }

    /// For one agent alone, as long as what is returned lives.
    pub fn lock(&self) -> Result<Flock<File>> {
        let path = self.dir.join("lock");
        // No link leads elsewhere, and no pipe makes us wait.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = File::options().create(true).append(true).custom_flags(flags).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| match e {
            Errno::EWOULDBLOCK => {
                let dir = self.dir.display();
                anyhow!("another imtcp-agent uses the spool {dir}: name another one with --spool")
            }
            e => anyhow!("cannot lock {}: {e}", path.display()),
        })
    }

    pub fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Batches that had to go so far to make room for newer ones, those that were put aside among them.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Keeps a batch; it is on disk when this returns. Tells how many bytes the spool has then.
    pub fn put(&mut self, records: &[Record]) -> Result<u64> {
        let path = self.dir.join(format!("{:020}.{WAITING}", self.next));
        let batch = Batch::new(records.to_vec(), self.clock.stamp())?;
        let body = serde_json::to_vec(&batch)?;
        let before = self.make_room(body.len() as u64)?;
        self.write(&path, &body)?;
        self.next += 1;
        Ok(before + body.len() as u64)
    }

    /// Whole or not at all.
    fn write(&self, path: &Path, body: &[u8]) -> Result<()> {
        let new = path.with_extension("new");
        let write = || {
            let mut file = create_private(&new)?;
            file.write_all(body)?;
            file.sync_all()?;
            fs::rename(&new, path)?;
            File::open(&self.dir)?.sync_all()
        };
        let written: io::Result<()> = write();
        if written.is_err() {
            // Half of it would take the room that the disk lacks.
            let _ = fs::remove_file(&new);
        }
        written.with_context(|| format!("cannot write {}", self.dir.display()))
    }

    /// Batches that wait, the oldest first.
    pub fn waiting(&self) -> Result<Vec<PathBuf>> {
        self.with_ending(&[WAITING])
    }

    pub fn read(&self, path: &Path) -> Result<Content> {
        let body = match read_own(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Content::Gone),
            // It is too long, and stays so.
            Err(e) if e.kind() == io::ErrorKind::FileTooLarge => {
                return Ok(Content::NoBatch(e.to_string()))
            }
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        Ok(match serde_json::from_slice(&body) {
            Ok(batch) => Content::Batch(batch),
            Err(e) => Content::NoBatch(format::others_text(&e.to_string())),
        })
    }

    /// Keeps it for whoever wants to look, and does not send it any more.
    pub fn put_aside(&self, path: &Path) -> io::Result<()> {
        unless_gone(fs::rename(path, path.with_extension(REFUSED)))
    }

    fn with_ending(&self, endings: &[&str]) -> Result<Vec<PathBuf>> {
        let ours = |path: &PathBuf| {
            path.extension().is_some_and(|e| endings.iter().any(|ending| e == *ending))
                && number(path).is_some()
        };
        let entries = fs::read_dir(&self.dir);
        let entries = entries.with_context(|| format!("cannot read {}", self.dir.display()))?;
        // Neither pipes, which would be waited for, nor links, which may lead to what has no end, nor what
        // another user wrote.
        let is_ours = |m: fs::Metadata| m.is_file() && is_own(&m);
        let files = entries.flatten().filter(|entry| entry.metadata().is_ok_and(is_ours));
        let mut all: Vec<_> = files.map(|e| e.path()).filter(ours).collect();
        all.sort();
        Ok(all)
    }

    /// First those go that the service refused. Tells how many bytes are left.
    fn make_room(&mut self, bytes: u64) -> Result<u64> {
        let mut all = self.with_ending(&[REFUSED])?;
        all.extend(self.waiting()?);
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |m| m.len());
        let sizes: Vec<u64> = all.iter().map(size).collect();
        let mut total: u64 = sizes.iter().sum();
        for (oldest, size) in all.iter().zip(sizes) {
            if total + bytes <= self.most_bytes {
                break;
            }
            total -= size;
            match fs::remove_file(oldest) {
                Ok(()) => self.dropped += 1,
                // The sender may have sent it just now.
                done => unless_gone(done)
                    .with_context(|| format!("cannot remove {}", oldest.display()))?,
            }
        }
        Ok(total)
    }
}

/// Whoever may write to the directory puts batches there, which go out by our token, and learns whom this host
/// talks to.
fn require_private(dir: &Path) -> Result<()> {
    let found = fs::metadata(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let shown = dir.display();
    if !is_own(&found) {
        bail!(
            "the spool {shown} belongs to another user (uid {}): name one of your own with --spool, or \
             change its owner",
            found.uid()
        );
    }
    if found.mode() & MAY_OTHERS_WRITE != 0 {
        bail!(
            "other users may write to the spool {shown}, and what they put there would be sent: run \
             `chmod go-w {shown}`, or name another one with --spool"
        );
    }
    Ok(())
}

fn is_own(found: &fs::Metadata) -> bool {
    found.uid() == geteuid().as_raw()
}

/// Reads a file of the spool. No link leads elsewhere, no pipe makes us wait, no other user wrote it, and it has an
/// end.
pub fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if !is_own(&found) {
        return Err(io::Error::other("it belongs to another user"));
    }
    let mut all = Vec::new();
    file.take(MOST_FILE_BYTES + 1).read_to_end(&mut all)?;
    if all.len() as u64 > MOST_FILE_BYTES {
        let why = format!("it has more than {}", format::bytes(MOST_FILE_BYTES));
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(all)
}

/// A new file for its owner alone. Who may write to the directory cannot lead this elsewhere by a link.
pub fn create_private(path: &Path) -> io::Result<File> {
    unless_gone(fs::remove_file(path))?;
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

pub fn unless_gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// An older imtcp began names with nanoseconds since 1970: numbers go on from there. `None`: the file is
/// none of ours. A number near the end is none of ours either, so there is always a next one.
fn number(path: &Path) -> Option<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let digits = name.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|number| *number < u64::MAX / 2)
}

/// So that ids of two machines that share a service never meet.
fn machine() -> String {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let name = nix::unistd::gethostname().map(|n| n.to_string_lossy().into_owned());
    let machine = if id.trim().is_empty() { name.unwrap_or_default() } else { id };
    machine.trim().chars().take(MACHINE_CHARS).collect()
}
