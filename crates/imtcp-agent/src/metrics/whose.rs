// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! On whose word a connection has its mode.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use imtcp_bpf::rundir::{file_of, ATTACHMENTS, RUNS};
use serde::Deserialize;

/// Names of rules in the metrics. Those that come later are one: "other".
const MOST_RULES: usize = 100;

/// `by` is run, attach, rule, or program where a program chose the control by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whose {
    pub by: &'static str,
    /// Its name; empty but for rules.
    pub rule: String,
}

impl Whose {
    fn by(by: &'static str) -> Self {
        Whose { by, rule: String::new() }
    }
}

#[derive(Deserialize)]
struct Registered {
    rule: Option<String>,
}

/// The policies seen so far. Each number belongs to one run or attachment.
#[derive(Default)]
pub struct Policies {
    known: BTreeMap<u64, Whose>,
    rules: BTreeSet<String>,
}

impl Policies {
    pub fn whose(&mut self, policy: u64) -> Whose {
        if policy == 0 {
            return Whose::by("program");
        }
        if let Some(known) = self.known.get(&policy) {
            return known.clone();
        }
        let found = fs::read(file_of(ATTACHMENTS, policy)).ok();
        let registered = found.and_then(|text| serde_json::from_slice::<Registered>(&text).ok());
        let whose = match registered {
            Some(Registered { rule: Some(rule) }) => {
                Whose { by: "rule", rule: self.within_bounds(rule) }
            }
            Some(_) => Whose::by("attach"),
            // Also one that is over: its file has gone, and connections have its policy still.
            None if file_of(RUNS, policy).exists() => Whose::by("run"),
            None => return Whose::by("run"),
        };
        self.known.insert(policy, whose.clone());
        whose
    }

    /// Forgets those that no connection has.
    pub fn retain(&mut self, used: &BTreeSet<u64>) {
        self.known.retain(|policy, _| used.contains(policy));
    }

    fn within_bounds(&mut self, rule: String) -> String {
        if self.rules.len() < MOST_RULES || self.rules.contains(&rule) {
            self.rules.insert(rule.clone());
            return rule;
        }
        "other".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hundred_and_first_rule_is_another_one() {
        let mut policies = Policies::default();
        for n in 0..MOST_RULES {
            assert_eq!(policies.within_bounds(format!("r{n}")), format!("r{n}"));
        }
        assert_eq!(policies.within_bounds("late".into()), "other");
        assert_eq!(policies.within_bounds("r7".into()), "r7");
        assert_eq!(policies.whose(0), Whose::by("program"));
    }
}
