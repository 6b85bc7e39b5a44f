// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Attachments and runs inside one another: the inner one decides for what it has, in whatever order
//! they came, and the outer one has it when the inner one has ended.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use imtcp_common::procfs;

use crate::attachment::{Attachment, Moved, Target};
use crate::cgroup;
use crate::state::{self, Run};

/// A run or another attachment that has processes within what an attachment takes.
pub struct Inner {
    pub name: String,
    dir: PathBuf,
}

/// Those within this attachment: with processes of its tree, or below its cgroup.
pub fn within(attachment: &Attachment) -> Vec<Inner> {
    let others = state::attachments().into_iter().filter(|a| a.policy != attachment.policy);
    let attached = others.flat_map(|a| {
        let name = a.target.to_string();
        a.cgroups().into_iter().map(move |dir| Inner { name: name.clone(), dir })
    });
    let runs = state::runs().into_iter();
    let run = runs.map(|r| Inner { name: r.name(), dir: r.cgroup });
    let tree = attachment.tree();
    let is_within = |inner: &Inner| match &attachment.target {
        // Not what the process itself is in: that is around it.
        Target::Pid(root) => {
            let own = cgroup::of_pid(*root).unwrap_or_default();
            !own.starts_with(&inner.dir)
                && cgroup::procs(&inner.dir).iter().any(|pid| tree.contains(pid))
        }
        Target::Cgroup(dir) => inner.dir.starts_with(dir) && inner.dir != *dir,
    };
    attached.chain(run).filter(is_within).collect()
}

/// The processes of these.
pub fn processes(inner: &[Inner]) -> BTreeSet<i32> {
    inner.iter().flat_map(|i| cgroup::procs(&i.dir)).collect()
}

/// The processes of an attachment, less those of inner runs and attachments.
pub fn own_processes(attachment: &Attachment, inner: &[Inner]) -> BTreeSet<i32> {
    let of_inner = processes(inner);
    let all = attachment.cgroups().into_iter().flat_map(|dir| cgroup::procs(&dir));
    all.filter(|pid| !of_inner.contains(pid)).collect()
}

/// The place of a run's cgroup for processes in `home`. It is beside cgroups of attachments, since within one it
/// would end with it. It is within the cgroup of another run, which counts everything inside.
pub fn beside_attachments(home: &Path) -> PathBuf {
    beside(home, state::attachments().into_iter().flat_map(|a| a.moved))
}

/// Where to make an attachment's: beside those of runs, too.
pub fn beside_all(home: &Path) -> PathBuf {
    let attached = state::attachments().into_iter().flat_map(|a| a.moved);
    let runs = state::runs().into_iter().map(|r| Moved { dir: r.cgroup, home: r.refuge });
    beside(home, attached.chain(runs))
}

fn beside(home: &Path, made: impl Iterator<Item = Moved>) -> PathBuf {
    let made: Vec<_> = made.collect();
    let mut parent = home;
    // No more steps than there are cgroups: files that lead in a circle end it, too. A cgroup that
    // somebody made within one of these has limits of its own.
    for _ in &made {
        let Some(around) = made.iter().find(|m| parent == m.dir) else { break };
        parent = &around.home;
    }
    parent.to_path_buf()
}

/// The run or attachment that gets the processes of an inner one that ends.
pub enum Around {
    Attachment(Attachment),
    Run(Run),
}

/// The innermost run or attachment around processes that an inner attachment has given up.
pub fn around(given_up: &BTreeSet<i32>) -> Option<Around> {
    match run_around(given_up) {
        Some(run) => Some(Around::Run(run)),
        None => attachment_around(given_up).map(Around::Attachment),
    }
}

/// Where it is a run's cgroup that they are in, and none that an attachment has in there.
fn run_around(given_up: &BTreeSet<i32>) -> Option<Run> {
    let own = given_up.iter().find(|pid| procfs::exists(**pid))?;
    let own = cgroup::of_pid(*own).ok()?;
    let depth = |dir: &PathBuf| own.starts_with(dir).then(|| dir.components().count());
    let attached =
        state::attachments().iter().flat_map(Attachment::cgroups).filter_map(|d| depth(&d)).max();
    let runs = state::runs().into_iter().filter_map(|r| Some((depth(&r.cgroup)?, r)));
    let (run_depth, run) = runs.max_by_key(|(depth, _)| *depth)?;
    (Some(run_depth) > attached).then_some(run)
}

fn attachment_around(given_up: &BTreeSet<i32>) -> Option<Attachment> {
    let holds = |a: &Attachment| match &a.target {
        Target::Pid(_) => {
            let tree = a.tree();
            given_up.iter().any(|pid| tree.contains(pid)).then_some(tree.len())
        }
        // A process is nearer than the cgroup of a service.
        Target::Cgroup(dir) => {
            let is_in = |pid: &i32| cgroup::of_pid(*pid).is_ok_and(|own| own.starts_with(dir));
            given_up.iter().any(is_in).then(|| usize::MAX - dir.components().count())
        }
    };
    let all = state::attachments().into_iter().filter(|a| !a.has_ended() && a.has_orders());
    all.filter_map(|a| Some((holds(&a)?, a))).min_by_key(|(size, _)| *size).map(|(_, a)| a)
}
