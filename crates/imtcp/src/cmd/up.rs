// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use anyhow::{Context, Result};
use imtcp_bpf::meta::{require_same_layout, Meta};
use imtcp_bpf::policy::Policies;
use imtcp_bpf::records::Records;
use imtcp_bpf::up::{up, Nocc, Outcome};
use imtcp_bpf::{down, netns, objects, probe, usual_controls};
use imtcp_common::exit;
use imtcp_common::out::print_json;
use serde_json::json;

use crate::cli::UpArgs;
use crate::sweep::sweep;
use crate::{attachment, nocc, runs, state};

pub fn main(args: UpArgs) -> Result<u8> {
    probe::require_privileges("imtcp up")?;
    let lock = state::lock()?;
    let was_allowed = nocc::is_allowed();
    let outcome = up(args.force, if args.allow_nocc { Nocc::Allow } else { Nocc::TakeAway })?;
    let nocc_changed = args.allow_nocc != was_allowed;
    if nocc_changed {
        nocc::log_change(args.allow_nocc);
    }
    sweep(&lock);
    let version = objects::VERSION;
    if args.json {
        let (action, from, kept) = match &outcome {
            Outcome::Loaded => ("loaded", None, true),
            Outcome::Already if nocc_changed => ("changed", None, true),
            Outcome::Already => ("already", None, true),
            Outcome::Upgraded { from, kept } => ("upgraded", Some(from), *kept),
        };
        print_json(&json!({
            "action": action,
            "version": version,
            "from_version": from,
            "records_kept": kept,
            "nocc": nocc::is_allowed(),
            "nocc_changed": nocc_changed,
            "linked": Meta::read()?.is_some_and(|m| m.linked != 0),
        }))?;
        return Ok(exit::OK);
    }
    match outcome {
        Outcome::Loaded => outln!("imtcp {version} is up: its congestion controls are loaded"),
        Outcome::Already => outln!("imtcp {version} is up already"),
        Outcome::Upgraded { from, kept } => {
            outln!("imtcp {version} has replaced {from}; open connections keep their program");
            if !kept {
                outln!("its records differ: connections from before are no longer shown");
            }
        }
    }
    match (nocc_changed, args.allow_nocc) {
        (false, _) => {}
        (true, true) => outln!("mode nocc is allowed from now on"),
        (true, false) => {
            outln!("mode nocc is not allowed any more; connections in it have the default control")
        }
    }
    Ok(exit::OK)
}

/// For commands that need the programs: loads them when nothing is loaded. Loaded ones of
/// another version stay while their maps are the same, or while somebody uses them. Says whether
/// nothing was loaded before.
pub(super) fn ensure(lock: &state::ChangeLock) -> Result<bool> {
    let usable = match loaded()? {
        None => false,
        Some(loaded) if loaded.layout_matches()? => true,
        Some(_) => {
            sweep(lock);
            !runs::living().is_empty() || !attachment::all().is_empty()
        }
    };
    let fresh = !usable && up(false, Nocc::Keep)? == Outcome::Loaded;
    require_same_layout()?;
    Ok(fresh)
}

/// The loaded programs, if they are complete.
fn loaded() -> Result<Option<Meta>> {
    let registered = netns::read_available_ccs().context("cannot read what is registered")?;
    let is_registered = |control: &str| registered.iter().any(|r| r == control);
    Ok(Meta::read()?.filter(|_| usual_controls().all(is_registered)))
}

/// Would a run put other programs in the place of what is loaded?
pub(super) fn replaces_loaded() -> Result<bool> {
    Ok(match loaded()? {
        Some(loaded) => !loaded.layout_matches()?,
        None => Meta::read()?.is_some(),
    })
}

/// Takes back what `ensure` has loaded for something that came to nothing, unless somebody else
/// has begun to use it.
pub(super) fn undo(lock: &state::ChangeLock) -> Result<()> {
    sweep(lock);
    // Policies are what is left of runs that have just begun, also of those that another /run knows.
    let (records, unseen) = Records::open()?.read_seen()?;
    let in_use = !records.is_empty()
        || !unseen.is_empty()
        || !Policies::open()?.ids().is_empty()
        || !attachment::all().is_empty();
    if !in_use {
        down::down()?;
    }
    Ok(())
}
