// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Pins under names of their own, until all that belongs together is there.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::raw;

/// Pins that do not have their real names yet.
#[derive(Default)]
pub struct Staged(Vec<PathBuf>);

impl Staged {
    pub fn stage(&mut self, path: PathBuf) -> PathBuf {
        let staged = staged_name(&path);
        self.0.push(path);
        staged
    }

    pub fn pin(&mut self, fd: BorrowedFd, path: PathBuf) -> Result<()> {
        let staged = self.stage(path);
        raw::obj_pin(fd, &staged).with_context(|| format!("cannot pin {}", staged.display()))
    }

    pub fn commit(mut self) -> Result<()> {
        // Names that were there before are replaced atomically by each rename.
        while let Some(path) = self.0.first() {
            fs::rename(staged_name(path), path)
                .with_context(|| format!("cannot rename the pin {}", path.display()))?;
            self.0.remove(0);
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = fs::remove_file(staged_name(path));
        }
    }
}

/// The BPF file system takes no names with dots.
pub const STAGED: &str = "_new";

fn staged_name(path: &std::path::Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(STAGED);
    name.into()
}
