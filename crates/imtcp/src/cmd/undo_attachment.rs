// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Undoes an attachment: for `detach`, `down`, rules, and an `attach` that failed.

use std::collections::HashMap;
use std::os::fd::AsFd;

use anyhow::{Error, Result};
use imtcp_bpf::control::{self, Switcher, Which};
use imtcp_bpf::policy::Policies;
use imtcp_bpf::tags::Tags;
use imtcp_common::{exit, procfs};

use crate::attachment::Attachment;
use crate::cgroup;
use crate::socket::{self, Thread};

/// The outcome of undoing an attachment.
pub(super) struct Undone {
    /// Sockets that got their control back.
    pub restored: usize,
    /// Why a cgroup of it stays. It has no links and no orders any more, and stays listed.
    pub left: Option<Error>,
}

/// Undoes an attachment, also a half-made one, as far as that goes.
pub(super) fn undo(attachment: &Attachment) -> Result<Undone> {
    attachment.require_undoable()?;
    control::remove_links(attachment.policy, attachment.links);
    let saved: HashMap<u64, &str> =
        attachment.sockets.iter().map(|s| (s.cookie, s.control.as_str())).collect();
    let mut restored = 0;
    for dir in attachment.cgroups() {
        for thread in cgroup::procs(&dir).into_iter().flat_map(procfs::descriptor_tables) {
            restored += restore_sockets(thread, attachment.policy, &saved);
        }
    }
    // Those opened since, and those without a process: to their namespace's default.
    if let Ok(switcher) = Switcher::load() {
        let done = switcher.run_everywhere(Which::OfPolicy(attachment.policy));
        restored += (done.connections + done.listeners) as usize;
    }
    let mut left = None;
    for moved in &attachment.moved {
        left = cgroup::remove(&moved.dir, &moved.home).err().or(left);
    }
    if let Ok(policies) = Policies::open() {
        policies.remove(attachment.policy);
    }
    if left.is_none() {
        attachment.forget();
    }
    let left = left.map(|e| e.context(format!("{} is detached but for this", attachment.target)));
    Ok(Undone { restored, left })
}

/// The same, and it is a fault if something stays.
pub(super) fn undo_whole(attachment: &Attachment) -> Result<()> {
    undo(attachment)?.left.map_or(Ok(()), Err)
}

fn restore_sockets(thread: i32, policy: u64, saved: &HashMap<u64, &str>) -> usize {
    let (Ok(held), Ok(tags)) = (Thread::open(thread), Tags::open()) else { return 0 };
    let mut restored = 0;
    for (fd, _) in procfs::sockets(thread) {
        let Ok(copy) = held.descriptor(fd) else { continue };
        let copy = copy.as_fd();
        if !socket::is_tcp(copy) || tags.get(copy) != Some(policy) {
            continue;
        }
        let Some(control) = socket::cookie(copy).ok().and_then(|c| saved.get(&c)) else { continue };
        // A program may have chosen another control since: that stays.
        let still_ours = socket::control(copy).is_ok_and(|c| c.starts_with("imtcp"));
        if still_ours && socket::set_control(copy, control).is_ok() {
            restored += 1;
        }
        tags.clear(copy);
    }
    restored
}

/// Says what could not be undone.
pub(super) fn exit_code(faults: &[Error]) -> u8 {
    for fault in faults {
        eprintln!("imtcp: {fault:#}");
    }
    if faults.is_empty() {
        exit::OK
    } else {
        exit::FAILURE
    }
}
