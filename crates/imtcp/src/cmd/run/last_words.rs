// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Where the line at the end goes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Standard error, or a file. A file is opened before the command begins, for nobody should wait for
/// hours to hear that it cannot be; what it had stays until there is something to write, and a new one
/// goes again where there never is.
pub struct LastWords(Option<Opened>);

struct Opened {
    file: File,
    /// To be removed where nothing was written.
    new: Option<PathBuf>,
}

impl LastWords {
    pub fn to(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(LastWords(None)) };
        let write = |new| OpenOptions::new().write(true).create_new(new).open(path);
        let opened = match write(true) {
            Ok(file) => Ok(Opened { file, new: Some(path.to_path_buf()) }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                write(false).map(|file| Opened { file, new: None })
            }
            Err(e) => Err(e),
        };
        Ok(LastWords(Some(opened.with_context(|| format!("cannot write {}", path.display()))?)))
    }

    pub fn say(mut self, line: &str) -> io::Result<()> {
        let Some(opened) = &mut self.0 else { return writeln!(io::stderr(), "{line}") };
        opened.new = None;
        // Not of a device or a pipe.
        if opened.file.metadata()?.is_file() {
            opened.file.set_len(0)?;
        }
        writeln!(opened.file, "{line}")
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(path) = &self.new {
            let _ = fs::remove_file(path);
        }
    }
}
