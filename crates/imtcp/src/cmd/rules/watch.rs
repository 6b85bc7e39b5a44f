// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp rules watch`: what the rules name is attached, and stays so.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Error, Result};
use imtcp_bpf::{meta, paths, probe};
use imtcp_common::fault::Fault;
use imtcp_common::{exit, format};

use super::super::{detach, up};
use super::round::{self, Change};
use crate::attachment::{self, key, Attachment, Key, Target};
use crate::cli::rules::WatchArgs;
use crate::nested::{self, Nest};
use crate::rules::{Machine, Rule, Rules};
use crate::signals::{self, Arrived, Blocked};
use crate::state::{self, ChangeLock};
use crate::sweep::sweep;

/// How often it looks. A look costs milliseconds; what a new process sends before it is covered from then on.
const LOOK: Duration = Duration::from_secs(1);
/// It looks no more than a tenth of the time, however many cgroups users make.
const REST: u32 = 9;
/// A target that could not be attached is tried again after this time.
const AGAIN: Duration = Duration::from_secs(30);

pub fn main(args: &WatchArgs) -> Result<u8> {
    probe::require_privileges("imtcp rules watch")?;
    let signals = Blocked::new()?;
    let _alone = state::lock_rules()?;
    let mut watcher = Watcher {
        signals,
        end: None,
        rules: Rules::read(&args.dir.dir),
        told: Vec::new(),
        told_of_targets: Vec::new(),
        failed: BTreeMap::new(),
        fault: Fault::default(),
    };
    let count = watcher.rules.in_force().count();
    eprintln!("imtcp: {} in {}", format::count(count, "rule"), args.dir.dir.display());
    {
        let lock = state::lock()?;
        up::ensure(&lock)?;
        paths::require_writable()?;
    }
    let mut ready = Some(sd_notify::NotifyState::Ready);
    loop {
        watcher.tell_faults();
        let begun = Instant::now();
        match watcher.look() {
            Ok(()) => {
                if watcher.fault.end().is_some() {
                    eprintln!("imtcp: rules hold again");
                }
            }
            Err(e) => {
                let why = format!("{e:#}");
                if watcher.fault.is_new(&why) {
                    eprintln!("imtcp: rules wait: {why}");
                }
            }
        }
        // `systemctl start` returns when what runs already is covered, or why it is not has been said.
        let _ = ready.take().map(|ready| sd_notify::notify(&[ready]));
        watcher.wait(LOOK.max(begun.elapsed() * REST));
        if let Some(end) = watcher.end {
            give_all_back()?;
            // A service that is asked to end has ended well.
            return Ok(match end.signal {
                libc::SIGTERM => exit::OK,
                other => signals::end_by(other),
            });
        }
        watcher.rules.look();
    }
}

struct Watcher {
    signals: Blocked,
    /// The signal that asked to end.
    end: Option<Arrived>,
    rules: Rules,
    /// Faults of files that were said.
    told: Vec<String>,
    /// The same of what rules name.
    told_of_targets: Vec<String>,
    /// When it failed, and why.
    failed: BTreeMap<Key, (Instant, String)>,
    fault: Fault,
}

impl Watcher {
    /// Waits, or until a signal asks to end. The end of a child is a signal, too, and shortens nothing.
    fn wait(&mut self, most: Duration) {
        // A hang-up asks services to read their files again, which this does anyway.
        let asks =
            |arrived: &Arrived| signals::asks_to_end(*arrived) && arrived.signal != libc::SIGHUP;
        let until = Instant::now() + most;
        while self.end.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            let Some(arrived) = self.signals.wait_for(left) else { return };
            self.end = Some(arrived).filter(asks);
        }
    }

    fn tell_faults(&mut self) {
        let now: Vec<String> = self.rules.faults().into_iter().map(str::to_string).collect();
        tell_new(&mut self.told, now, " (what it said before holds)");
    }

    /// Changes what has to change. While `imtcp down` holds, nothing is loaded. Others may have the lock between two
    /// targets.
    fn look(&mut self) -> Result<()> {
        meta::require_up()?;
        let rules = self.rules.clone();
        let attached = attachment::all();
        let machine = Machine::look(rules.in_force())?;
        let (named, faults) = round::named(&rules, &machine, &attached);
        self.tell_of_targets(faults);
        let changes = round::changes(named, &machine, attached);
        self.failed.retain(|key, _| changes.iter().any(|c| c.key() == *key));
        let (mut over, mut wanted) = (Vec::new(), Vec::new());
        for change in changes.into_iter().filter(|c| !is_waiting(&self.failed, &c.key())) {
            match change {
                Change::GiveBack(attachment) => over.push(*attachment),
                Change::Take(target, rule) => wanted.push((target, rule)),
            }
        }
        for some in over.chunks(AT_ONCE) {
            let faults = give_back(some, lock_while_up()?)?;
            self.wait(LET_OTHERS);
            if let Some(why) =
                faults.into_iter().map(|e| format!("{e:#}")).reduce(|a, b| a + "; " + &b)
            {
                some.iter().for_each(|a| self.note(a.key(), Some(&why)));
            }
        }
        for (target, rule) in wanted {
            let key = key(&target, rule.filter.as_ref());
            let lock = lock_while_up()?;
            // The same.
            if attachment::all().iter().any(|a| a.key() == key && a.rule.is_none()) {
                continue;
            }
            let done = take(target, rule);
            drop(lock);
            self.note(key, done.err().map(|e| format!("{e:#}")).as_deref());
            self.wait(LET_OTHERS);
            if self.end.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Says why a target has not what it is to have, once.
    fn note(&mut self, key: Key, why: Option<&str>) {
        let Some(why) = why else { return drop(self.failed.remove(&key)) };
        let before = self.failed.insert(key, (Instant::now(), why.to_string()));
        if before.is_none_or(|(_, before)| before != why) {
            eprintln!("imtcp: {why}; it is tried again");
        }
    }

    fn tell_of_targets(&mut self, faults: Vec<String>) {
        tell_new(&mut self.told_of_targets, faults, "");
    }
}

/// Says those that were not said before.
fn tell_new(told: &mut Vec<String>, now: Vec<String>, more: &str) {
    for fault in now.iter().filter(|fault| !told.contains(fault)) {
        eprintln!("imtcp: {fault}{more}");
    }
    *told = now;
}

/// Attachments that are given back under one lock: each walk through all sockets serves several. ours: a few
/// tenths of a second.
const AT_ONCE: usize = 16;

/// Whoever waits for the lock looks at it every few milliseconds.
const LET_OTHERS: Duration = Duration::from_millis(20);

fn lock_while_up() -> Result<ChangeLock> {
    let lock = state::lock()?;
    meta::require_up()?;
    Ok(lock)
}

fn is_waiting(failed: &BTreeMap<Key, (Instant, String)>, key: &Key) -> bool {
    failed.get(key).is_some_and(|(at, _)| at.elapsed() < AGAIN)
}

/// Under the change lock.
fn take(target: Target, rule: &Rule) -> Result<()> {
    let name = &rule.name;
    let done = round::take(target, rule).map_err(|e| e.context(format!("rule {name}")))?;
    let a = &done.attachment;
    let processes = nested::own_processes(a, &Nest::now().within(a)).len();
    eprintln!("imtcp: rule {name}: {}", done.told(processes));
    if let Some(text) = a.unreached.text() {
        eprintln!("imtcp: rule {name}: {text}");
    }
    Ok(())
}

/// Tells which attachments it gives back. Returns the reason for each that it could not.
fn give_back(some: &[Attachment], lock: ChangeLock) -> Result<Vec<Error>> {
    sweep(&lock);
    // Somebody else may have changed something before the lock.
    let now = attachment::all();
    let is_still = |a: &&Attachment| now.iter().any(|n| n.policy == a.policy && n.rule == a.rule);
    let done = detach::give_up(some.iter().filter(is_still).cloned().collect(), &lock)?;
    for a in &done.detached {
        eprintln!("imtcp: rule {}: {} is detached", a.rule.clone().unwrap_or_default(), a.name());
    }
    Ok(done.faults)
}

/// Who ends leaves nothing of what it did.
fn give_all_back() -> Result<()> {
    let attached: Vec<_> = attachment::all().into_iter().filter(|a| a.rule.is_some()).collect();
    for some in attached.chunks(AT_ONCE) {
        for fault in give_back(some, state::lock()?)? {
            eprintln!("imtcp: {fault:#}");
        }
        std::thread::sleep(LET_OTHERS);
    }
    Ok(())
}
