// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The records of all connections, from the pinned iterator. It works across network
//! namespaces and disturbs no connection.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::mem::size_of;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{bail, Context, Result};

use crate::raw::{self, Plain};
use crate::{paths, shared, Record};

/// A handle on the iterator that goes on working when the pins are removed.
pub struct Records {
    link: OwnedFd,
}

impl Records {
    pub fn open() -> Result<Self> {
        let path = paths::pin(paths::CONNECTIONS);
        let link = raw::obj_get(&path)
            .with_context(|| format!("cannot open {}: run `imtcp up`", path.display()))?;
        Ok(Records { link })
    }

    /// One record per connection on a control of ours.
    pub fn read(&self) -> Result<Vec<Record>> {
        let iter = raw::iter_create(self.link.as_fd()).context("cannot start the iterator")?;
        let mut file = File::from(iter);
        let mut bytes = Vec::new();
        let mut chunk = vec![0; 64 * 1024];
        loop {
            match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => bytes.extend_from_slice(&chunk[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(e) => return Err(e).context("cannot read the connections"),
            }
        }
        parse(&bytes)
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Record>> {
    let Some(first) = bytes.first_chunk::<4>() else { return Ok(Vec::new()) };
    let abi = u32::from_ne_bytes(*first);
    if abi != shared::IMTCP_ABI_VERSION {
        bail!(
            "the loaded programs speak version {abi} of the records and this command {}: \
             run `imtcp up` to upgrade them",
            shared::IMTCP_ABI_VERSION
        );
    }
    Ok(bytes.chunks_exact(size_of::<Record>()).filter_map(Record::from_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were_written() {
        let mut one = Record { abi: shared::IMTCP_ABI_VERSION, cookie: 7, ..Default::default() };
        let mut bytes = one.bytes().to_vec();
        one.cookie = 8;
        bytes.extend_from_slice(one.bytes());
        let read = parse(&bytes).unwrap();
        assert_eq!(read.iter().map(|r| r.cookie).collect::<Vec<_>>(), [7, 8]);
    }

    #[test]
    fn another_version_of_the_records_is_refused() {
        let other = Record { abi: shared::IMTCP_ABI_VERSION + 1, ..Default::default() };
        assert!(parse(other.bytes()).unwrap_err().to_string().contains("imtcp up"));
    }
}
