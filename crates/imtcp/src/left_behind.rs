// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Processes that a run's command leaves running. The run does not cover them any more
//! (docs/adr/0021-a-run-ends-with-its-command.md).

use std::path::Path;

use anyhow::Result;
use imtcp_common::{format, procfs};
use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::nested::{self, Around};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftBehind {
    pub pid: i32,
    /// With the pid, which is used again.
    pub started_ticks: u64,
    pub command: String,
}

impl LeftBehind {
    fn of(pid: i32) -> Option<Self> {
        let started_ticks = procfs::alive_since_ticks(pid)?;
        Some(LeftBehind { pid, started_ticks, command: procfs::command(pid)? })
    }

    pub fn is_alive(&self) -> bool {
        procfs::alive_since_ticks(self.pid) == Some(self.started_ticks)
    }
}

/// Removes a run's cgroup and moves the processes in it to `refuge`. Tells which they are.
pub fn end_cgroup(dir: &Path, refuge: &Path) -> (Vec<LeftBehind>, Result<()>) {
    let inside = cgroup::procs(dir);
    let removed = cgroup::remove(dir, refuge);
    (inside.into_iter().filter_map(LeftBehind::of).collect(), removed)
}

/// For people: `nginx (pid 34) and 2 more processes`. The first is one that no other of them has started.
pub fn told(all: &[LeftBehind]) -> Option<String> {
    let first = top(all)?;
    let name = format!("{} (pid {})", format::others_text(&first.command), first.pid);
    Some(match all.len() {
        1 => name,
        n => format!("{name} and {}", format::count(n as u64 - 1, "more process")),
    })
}

/// The same as the end of a run's line and of its row in `imtcp status`, with what can be done.
pub fn told_with_remedy(all: &[LeftBehind]) -> Option<String> {
    let told = told(all)?;
    let control = control_of_new(all);
    let remedy = match control.is_some() {
        true => String::new(),
        false => format!(" ({} them)", remedy(&tops(all).map(|l| l.pid).collect::<Vec<_>>())),
    };
    let control = control.unwrap_or_else(|| "the default control".into());
    Some(format!("left running: {told}, whose new connections have {control}{remedy}"))
}

/// The control of new connections, if a run or attachment is around any of these.
fn control_of_new(all: &[LeftBehind]) -> Option<String> {
    let pids = |some: &[LeftBehind]| some.iter().map(|l| l.pid).collect();
    let around = all.iter().map(|one| nested::around(&pids(std::slice::from_ref(one))));
    let covered: Vec<_> = around.map(|a| a.map(|a| orders_of(&a))).collect();
    let first = covered.iter().flatten().next()?.clone();
    match covered.iter().all(|one| one.as_ref() == Some(&first)) {
        true => Some(first),
        false => Some(format!("the default control or {first}")),
    }
}

fn orders_of(around: &Around) -> String {
    match around {
        Around::Run(run) => format!("what {} orders: {}", run.name(), run.orders()),
        Around::Attachment(a) => {
            format!("what {} has, which is attached: {}", a.name(), a.orders())
        }
    }
}

/// A shell's line that works: `attach` takes a process with what it has started.
fn remedy(tops: &[i32]) -> String {
    const MOST: usize = 8;
    match tops {
        [pid] => format!("`imtcp attach --pid {pid}` covers"),
        few if few.len() <= MOST => {
            let pids: Vec<_> = few.iter().map(i32::to_string).collect();
            format!("`for p in {}; do imtcp attach --pid $p; done` covers", pids.join(" "))
        }
        _ => "`imtcp attach --pid` with each of their pids covers".into(),
    }
}

/// Those that no other of them has started.
fn tops(all: &[LeftBehind]) -> impl Iterator<Item = &LeftBehind> {
    let is_left = |pid| all.iter().any(|l| l.pid == pid);
    all.iter().filter(move |l| !procfs::parent(l.pid).is_some_and(is_left))
}

fn top(all: &[LeftBehind]) -> Option<&LeftBehind> {
    tops(all).next().or(all.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(pid: i32) -> LeftBehind {
        LeftBehind { pid, started_ticks: 1, command: "nginx".into() }
    }

    #[test]
    fn one_is_named_and_the_others_are_counted() {
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[left(-1)]).unwrap(), "nginx (pid -1)");
        assert_eq!(told(&[left(-1), left(-2)]).unwrap(), "nginx (pid -1) and 1 more process");
        let three = told(&[left(-1), left(-2), left(-3)]).unwrap();
        assert_eq!(three, "nginx (pid -1) and 2 more processes");
    }

    #[test]
    fn what_is_said_to_cover_several_takes_each_of_them() {
        assert_eq!(remedy(&[7]), "`imtcp attach --pid 7` covers");
        assert_eq!(remedy(&[7, 9]), "`for p in 7 9; do imtcp attach --pid $p; done` covers");
        assert_eq!(remedy(&[7; 9]), "`imtcp attach --pid` with each of their pids covers");
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let own = LeftBehind::of(std::process::id() as i32).unwrap();
        assert!(own.is_alive());
        assert!(!LeftBehind { started_ticks: own.started_ticks + 1, ..own }.is_alive());
    }
}
