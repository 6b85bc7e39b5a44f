// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Where a history is.

use std::path::PathBuf;

use nix::sys::statfs::statfs;

use crate::error::{Error, Result};

/// With less room on its file system a history counts as full: enough for one group of reports.
const LEAST_ROOM_BYTES: u64 = 256 << 10;

/// Where the history is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    File(PathBuf),
    /// With its password: never shown.
    Postgres(String),
}

impl Place {
    pub fn new(text: &str) -> Result<Self> {
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Place::Postgres(text.into())),
            Some(("sqlite", path)) => Ok(Place::File(path.into())),
            // Never the rest of it: there may be a password.
            Some((other, _)) if other.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                Err(Error::Input(format!(
                    "no history at {other}://…: only SQLite files and postgres:// are known"
                )))
            }
            _ => Ok(Place::File(text.into())),
        }
    }

    /// A file that opening would make.
    pub fn is_missing(&self) -> bool {
        matches!(self, Place::File(path) if !path.exists())
    }

    /// Is there room for another group of reports?
    pub(super) fn check_room(&self) -> Result<()> {
        let Place::File(path) = self else { return Ok(()) };
        let Ok(found) = statfs(path) else { return Ok(()) };
        let room = found.blocks_available().saturating_mul(found.block_size().unsigned_abs());
        if room < LEAST_ROOM_BYTES {
            return Err(Error::Full);
        }
        Ok(())
    }

    /// Takes away the file of a history that was made for nothing, and is closed.
    pub fn remove(&self) {
        if let Place::File(path) = self {
            let _ = std::fs::remove_file(path);
        }
    }

    /// SQLite makes a missing file only if `create` says so.
    pub(super) fn url(&self, create: bool) -> String {
        match self {
            Place::Postgres(url) => url.clone(),
            Place::File(path) => {
                let mut url = String::from("sqlite://");
                for byte in path.to_string_lossy().bytes() {
                    match byte {
                        b'/' | b'.' | b'-' | b'_' => url.push(byte.into()),
                        b if b.is_ascii_alphanumeric() => url.push(b.into()),
                        b => url.push_str(&format!("%{b:02X}")),
                    }
                }
                url + if create { "?mode=rwc" } else { "?mode=rw" }
            }
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Place::File(path) => write!(f, "{}", path.display()),
            Place::Postgres(url) => {
                let after = url.rsplit_once('@').map_or_else(
                    || url.split_once("://").map_or("", |(_, rest)| rest),
                    |(_, rest)| rest,
                );
                write!(f, "postgres://{}", after.split('?').next().unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_never_shows_its_password() {
        let place = |text| Place::new(text).unwrap();
        let postgres = place("postgres://me:secret@db.example.org/imtcp?sslmode=require");
        assert_eq!(postgres.to_string(), "postgres://db.example.org/imtcp");
        assert_eq!(place("postgresql:///x").to_string(), "postgres:///x");
        assert_eq!(place("sqlite://a b.db").url(true), "sqlite://a%20b.db?mode=rwc");
        let e = Place::new("mysql://me:secret@db/x").unwrap_err().to_string();
        assert_eq!(e, "no history at mysql://…: only SQLite files and postgres:// are known");
        assert_eq!(place("./a://b").url(false), "sqlite://./a%3A//b?mode=rw");
    }
}
