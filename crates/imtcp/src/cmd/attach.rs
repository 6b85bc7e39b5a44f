// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp attach`: sockets that exist are changed through copies of their descriptors, new
//! ones by a pinned sockops link on the cgroup.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{bail, Result};
use imtcp_bpf::policy::Policies;
use imtcp_bpf::tags::Tags;
use imtcp_bpf::{control, is_ours, netns, probe, Policy};
use serde_json::json;

use super::{detach, print_json, up};
use crate::cli::AttachArgs;
use crate::policy::{Limits, Mode};
use crate::socket::{self, Process};
use crate::state::{self, Attachment, Moved, Run, SavedSocket, Target};
use crate::{cgroup, exit, format, nested, nocc, param, policy, procfs};

/// A control that every kernel has and every user may choose, and that leaves the window as it is.
const NEUTRAL: &str = "reno";
const ONE_SERVICE: &str = "`imtcp attach --cgroup system.slice/NAME.service`";

pub fn main(args: AttachArgs) -> Result<u8> {
    let orders = policy::orders(&args.orders, None)?;
    probe::require_privileges("imtcp attach")?;
    let target = match (args.pid, &args.cgroup) {
        (Some(pid), _) => Target::Pid(pid),
        (None, Some(dir)) => Target::Cgroup(cgroup::resolve(dir)?),
        (None, None) => unreachable!("clap asks for one of them"),
    };
    nocc::require_allowed(args.orders.mode, || target.to_string())?;
    match &target {
        Target::Pid(pid) => check_process(*pid, args.force)?,
        Target::Cgroup(dir) if *dir == cgroup::mount()? && !args.force => bail!(
            "every process of this machine is in the root cgroup, remote logins too: take one \
             service ({ONE_SERVICE}) or start the transfer with `imtcp run`; --force takes them all"
        ),
        Target::Cgroup(_) => {}
    }
    let warn = || policy::warn_of_missing_ecn(args.orders.mode);
    match target {
        Target::Pid(pid) => netns::of_pid(pid)?.run(warn)?,
        Target::Cgroup(_) => warn(),
    }
    let lock = state::lock()?;
    up::ensure(&lock)?;
    state::sweep(&lock);
    nocc::log_use(args.orders.mode, &target.to_string());

    let existing = state::attachments().into_iter().find(|a| a.target == target);
    let before = existing.as_ref().map(Attachment::orders);
    let attachment = match existing {
        Some(attachment) => change(attachment, &args, &orders)?,
        None => attach(target, &args, &orders)?,
    };
    report(&args, &attachment, before)
}

fn check_process(pid: i32, force: bool) -> Result<()> {
    if !procfs::exists(pid) {
        bail!("there is no process {pid}");
    }
    if pid == 1 && !force {
        bail!(
            "every process of this machine descends from process 1, remote logins too: take one \
             service ({ONE_SERVICE}) or start the transfer with `imtcp run`; --force takes them all"
        );
    }
    if procfs::ancestors().any(|ancestor| ancestor == pid) {
        eprintln!(
            "imtcp: process {pid} ({}) is the one that this command was started from: all else \
             that it has started and will start is taken too, until `imtcp detach --pid {pid}`",
            procfs::command(pid).unwrap_or_default()
        );
    }
    Ok(())
}

/// `before` is what was ordered until now, where it was attached already.
fn report(args: &AttachArgs, a: &Attachment, before: Option<String>) -> Result<u8> {
    let inner = nested::within(a);
    let processes = nested::own_processes(a, &inner).len();
    let apart: BTreeSet<&str> = inner.iter().map(|i| i.name.as_str()).collect();
    if args.json {
        print_json(&json!({
            "policy": a.policy,
            "target": a.target,
            "mode": a.mode,
            "min_bps": a.limits.min_bps,
            "max_bps": a.limits.max_bps,
            "params": a.params,
            "processes": processes,
            "sockets": a.sockets.len(),
            "apart": apart,
        }))?;
    } else {
        for name in apart {
            outln!("{name} keeps what it has: the inner one decides");
        }
        let before = before.map_or_else(String::new, |orders| format!(" (before: {orders})"));
        outln!(
            "{} is attached: {}{before}; {}, {}; `imtcp detach` undoes it",
            a.target,
            a.orders(),
            format::count(processes, "process"),
            format::count(a.sockets.len(), "open socket")
        );
    }
    Ok(exit::OK)
}

fn attach(target: Target, args: &AttachArgs, orders: &Policy) -> Result<Attachment> {
    let policies = Policies::open()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut attachment = Attachment {
        policy: policy::new_id(),
        target,
        mode: args.orders.mode,
        limits: Limits::of(orders),
        params: param::in_force(args.orders.mode, &orders.params),
        since_unix_s: now.as_secs(),
        links: 0,
        moved: Vec::new(),
        sockets: Vec::new(),
    };
    policies.insert(attachment.policy, orders)?;
    if let Err(e) = take(&mut attachment) {
        let _ = detach::detach(&attachment);
        return Err(e);
    }
    Ok(attachment)
}

/// The order matters: first new connections, then the processes, then the sockets that they
/// have by then. The state is saved before each step that would have to be undone.
fn take(attachment: &mut Attachment) -> Result<()> {
    match attachment.target.clone() {
        Target::Cgroup(dir) => link(attachment, &dir)?,
        Target::Pid(pid) => move_tree(attachment, pid)?,
    }
    take_all_sockets(attachment)
}

/// Changes the sockets of its processes, and notes what those had that it has not had before.
fn take_all_sockets(attachment: &mut Attachment) -> Result<()> {
    let mut saved: BTreeMap<u64, String> =
        attachment.sockets.drain(..).map(|s| (s.cookie, s.control)).collect();
    for pid in nested::own_processes(attachment, &nested::within(attachment)) {
        take_sockets(pid, attachment.policy, attachment.mode, &mut saved);
    }
    attachment.sockets =
        saved.into_iter().map(|(cookie, control)| SavedSocket { cookie, control }).collect();
    attachment.save()
}

/// Takes what an inner attachment has given up.
pub(super) fn take_again(mut attachment: Attachment) -> Result<()> {
    if let Target::Pid(pid) = attachment.target {
        move_tree(&mut attachment, pid)?;
    }
    take_all_sockets(&mut attachment)
}

fn link(attachment: &mut Attachment, dir: &Path) -> Result<()> {
    let file = fs::File::open(dir)?;
    let link = control::attach_to_cgroup(file.as_fd(), attachment.policy)?;
    let pin = control::attachment_pin(attachment.policy, attachment.links);
    attachment.links += 1;
    attachment.save()?;
    control::pin_link(&link, &pin)
}

/// Moves a process and its descendants into new cgroups, one for each that they are in, but for those
/// that have a run or attachment of their own.
fn move_tree(attachment: &mut Attachment, root: i32) -> Result<()> {
    let name = format!("imtcp-attach-{:016x}", attachment.policy);
    let own = std::process::id() as i32;
    // Asked before anything moves: afterwards what is around the process would not be any more.
    let inner = nested::within(attachment);
    // Children born while the others are moved show up in the next round.
    for _ in 0..16 {
        let mut taken = nested::processes(&inner);
        taken.extend(attachment.moved.iter().flat_map(|m| cgroup::procs(&m.dir)));
        let outside: Vec<i32> =
            procfs::tree(root).into_iter().filter(|p| !taken.contains(p) && *p != own).collect();
        if outside.is_empty() {
            break;
        }
        for pid in outside {
            let home = cgroup::of_pid(pid)?;
            let dir = match attachment.moved.iter().find(|m| m.home == home) {
                Some(moved) => moved.dir.clone(),
                None => {
                    let dir = cgroup::create(&nested::beside_all(&home), &name)?;
                    // Two that they are in may have the same place beside them.
                    if !attachment.moved.iter().any(|m| m.dir == dir) {
                        attachment.moved.push(Moved { dir: dir.clone(), home });
                        attachment.save()?;
                        link(attachment, &dir)?;
                    }
                    dir
                }
            };
            match cgroup::move_pid(pid, &dir) {
                // It has ended, or is a kernel thread.
                Err(e) if pid == root && procfs::exists(root) => {
                    bail!("cannot move process {root} to {}: {e}", dir.display())
                }
                _ => {}
            }
        }
    }
    if attachment.moved.is_empty() {
        bail!("process {root} has ended");
    }
    Ok(())
}

/// Gives a run what an inner attachment has given up.
pub(super) fn give_back_to(run: &Run, given_up: &BTreeSet<i32>) {
    for pid in cgroup::procs(&run.cgroup).into_iter().filter(|pid| given_up.contains(pid)) {
        take_sockets(pid, run.policy, run.mode, &mut BTreeMap::new());
    }
}

/// Changes the open sockets of one process, noting what they had.
fn take_sockets(pid: i32, policy: u64, mode: Mode, saved: &mut BTreeMap<u64, String>) {
    let (Ok(process), Ok(tags)) = (Process::open(pid), Tags::open()) else { return };
    for (fd, _) in procfs::sockets(pid) {
        let Ok(copy) = process.descriptor(fd) else { continue };
        let copy = copy.as_fd();
        if !socket::is_tcp(copy) {
            continue;
        }
        let (Ok(cookie), Ok(before)) = (socket::cookie(copy), socket::control(copy)) else {
            continue;
        };
        // The control's init looks for the tag, so the tag comes first; and a socket that has
        // the control already is set anew, to read it; not by way of the default, for BBR's init
        // would have ours begin with slow start.
        if tags.set(copy, policy).is_err() {
            continue;
        }
        let (ours, had_it) = (is_ours(&before), before == mode.control());
        let default = || netns::of_pid(pid).and_then(|ns| ns.run(netns::fallback_cc));
        let back = if ours { default().unwrap_or_else(|_| "cubic".into()) } else { before };
        if had_it {
            let _ = socket::set_control(copy, NEUTRAL);
        }
        if socket::set_control(copy, mode.control()).is_ok() {
            saved.entry(cookie).or_insert(back);
        } else {
            tags.clear(copy);
        }
    }
}

/// Another mode, other rates or parameters for what is attached already.
fn change(mut attachment: Attachment, args: &AttachArgs, orders: &Policy) -> Result<Attachment> {
    Policies::open()?.replace_orders(attachment.policy, orders)?;
    attachment.mode = args.orders.mode;
    attachment.limits = Limits::of(orders);
    attachment.params = param::in_force(args.orders.mode, &orders.params);
    take_all_sockets(&mut attachment)?;
    Ok(attachment)
}
