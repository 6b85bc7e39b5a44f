// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What is said of processes that a run's command left running.

use imtcp_common::format;

use crate::nested::{self, Around};
use crate::runs::LeftBehind;

/// For people: `nginx (pid 34) and 2 more processes`. The first is one that no other of them has started.
pub fn told(all: &[LeftBehind]) -> Option<String> {
    let first = top(all)?;
    let name = format!("{} (pid {})", format::others_text(&first.command), first.pid);
    Some(match all.len() {
        1 => name,
        n => format!("{name} and {}", format::count(n as u64 - 1, "more process")),
    })
}

/// The same as the end of a run's line and of its row in `imtcp status`, with what can be done. `orders` are the
/// run's, as options.
pub fn told_with_remedy(all: &[LeftBehind], orders: &str) -> Option<String> {
    let told = told(all)?;
    let control = control_of_new(all);
    let remedy = match control.is_some() {
        true => String::new(),
        false => {
            format!(" ({} them)", remedy(&tops(all).map(|l| l.pid).collect::<Vec<_>>(), orders))
        }
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
fn remedy(tops: &[i32], orders: &str) -> String {
    const MOST: usize = 8;
    match tops {
        [pid] => format!("`imtcp attach --pid {pid}{orders}` covers"),
        few if few.len() <= MOST => {
            let pids: Vec<_> = few.iter().map(i32::to_string).collect();
            let pids = pids.join(" ");
            format!("`for p in {pids}; do imtcp attach --pid $p{orders}; done` covers")
        }
        _ => format!(
            "`imtcp attach{orders} --pid` with each pid that `imtcp status --json` has in left_behind \
             covers"
        ),
    }
}

/// Those that no other of them has started.
fn tops(all: &[LeftBehind]) -> impl Iterator<Item = &LeftBehind> {
    let is_left = |pid| all.iter().any(|l| l.pid == pid);
    all.iter().filter(move |l| !l.parent_pid.is_some_and(is_left))
}

fn top(all: &[LeftBehind]) -> Option<&LeftBehind> {
    tops(all).next().or(all.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(pid: i32) -> LeftBehind {
        LeftBehind { pid, started_ticks: 1, parent_pid: None, command: "nginx".into() }
    }

    #[test]
    fn the_one_that_started_the_others_is_named_though_they_have_ended_since() {
        let child = |pid| LeftBehind { parent_pid: Some(-7), command: "sleep".into(), ..left(pid) };
        let storm = [child(-9), left(-7), child(-2)];
        assert_eq!(told(&storm).unwrap(), "nginx (pid -7) and 2 more processes");
        assert_eq!(tops(&storm).map(|l| l.pid).collect::<Vec<_>>(), [-7]);
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
        assert_eq!(remedy(&[7], ""), "`imtcp attach --pid 7` covers");
        let orders = " --mode lp --max-rate 5M";
        let told = "`for p in 7 9; do imtcp attach --pid $p --mode lp --max-rate 5M; done` covers";
        assert_eq!(remedy(&[7, 9], orders), told);
        let told = "`imtcp attach --mode lp --max-rate 5M --pid` with each pid that `imtcp status \
                    --json` has in left_behind covers";
        assert_eq!(remedy(&[7; 9], orders), told);
    }
}
