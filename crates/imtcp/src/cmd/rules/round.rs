// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! One look: what rules name, less what has it already.

use std::collections::BTreeMap;

use anyhow::Result;
use imtcp_bpf::Obstacle;

use super::super::attach::{self, Wanted};
use crate::attachment::{Attachment, Target};
use crate::policy::Limits;
use crate::rules::{Machine, Rule, Rules};
use crate::{nocc, param};

/// What rules name now, each target once: of two rules that name the same, the first holds.
pub fn named<'r>(
    rules: &'r Rules,
    attached: &[Attachment],
) -> Result<Vec<(Target, &'r Rule)>, Obstacle> {
    let machine = Machine::look(rules.in_force())?;
    let mut all: Vec<(Target, &Rule)> = Vec::new();
    for rule in rules.in_force() {
        for target in machine.named(&rule.names, attached) {
            if !all.iter().any(|(other, _)| *other == target) {
                all.push((target, rule));
            }
        }
    }
    Ok(all)
}

#[derive(Debug)]
pub enum Change<'r> {
    Take(Target, &'r Rule),
    GiveBack(Box<Attachment>),
}

impl Change<'_> {
    pub fn target(&self) -> &Target {
        match self {
            Change::Take(target, _) => target,
            Change::GiveBack(attachment) => &attachment.target,
        }
    }
}

/// What has to change for the rules to hold. What was attached by hand stays as it is.
pub fn changes<'r>(named: Vec<(Target, &'r Rule)>, attached: Vec<Attachment>) -> Vec<Change<'r>> {
    let by_target: BTreeMap<String, &Attachment> =
        attached.iter().map(|a| (a.target.to_string(), a)).collect();
    let is_missing = |(target, rule): &(Target, &Rule)| {
        by_target.get(&target.to_string()).is_none_or(|a| !has_it(a, rule))
    };
    let is_over = |a: &Attachment| match a.target {
        // What it has started stays what the rule made it.
        Target::Pid(_) if a.has_ended() => a.is_over(),
        _ => true,
    };
    let is_named = |a: &Attachment| named.iter().any(|(target, _)| *target == a.target);
    let over = attached.iter().filter(|a| a.rule.is_some() && !is_named(a) && is_over(a));
    let over: Vec<_> = over.cloned().map(|a| Change::GiveBack(Box::new(a))).collect();
    let missing = named.iter().filter(|one| is_missing(one)).cloned();
    over.into_iter().chain(missing.map(|(target, rule)| Change::Take(target, rule))).collect()
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
        && a.mode == rule.mode
        && a.limits == Limits::of(&rule.orders)
        && a.params == param::in_force(rule.mode, &rule.orders.params)
        && a.has_orders()
        && a.unlinked().is_empty()
}

/// Under the change lock, with imtcp loaded.
pub fn take(target: Target, rule: &Rule) -> Result<Attachment> {
    nocc::require_allowed(rule.mode, || format!("rule {} ({target})", rule.name))?;
    let wanted = Wanted { mode: rule.mode, orders: rule.orders, rule: Some(rule.name.clone()) };
    Ok(attach::take_target(target, &wanted)?.attachment)
}
