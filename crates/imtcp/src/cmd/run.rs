// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp run`: a cgroup for the command, the sockops program on it by a link that the kernel
//! ends with us (also after SIGKILL), the command inside, a line at the end.

use std::ffi::{CString, OsString};
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{anyhow, Context, Result};
use imtcp_bpf::policy::Policies;
use imtcp_bpf::records::Records;
use imtcp_bpf::{control, probe, Policy};
use nix::fcntl::OFlag;
use nix::sys::signal::{kill, raise, SigSet, SigmaskHow, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag};
use nix::unistd::{fork, getpid, getsid, pipe2, ForkResult, Pid};
use serde_json::json;

use super::up;
use crate::cli::RunArgs;
use crate::exit::{self, Coded};
use crate::follow::Service;
use crate::mountns::Home;
use crate::signals::{is_for_command, Arrived, Blocked};
use crate::user::{self, Target};
use crate::{caps, cgroup, format, nocc, param, policy, state};

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
    nocc::require_allowed(args.orders.mode)?;
    let service = Service::wanted(&args)?;
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
            return Err(e);
        }
    };
    if let Some(service) = service {
        if let Err(e) = service.follow(session.policy, session.cgroup.clone()) {
            eprintln!("imtcp: cannot follow the advice: {e:#}");
        }
    }
    // The command has what we had; we need little more.
    let _ = caps::keep_for_waiting();
    let status = wait(child, &signals, &session.cgroup);

    let elapsed_us = started.elapsed().as_micros() as u64;
    let summary = session.summary(elapsed_us);
    session.end();
    if !args.quiet {
        let line = if args.json { summary.json().to_string() } else { summary.line() };
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    Ok(exit::of_wait_status(status))
}

/// What exists for one run, and goes with it.
struct Session {
    policy: u64,
    policies: Policies,
    records: Records,
    cgroup: PathBuf,
    refuge: PathBuf,
    // In the order of their ends: no new connections, then no registration.
    link: Option<control::Link>,
    registered: Option<state::Registered>,
}

impl Session {
    fn start(args: &RunArgs, orders: &Policy) -> Result<Self> {
        let lock = state::lock()?;
        up::ensure(&lock)?;
        state::sweep(&lock);

        let policies = Policies::open()?;
        let records = Records::open()?;
        let policy = policy::new_id();
        let refuge = cgroup::of_pid(getpid().as_raw())?;
        let dir = cgroup::create(&refuge, &format!("imtcp-run-{}", getpid()))?;
        let mut session = Session {
            policy,
            policies,
            records,
            cgroup: dir,
            refuge,
            link: None,
            registered: None,
        };
        if let Err(e) = session.equip(args, orders, &lock) {
            session.end();
            session.policies.remove(policy);
            return Err(e);
        }
        Ok(session)
    }

    fn equip(&mut self, args: &RunArgs, orders: &Policy, lock: &state::ChangeLock) -> Result<()> {
        let command: Vec<_> = args.command.iter().map(|a| a.to_string_lossy()).collect();
        let run = state::Run {
            pid: std::process::id(),
            policy: self.policy,
            mode: args.orders.mode,
            min_bps: orders.min_bps,
            max_bps: orders.max_bps,
            params: param::in_force(args.orders.mode, &orders.params),
            command: command.join(" "),
            cgroup: self.cgroup.clone(),
            refuge: self.refuge.clone(),
        };
        nocc::log_use(run.mode, &format!("run {} ({})", run.pid, run.command));
        self.registered = Some(state::Registered::new(&run, lock)?);
        self.policies.insert(self.policy, orders)?;
        let dir = fs::File::open(&self.cgroup)?;
        self.link = Some(control::attach_to_cgroup(dir.as_fd(), self.policy)?);
        Ok(())
    }

    fn summary(&self, elapsed_us: u64) -> Summary {
        let taken_down = !self.policies.is_loaded();
        let mut sum = Summary { elapsed_us, taken_down, ..Default::default() };
        if let Ok(Some(p)) = self.policies.get(self.policy) {
            sum.connections = p.ended_conns;
            sum.bytes_acked = p.ended_bytes_acked;
            sum.busy_us = p.ended_busy_us;
            sum.yielding_us = p.ended_yielding_us;
            if let Some(mean_kbps) = p.avail_sum_kbps.checked_div(p.avail_count) {
                sum.avail_mean_bps = Some(mean_kbps * 1000);
                sum.avail_min_bps = Some(p.avail_min_bps);
                sum.avail_max_bps = Some(p.avail_max_bps);
            }
        }
        for r in self.records.read().unwrap_or_default() {
            if r.policy == self.policy {
                sum.connections += 1;
                sum.bytes_acked += r.bytes_acked;
                sum.busy_us += r.busy_us;
                sum.yielding_us += r.yielding_us;
            }
        }
        sum
    }

    /// Ends the run's traces. Its policy stays while connections have it (data that the
    /// kernel still sends, processes in the background); a later command sweeps it.
    fn end(&mut self) {
        self.link = None;
        if let Err(e) = cgroup::remove(&self.cgroup, &self.refuge) {
            eprintln!("imtcp: {e:#}");
        }
        let in_use =
            self.records.read().is_ok_and(|all| all.iter().any(|r| r.policy == self.policy));
        if !in_use {
            self.policies.remove(self.policy);
        }
        self.registered = None;
    }
}

/// Steps of the child before its program runs; told to the parent when one fails.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Step {
    Cgroup,
    Home,
    User,
    Exec,
}

impl Step {
    const ALL: [Step; 4] = [Step::Cgroup, Step::Home, Step::User, Step::Exec];
}

/// Where and as whom the command starts.
struct Plan<'a> {
    cgroup: &'a Path,
    home: Option<&'a Home>,
    user: Option<&'a Target>,
    /// The signal mask that we were given.
    mask: &'a SigSet,
}

fn spawn(command: &[OsString], plan: &Plan) -> Result<Pid> {
    let args = command
        .iter()
        .map(|a| CString::new(a.as_bytes()))
        .collect::<Result<Vec<_>, _>>()
        .context("an argument of the command has a NUL in it")?;
    if let Some(user) = plan.user {
        for (name, value) in [
            ("HOME", user.home.as_os_str()),
            ("USER", user.name.as_ref()),
            ("LOGNAME", user.name.as_ref()),
        ] {
            std::env::set_var(name, value);
        }
    }
    let procs = OpenOptions::new().write(true).open(plan.cgroup.join("cgroup.procs"))?;
    let (read, write) = pipe2(OFlag::O_CLOEXEC)?;

    // SAFETY: this process has one thread, so the child may do what it likes.
    match unsafe { fork() }.context("cannot start a process")? {
        ForkResult::Child => {
            let (step, errno) = become_command(&args, &procs, plan);
            let mut message = vec![step as u8];
            message.extend_from_slice(&(errno as i32).to_ne_bytes());
            let _ = fs::File::from(write).write_all(&message);
            // SAFETY: ends the child without running what the parent has registered.
            unsafe { libc::_exit(exit::RUN_FAILED.into()) }
        }
        ForkResult::Parent { child } => {
            drop(write);
            match failure(read)? {
                None => Ok(child),
                Some((step, errno)) => {
                    let _ = waitpid(child, None);
                    Err(explain(step, errno, command))
                }
            }
        }
    }
}

/// In the child. Returns only on failure.
fn become_command(args: &[CString], procs: &fs::File, plan: &Plan) -> (Step, nix::Error) {
    if let Err(e) = nix::unistd::write(procs, b"0") {
        return (Step::Cgroup, e);
    }
    if let Some(Err(e)) = plan.home.map(Home::enter) {
        return (Step::Home, e);
    }
    if let Some(user) = plan.user {
        let become_user = || {
            nix::unistd::setgroups(&user.groups)?;
            nix::unistd::setresgid(user.gid, user.gid, user.gid)?;
            nix::unistd::setresuid(user.uid, user.uid, user.uid)
        };
        if let Err(e) = become_user() {
            return (Step::User, e);
        }
    }
    let _ = plan.mask.thread_swap_mask(SigmaskHow::SIG_SETMASK);
    match nix::unistd::execvp(&args[0], args) {
        Err(e) => (Step::Exec, e),
        Ok(never) => match never {},
    }
}

/// What the child reports; nothing when its program has started.
fn failure(read: OwnedFd) -> Result<Option<(Step, i32)>> {
    let mut message = Vec::new();
    fs::File::from(read).read_to_end(&mut message)?;
    let Some((step, errno)) = message.split_first() else { return Ok(None) };
    let step = Step::ALL.into_iter().find(|s| *s as u8 == *step).unwrap_or(Step::Exec);
    Ok(Some((step, errno.try_into().map_or(libc::EIO, i32::from_ne_bytes))))
}

fn explain(step: Step, errno: i32, command: &[OsString]) -> anyhow::Error {
    let reason = nix::Error::from_raw(errno).desc();
    match step {
        Step::Cgroup => anyhow!("cannot enter the run's cgroup: {reason}"),
        Step::Home => anyhow!("cannot go back to the command's mount namespace: {reason}"),
        Step::User => anyhow!("cannot become the user of --user: {reason}"),
        Step::Exec => {
            let name = command[0].to_string_lossy();
            let code = exit::of_exec_error(errno);
            let message = if code == exit::NOT_FOUND {
                format!("{name}: command not found")
            } else {
                format!("{name}: cannot be executed: {reason}")
            };
            Coded { code, message }.into()
        }
    }
}

/// Waits for the command's end, passing signals on.
fn wait(child: Pid, signals: &Blocked, cgroup: &Path) -> i32 {
    let leads_session = getsid(None).is_ok_and(|s| s == getpid());
    loop {
        let arrived = signals.wait();
        if arrived.signal == libc::SIGCHLD {
            if let Some(status) = reap(child) {
                return status;
            }
        } else if is_for_command(arrived, leads_session, is_in(arrived, cgroup)) {
            if let Ok(signal) = Signal::try_from(arrived.signal) {
                let _ = kill(child, signal);
            }
        }
    }
}

fn is_in(arrived: Arrived, dir: &Path) -> bool {
    arrived.sender > 0 && cgroup::of_pid(arrived.sender).is_ok_and(|of| of.starts_with(dir))
}

/// The wait status when the command has ended. When it has been stopped (Ctrl-Z), we stop
/// too, so that the shell sees it; continued, we continue it.
fn reap(child: Pid) -> Option<i32> {
    loop {
        let mut status = 0;
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        // SAFETY: status is ours. nix's waitpid hides the raw status that the code needs.
        let rc = unsafe { libc::waitpid(child.as_raw(), &mut status, flags.bits()) };
        if rc == 0 {
            return None;
        }
        if rc > 0 && libc::WIFSTOPPED(status) {
            let _ = raise(Signal::SIGSTOP);
            let _ = kill(child, Signal::SIGCONT);
            continue;
        }
        if rc < 0 && nix::Error::last() == nix::Error::EINTR {
            continue;
        }
        return Some(status);
    }
}

#[derive(Default)]
struct Summary {
    elapsed_us: u64,
    /// By `imtcp down`, at a time that is not known: the figures are up to then.
    taken_down: bool,
    connections: u64,
    bytes_acked: u64,
    busy_us: u64,
    yielding_us: u64,
    avail_mean_bps: Option<u64>,
    avail_min_bps: Option<u64>,
    avail_max_bps: Option<u64>,
}

impl Summary {
    fn mean_bps(&self) -> Option<u64> {
        let bits = u128::from(self.bytes_acked) * 8;
        let mean = (bits * 1_000_000 / u128::from(self.elapsed_us.max(1))) as u64;
        (!self.taken_down).then_some(mean)
    }

    fn yielded_pct(&self) -> Option<u64> {
        (self.busy_us > 0).then(|| (self.yielding_us * 100 / self.busy_us).min(100))
    }

    fn line(&self) -> String {
        let until = if self.taken_down { "taken down during the run; until then " } else { "" };
        if self.connections == 0 {
            return format!("imtcp: {until}the command had no TCP connections");
        }
        let avail = match (self.avail_mean_bps, self.avail_min_bps, self.avail_max_bps) {
            (Some(mean), Some(min), Some(max)) => format!(
                "available {} ({}–{})",
                format::rate(mean),
                format::rate_short(min),
                format::rate_short(max)
            ),
            _ => "available bandwidth not measured".into(),
        };
        let yielded = self.yielded_pct().unwrap_or(0);
        let sent = format::bytes(self.bytes_acked);
        let sent = match self.mean_bps() {
            Some(mean) => {
                let elapsed = format::micros(self.elapsed_us);
                format!("{sent} sent in {elapsed}, mean {}", format::rate(mean))
            }
            None => format!("{sent} sent"),
        };
        format!("imtcp: {until}{sent}; {avail}; yielded {yielded} % of the time")
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "elapsed_us": self.elapsed_us,
            "taken_down": self.taken_down,
            "connections": self.connections,
            "bytes_acked": self.bytes_acked,
            "mean_bps": self.mean_bps(),
            "avail_mean_bps": self.avail_mean_bps,
            "avail_min_bps": self.avail_min_bps,
            "avail_max_bps": self.avail_max_bps,
            "busy_us": self.busy_us,
            "yielding_us": self.yielding_us,
            "yielded_pct": self.yielded_pct(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_bytes_rate_available_and_yielding() {
        let s = Summary {
            elapsed_us: 2_000_000,
            taken_down: false,
            connections: 2,
            bytes_acked: 12_500_000,
            busy_us: 1_000_000,
            yielding_us: 250_000,
            avail_mean_bps: Some(60_000_000),
            avail_min_bps: Some(10_000_000),
            avail_max_bps: Some(90_000_000),
        };
        assert_eq!(
            s.line(),
            "imtcp: 12.5 MB sent in 2.00 s, mean 50.0 Mbit/s; \
             available 60.0 Mbit/s (10.0M–90.0M); yielded 25 % of the time"
        );
        assert_eq!(s.json()["yielded_pct"], 25);
    }

    #[test]
    fn a_run_that_imtcp_did_not_last_for_has_no_mean() {
        let s = Summary { taken_down: true, connections: 1, bytes_acked: 9, ..Default::default() };
        let line = s.line();
        assert!(line.starts_with("imtcp: taken down during the run; until then 9 bytes sent; "));
        assert!(s.json()["mean_bps"].is_null(), "when it ended is not known");
    }

    #[test]
    fn nothing_sent_is_said_so() {
        assert!(Summary::default().line().contains("no TCP connections"));
        assert!(Summary::default().json()["avail_mean_bps"].is_null());
    }
}
