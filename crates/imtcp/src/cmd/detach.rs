// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp detach`: undoes attachments. What they covered goes to the innermost around them.

use std::collections::BTreeSet;

use anyhow::{bail, Error, Result};
use imtcp_bpf::{meta, probe};
use imtcp_common::out::print_json;
use imtcp_common::{exit, format};
use serde_json::json;

use super::attach;
use super::undo_attachment::{exit_code, undo_all};
use crate::attachment::{self, Attachment, Target};
use crate::cgroup;
use crate::cli::DetachArgs;
use crate::nested::{self, Around, Nest};
use crate::open_sockets::Unreached;
use crate::state::{self, ChangeLock};
use crate::sweep::sweep;

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
    let chosen: Vec<_> = attachment::all().into_iter().filter(wanted).collect();
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
    let code = exit_code(&faults);
    if let Some(text) = unreached.text() {
        eprintln!("imtcp: {text}");
        return Ok(exit::FAILURE);
    }
    Ok(code)
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
    let nest = Nest::now();
    let processes = |a: &Attachment| nested::own_processes(a, &nest.within(a));
    let had: Vec<BTreeSet<i32>> = chosen.iter().map(processes).collect();
    for ((done, had), attachment) in undo_all(&chosen).into_iter().zip(had).zip(chosen) {
        match done {
            Ok(done) => {
                given_up.extend(had);
                restored += done.restored;
                match done.left {
                    Some(fault) => faults.push(fault),
                    None => detached.push(attachment),
                }
            }
            Err(fault) => faults.push(fault),
        }
    }
    sweep(lock);
    let (around, unreached) = attach::give_to_those_around(&given_up)?;
    Ok(GivenUp { detached, restored, faults, around, unreached })
}
