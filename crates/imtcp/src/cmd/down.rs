// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use anyhow::{anyhow, Result};
use imtcp_bpf::down::{self, Report};
use imtcp_bpf::{meta, paths, probe};
use imtcp_common::format::count;
use imtcp_common::out::print_json;
use serde_json::json;

use super::undo_attachment::{exit_code, undo_all};
use crate::attachment::{self, Attachment};
use crate::cli::DownArgs;
use crate::nocc;
use crate::policy::Limits;
use crate::runs::{self, Run};
use crate::state;
use crate::sweep::sweep;

pub fn main(args: DownArgs) -> Result<u8> {
    probe::require_privileges("imtcp down")?;
    meta::require_in_sight()?;
    let lock = state::lock()?;
    sweep(&lock);
    let attachments = attachment::all();
    paths::require_writable()?;
    attachments.iter().try_for_each(Attachment::require_undoable)?;
    // Whatever stays of one, the others and the programs go.
    let mut faults = Vec::new();
    let mut detached = Vec::new();
    for (attachment, done) in attachments.iter().zip(undo_all(&attachments)) {
        let done = done?;
        match done.left {
            Some(fault) => faults.push(fault),
            None => detached.push((attachment, done.restored)),
        }
    }
    let nocc_was_allowed = nocc::is_allowed();
    let report = down::down();
    if nocc_was_allowed && !nocc::is_allowed() {
        nocc::log_change(false);
    }
    let runs = runs::living();
    // Runs that have ended, of which connections went on until now.
    sweep(&lock);
    match report {
        Ok(report) => {
            tell(&args, &report, &detached, &runs)?;
            let unseen = report.unseen.text();
            faults
                .extend(unseen.map(|text| anyhow!("connections may keep the old program: {text}")));
        }
        Err(e) => {
            tell_detached(&detached);
            faults.push(e);
        }
    }
    Ok(exit_code(&faults))
}

fn tell(
    args: &DownArgs,
    report: &Report,
    detached: &[(&Attachment, usize)],
    runs: &[Run],
) -> Result<()> {
    if args.json {
        print_json(&json!({
            "was_up": report.was_loaded,
            "moved_connections": report.switched.connections,
            "moved_listeners": report.switched.listeners,
            "still_using": report.still_using,
            "defaults_changed": report.defaults_changed.iter()
                .map(|(ns, cc)| json!({"netns": ns, "control": cc})).collect::<Vec<_>>(),
            "runs": runs,
            "detached": detached.iter().map(|(a, _)| &a.target).collect::<Vec<_>>(),
            "sockets_restored": detached.iter().map(|(_, restored)| restored).sum::<usize>(),
        }))?;
        return Ok(());
    }
    if !report.was_loaded {
        outln!("imtcp is not up");
        tell_detached(detached);
        return Ok(());
    }
    outln!(
        "imtcp is down: {} and {} moved to the default congestion control",
        count(report.switched.connections, "connection"),
        count(report.switched.listeners, "listener"),
    );
    if report.still_using > 0 {
        outln!(
            "not moved, for it could not be: {} with the old program to the end",
            count(report.still_using, "connection")
        );
    }
    for (ns, cc) in &report.defaults_changed {
        outln!("the default of network namespace {ns} was imtcp's: it is {cc} now");
    }
    tell_detached(detached);
    for r in runs {
        outln!(
            "`imtcp run` of {}{} goes on with the default{}",
            r.command_shown(),
            r.pid_here().map_or_else(String::new, |pid| format!(" (pid {pid})")),
            without(&r.limits)
        );
    }
    Ok(())
}

fn tell_detached(detached: &[(&Attachment, usize)]) {
    for (a, restored) in detached {
        outln!("{} is detached{}", a.name(), without(&a.limits));
        outln!("congestion control given back to {}", count(*restored, "open socket"));
    }
}

/// The limits of a run or attachment, for the end of a sentence.
fn without(limits: &Limits) -> String {
    if *limits == Limits::default() {
        return String::new();
    }
    format!(", without its limits ({limits})")
}
