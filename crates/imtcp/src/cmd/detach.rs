// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsFd;

use anyhow::{bail, Error, Result};
use imtcp_bpf::control::{self, Switcher, Which};
use imtcp_bpf::policy::Policies;
use imtcp_bpf::tags::Tags;
use imtcp_bpf::{meta, probe};
use imtcp_common::out::print_json;
use imtcp_common::{exit, format, procfs};
use serde_json::json;

use super::attach;
use crate::attachment::{Attachment, Target};
use crate::cgroup;
use crate::cli::DetachArgs;
use crate::nested::{self, Around};
use crate::open_sockets::Unreached;
use crate::socket::{self, Thread};
use crate::state::{self, ChangeLock};

pub fn main(args: DetachArgs) -> Result<u8> {
    let filter = args.filter.of(args.cgroup.as_ref())?;
    probe::require_privileges("imtcp detach")?;
    meta::require_in_sight()?;
    let lock = state::lock()?;
    let is_filter = |a: &Attachment| filter.is_none() || a.filter == filter;
    let is_target = |a: &Attachment| match (&a.target, args.pid, &args.cgroup) {
        _ if args.all => true,
        (Target::Pid(pid), Some(given), _) => *pid == given,
        // Also one that is not there any more.
        (Target::Cgroup(dir), _, Some(given)) => {
            cgroup::meant_by(given).is_ok_and(|meant| meant.contains(dir))
                || cgroup::resolve(given).is_ok_and(|g| *dir == g)
        }
        _ => false,
    };
    let wanted = |a: &Attachment| is_target(a) && is_filter(a);
    let chosen: Vec<_> = state::attachments().into_iter().filter(wanted).collect();
    if chosen.is_empty() && !args.all {
        let named = match (args.pid, &args.cgroup) {
            (Some(pid), _) => Target::Pid(pid).to_string(),
            (_, Some(dir)) => Target::Cgroup(dir.clone()).to_string(),
            (None, None) => unreachable!("clap asks for one of them"),
        };
        bail!("{named} is not attached: `imtcp status` lists what is");
    }
    chosen.iter().try_for_each(Attachment::require_undoable)?;
    let GivenUp { detached, restored, faults, around, unreached } = give_up(chosen, &lock)?;
    if args.json {
        print_json(&json!({"detached": detached.len(), "sockets_restored": restored}))?;
    } else if detached.is_empty() && faults.is_empty() {
        outln!("nothing is attached");
    } else {
        for a in &detached {
            outln!("{} is detached", a.name());
        }
        match around {
            Some(Around::Attachment(outer)) => {
                outln!(
                    "{} has it from now on, which is attached: {}",
                    outer.target,
                    outer.orders()
                );
            }
            Some(Around::Run(run)) => outln!("{} has it from now on: {}", run.name(), run.orders()),
            None => {}
        }
        outln!("congestion control given back to {}", format::count(restored, "open socket"));
    }
    if let Some(text) = unreached.text() {
        eprintln!("imtcp: {text}");
        return Ok(exit::FAILURE);
    }
    Ok(exit_code(&faults))
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

/// What came of undoing attachments.
pub(super) struct GivenUp {
    pub detached: Vec<Attachment>,
    pub restored: usize,
    pub faults: Vec<Error>,
    /// Who has what they had from now on.
    around: Option<Around>,
    unreached: Unreached,
}

/// Undoes attachments, and gives what they had to those around them.
pub(super) fn give_up(chosen: Vec<Attachment>, lock: &ChangeLock) -> Result<GivenUp> {
    let (mut detached, mut faults, mut restored) = (Vec::new(), Vec::new(), 0);
    let mut given_up = BTreeSet::new();
    for attachment in chosen {
        given_up.extend(nested::own_processes(&attachment, &nested::within(&attachment)));
        match detach(&attachment) {
            Ok(done) => {
                restored += done.restored;
                match done.left {
                    Some(fault) => faults.push(fault),
                    None => detached.push(attachment),
                }
            }
            Err(fault) => faults.push(fault),
        }
    }
    state::sweep(lock);
    let (around, unreached) = attach::give_to_those_around(&given_up)?;
    Ok(GivenUp { detached, restored, faults, around, unreached })
}

/// The outcome of undoing an attachment.
pub(super) struct Detached {
    /// Sockets that got their control back.
    pub restored: usize,
    /// Why a cgroup of it stays. It has no links and no orders any more, and stays listed.
    pub left: Option<Error>,
}

/// Undoes an attachment, also a half-made one, as far as that goes.
pub(super) fn detach(attachment: &Attachment) -> Result<Detached> {
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
    Ok(Detached { restored, left })
}

/// The same, and it is a fault if something stays.
pub(super) fn detach_whole(attachment: &Attachment) -> Result<()> {
    detach(attachment)?.left.map_or(Ok(()), Err)
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
