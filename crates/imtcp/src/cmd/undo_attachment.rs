// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Undoes an attachment: for `detach`, `down`, rules, and an `attach` that failed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::AsFd;

use anyhow::{anyhow, Context, Error, Result};
use imtcp_bpf::control::{self, Switcher, Which};
use imtcp_bpf::in_child;
use imtcp_bpf::policy::Policies;
use imtcp_bpf::receive;
use imtcp_bpf::tags::Tags;
use imtcp_common::{exit, format, procfs};

use crate::attachment::Attachment;
use crate::cgroup;
use crate::each_socket::{self, Part, Pass};
use crate::socket::{self, Thread};

/// The outcome of undoing an attachment.
pub(super) struct Undone {
    /// Sockets that got their control back.
    pub restored: usize,
    /// Why something of it stays. It has no links and no orders any more, and stays listed.
    pub left: Option<Error>,
}

/// Undoes an attachment, also a half-made one, as far as that goes.
pub(super) fn undo(attachment: &Attachment) -> Result<Undone> {
    let mut all = undo_all(std::slice::from_ref(attachment));
    all.pop().unwrap_or_else(|| unreachable!("one is undone"))
}

/// Undoes several, in one walk through the namespaces. One that cannot be undone stays as it is.
pub(super) fn undo_all(attachments: &[Attachment]) -> Vec<Result<Undone>> {
    let may_be: Vec<Result<()>> = attachments.iter().map(require_undoable).collect();
    let which: Vec<&Attachment> =
        attachments.iter().zip(&may_be).filter(|(_, may)| may.is_ok()).map(|(a, _)| a).collect();
    for attachment in &which {
        control::remove_links(attachment.policy, attachment.links);
    }
    receive::give_back(&which.iter().map(|a| a.policy).collect());
    let mut given_back: Vec<(usize, Option<String>)> = which.iter().map(|a| give_back(a)).collect();
    let (moved, unseen) = switch(&which.iter().map(|a| a.policy).collect());
    let mut undone = which.iter().zip(&mut given_back).map(|(attachment, (restored, locked))| {
        let moved = moved.get(&attachment.policy).copied().unwrap_or(0) as usize;
        let stays: Vec<String> = locked.take().into_iter().chain(unseen.clone()).collect();
        finish(attachment, *restored + moved, &stays)
    });
    let each = may_be.into_iter().map(|may| may.map(|()| undone.next().expect("one for each")));
    each.collect()
}

/// Where no child can be made nothing is begun: it takes one to reach sockets.
fn require_undoable(attachment: &Attachment) -> Result<()> {
    attachment.require_undoable()?;
    in_child::run(None, &[], |_| Ok(()), |_| ())
        .with_context(|| format!("cannot start a process; {} stays attached", attachment.name()))
}

/// Sockets opened since, and those without a process, to their namespace's default: how many of each policy, and
/// where that could not be done.
fn switch(policies: &BTreeSet<u64>) -> (BTreeMap<u64, u64>, Option<String>) {
    // Not loaded: none has anything of ours.
    let Ok(mut switcher) = Switcher::load() else { return Default::default() };
    let (_, unseen) = switcher.run_everywhere(Which::OfPolicies(policies));
    (switcher.moved_of_policies(), unseen.text())
}

fn finish(attachment: &Attachment, restored: usize, stays: &[String]) -> Undone {
    let mut left = (!stays.is_empty()).then(|| {
        anyhow!("connections of it may keep its mode: {}: detach it again then", stays.join("; "))
    });
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
    Undone { restored, left }
}

/// The same, and it is a fault if something stays.
pub(super) fn undo_whole(attachment: &Attachment) -> Result<()> {
    undo(attachment)?.left.map_or(Ok(()), Err)
}

/// Gives sockets of its processes the control that they had, and says how many could not be asked.
fn give_back(attachment: &Attachment) -> (usize, Option<String>) {
    let saved: HashMap<u64, &str> =
        attachment.sockets.iter().map(|s| (s.cookie, s.control.as_str())).collect();
    let pids: BTreeSet<i32> = attachment.cgroups().iter().flat_map(|d| cgroup::procs(d)).collect();
    let Ok(tags) = Tags::open() else { return (0, None) };
    if pids.is_empty() {
        return (0, None);
    }
    let mut restored = 0;
    let passed = each_socket::pass(
        &[tags.as_fd()],
        |pass| {
            let threads = pids.iter().flat_map(|pid| procfs::descriptor_tables(*pid));
            { threads }
                .try_for_each(|thread| restore(thread, attachment.policy, &saved, &tags, pass))
        },
        |_, given| restored += usize::from(given),
    );
    let locked = (passed.locked > 0).then(|| {
        let count = format::count(passed.locked, "open socket");
        format!("{count} locked by the program (end it)")
    });
    let fault = passed.fault.map(|e| format!("not all open sockets were reached ({e})"));
    let stays: Vec<_> = locked.into_iter().chain(fault).collect();
    (restored, (!stays.is_empty()).then(|| stays.join("; ")))
}

fn restore(
    thread: i32,
    policy: u64,
    saved: &HashMap<u64, &str>,
    tags: &Tags,
    pass: &mut Pass<bool>,
) -> io::Result<()> {
    let Ok(held) = Thread::open(thread) else { return Ok(()) };
    for (fd, inode) in procfs::sockets(thread) {
        let Ok(copy) = held.descriptor(fd) else { continue };
        let (copy, part) = (copy.as_fd(), Part::Socket(inode));
        if !socket::is_tcp(copy) || tags.get(copy) != Some(policy) || pass.has(part) {
            continue;
        }
        let Some(control) = socket::cookie(copy).ok().and_then(|c| saved.get(&c)) else { continue };
        pass.begins(part)?;
        // A program may have chosen another control since: that stays.
        let still_ours = socket::control(copy).is_ok_and(|c| c.starts_with("imtcp"));
        let given = still_ours && socket::set_control(copy, control).is_ok();
        // Without a tag no program keeps the mark.
        let before = tags.unmarked(copy);
        tags.clear(copy);
        let _ = socket::unmark(copy, before);
        pass.done(part, given)?;
    }
    Ok(())
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
