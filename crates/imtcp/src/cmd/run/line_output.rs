// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Where the line at the end goes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use imtcp_common::format;

/// Standard error, standard output, or a file. A file is opened before the command begins: nobody should wait
/// for hours to hear that it cannot be opened. Its old content stays until there is a line. A new file goes again
/// if there never is one.
///
/// Others chose names in the line: whatever it is written to, no character of them commands a terminal.
pub enum LineOutput {
    Output,
    Error,
    File(Opened),
}

pub enum Line {
    Text(String),
    Json(serde_json::Value),
}

pub struct Opened {
    file: File,
    /// To be removed where nothing was written.
    new: Option<PathBuf>,
}

impl LineOutput {
    pub fn to(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(LineOutput::Error) };
        if path == Path::new("-") {
            return Ok(LineOutput::Output);
        }
        let opened = open(path).with_context(|| format!("cannot write {}", path.display()))?;
        // Where /dev/stdout is a file, its name leads there, and the command writes to it.
        if is_same(&opened.file, io::stdout()) {
            return Ok(LineOutput::Output);
        }
        if is_same(&opened.file, io::stderr()) {
            return Ok(LineOutput::Error);
        }
        Ok(LineOutput::File(opened))
    }

    pub fn write(self, line: &Line) -> io::Result<()> {
        let line = match line {
            Line::Text(text) => format::lines_for_terminal(text),
            Line::Json(value) => format::json_for_terminal(&value.to_string()),
        } + "\n";
        match self {
            LineOutput::Output => {
                let mut out = io::stdout().lock();
                out.write_all(line.as_bytes()).and_then(|()| out.flush())
            }
            LineOutput::Error => io::stderr().write_all(line.as_bytes()),
            LineOutput::File(mut opened) => opened.replace(&line),
        }
    }
}

fn open(path: &Path) -> io::Result<Opened> {
    let write = |new| OpenOptions::new().write(true).create_new(new).open(path);
    match write(true) {
        Ok(file) => Ok(Opened { file, new: Some(path.to_path_buf()) }),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            Ok(Opened { file: write(false)?, new: None })
        }
        Err(e) => Err(e),
    }
}

fn is_same(file: &File, stream: impl AsFd) -> bool {
    let stream = stream.as_fd().try_clone_to_owned().and_then(|fd| File::from(fd).metadata());
    let (Ok(a), Ok(b)) = (file.metadata(), stream) else { return false };
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

impl Opened {
    fn replace(&mut self, line: &str) -> io::Result<()> {
        self.new = None;
        // Not of a device or a pipe.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(line.as_bytes())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(path) = &self.new {
            let _ = fs::remove_file(path);
        }
    }
}
