// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Removes what runs and attachments have left that ended or were killed. Each command begins with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use imtcp_bpf::policy::Policies;
use imtcp_bpf::records::Records;
use imtcp_bpf::rundir::{ATTACHMENTS, RUNS};
use imtcp_bpf::{control, receive};

use crate::attachment::{self, Attachment};
use crate::cgroup;
use crate::runs::{self, LeftBehind};
use crate::state::{self, ChangeLock};

/// Removes what ended and killed runs have left. A registration goes when no connection of the run is open
/// and no process that it left behind is alive, or imtcp is down.
pub fn sweep_runs(_lock: &ChangeLock) {
    thaw_attachments();
    let ended = runs::runs_that(false);
    let policies = Policies::open();
    ended.iter().for_each(|(_, run)| receive::end_of_run(run.policy));
    if let Ok(policies) = &policies {
        ended.iter().for_each(|(_, run)| policies.end_for_new(run.policy));
    }
    // Afterwards: what a run had open at its end is among them.
    let used = policies_in_use();
    for (path, mut run) in ended {
        if cgroup::Own::is_at(&run.cgroup) {
            // Killed, perhaps while it held its processes still: those that cannot be moved go on all the same.
            cgroup::thaw(&run.cgroup);
            run.left_behind = runs::end_cgroup(&run.cgroup, &run.refuge).0;
            let _ = run.save();
        }
        let is_used = used.as_ref().is_some_and(|used| used.contains(&run.policy));
        if let (Ok(policies), Some(_), false) = (&policies, &used, is_used) {
            policies.remove(run.policy);
        }
        let goes_on = policies.is_ok() && run.left_behind.iter().any(LeftBehind::is_alive);
        if !is_used && !goes_on {
            let _ = fs::remove_file(&path);
        }
    }
}

/// A command that was killed while it detached may have left processes that stand still.
fn thaw_attachments() {
    let moved = attachment::all().into_iter().flat_map(|a| a.moved);
    moved.for_each(|moved| cgroup::thaw(&moved.dir));
}

/// Those that open connections have, where all can be read.
fn policies_in_use() -> Option<BTreeSet<u64>> {
    let mut used = BTreeSet::new();
    let unseen = Records::open().ok()?.each(|r| _ = used.insert(r.policy)).ok()?;
    unseen.is_empty().then_some(used)
}

/// Removes leftovers of a command that was killed, or had a full disk, before it registered anything.
fn sweep_halves() {
    for dir in [RUNS, ATTACHMENTS] {
        let files = fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path());
        for path in files {
            let is_whole = || {
                let text = fs::read(&path).unwrap_or_default();
                serde_json::from_slice::<serde_json::Value>(&text).is_ok()
            };
            // A run that ends replaces its own file without the change lock: a young one may be that.
            let is_over = match path.extension().is_some_and(|e| e == "json") {
                true => !is_whole(),
                false => is_abandoned(&path),
            };
            if is_over {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// How old what nobody registered is before it counts as abandoned: somebody may be about to use it.
const ABANDONED: Duration = Duration::from_secs(60);

fn is_abandoned(file: &Path) -> bool {
    let changed = fs::metadata(file).and_then(|m| m.modified());
    changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED))
}

/// The same, and what attachments that are over have left.
pub fn sweep(lock: &ChangeLock) {
    sweep_halves();
    sweep_runs(lock);
    let over = |a: &Attachment| a.is_over() && a.require_undoable().is_ok();
    for attachment in attachment::all().into_iter().filter(over) {
        control::remove_links(attachment.policy, attachment.links);
        for moved in &attachment.moved {
            let _ = cgroup::remove(&moved.dir, &moved.home);
        }
        attachment.forget();
    }
    sweep_policies();
}

/// A policy goes when neither run nor attachment nor connection has it any more.
fn sweep_policies() {
    let (Ok(policies), Some(open)) = (Policies::open(), policies_in_use()) else { return };
    let runs = runs::living();
    let attachments = attachment::all();
    // Others are registered in another /run, as a container's.
    for id in policies.ids().into_iter().filter(|id| id >> 32 == u64::from(state::home())) {
        let used = runs.iter().any(|r| r.policy == id)
            || attachments.iter().any(|a| a.policy == id)
            || open.contains(&id);
        if !used {
            policies.remove(id);
        }
    }
}
