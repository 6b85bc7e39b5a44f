// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Attachments: of what, with which orders, and what each changed. A unit that restarts has a new cgroup of the
//! old name, and a pid comes to mean another process.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use imtcp_bpf::policy::Policies;
use imtcp_bpf::rundir::{file_of, ATTACHMENTS};
use imtcp_bpf::{control, paths, Obstacle};
use imtcp_common::procfs::{self, Families};
use imtcp_common::{format, shell};
use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::filter::Filter;
use crate::mode::Mode;
use crate::open_sockets::Unreached;
use crate::param::{self, InForce};
use crate::policy::{self, Handling, Limits};
use crate::state;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    Pid(i32),
    Cgroup(PathBuf),
}

impl Target {
    /// The option that names it, for a shell; nothing if its name cannot be written there.
    fn option(&self) -> Option<String> {
        match self {
            Target::Pid(pid) => Some(format!("--pid {pid}")),
            Target::Cgroup(dir) => Some(format!("--cgroup {}", shell::quoted_path(dir)?)),
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

/// The key of an attachment. A cgroup may have several with different filters. A process is moved into one cgroup of
/// ours alone.
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
    #[serde(flatten)]
    pub handling: Handling,
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
    /// An `attach` of it goes on or did not come to its end: the kernel may have other orders, and open sockets
    /// another control.
    #[serde(default)]
    pub half_done: bool,
    /// Sockets and processes that it could not change when it was last attached.
    #[serde(flatten)]
    pub unreached: Unreached,
}

/// All that is attached.
pub fn all() -> Vec<Attachment> {
    state::read_all(ATTACHMENTS).into_iter().map(|(_, a)| a).collect()
}

impl Attachment {
    fn path(&self) -> PathBuf {
        file_of(ATTACHMENTS, self.policy)
    }

    pub fn save(&self) -> Result<()> {
        state::replace(&self.path(), self)
    }

    /// The same, with the orders that the kernel has where it has some.
    pub fn as_in_kernel(mut self, policies: &Policies) -> Self {
        let orders = policies.get(self.policy).ok().flatten().unwrap_or_default();
        if let Some(mode) = u8::try_from(orders.mode).ok().and_then(Mode::of_number) {
            self.mode = mode;
            self.limits = Limits::of(&orders);
            self.handling = Handling::of(&orders);
            self.params = param::in_force(mode, &orders.params);
        }
        self
    }

    pub fn key(&self) -> Key {
        key(&self.target, self.filter.as_ref())
    }

    /// For people: `cgroup /sys/fs/cgroup, to 192.0.2.0/24`.
    pub fn name(&self) -> String {
        let filter = self.filter.as_ref().map_or_else(String::new, |filter| format!(", {filter}"));
        format::short_name(&format!("{}{filter}", self.target))
    }

    /// `imtcp attach` or `detach` of it, as a line for a shell; without the name if that cannot be written there.
    pub fn recipe(&self, command: &str) -> String {
        let filter = || self.filter.as_ref().map_or_else(String::new, Filter::options);
        match self.target.option() {
            Some(option) => format!("`imtcp {command} {option}{}`", filter()),
            None => format!("`imtcp {command}` of it"),
        }
    }

    /// The order in which attachments of one cgroup take connections: the least first. One with a filter is more
    /// specific. One by hand comes before a rule. Rules come in the order of their names.
    pub fn rank(&self) -> (bool, Option<&str>, u64, u64) {
        (self.filter.is_none(), self.rule.as_deref(), self.since_unix_s, self.policy)
    }

    /// What is ordered, for people.
    pub fn orders(&self) -> String {
        policy::told(self.mode, &self.params, &self.limits, self.handling)
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
                self.has_ended() && !self.cgroups().iter().any(|dir| cgroup::is_populated(dir))
            }
            Target::Cgroup(dir) => !dir.exists(),
        }
    }

    /// The cgroups whose sockets it holds.
    pub fn cgroups(&self) -> Vec<PathBuf> {
        match &self.target {
            Target::Pid(_) => {
                let dirs = self.moved.iter().map(|m| &m.dir);
                dirs.filter(|dir| cgroup::Own::is_at(dir)).cloned().collect()
            }
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
        self.tree_in(&LazyCell::new(Families::now))
    }

    /// The same, at the moment at which somebody asked first.
    pub fn tree_in(&self, families: &LazyCell<Families>) -> BTreeSet<i32> {
        let own = std::process::id() as i32;
        match self.target {
            Target::Pid(root) if !self.has_ended() => {
                let all = families.tree(root).into_iter();
                all.filter(|pid| *pid != own && procfs::is_alive(*pid)).collect()
            }
            _ => BTreeSet::new(),
        }
    }
}
