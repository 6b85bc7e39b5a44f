// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp attach`: sockets that exist are changed through copies of their descriptors, new
//! ones by a pinned sockops link on the cgroup.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{bail, Result};
use imtcp_bpf::policy::Policies;
use imtcp_bpf::{netns, paths, probe, receive, Policy};
use imtcp_common::out::print_json;
use imtcp_common::{exit, format, procfs};
use serde_json::json;

use super::move_tree::{link, link_in_order, mend_links, move_tree};
use super::undo_attachment::{undo, undo_whole, Undone};
use super::up;
use crate::attachment::{self, key, Attachment, Identity, SavedSocket, Target};
use crate::cli::AttachArgs;
use crate::coverage::Coverage;
use crate::filter::Filter;
use crate::mode::Mode;
use crate::nested::{Around, Nest};
use crate::open_sockets::{Taking, Unreached};
use crate::policy::{Handling, Limits};
use crate::runs::Run;
use crate::sweep::sweep;
use crate::{cgroup, nested, nocc, param, policy, state};

const ONE_SERVICE: &str = "`imtcp attach --cgroup system.slice/NAME.service`";

pub fn main(mut args: AttachArgs) -> Result<u8> {
    args.orders = args.orders.settle()?;
    let orders = policy::orders(&args.orders, args.config.config.as_deref())?;
    let filter = args.filter.of(args.cgroup.as_ref())?;
    probe::require_privileges("imtcp attach")?;
    let target = match (args.pid, &args.cgroup) {
        (Some(pid), _) => Target::Pid(pid),
        (None, Some(dir)) => Target::Cgroup(cgroup::resolve(dir)?),
        (None, None) => unreachable!("clap asks for one of them"),
    };
    nocc::require_allowed(args.orders.mode, || target.to_string())?;
    match &target {
        Target::Pid(pid) => check_process(*pid, args.force)?,
        Target::Cgroup(dir) if *dir == cgroup::mount()? && !args.force && filter.is_none() => {
            bail!(
                "every process of this machine is in the root cgroup, remote logins too: take one \
             service ({ONE_SERVICE}), name a destination (--to) or start the transfer with \
             `imtcp run`; --force takes them all"
            )
        }
        Target::Cgroup(_) => {}
    }
    let warn = || policy::warn_of_missing_ecn(args.orders.mode);
    match target {
        // Whoever may not look into it is told when its sockets are taken.
        Target::Pid(pid) => drop(netns::of_pid(pid).and_then(|ns| ns.run(warn))),
        Target::Cgroup(_) => warn(),
    }
    let lock = state::lock()?;
    let loaded = up::ensure(&lock)?;
    paths::require_writable()?;
    sweep(&lock);
    nocc::log_use(args.orders.mode, &target.to_string());

    let done = take_target(target, &Wanted { mode: args.orders.mode, orders, filter, rule: None });
    if loaded && done.is_err() {
        up::undo(&lock)?;
    }
    let done = done?;
    tell_of_ancestor(&done.attachment.target);
    report(&args, &done)
}

/// The orders for a target.
pub(super) struct Wanted {
    pub mode: Mode,
    pub orders: Policy,
    pub filter: Option<Filter>,
    /// The rule that says so; none by hand.
    pub rule: Option<String>,
}

/// Attaches a target, or changes how it is attached. Under the change lock, with imtcp loaded.
pub(super) fn take_target(target: Target, wanted: &Wanted) -> Result<Done> {
    let wanted_key = key(&target, wanted.filter.as_ref());
    match attachment::all().into_iter().find(|a| a.key() == wanted_key) {
        Some(attachment) if attachment.has_ended() => end_of_former(&attachment)?,
        // Its programs have the filter that they were loaded with.
        Some(attachment) if attachment.filter != wanted.filter => {
            undo_whole(&attachment)?;
        }
        Some(attachment) => return change(attachment, wanted),
        None => {}
    }
    attach(target, wanted)
}

/// The attachment as it is now.
pub(super) struct Done {
    pub attachment: Attachment,
    /// The orders until now, if it was attached already.
    before: Option<String>,
}

impl Done {
    /// For people; `processes` are those that it covers.
    pub(super) fn told(&self, processes: usize) -> String {
        let a = &self.attachment;
        let before = self.before.as_ref();
        let before = before.map_or_else(String::new, |orders| format!(" (before: {orders})"));
        format!(
            "{} is attached: {}{before}; {}, {}",
            a.name(),
            a.orders(),
            format::count(processes, "process"),
            format::count(a.sockets.len(), "open socket")
        )
    }
}

/// Its name is something else's now, or nothing's.
fn end_of_former(former: &Attachment) -> Result<()> {
    let coverage = Coverage::of(former, &Nest::now());
    undo_whole(former)?;
    let name = &former.target;
    let what = match former.target {
        Target::Pid(_) => "is another process than the one",
        Target::Cgroup(_) => "is another cgroup than the one",
    };
    let left = match coverage.processes {
        0 => String::new(),
        left => format!("; {} that it had started", format::count(left, "process")),
    };
    eprintln!("imtcp: {name} {what} that was attached, which is detached{left}");
    Ok(())
}

fn check_process(pid: i32, force: bool) -> Result<()> {
    if !procfs::exists(pid) {
        bail!("there is no process {pid}");
    }
    if procfs::is_of_kernel(pid) {
        bail!("process {pid} is a thread of the kernel, which nobody can move or hold back");
    }
    if pid == 1 && !force {
        bail!(
            "every process of this {} descends from process 1, remote logins too: take one \
             service ({ONE_SERVICE}) or start the transfer with `imtcp run`; --force takes them all",
            if probe::in_pid_namespace() { "container" } else { "machine" }
        );
    }
    Ok(())
}

/// Once it is attached.
fn tell_of_ancestor(target: &Target) {
    let Target::Pid(pid) = target else { return };
    if procfs::ancestors().any(|ancestor| ancestor == *pid) {
        eprintln!(
            "imtcp: process {pid} ({}) is the one that this command was started from: all else \
             that it has started and will start is taken too, until `imtcp detach --pid {pid}`",
            procfs::command(*pid).unwrap_or_default()
        );
    }
}

fn report(args: &AttachArgs, done: &Done) -> Result<u8> {
    let a = &done.attachment;
    let inner = Nest::now().within(a);
    let processes = nested::own_processes(a, &inner).len();
    let apart: BTreeSet<&str> = inner.iter().map(|i| i.name.as_str()).collect();
    if args.json {
        print_json(&json!({
            "policy": a.policy,
            "target": a.target,
            "filter": a.filter,
            "mode": a.mode,
            "min_bps": a.limits.min_bps,
            "max_bps": a.limits.max_bps,
            "dscp": a.handling.dscp,
            "priority": a.handling.priority,
            "receives": a.handling.receives,
            "params": a.params,
            "processes": processes,
            "sockets": a.sockets.len(),
            "unreached_sockets": a.unreached.sockets,
            "unreached_processes": a.unreached.processes,
            "unreached_because": a.unreached.causes(),
            "apart": apart,
        }))?;
    } else {
        for name in apart {
            outln!("{name} keeps what it has: the inner one decides");
        }
        outln!("{}; `imtcp detach` undoes it", done.told(processes));
    }
    if let Some(text) = a.unreached.text() {
        eprintln!("imtcp: {text}");
        return Ok(exit::FAILURE);
    }
    Ok(exit::OK)
}

fn attach(target: Target, wanted: &Wanted) -> Result<Done> {
    let policies = Policies::open()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut attachment = Attachment {
        policy: state::new_id(),
        identity: Identity::of(&target),
        target,
        filter: wanted.filter.clone(),
        mode: wanted.mode,
        limits: Limits::of(&wanted.orders),
        handling: Handling::of(&wanted.orders),
        params: param::in_force(wanted.mode, &wanted.orders.params),
        rule: wanted.rule.clone(),
        since_unix_s: now.as_secs(),
        mounted_id: cgroup::id(&cgroup::mount()?),
        links: 0,
        moved: Vec::new(),
        sockets: Vec::new(),
        half_done: true,
        unreached: Unreached::default(),
    };
    policies.insert(attachment.policy, &wanted.orders)?;
    match take(&mut attachment) {
        Ok(()) => Ok(Done { attachment, before: None }),
        Err(e) => {
            if let Ok(Undone { left: Some(fault), .. }) = undo(&attachment) {
                eprintln!("imtcp: {fault:#}");
            }
            Err(e)
        }
    }
}

/// The order matters: first new connections, then the processes, then the sockets that they
/// have by then. The state is saved before each step that would have to be undone.
fn take(attachment: &mut Attachment) -> Result<()> {
    match attachment.target.clone() {
        Target::Cgroup(dir) => {
            link(attachment, fs::File::open(&dir)?.as_fd())?;
            link_in_order(attachment)?;
        }
        Target::Pid(pid) => move_tree(attachment, pid)?,
    }
    attachment.half_done = false;
    take_all_sockets(attachment)
}

/// Changes the sockets of its processes, and notes what those had that it has not had before.
fn take_all_sockets(attachment: &mut Attachment) -> Result<()> {
    take_each_socket(attachment)?;
    if let Some(told) = steer_open(attachment) {
        eprintln!("imtcp: {told}");
    }
    Ok(())
}

/// The windows of what is open follow the orders, too. Says which do not: the kernel asks programs of the cgroup that a socket
/// was opened in.
fn steer_open(attachment: &Attachment) -> Option<String> {
    if !attachment.handling.receives {
        // Those that came from another attachment or run, or had other orders.
        receive::give_back(&BTreeSet::from([attachment.policy]));
        return None;
    }
    let open = attachment.sockets.len();
    let (count, why) = match attachment.target {
        Target::Pid(_) => (open, "they were opened in another cgroup"),
        Target::Cgroup(_) => {
            let refused = receive::steer_open(attachment.policy).unwrap_or(open);
            (refused, "that takes Linux 6.12 or later")
        }
    };
    let connections = format::count(count, "open connection");
    (count > 0).then(|| format!("downloads of {connections} do not yield: {why}; new ones do"))
}

fn take_each_socket(attachment: &mut Attachment) -> Result<()> {
    let saved = attachment.sockets.drain(..).map(|s| (s.cookie, s.control)).collect();
    let nest = Nest::now();
    let mut taking = Taking::new(attachment.policy, attachment.mode, saved)?
        .filtered(attachment.filter.clone(), &attachment.cgroups())
        .after(nest.filtered_before(attachment));
    let inner = nest.within(attachment);
    taking.of_processes(&nested::own_processes(attachment, &inner));
    taking.note_those_in_no_table(&nested::opened_in(attachment, &inner));
    let Taking { saved, multipath, unreached, .. } = taking;
    attachment.sockets =
        saved.into_iter().map(|(cookie, control)| SavedSocket { cookie, control }).collect();
    attachment.unreached = unreached;
    attachment.save()?;
    let is_limited = attachment.limits != Limits::default();
    if multipath > 0 && is_limited && matches!(attachment.target, Target::Pid(_)) {
        eprintln!(
            "imtcp: {} of multipath TCP: the limits hold for the paths that they have now; paths that \
             they add later have the mode without the limits",
            format::count(multipath, "connection")
        );
    }
    Ok(())
}

/// Gives what attachments have given up to those around it.
pub(super) fn give_to_those_around(
    given_up: &BTreeSet<i32>,
) -> Result<(Option<Around>, Unreached)> {
    let around = nested::around(given_up);
    let filtered = nested::filtered_around(given_up, around.as_ref());
    let before = filtered.iter().map(|a| a.policy).collect();
    for attachment in filtered {
        take_again(attachment)?;
    }
    let unreached = match &around {
        Some(Around::Attachment(outer)) => take_again(outer.clone())?,
        Some(Around::Run(run)) => give_back_to(run, given_up, before)?,
        None => Unreached::default(),
    };
    Ok((around, unreached))
}

/// Takes what an inner attachment has given up.
fn take_again(mut attachment: Attachment) -> Result<Unreached> {
    mend_links(&mut attachment, true)?;
    link_in_order(&attachment)?;
    if let Target::Pid(pid) = attachment.target {
        move_tree(&mut attachment, pid)?;
    }
    take_all_sockets(&mut attachment)?;
    Ok(attachment.unreached)
}

/// Gives a run what an inner attachment has given up.
fn give_back_to(run: &Run, given_up: &BTreeSet<i32>, before: BTreeSet<u64>) -> Result<Unreached> {
    let mut taking = Taking::new(run.policy, run.mode, BTreeMap::new())?.after(before);
    taking.of_processes(&cgroup::procs(&run.cgroup).intersection(given_up).copied().collect());
    Ok(taking.unreached)
}

/// Gives an attachment another mode, other rates or parameters. It also puts back missing links and orders, and
/// takes processes of its tree again that somebody has moved to other cgroups. The file comes first: where it
/// cannot be written nothing changes, and a change that was ended is known from it.
fn change(mut attachment: Attachment, wanted: &Wanted) -> Result<Done> {
    let policies = Policies::open()?;
    let before = Some(attachment.clone().as_in_kernel(&policies).orders());
    let handling = Handling::of(&wanted.orders);
    let links_are_right = attachment.has_orders() && attachment.handling == handling;
    attachment.mode = wanted.mode;
    attachment.limits = Limits::of(&wanted.orders);
    attachment.handling = handling;
    attachment.params = param::in_force(wanted.mode, &wanted.orders.params);
    attachment.rule = wanted.rule.clone();
    attachment.half_done = true;
    attachment.save()?;
    policies.replace_orders(attachment.policy, &wanted.orders)?;
    mend_links(&mut attachment, links_are_right)?;
    link_in_order(&attachment)?;
    if let Target::Pid(pid) = attachment.target {
        move_tree(&mut attachment, pid)?;
    }
    attachment.half_done = false;
    take_all_sockets(&mut attachment)?;
    Ok(Done { attachment, before })
}
