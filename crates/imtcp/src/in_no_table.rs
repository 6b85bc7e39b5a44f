// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! TCP sockets that no process has a descriptor of: a message of a Unix socket carries them, or something else
//! of the kernel holds their file. No descriptor leads to them, so they are counted by the cgroup that they were
//! opened in.

use std::collections::HashSet;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use imtcp_bpf::sockets::{Descriptors, Held, HeldSockets};
use imtcp_bpf::Unseen;
use imtcp_common::procfs;

/// A program that passes a socket on takes less between sending and receiving it.
const IN_PASSING: Duration = Duration::from_millis(50);

/// How many of those that are asked for are in no table, and where that is not known. A socket may come into a table
/// during a look: two looks have to agree.
pub fn count(is_asked_for: impl Fn(&Held) -> bool) -> Result<(usize, Unseen)> {
    let (held, descriptors) = (HeldSockets::load()?, Descriptors::of_all()?);
    let look = || -> Result<(HashSet<u64>, Unseen)> {
        let (all, unseen) = held.all();
        let asked_for = all.into_iter().filter(&is_asked_for).map(|held| held.inode);
        let mut sockets: HashSet<u64> = asked_for.collect();
        let with_descriptors = descriptors.inodes()?;
        sockets.retain(|inode| !with_descriptors.contains(inode));
        Ok((without_those_of_io_uring(sockets), unseen))
    };
    let (first, unseen) = look()?;
    if first.is_empty() {
        return Ok((0, unseen));
    }
    sleep(IN_PASSING);
    let (second, unseen) = look()?;
    Ok((second.intersection(&first).count(), unseen))
}

/// Those belong to the process that has the io_uring: where it is attached, they are told as its.
fn without_those_of_io_uring(mut sockets: HashSet<u64>) -> HashSet<u64> {
    for pid in procfs::pids() {
        if sockets.is_empty() {
            break;
        }
        procfs::sockets_of_io_uring(pid).iter().for_each(|inode| _ = sockets.remove(inode));
    }
    sockets
}
