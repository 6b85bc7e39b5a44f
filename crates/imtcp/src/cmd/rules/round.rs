// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! One look: what rules name, less what has it already.

use std::collections::BTreeMap;

use anyhow::Result;

use super::super::attach::{self, Done, Wanted};
use crate::attachment::{key, Attachment, Key, Target};
use crate::policy::{Handling, Limits};
use crate::rules::{Machine, Rule, Rules};
use crate::{nocc, param};

/// The targets that rules name, each with its rule.
pub type Named<'r> = BTreeMap<Key, &'r Rule>;

/// Targets of one rule. ours: more than units that a name matches; whoever may start processes adds some.
pub const MOST_TARGETS: usize = 256;

/// The targets that rules name now. If two rules name the same one, the first holds. Also returns the faults, each in a
/// sentence.
pub fn named<'r>(
    rules: &'r Rules,
    machine: &Machine,
    attached: &[Attachment],
) -> (Named<'r>, Vec<String>) {
    let mut faults: Vec<String> = machine.fault().map(str::to_string).into_iter().collect();
    let mut all = Named::new();
    for rule in rules.in_force() {
        let mut targets = machine.named(&rule.names, attached);
        // A target that ended and left processes counts, too.
        let is_left =
            |a: &&Attachment| a.rule.as_deref() == Some(&rule.name) && !targets.contains(&a.target);
        let left = attached.iter().filter(is_left).count();
        if targets.len() + left > MOST_TARGETS {
            faults.push(format!(
                "rule {} names {} targets: {MOST_TARGETS} at most are attached; name what is around them, as a \
                 user's slice",
                rule.name,
                targets.len() + left
            ));
            // Those that are attached stay among them.
            let is_attached = |t: &Target| attached.iter().any(|a| a.target == *t);
            targets.sort_by_key(|target| !is_attached(target));
            targets.truncate(MOST_TARGETS.saturating_sub(left));
        }
        for target in targets {
            all.entry(key(&target, rule.filter.as_ref())).or_insert(rule);
        }
    }
    (all, faults)
}

#[derive(Debug)]
pub enum Change<'r> {
    Take(Target, &'r Rule),
    GiveBack(Box<Attachment>),
}

impl Change<'_> {
    pub fn key(&self) -> Key {
        match self {
            Change::Take(target, rule) => key(target, rule.filter.as_ref()),
            Change::GiveBack(attachment) => attachment.key(),
        }
    }
}

/// The changes after which the rules hold. Attachments by hand stay as they are.
pub fn changes<'r>(
    mut named: Named<'r>,
    machine: &Machine,
    attached: Vec<Attachment>,
) -> Vec<Change<'r>> {
    let is_over = |a: &Attachment| match a.target {
        // Processes that it started keep what the rule gave them.
        Target::Pid(_) if a.has_ended() => a.is_over(),
        _ => true,
    };
    let mut changes = Vec::new();
    for a in &attached {
        match named.get(&a.key()) {
            Some(rule) if has_it(a, rule) && !machine.has_left(a, &attached) => {
                named.remove(&a.key());
            }
            None if a.rule.is_some() && is_over(a) => {
                changes.push(Change::GiveBack(Box::new(a.clone())));
            }
            _ => {}
        }
    }
    let mut taken: Vec<_> = named.into_iter().map(|((target, _), rule)| (target, rule)).collect();
    taken.sort_by(|(_, rule), (_, other)| rule.name.cmp(&other.name));
    changes.extend(taken.into_iter().map(|(target, rule)| Change::Take(target, rule)));
    changes
}

/// Has the target what its rule wants, or what somebody gave it by hand?
fn has_it(a: &Attachment, rule: &Rule) -> bool {
    if a.has_ended() {
        return false;
    }
    if a.rule.is_none() {
        return true;
    }
    a.rule.as_deref() == Some(&rule.name)
        && a.filter == rule.filter
        && a.mode == rule.mode
        && a.limits == Limits::of(&rule.orders)
        && a.handling == Handling::of(&rule.orders)
        && a.params == param::in_force(rule.mode, &rule.orders.params)
        && !a.half_done
        && a.has_orders()
        && a.unlinked().is_empty()
}

/// Under the change lock, with imtcp loaded.
pub fn take(target: Target, rule: &Rule) -> Result<Done> {
    nocc::require_allowed(rule.mode, || format!("rule {} ({target})", rule.name))?;
    let Rule { name, filter, mode, orders, .. } = rule.clone();
    attach::take_target(target, &Wanted { mode, orders, filter, rule: Some(name) })
}
