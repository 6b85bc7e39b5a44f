// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp run`: a cgroup for the command, programs on it, the command inside, and a line at the end. The kernel ends the
//! programs' links with us, after SIGKILL too.

mod inherited;
mod last_line;
mod line;
mod line_output;
mod not_held_back;
mod outer;
mod own_arguments;
mod rehearse;
mod spawn;
mod stop;
mod summary;
mod terminal;
mod uncovered;
mod wait;

use std::borrow::Cow;
use std::cell::RefCell;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use imtcp_bpf::policy::Policies;
use imtcp_bpf::records::Records;
use imtcp_bpf::{control, probe, receive, Policy, Record};
use nix::unistd::getpid;

use self::inherited::Inherited;
use self::line_output::{Line, LineOutput};
pub use self::rehearse::rehearse;
use self::spawn::{spawn, Plan, Started};
use self::summary::{Summary, TakenAway};
use self::uncovered::Watch;
use super::up;
use crate::cli::RunArgs;
use crate::follow::Service;
use crate::policy::{Handling, Limits};
use crate::runs::{self, LeftBehind};
use crate::signals::{self, Blocked};
use crate::sweep::sweep;
use crate::{caps, cgroup, nested, nocc, param, policy, state, user};
use imtcp_bpf::mountns::Home;
use imtcp_common::exit::{self, Coded};
use imtcp_common::{out, procfs};

pub fn main(mut args: RunArgs, home: Option<Home>) -> Result<u8> {
    args.orders = args.orders.settle()?;
    let orders = policy::orders(&args.orders, args.config.config.as_deref())?;
    match run(args, orders, home) {
        Ok(status) if libc::WIFSIGNALED(status) => Ok(signals::end_by(libc::WTERMSIG(status))),
        Ok(status) => Ok(libc::WEXITSTATUS(status) as u8),
        Err(e) => Err(match e.downcast::<Coded>() {
            Ok(coded) => coded.into(),
            Err(e) => Coded { code: exit::RUN_FAILED, message: format!("{e:#}") }.into(),
        }),
    }
}

/// For what the command has left to the kernel.
const PATIENCE: Duration = Duration::from_secs(2);
/// For processes that end with the command, a little after it.
const FAREWELL: Duration = Duration::from_millis(200);
/// How often the connections are read again where some end meanwhile.
const MOST_LOOKS: usize = 3;

/// The command's wait status.
fn run(args: RunArgs, orders: Policy, home: Option<Home>) -> Result<i32> {
    probe::require_privileges("imtcp run")?;
    let user = args.user.as_deref().map(user::find).transpose()?;
    nocc::require_allowed(args.orders.mode, || format!("a run ({})", program(&args)))?;
    let service = Service::wanted(&args)?;
    let line_output = LineOutput::to(args.output.as_deref())?;
    policy::warn_of_missing_ecn(args.orders.mode);
    let lock = state::lock()?;
    // Before anything of the run exists: a signal that ends us would leave it.
    let blocked = Blocked::new()?;
    let mut session = Session::start(&args, orders, &lock)?;
    drop(lock);
    let started = Instant::now();
    let plan = Plan {
        cgroup: session.own()?,
        home: home.as_ref(),
        user: user.as_ref(),
        mask: &blocked.before,
    };
    let child = match spawn(&args.command, &plan) {
        Ok(Started::Child(child)) => child,
        Ok(Started::EndedBefore(signal)) => {
            session.undo()?;
            return Ok(signal as i32);
        }
        Err(e) => {
            session.undo()?;
            return Err(e);
        }
    };
    // The command has its own.
    own_arguments::blank(args.command.len() - 1);
    if let Some(service) = service {
        if let Err(e) = service.follow(session.policy, session.cgroup.clone(), args.orders.clone())
        {
            eprintln!("imtcp: cannot follow the advice: {e:#}");
        }
    }
    // The command has what we had; we need little more.
    let gives_back = !session.inherited.is_empty();
    let _ = caps::keep_for_waiting(session.records.enters_namespaces(), gives_back);
    // Without it the run is as good, and its last line knows less.
    let _ = session.watch.as_ref().map(|watch| watch.follow(child));
    let status = wait::for_end(child, &blocked, &session.cgroup);
    // Who sends the command a signal, or wants no line, does not wait for it.
    if !args.quiet && !libc::WIFSIGNALED(status) {
        wait::while_it_lasts(&blocked, PATIENCE, || session.is_draining());
    }
    wait::while_it_lasts(&blocked, FAREWELL, || cgroup::is_populated(&session.cgroup));

    let elapsed_us = started.elapsed().as_micros() as u64;
    let mut summary = session.summary(&args, elapsed_us);
    // Whoever does not read them keeps no cgroup.
    out::hold();
    summary.left_behind = session.end();
    if let Some(why) = session.unseen.borrow().as_ref().filter(|_| !args.quiet) {
        eprintln!("imtcp: open connections may be missing in this line: {why}");
    }
    let line = (!args.quiet).then(|| match args.json {
        true => Line::Json(summary.json()),
        false => Line::Text(line::line(&summary)),
    });
    last_line::write(line_output, line, &blocked);
    Ok(status)
}

/// The command's name for the log. Its arguments are left out: everybody may read the log, and they may hold a
/// password.
fn program(args: &RunArgs) -> Cow<'_, str> {
    args.command[0].to_string_lossy()
}

fn command_line(args: &RunArgs) -> String {
    let words: Vec<_> = args.command.iter().map(|a| a.to_string_lossy()).collect();
    words.join(" ")
}

/// Everything that exists for one run, and goes with it.
struct Session {
    policy: u64,
    /// Was nothing loaded before?
    loaded: bool,
    orders: Policy,
    policies: Policies,
    records: Records,
    cgroup: PathBuf,
    /// The same, open, once it was made.
    own: Option<cgroup::Own>,
    refuge: PathBuf,
    watch: Option<Watch>,
    inherited: Inherited,
    /// Why the last look at open connections may have missed some.
    unseen: RefCell<Option<String>>,
    // In the order of their ends: no new connections, then no registration.
    links: Option<control::Links>,
    registered: Option<runs::Registered>,
}

impl Session {
    fn start(args: &RunArgs, orders: Policy, lock: &state::ChangeLock) -> Result<Self> {
        let loaded = up::ensure(lock)?;
        sweep(lock);
        let begun = Session::begin(args, orders, loaded, lock);
        if loaded && begun.is_err() {
            up::undo(lock)?;
        }
        begun
    }

    fn begin(
        args: &RunArgs,
        mut orders: Policy,
        loaded: bool,
        lock: &state::ChangeLock,
    ) -> Result<Self> {
        let policies = Policies::open()?;
        let records = Records::open()?;
        let policy = state::new_id();
        let refuge = cgroup::of_pid(getpid().as_raw())?;
        if let Some(told) = outer::limit(&mut orders, &refuge).filter(|_| !args.quiet) {
            eprintln!("imtcp: {told}");
        }
        let parent = nested::beside_attachments(&refuge);
        let mut session = Session {
            policy,
            loaded,
            orders,
            policies,
            records,
            cgroup: parent.join(format!("{}{policy:016x}", cgroup::RUN)),
            own: None,
            refuge,
            watch: None,
            inherited: Inherited::default(),
            unseen: RefCell::default(),
            links: None,
            registered: None,
        };
        if let Err(e) = session.equip(args, lock) {
            session.end();
            session.policies.remove(policy);
            return Err(e);
        }
        Ok(session)
    }

    /// Where the command did not even begin: as it was before.
    fn undo(&mut self) -> Result<()> {
        self.end();
        if self.loaded {
            up::undo(&state::lock()?)?;
        }
        Ok(())
    }

    fn equip(&mut self, args: &RunArgs, lock: &state::ChangeLock) -> Result<()> {
        let run = runs::Run {
            pid: std::process::id(),
            pid_namespace: procfs::pid_namespace(),
            policy: self.policy,
            mode: args.orders.mode,
            limits: Limits::of(&self.orders),
            handling: Handling::of(&self.orders),
            params: param::in_force(args.orders.mode, &self.orders.params),
            command: command_line(args),
            cgroup: self.cgroup.clone(),
            refuge: self.refuge.clone(),
            left_behind: Vec::new(),
        };
        nocc::log_use(run.mode, &format!("run {} ({})", run.pid, program(args)));
        self.registered = Some(runs::Registered::new(run, lock)?);
        let own = cgroup::Own::create(&self.cgroup)?;
        self.policies.insert(self.policy, &self.orders)?;
        // Advice changes the mode, and with it what else is done.
        let programs = match args.advise {
            Some(_) => control::Programs { keep_dscp: true, set_priority: true, receive: true },
            None => Handling::of(&self.orders).programs(),
        };
        let own_fd = own.as_fd();
        let links = control::attach_to_cgroup(own_fd, self.policy, Default::default(), programs)?;
        for told in links.told.iter().filter(|_| !args.quiet) {
            eprintln!("imtcp: {told}");
        }
        receive::keep_for_run(&links, self.policy)?;
        self.links = Some(links);
        self.watch = (!args.quiet).then(|| Watch::new(&self.cgroup, own_fd));
        self.own = Some(own);
        let (inherited, unreached) = Inherited::take(self.policy, args.orders.mode)?;
        self.inherited = inherited;
        if let Some(told) = unreached.text() {
            eprintln!("imtcp: of what the command inherits, {told}");
        }
        Ok(())
    }

    fn own(&self) -> Result<&cgroup::Own> {
        self.own.as_ref().context("the run has no cgroup")
    }

    /// For each open connection of the run.
    fn each_open(&self, mut take: impl FnMut(&Record)) {
        let own = self.policy;
        let done = self.records.each(|record| {
            if record.policy == own {
                take(record);
            }
        });
        *self.unseen.borrow_mut() = match done {
            Ok(unseen) => unseen.text(),
            Err(e) => Some(format!("{e:#}")),
        };
    }

    fn counted(&self) -> Policy {
        self.policies.get(self.policy).ok().flatten().unwrap_or_default()
    }

    /// Does the kernel still send what the command has left in connections that it closed?
    fn is_draining(&self) -> bool {
        let mut found = false;
        self.each_open(|r| found |= r.queued_bytes > 0 && r.socket_ino == 0);
        found
    }

    fn has_open(&self) -> bool {
        let mut found = false;
        self.each_open(|_| found = true);
        found
    }

    /// Sums up the connections that have ended and those that are open. If one ends between the two looks, both
    /// miss it, and we look again. Processes left behind may end connections all the time: then some are
    /// missing.
    fn summary(&self, args: &RunArgs, elapsed_us: u64) -> Summary {
        for _ in 1..MOST_LOOKS {
            let counted = self.counted();
            let sum = self.sum_of(args, elapsed_us, &counted);
            if self.counted().ended_conns == counted.ended_conns {
                return sum;
            }
        }
        self.sum_of(args, elapsed_us, &self.counted())
    }

    fn sum_of(&self, args: &RunArgs, elapsed_us: u64, counted: &Policy) -> Summary {
        let mut sum = Summary::new(args.orders.mode, &self.orders, elapsed_us);
        sum.taken_away = if !self.policies.is_loaded() {
            Some(TakenAway::Down)
        } else {
            (!nocc::may_be(args.orders.mode)).then_some(TakenAway::Nocc)
        };
        sum.dscp_is_chosen = args.orders.dscp.is_some();
        sum.add_ended(counted);
        self.each_open(|record| sum.add_open(record));
        if let Some(watch) = &self.watch {
            sum.uncovered = watch.seen();
        }
        sum
    }

    /// Ends the run's traces, and tells which processes go on without it. Its policy stays while connections
    /// have it, its registration while these or those processes go on; a later command sweeps them.
    fn end(&mut self) -> Vec<LeftBehind> {
        (self.watch, self.links) = (None, None);
        receive::end_of_run(self.policy);
        self.inherited.give_back();
        let (left_behind, removed) = runs::end_cgroup(&self.cgroup, &self.refuge);
        if let Err(e) = removed {
            eprintln!("imtcp: {e:#}");
        }
        // First of all, so that no listener accepts one for it after the look.
        self.policies.end_for_new(self.policy);
        let has_open = self.has_open();
        if !has_open {
            self.policies.remove(self.policy);
        }
        let stays = has_open || !left_behind.is_empty();
        if let Some(registered) = self.registered.take().filter(|_| stays) {
            if let Err(e) = registered.leave(left_behind.clone()) {
                eprintln!("imtcp: `imtcp status` will not list what was left running: {e:#}");
            }
        }
        left_behind
    }
}
