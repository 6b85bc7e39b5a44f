// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp rules list` and `test`.

use anyhow::Result;
use imtcp_bpf::probe;
use imtcp_common::out::print_json;
use imtcp_common::{exit, format, procfs};
use serde_json::{json, Value};

use super::edit::NOT_WATCHED;
use super::round;
use crate::attachment::{self, Attachment, Key, Target};
use crate::cli::rules::{ListArgs, TestArgs};
use crate::coverage::Coverage;
use crate::nested::Nest;
use crate::policy::{Handling, Limits};
use crate::rules::{Machine, Rule, Rules};
use crate::{cgroup, param, state};

/// A target of a rule, with what there is to say of it.
struct Covered {
    target: Target,
    processes: usize,
    /// Why it has not all that the rule wants.
    gap: Option<String>,
}

impl Covered {
    fn json(&self) -> Value {
        json!({"target": self.target, "processes": self.processes, "gap": self.gap})
    }
}

pub fn list(args: &ListArgs) -> Result<u8> {
    probe::require_privileges("imtcp rules list")?;
    let rules = Rules::read(&args.dir.dir);
    let attached = attachment::all();
    let machine = Machine::look(rules.in_force())?;
    let (named, faults) = round::named(&rules, &machine, &attached);
    let watched = state::rules_are_watched();
    let nest = Nest::now();
    let covered = |rule: &Rule| -> Vec<Covered> {
        let its = attached.iter().filter(|a| a.rule.as_deref() == Some(&rule.name));
        let open = named.iter().filter(|(key, of)| {
            of.name == rule.name && !attached.iter().any(|a| a.key() == **key && a.rule.is_some())
        });
        its.map(|a| of_attachment(a, &nest))
            .chain(open.map(|(key, _)| not_its(key, &attached)))
            .collect()
    };
    show(&rules, faults, args.json, Some(watched), covered)
}

fn of_attachment(a: &Attachment, nest: &Nest) -> Covered {
    let coverage = Coverage::of(a, nest);
    Covered { target: a.target.clone(), processes: coverage.processes, gap: coverage.gap(a) }
}

/// Named, and without what the rule wants.
fn not_its(key: &Key, attached: &[Attachment]) -> Covered {
    let by_hand = attached.iter().find(|a| a.key() == *key);
    let gap = by_hand.map_or_else(
        || "it is not attached".into(),
        |a| format!("it was attached by hand and keeps that: {}", a.orders()),
    );
    let (target, _) = key;
    Covered { target: target.clone(), processes: processes(target), gap: Some(gap) }
}

fn processes(target: &Target) -> usize {
    match target {
        Target::Pid(pid) => procfs::tree(*pid).len(),
        Target::Cgroup(dir) => cgroup::procs(dir).len(),
    }
}

pub fn test(args: &TestArgs) -> Result<u8> {
    let rules = Rules::read(&args.dir.dir);
    let machine = Machine::look(rules.in_force())?;
    let (named, faults) = round::named(&rules, &machine, &attachment::all());
    let covered = |rule: &Rule| -> Vec<Covered> {
        let its = named.iter().filter(|(_, of)| of.name == rule.name);
        its.map(|((target, _), _)| Covered {
            target: target.clone(),
            processes: processes(target),
            gap: None,
        })
        .collect()
    };
    show(&rules, faults, args.json, None, covered)
}

/// `watched`: does somebody apply them? Unknown where that is not asked.
fn show(
    rules: &Rules,
    of_targets: Vec<String>,
    in_json: bool,
    watched: Option<bool>,
    covered: impl Fn(&Rule) -> Vec<Covered>,
) -> Result<u8> {
    let shown: Vec<_> = rules.in_force().map(|rule| (rule, covered(rule))).collect();
    let of_files = rules.faults().into_iter().map(str::to_string);
    let faults: Vec<String> = of_files.chain(of_targets).collect();
    let is_fine = faults.is_empty()
        && watched != Some(false)
        && shown.iter().all(|(_, covered)| covered.iter().all(|c| c.gap.is_none()));
    if in_json {
        let of_rule = |(rule, covered): &(&Rule, Vec<Covered>)| {
            let (limits, handling) = (Limits::of(&rule.orders), Handling::of(&rule.orders));
            json!({
                "name": rule.name,
                "names": rule.names.to_string(),
                "filter": rule.filter,
                "mode": rule.mode,
                "min_bps": limits.min_bps,
                "max_bps": limits.max_bps,
                "dscp": handling.dscp,
                "priority": handling.priority,
                "receives": handling.receives,
                "params": param::in_force(rule.mode, &rule.orders.params),
                "targets": covered.iter().map(Covered::json).collect::<Vec<_>>(),
            })
        };
        print_json(&json!({
            "watched": watched,
            "rules": shown.iter().map(of_rule).collect::<Vec<_>>(),
            "faults": faults,
        }))?;
        return Ok(if is_fine { exit::OK } else { exit::FAILURE });
    }
    if shown.is_empty() && faults.is_empty() {
        outln!(
            "no rules in {}: `imtcp rules add --help` shows how to write one",
            rules.dir().display()
        );
        return Ok(exit::OK);
    }
    for (rule, covered) in &shown {
        outln!("{}: {}: {}", rule.name, rule.covers(), rule.told());
        if covered.is_empty() {
            outln!("    nothing of that is there now");
        }
        for one in covered {
            let gap = one.gap.as_ref().map_or_else(String::new, |gap| format!(": {gap}"));
            let processes = format::count(one.processes, "process");
            outln!("    {} ({processes}){gap}", one.target);
        }
    }
    for fault in faults {
        eprintln!("imtcp: {fault}");
    }
    if watched == Some(false) {
        eprintln!("imtcp: {NOT_WATCHED}");
    }
    Ok(if is_fine { exit::OK } else { exit::FAILURE })
}
