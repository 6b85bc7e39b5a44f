// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp run`: a cgroup for the command, the sockops program on it by a link that the kernel
//! ends with us (also after SIGKILL), the command inside, a line at the end.

mod last_words;
mod line;
mod not_held_back;
mod spawn;
mod summary;
mod uncovered;
mod wait;

use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use imtcp_bpf::policy::Policies;
use imtcp_bpf::records::Records;
use imtcp_bpf::{control, probe, Policy, Record};
use nix::unistd::getpid;

use self::last_words::LastWords;
use self::spawn::{spawn, Plan};
use self::summary::{Summary, TakenAway};
use self::uncovered::Watch;
use super::up;
use crate::cli::RunArgs;
use crate::exit::{self, Coded};
use crate::follow::Service;
use crate::mountns::Home;
use crate::policy::Limits;
use crate::signals::Blocked;
use crate::{caps, cgroup, nested, nocc, param, policy, state, user};

pub fn main(args: RunArgs, home: Option<Home>) -> Result<u8> {
    let orders = policy::orders(&args.orders, args.dscp)?;
    run(args, orders, home).map_err(|e| match e.downcast::<Coded>() {
        Ok(coded) => coded.into(),
        Err(e) => Coded { code: exit::RUN_FAILED, message: format!("{e:#}") }.into(),
    })
}

fn run(args: RunArgs, orders: Policy, home: Option<Home>) -> Result<u8> {
    probe::require_privileges("imtcp run")?;
    let user = args.user.as_deref().map(user::find).transpose()?;
    nocc::require_allowed(args.orders.mode, || format!("a run ({})", command_line(&args)))?;
    let service = Service::wanted(&args)?;
    let last_words = LastWords::to(args.output.as_deref())?;
    policy::warn_of_missing_ecn(args.orders.mode);
    let mut session = Session::start(&args, &orders)?;

    let signals = Blocked::new()?;
    let started = Instant::now();
    let plan = Plan {
        cgroup: &session.cgroup,
        home: home.as_ref(),
        user: user.as_ref(),
        mask: &signals.before,
    };
    let child = match spawn(&args.command, &plan) {
        Ok(child) => child,
        Err(e) => {
            session.end();
            session.unload(&state::lock()?)?;
            return Err(e);
        }
    };
    if let Some(service) = service {
        if let Err(e) = service.follow(session.policy, session.cgroup.clone()) {
            eprintln!("imtcp: cannot follow the advice: {e:#}");
        }
    }
    // The command has what we had; we need little more.
    let _ = caps::keep_for_waiting(session.records.enters_namespaces());
    // Without it the run is as good, and its last line knows less.
    let _ = session.watch.as_ref().map(|watch| watch.follow(child));
    let status = wait::for_end(child, &signals, &session.cgroup);
    // Who sends the command a signal, or wants no line, does not wait for it.
    if !args.quiet && !libc::WIFSIGNALED(status) {
        wait::while_it_lasts(&signals, || session.is_draining());
    }

    let elapsed_us = started.elapsed().as_micros() as u64;
    let summary = session.summary(&args, &orders, elapsed_us);
    session.end();
    if !args.quiet {
        let line = if args.json { summary.json().to_string() } else { line::line(&summary) };
        if let Err(e) = last_words.say(&line) {
            eprintln!("imtcp: cannot write the line at the end: {e}");
        }
    }
    Ok(exit::of_wait_status(status))
}

fn command_line(args: &RunArgs) -> String {
    let words: Vec<_> = args.command.iter().map(|a| a.to_string_lossy()).collect();
    words.join(" ")
}

/// What exists for one run, and goes with it.
struct Session {
    policy: u64,
    /// Was nothing loaded before?
    loaded: bool,
    policies: Policies,
    records: Records,
    cgroup: PathBuf,
    refuge: PathBuf,
    watch: Option<Watch>,
    // In the order of their ends: no new connections, then no registration.
    link: Option<control::Link>,
    registered: Option<state::Registered>,
}

impl Session {
    fn start(args: &RunArgs, orders: &Policy) -> Result<Self> {
        let lock = state::lock()?;
        let loaded = up::ensure(&lock)?;
        state::sweep(&lock);

        let policies = Policies::open()?;
        let records = Records::open()?;
        let policy = policy::new_id();
        let refuge = cgroup::of_pid(getpid().as_raw())?;
        let parent = nested::beside_attachments(&refuge);
        let dir = cgroup::create(&parent, &format!("imtcp-run-{policy:016x}"))?;
        let mut session = Session {
            policy,
            loaded,
            policies,
            records,
            cgroup: dir,
            refuge,
            watch: None,
            link: None,
            registered: None,
        };
        if let Err(e) = session.equip(args, orders, &lock) {
            session.end();
            session.policies.remove(policy);
            session.unload(&lock)?;
            return Err(e);
        }
        Ok(session)
    }

    /// After its end, where the command did not even begin: as it was before.
    fn unload(&self, lock: &state::ChangeLock) -> Result<()> {
        if self.loaded {
            up::undo(lock)?;
        }
        Ok(())
    }

    fn equip(&mut self, args: &RunArgs, orders: &Policy, lock: &state::ChangeLock) -> Result<()> {
        let run = state::Run {
            pid: std::process::id(),
            policy: self.policy,
            mode: args.orders.mode,
            limits: Limits::of(orders),
            params: param::in_force(args.orders.mode, &orders.params),
            command: command_line(args),
            cgroup: self.cgroup.clone(),
            refuge: self.refuge.clone(),
        };
        nocc::log_use(run.mode, &format!("run {} ({})", run.pid, run.command));
        self.registered = Some(state::Registered::new(&run, lock)?);
        self.policies.insert(self.policy, orders)?;
        let dir = fs::File::open(&self.cgroup)?;
        self.link = Some(control::attach_to_cgroup(dir.as_fd(), self.policy)?);
        self.watch = (!args.quiet).then(|| Watch::new(&self.cgroup)).transpose().ok().flatten();
        Ok(())
    }

    fn own_records(&self) -> Vec<Record> {
        let mut all = self.records.read().unwrap_or_default();
        all.retain(|r| r.policy == self.policy);
        all
    }

    /// What the programs know of the run: of its connections that have ended, and of the others.
    /// Again where one has ended between the two looks, which would miss it.
    fn seen(&self) -> (Policy, Vec<Record>) {
        let policy = || self.policies.get(self.policy).ok().flatten().unwrap_or_default();
        let mut before = policy();
        loop {
            let records = self.own_records();
            let after = policy();
            if after.ended_conns == before.ended_conns {
                return (after, records);
            }
            before = after;
        }
    }

    /// Does the kernel still send what the command has left in connections that it closed?
    fn is_draining(&self) -> bool {
        self.own_records().iter().any(|r| r.queued_bytes > 0 && r.socket_ino == 0)
    }

    fn summary(&self, args: &RunArgs, orders: &Policy, elapsed_us: u64) -> Summary {
        let (policy, records) = self.seen();
        let mut sum = Summary::new(args.orders.mode, orders, elapsed_us);
        sum.taken_away = if !self.policies.is_loaded() {
            Some(TakenAway::Down)
        } else {
            (!nocc::may_be(args.orders.mode)).then_some(TakenAway::Nocc)
        };
        sum.add_ended(&policy);
        for record in &records {
            sum.add_open(record);
        }
        sum.uncovered = self.watch.as_ref().map(Watch::seen).unwrap_or_default();
        sum
    }

    /// Ends the run's traces. Its policy and registration stay while connections have it (data
    /// that the kernel still sends, processes in the background); a later command sweeps them.
    fn end(&mut self) {
        (self.watch, self.link) = (None, None);
        if let Err(e) = cgroup::remove(&self.cgroup, &self.refuge) {
            eprintln!("imtcp: {e:#}");
        }
        let registered = self.registered.take();
        if self.own_records().is_empty() {
            self.policies.remove(self.policy);
        } else if let Some(registered) = registered {
            registered.leave();
        }
    }
}
