// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The files of a SQLite history: are they still the ones that are open?
//!
//! SQLite does not notice that its file was removed or replaced, and goes on writing into the one that
//! no name leads to. So whatever is acknowledged is first compared with what the path names.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Store;
use crate::error::{Error, Result};

/// A file, and which one it was when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Known {
    fn new(path: PathBuf) -> io::Result<Self> {
        let found = std::fs::metadata(&path)?;
        Ok(Known { device: found.dev(), inode: found.ino(), path })
    }

    fn is_in_place(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == (self.device, self.inode))
    }
}

/// The database, its log and the log's index.
#[derive(Debug)]
pub(super) struct Files([Known; 3]);

impl Files {
    /// To be called while a connection that has read is open: until it ends, SQLite itself removes none
    /// of them.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        // SQLite puts its log beside the file that a symbolic link leads to.
        let real = path.canonicalize()?;
        let beside = |ending: &str| {
            let mut name = OsString::from(&real);
            name.push(ending);
            Known::new(name.into())
        };
        Ok(Files([Known::new(path.into())?, beside("-wal")?, beside("-shm")?]))
    }

    /// Bytes of the log; none where it is away.
    pub(super) fn log_bytes(&self) -> io::Result<u64> {
        match std::fs::metadata(&self.0[1].path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
            found => Ok(found?.len()),
        }
    }

    /// The file's rights, where others have any.
    fn rights_of_others(&self) -> Option<u32> {
        let mode = std::fs::metadata(&self.0[0].path).ok()?.mode() & 0o777;
        (mode & 0o077 != 0).then_some(mode)
    }

    fn missing(&self) -> Option<&Known> {
        self.0.iter().find(|known| !known.is_in_place())
    }
}

impl Store {
    pub(crate) fn rights_of_others(&self) -> Option<u32> {
        self.files.as_ref().and_then(Files::rights_of_others)
    }

    /// Is the history still what was opened?
    pub(crate) fn check_files(&self) -> Result<()> {
        match self.files.as_ref().and_then(Files::missing) {
            None => Ok(()),
            Some(known) => Err(Error::Replaced(format!("the file {}", known.path.display()))),
        }
    }

    /// If SQLite's log lost its name, moves what it holds into the database, which still has its own.
    pub(crate) async fn rescue_log(&self) {
        if self.files.as_ref().is_some_and(|files| files.0[0].is_in_place()) {
            self.checkpoint().await;
        }
    }
}
