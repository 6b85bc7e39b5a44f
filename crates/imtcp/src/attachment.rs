// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What an attachment is of, and what it still covers: a unit that restarts has a new cgroup of the old
//! name, and a pid comes to mean another process.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use imtcp_bpf::policy::Policies;
use imtcp_bpf::rundir::{file_of, ATTACHMENTS};
use imtcp_bpf::{control, paths, Obstacle};
use imtcp_common::{format, procfs};
use serde::{Deserialize, Serialize};

use crate::filter::Filter;
use crate::mode::Mode;
use crate::open_sockets::Unreached;
use crate::param::InForce;
use crate::policy::{self, Limits};
use crate::state;
use crate::{cgroup, nested};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    Pid(i32),
    Cgroup(PathBuf),
}

impl Target {
    /// The option that names it.
    pub fn option(&self) -> String {
        match self {
            Target::Pid(pid) => format!("--pid {pid}"),
            Target::Cgroup(dir) => format!("--cgroup {}", dir.display()),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Target::Pid(pid) => write!(f, "process {pid}"),
            Target::Cgroup(dir) => write!(f, "cgroup {}", dir.display()),
        }
    }
}

/// What an attachment is known by. A cgroup may have several with different filters. A process is moved into one
/// cgroup of ours alone.
pub type Key = (Target, Option<Filter>);

pub fn key(target: &Target, filter: Option<&Filter>) -> Key {
    let is_part = matches!(target, Target::Cgroup(_));
    (target.clone(), filter.filter(|_| is_part).cloned())
}

/// Tells a target from a later one of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// Since boot, when the process began.
    StartedTicks(u64),
    CgroupId(u64),
}

impl Identity {
    /// That of what has the name at present.
    pub fn of(target: &Target) -> Option<Self> {
        match target {
            Target::Pid(pid) => procfs::alive_since_ticks(*pid).map(Identity::StartedTicks),
            Target::Cgroup(dir) => cgroup::id(dir).map(Identity::CgroupId),
        }
    }
}

/// A cgroup that an attachment made, and the one that its processes came from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Moved {
    pub dir: PathBuf,
    pub home: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedSocket {
    pub cookie: u64,
    pub control: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attachment {
    pub policy: u64,
    pub target: Target,
    /// It takes only the connections that pass.
    #[serde(default)]
    pub filter: Option<Filter>,
    /// An imtcp that did not know of these has left none.
    pub identity: Option<Identity>,
    pub mode: Mode,
    #[serde(flatten)]
    pub limits: Limits,
    #[serde(default)]
    pub params: InForce,
    /// The rule that attached it (`imtcp rules`); none by hand.
    #[serde(default)]
    pub rule: Option<String>,
    pub since_unix_s: u64,
    /// The kernel's number of the cgroup at the mount, of which a container may see another.
    #[serde(default)]
    pub mounted_id: Option<u64>,
    pub links: usize,
    pub moved: Vec<Moved>,
    pub sockets: Vec<SavedSocket>,
    /// Sockets and processes that it could not change when it was last attached.
    #[serde(flatten)]
    pub unreached: Unreached,
}

/// The processes and sockets that an attachment covers at present.
pub struct Coverage {
    /// Why its cgroups cannot be seen from here: nothing else is known of them then.
    pub out_of_sight: Option<Obstacle>,
    /// The process is gone, or the cgroup was removed.
    pub ended: bool,
    /// Something else has its name.
    pub replaced: bool,
    /// Somebody has moved the process to another cgroup.
    pub moved_away: bool,
    /// Has one of its cgroups no link? A killed `attach` or `detach` leaves it so.
    pub unlinked: bool,
    /// Processes that it covers, and those of its tree that are in other cgroups or in one without a link.
    pub processes: usize,
    pub elsewhere: usize,
}

impl Coverage {
    /// Is there anything whose connections it has? A cgroup may be empty for now.
    pub fn has_any(&self, target: &Target) -> bool {
        match target {
            _ if self.out_of_sight.is_some() => true,
            Target::Pid(_) => {
                self.processes > 0 || !self.ended && !self.unlinked && self.elsewhere == 0
            }
            Target::Cgroup(_) => !self.ended && !self.unlinked,
        }
    }

    /// Names the gap and its remedy; `None` if all is covered.
    pub fn gap(&self, attachment: &Attachment) -> Option<String> {
        let target = &attachment.target;
        if let Some(obstacle) = &self.out_of_sight {
            return Some(format!("what it covers cannot be seen from here: {obstacle}"));
        }
        let option = attachment.option();
        let again = format!("`imtcp attach {option}` again takes");
        let why = match (target, self.ended, self.replaced) {
            (Target::Pid(pid), _, true) => {
                format!("it has ended, and {pid} is another process now")
            }
            (Target::Pid(_), true, _) => "it has ended".into(),
            (Target::Cgroup(_), _, true) => {
                format!(
                    "it was removed and made anew, as when a unit restarts: {again} the new one"
                )
            }
            (Target::Cgroup(_), true, _) => "it was removed".into(),
            (_, false, false) if self.unlinked => return Some(self.gap_of_links(&option)),
            (_, false, false) => return self.gap_of_moved(&again),
        };
        Some(match self.processes {
            0 => format!(
                "covers nothing any more: {why} (`imtcp detach {option}` takes it off this list)"
            ),
            left => format!("{why}; covers {} that it has started", format::count(left, "process")),
        })
    }

    fn gap_of_links(&self, option: &str) -> String {
        let of = match self.processes {
            0 => String::new(),
            covered => format!(
                " of {} of its {}",
                self.elsewhere,
                format::count(covered + self.elsewhere, "process")
            ),
        };
        format!(
            "does not cover new connections{of}: an `imtcp attach` or `detach` was ended half-way; \
             `imtcp attach {option}` again mends it, `imtcp detach {option}` ends it"
        )
    }

    fn gap_of_moved(&self, again: &str) -> Option<String> {
        match (self.processes, self.elsewhere) {
            (_, 0) => None,
            (0, _) => Some(format!(
                "covers no new connections: it was moved to another cgroup; {again} it there"
            )),
            (covered, elsewhere) => Some(format!(
                "does not cover new connections of {elsewhere} of its {}, which were moved to another \
                 cgroup: {again} them there",
                format::count(covered + elsewhere, "process")
            )),
        }
    }
}

impl Attachment {
    fn path(&self) -> PathBuf {
        file_of(ATTACHMENTS, self.policy)
    }

    pub fn save(&self) -> Result<()> {
        state::replace(&self.path(), self)
    }

    pub fn key(&self) -> Key {
        key(&self.target, self.filter.as_ref())
    }

    /// For people: `cgroup /sys/fs/cgroup, to 192.0.2.0/24`.
    pub fn name(&self) -> String {
        match &self.filter {
            Some(filter) => format!("{}, {filter}", self.target),
            None => self.target.to_string(),
        }
    }

    /// The options that name it.
    pub fn option(&self) -> String {
        self.target.option() + &self.filter.as_ref().map_or_else(String::new, Filter::options)
    }

    /// Of attachments of one cgroup the least has what several would take. One with a filter is more specific.
    /// What was attached by hand keeps what it has. Rules come in the order of their names.
    pub fn rank(&self) -> (bool, Option<&str>, u64, u64) {
        (self.filter.is_none(), self.rule.as_deref(), self.since_unix_s, self.policy)
    }

    /// What is ordered, for people.
    pub fn orders(&self) -> String {
        policy::told(self.mode, &self.params, &self.limits)
    }

    pub fn forget(&self) {
        let _ = fs::remove_file(self.path());
    }

    /// Can its cgroups be seen from here? They may not be mounted, or a container shows others.
    pub fn require_in_sight(&self) -> Result<(), Obstacle> {
        let mount = cgroup::mount()?;
        let dirs = match &self.target {
            Target::Pid(_) => self.moved.iter().map(|m| &m.dir).collect(),
            Target::Cgroup(dir) => vec![dir],
        };
        let same = self.mounted_id.is_none() || self.mounted_id == cgroup::id(&mount);
        if same && dirs.iter().all(|dir| dir.starts_with(&mount)) {
            return Ok(());
        }
        Err(Obstacle::new(
            "another part of the cgroups is mounted here (a container, or a cgroup namespace)",
            "call imtcp where it was attached",
        ))
    }

    fn is_in_sight(&self) -> bool {
        self.require_in_sight().is_ok()
    }

    /// All that undoing it takes is here.
    pub fn require_undoable(&self) -> Result<()> {
        paths::require_writable()
            .and_then(|()| self.require_in_sight())
            .with_context(|| format!("{} stays attached", self.name()))
    }

    /// The process is gone, and what it started may live on; or the cgroup was removed.
    pub fn has_ended(&self) -> bool {
        match (Identity::of(&self.target), &self.target) {
            (None, Target::Cgroup(_)) => self.is_in_sight(),
            (None, Target::Pid(_)) => true,
            _ => self.was_replaced(),
        }
    }

    /// Has something else the name of its target?
    pub fn was_replaced(&self) -> bool {
        let now = Identity::of(&self.target);
        let is_known = matches!(self.target, Target::Pid(_)) || self.is_in_sight();
        is_known && now.is_some() && self.identity.is_some() && now != self.identity
    }

    /// Nothing is left of it, nor will be: a cgroup made anew waits for somebody to attach it again.
    pub fn is_over(&self) -> bool {
        match &self.target {
            _ if !self.is_in_sight() => false,
            Target::Pid(_) => {
                self.has_ended() && !self.moved.iter().any(|m| cgroup::is_populated(&m.dir))
            }
            Target::Cgroup(dir) => !dir.exists(),
        }
    }

    /// The cgroups whose sockets it holds.
    pub fn cgroups(&self) -> Vec<PathBuf> {
        match &self.target {
            Target::Pid(_) => self.moved.iter().map(|m| m.dir.clone()).collect(),
            Target::Cgroup(_) if self.has_ended() => Vec::new(),
            Target::Cgroup(dir) => vec![dir.clone()],
        }
    }

    /// Those of its cgroups that are there and whose new connections it does not get.
    pub fn unlinked(&self) -> Vec<PathBuf> {
        let linked = control::linked_cgroups(self.policy, self.links);
        let is_unlinked = |dir: &PathBuf| cgroup::id(dir).is_some_and(|id| !linked.contains(&id));
        self.cgroups().into_iter().filter(is_unlinked).collect()
    }

    /// Not after `imtcp down`, nor after a `detach` that could not undo all of it.
    pub fn has_orders(&self) -> bool {
        Policies::open().is_ok_and(|policies| policies.has(self.policy))
    }

    /// The process that it is of and all that descend from it, but for this command; none of a cgroup.
    pub fn tree(&self) -> BTreeSet<i32> {
        let own = std::process::id() as i32;
        match self.target {
            Target::Pid(root) if !self.has_ended() => {
                let all = procfs::tree(root).into_iter();
                all.filter(|pid| *pid != own && procfs::is_alive(*pid)).collect()
            }
            _ => BTreeSet::new(),
        }
    }

    pub fn coverage(&self) -> Coverage {
        let out_of_sight = self.require_in_sight().err();
        let in_sight = out_of_sight.is_none();
        let inner = nested::within(self);
        let unlinked = if in_sight { self.unlinked() } else { Vec::new() };
        let of_unlinked: BTreeSet<i32> = unlinked.iter().flat_map(|d| cgroup::procs(d)).collect();
        let (left_out, covered): (BTreeSet<i32>, BTreeSet<i32>) =
            nested::own_processes(self, &inner).into_iter().partition(|p| of_unlinked.contains(p));
        let of_inner = nested::processes(&inner);
        let tree = self.tree();
        let is_elsewhere =
            |pid: &i32| in_sight && !covered.contains(pid) && !of_inner.contains(pid);
        let elsewhere: BTreeSet<i32> = tree.iter().copied().filter(|p| is_elsewhere(p)).collect();
        let moved_away = match self.target {
            Target::Pid(root) => elsewhere.contains(&root) && !left_out.contains(&root),
            Target::Cgroup(_) => false,
        };
        Coverage {
            out_of_sight,
            ended: self.has_ended(),
            replaced: self.was_replaced(),
            moved_away,
            unlinked: !unlinked.is_empty(),
            processes: covered.len(),
            elsewhere: elsewhere.union(&left_out).count(),
        }
    }
}
