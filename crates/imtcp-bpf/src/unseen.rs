// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Network namespaces whose sockets a command could not look at, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use anyhow::Error;
use imtcp_common::{descriptors, format};

/// Empty where all were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// By their numbers, each with its cause.
    namespaces: BTreeMap<u64, String>,
    /// Processes whose namespace the kernel does not tell, and why.
    processes: BTreeSet<i32>,
    refusals: BTreeSet<String>,
}

impl Unseen {
    pub fn note(&mut self, namespace: u64, why: &Error) {
        let why = format!("{why:#}");
        let why = format!("{why}{}", descriptors::hint(&why));
        self.namespaces.entry(namespace).or_insert(why);
    }

    pub fn note_process(&mut self, pid: i32, why: &io::Error) {
        self.processes.insert(pid);
        self.refusals.insert(why.to_string());
    }

    pub fn add(&mut self, other: Unseen) {
        self.namespaces.extend(other.namespaces);
        self.processes.extend(other.processes);
        self.refusals.extend(other.refusals);
    }

    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.processes.is_empty()
    }

    /// For people; nothing where all were looked at.
    pub fn text(&self) -> Option<String> {
        let causes = |all: BTreeSet<&str>| all.into_iter().collect::<Vec<_>>().join("; ");
        let namespaces = (!self.namespaces.is_empty()).then(|| {
            let count = format::count(self.namespaces.len(), "network namespace");
            let why = causes(self.namespaces.values().map(String::as_str).collect());
            format!("{count} not looked at ({why})")
        });
        let processes = (!self.processes.is_empty()).then(|| {
            let count = format::count(self.processes.len(), "process");
            let why = causes(self.refusals.iter().map(String::as_str).collect());
            format!("the network namespace of {count} is not told ({why})")
        });
        let parts: Vec<_> = namespaces.into_iter().chain(processes).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_count_once_and_each_cause_is_said_once() {
        let mut unseen = Unseen::default();
        assert_eq!(unseen.text(), None);
        for ino in [7, 8, 8] {
            unseen.note(ino, &anyhow::anyhow!("it is locked"));
        }
        assert_eq!(unseen.text().unwrap(), "2 network namespaces not looked at (it is locked)");
        let mut other = Unseen::default();
        other.note_process(3, &io::Error::from_raw_os_error(libc::EACCES));
        unseen.add(other);
        assert!(unseen.text().unwrap().ends_with(
            "the network namespace of 1 process is not told (Permission denied (os error 13))"
        ));
    }
}
