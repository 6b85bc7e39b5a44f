// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Walks of a BPF iterator through sockets.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::BorrowedFd;

use anyhow::{Context, Result};

use crate::in_child;
use crate::netns::NetNs;
use crate::raw::{self, Plain};

/// Has an iterator go through the TCP sockets of a namespace, and hands over what it prints. It takes the lock of
/// each socket, whoever has it: a child walks.
pub(crate) fn sockets(ns: &NetNs, link: BorrowedFd, take: impl FnMut(&[u8])) -> Result<()> {
    let walk = |out: &mut in_child::Messages| {
        if !ns.is_callers() {
            ns.enter()?;
        }
        let mut fault = Ok(());
        read(File::from(raw::iter_create(link)?), |bytes| {
            if fault.is_ok() {
                fault = out.send(bytes);
            }
        })?;
        fault
    };
    in_child::run(Some(ns.ino), &[ns.as_fd(), link], walk, take)
        .with_context(|| format!("the sockets of network namespace {}", ns.ino))
}

/// Reads an iterator to its end.
pub(crate) fn read(mut iter: File, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match iter.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => take(&buffer[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(e) => return Err(e),
        }
    }
}

/// The items that an iterator prints. The iterator waits for no socket.
pub(crate) fn items<T: Plain>(link: BorrowedFd) -> io::Result<Vec<T>> {
    let mut printed = Vec::new();
    read(File::from(raw::iter_create(link)?), |bytes| printed.extend_from_slice(bytes))?;
    Ok(items_in(&printed))
}

/// The same of the TCP sockets of a namespace.
pub(crate) fn items_of<T: Plain>(ns: &NetNs, link: BorrowedFd) -> Result<Vec<T>> {
    let mut printed = Vec::new();
    sockets(ns, link, |bytes| printed.extend_from_slice(bytes))?;
    Ok(items_in(&printed))
}

fn items_in<T: Plain>(printed: &[u8]) -> Vec<T> {
    printed.chunks_exact(size_of::<T>()).filter_map(T::from_bytes).collect()
}
