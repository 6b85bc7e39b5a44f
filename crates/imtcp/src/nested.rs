// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Attachments and runs inside one another. The inner one decides for what it has, in whatever order they came. When it
//! ends, the outer one has that.

use std::cell::{LazyCell, OnceCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use imtcp_common::procfs::{self, Families};

use crate::attachment::{self, Attachment, Moved, Target};
use crate::cgroup;
use crate::runs::{self, Run};

/// A run or another attachment that has processes within what an attachment takes.
#[derive(Clone)]
pub struct Inner {
    pub name: String,
    dir: PathBuf,
    /// Those of the cgroup, once somebody asked.
    procs: Rc<OnceCell<BTreeSet<i32>>>,
}

impl Inner {
    fn new(name: String, dir: PathBuf) -> Self {
        Inner { name, dir, procs: Rc::default() }
    }

    fn procs(&self) -> &BTreeSet<i32> {
        self.procs.get_or_init(|| cgroup::procs(&self.dir))
    }
}

/// All attachments and runs at a moment, each looked at once.
pub struct Nest {
    attachments: Vec<(Attachment, Vec<Inner>)>,
    runs: Vec<Inner>,
    families: LazyCell<Families>,
}

impl Nest {
    pub fn now() -> Self {
        let inner = |a: Attachment| {
            let name = a.target.to_string();
            let dirs = a.cgroups().into_iter().map(|dir| Inner::new(name.clone(), dir)).collect();
            (a, dirs)
        };
        Nest {
            attachments: attachment::all().into_iter().map(inner).collect(),
            runs: runs::living().into_iter().map(|r| Inner::new(r.name(), r.cgroup)).collect(),
            families: LazyCell::new(Families::now),
        }
    }

    /// The process that an attachment is of and all that descend from it; none of a cgroup.
    pub fn tree(&self, attachment: &Attachment) -> BTreeSet<i32> {
        attachment.tree_in(&self.families)
    }

    /// Those within this attachment: with processes of its tree, or below its cgroup. One with a filter leaves the
    /// other connections of its processes to those around it; only a process that it moved is nobody else's.
    pub fn within(&self, attachment: &Attachment) -> Vec<Inner> {
        let is_of_cgroup = |a: &Attachment| matches!(a.target, Target::Cgroup(_));
        let is_shared =
            |a: &Attachment| a.filter.is_some() && (is_of_cgroup(attachment) || is_of_cgroup(a));
        let others = self.attachments.iter();
        let others = others.filter(|(a, _)| a.policy != attachment.policy && !is_shared(a));
        let all = others.flat_map(|(_, dirs)| dirs).chain(&self.runs);
        let inner: Vec<&Inner> = match &attachment.target {
            // Not what the process itself is in: that is around it.
            Target::Pid(root) => {
                let (tree, own) = (self.tree(attachment), cgroup::of_pid(*root));
                let is_around =
                    |inner: &&Inner| own.as_ref().is_ok_and(|own| own.starts_with(&inner.dir));
                let has_some = |inner: &&Inner| inner.procs().iter().any(|pid| tree.contains(pid));
                all.filter(|inner| !is_around(inner) && has_some(inner)).collect()
            }
            Target::Cgroup(dir) => {
                all.filter(|inner| inner.dir.starts_with(dir) && inner.dir != *dir).collect()
            }
        };
        inner.into_iter().cloned().collect()
    }

    /// The policies of attachments with a filter that come before this one: theirs is what passes.
    pub fn filtered_before(&self, attachment: &Attachment) -> BTreeSet<u64> {
        let own = attachment.cgroups();
        let comes_before = |(a, dirs): &&(Attachment, Vec<Inner>)| {
            let is_before =
                |dir: &PathBuf, own: &PathBuf| dir != own || a.rank() < attachment.rank();
            let is_within =
                |dir: &PathBuf| own.iter().any(|own| dir.starts_with(own) && is_before(dir, own));
            let is_other = a.policy != attachment.policy && a.filter.is_some();
            is_other && dirs.iter().any(|inner| is_within(&inner.dir))
        };
        self.attachments.iter().filter(comes_before).map(|(a, _)| a.policy).collect()
    }
}

/// The processes of these.
pub fn processes(inner: &[Inner]) -> BTreeSet<i32> {
    inner.iter().flat_map(|i| i.procs().iter().copied()).collect()
}

/// The processes of an attachment, less those of inner runs and attachments.
pub fn own_processes(attachment: &Attachment, inner: &[Inner]) -> BTreeSet<i32> {
    let of_inner = processes(inner);
    let all = attachment.cgroups().into_iter().flat_map(|dir| cgroup::procs(&dir));
    all.filter(|pid| !of_inner.contains(pid)).collect()
}

/// The kernel's numbers of the cgroups in which an attachment's sockets were opened, less those of inner runs and
/// attachments. A moved process opened some of its sockets in its former cgroup: that one counts, too.
pub fn opened_in(attachment: &Attachment, inner: &[Inner]) -> BTreeSet<u64> {
    let all = attachment.cgroups().into_iter().flat_map(|dir| cgroup::ids(&dir));
    let homes = attachment.moved.iter().filter_map(|moved| cgroup::id(&moved.home));
    let mut ids: BTreeSet<u64> = all.chain(homes).collect();
    let of_inner = inner.iter().flat_map(|i| cgroup::ids(&i.dir));
    of_inner.for_each(|id| _ = ids.remove(&id));
    ids
}

/// The place of a run's cgroup for processes in `home`. It is beside cgroups of attachments, since within one it
/// would end with it. It is within the cgroup of another run, which counts everything inside.
pub fn beside_attachments(home: &Path) -> PathBuf {
    beside(home, attachment::all().into_iter().flat_map(|a| a.moved))
}

/// Where to make an attachment's: beside those of runs, too.
pub fn beside_all(home: &Path) -> PathBuf {
    let attached = attachment::all().into_iter().flat_map(|a| a.moved);
    let runs = runs::living().into_iter().map(|r| Moved { dir: r.cgroup, home: r.refuge });
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

/// The innermost run or attachment around processes that an inner attachment has given up. It has all their
/// connections but for those that pass filters.
pub fn around(given_up: &BTreeSet<i32>) -> Option<Around> {
    match run_around(given_up) {
        Some(run) => Some(Around::Run(run)),
        None => attachments_around(given_up)
            .into_iter()
            .find(|a| a.filter.is_none())
            .map(Around::Attachment),
    }
}

/// The attachments with a filter that are nearer to these processes than what is around them, the nearest first.
pub fn filtered_around(given_up: &BTreeSet<i32>, around: Option<&Around>) -> Vec<Attachment> {
    let all = attachments_around(given_up).into_iter();
    let is_nearer = |a: &Attachment| match around {
        None => true,
        Some(Around::Attachment(around)) => a.policy != around.policy,
        Some(Around::Run(run)) => a.cgroups().iter().any(|dir| dir.starts_with(&run.cgroup)),
    };
    all.take_while(is_nearer).filter(|a| a.filter.is_some()).collect()
}

/// Where it is a run's cgroup that they are in, and none that an attachment has in there.
fn run_around(given_up: &BTreeSet<i32>) -> Option<Run> {
    let own = given_up.iter().find(|pid| procfs::exists(**pid))?;
    let own = cgroup::of_pid(*own).ok()?;
    let depth = |dir: &PathBuf| own.starts_with(dir).then(|| dir.components().count());
    let whole = attachment::all().into_iter().filter(|a| a.filter.is_none());
    let attached = whole.flat_map(|a| a.cgroups()).filter_map(|d| depth(&d)).max();
    let runs = runs::living().into_iter().filter_map(|r| Some((depth(&r.cgroup)?, r)));
    let (run_depth, run) = runs.max_by_key(|(depth, _)| *depth)?;
    (Some(run_depth) > attached).then_some(run)
}

/// The nearest first.
fn attachments_around(given_up: &BTreeSet<i32>) -> Vec<Attachment> {
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
    let all = attachment::all().into_iter().filter(|a| !a.has_ended() && a.has_orders());
    let mut around: Vec<_> = all.filter_map(|a| Some((holds(&a)?, a))).collect();
    around.sort_by(|(size, a), (other_size, b)| (size, a.rank()).cmp(&(other_size, b.rank())));
    around.into_iter().map(|(_, a)| a).collect()
}
