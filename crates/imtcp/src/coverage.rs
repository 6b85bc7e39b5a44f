// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What an attachment still covers, and how a gap is said.

use std::collections::BTreeSet;

use imtcp_bpf::Obstacle;
use imtcp_common::format;

use crate::attachment::{Attachment, Target};
use crate::cgroup;
use crate::nested::{self, Nest};

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
    pub fn of(attachment: &Attachment, nest: &Nest) -> Self {
        let out_of_sight = attachment.require_in_sight().err();
        let in_sight = out_of_sight.is_none();
        let inner = nest.within(attachment);
        let unlinked = if in_sight { attachment.unlinked() } else { Vec::new() };
        let of_unlinked: BTreeSet<i32> = unlinked.iter().flat_map(|d| cgroup::procs(d)).collect();
        let (without_link, covered): (BTreeSet<i32>, BTreeSet<i32>) =
            nested::own_processes(attachment, &inner)
                .into_iter()
                .partition(|p| of_unlinked.contains(p));
        let of_inner = nested::processes(&inner);
        let tree = nest.tree(attachment);
        let is_elsewhere =
            |pid: &i32| in_sight && !covered.contains(pid) && !of_inner.contains(pid);
        let elsewhere: BTreeSet<i32> = tree.iter().copied().filter(|p| is_elsewhere(p)).collect();
        let moved_away = match attachment.target {
            Target::Pid(root) => elsewhere.contains(&root) && !without_link.contains(&root),
            Target::Cgroup(_) => false,
        };
        Coverage {
            out_of_sight,
            ended: attachment.has_ended(),
            replaced: attachment.was_replaced(),
            moved_away,
            unlinked: !unlinked.is_empty(),
            processes: covered.len(),
            elsewhere: elsewhere.union(&without_link).count(),
        }
    }

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
        let again = format!("{} again takes", attachment.recipe("attach"));
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
            (_, false, false) if self.unlinked => return Some(self.gap_of_links(attachment)),
            (_, false, false) => return self.gap_of_moved(&again),
        };
        Some(match self.processes {
            0 => format!(
                "covers nothing any more: {why} ({} takes it off this list)",
                attachment.recipe("detach")
            ),
            left => format!("{why}; covers {} that it has started", format::count(left, "process")),
        })
    }

    fn gap_of_links(&self, attachment: &Attachment) -> String {
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
             {} again mends it, {} ends it",
            attachment.recipe("attach"),
            attachment.recipe("detach")
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
