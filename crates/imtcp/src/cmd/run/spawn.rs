// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The command's process: in the run's cgroup, as whom and where it is wanted.

use std::ffi::{CString, OsString};
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use anyhow::{anyhow, Context, Result};
use imtcp_bpf::mountns::Home;
use imtcp_common::exit::{self, Coded};
use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::wait::waitpid;
use nix::unistd::{fork, pipe2, ForkResult, Pid};

use super::terminal;
use crate::cgroup::Own;
use crate::signals;
use crate::user::Target;

/// Steps of the child before its program runs; told to the parent when one fails.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Step {
    Cgroup,
    Home,
    Terminal,
    User,
    Exec,
}

impl Step {
    const ALL: [Step; 5] = [Step::Cgroup, Step::Home, Step::Terminal, Step::User, Step::Exec];
}

/// Where and as whom the command starts.
pub struct Plan<'a> {
    pub cgroup: &'a Own,
    pub home: Option<&'a Home>,
    pub user: Option<&'a Target>,
    /// The signal mask that we were given.
    pub mask: &'a SigSet,
}

pub enum Started {
    Child(Pid),
    /// A signal that ends a run came before the command was started.
    EndedBefore(Signal),
}

/// From the fork on, signals of the terminal reach the command too. Earlier ones reached us alone, so the child waits
/// until we have looked.
pub fn spawn(command: &[OsString], plan: &Plan) -> Result<Started> {
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
    let procs = plan.cgroup.procs().context("the run's cgroup was removed by somebody")?;
    let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
    let (wait, go) = pipe2(OFlag::O_CLOEXEC)?;

    // SAFETY: this process has one thread, so the child may do what it likes.
    match unsafe { fork() }.context("cannot start a process")? {
        ForkResult::Child => {
            drop(go);
            if !matches!(nix::unistd::read(&wait, &mut [0]), Ok(1)) {
                // SAFETY: as below.
                unsafe { libc::_exit(exit::RUN_FAILED.into()) }
            }
            let (step, errno) = become_command(&args, &procs, plan);
            let mut message = vec![step as u8];
            message.extend_from_slice(&(errno as i32).to_ne_bytes());
            let _ = fs::File::from(write).write_all(&message);
            // SAFETY: ends the child without running what the parent has registered.
            unsafe { libc::_exit(exit::RUN_FAILED.into()) }
        }
        ForkResult::Parent { child } => {
            drop((write, wait));
            if let Some(signal) = signals::pending_end() {
                drop(go);
                waitpid(child, None)?;
                return Ok(Started::EndedBefore(signal));
            }
            nix::unistd::write(&go, b"x")?;
            match failure(read)? {
                None => Ok(Started::Child(child)),
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
        if let Err(e) = terminal::forbid_typing() {
            return (Step::Terminal, e);
        }
        let become_user = || {
            nix::unistd::setgroups(&user.groups)?;
            nix::unistd::setresgid(user.gid, user.gid, user.gid)?;
            nix::unistd::setresuid(user.uid, user.uid, user.uid)
        };
        if let Err(e) = become_user() {
            return (Step::User, e);
        }
    }
    // Rust's runtime ignores it, and nobody knows what it was before. A shell gives its commands the default.
    // SAFETY: sets a disposition; no handler runs.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let _ = plan.mask.thread_swap_mask(SigmaskHow::SIG_SETMASK);
    match nix::unistd::execvp(&args[0], args) {
        Err(e) => (Step::Exec, e),
        Ok(never) => match never {},
    }
}

/// The child's report of a failure; nothing if its program has started.
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
        Step::Terminal => anyhow!(
            "cannot keep the user of --user from typing into this terminal: {reason} (a seccomp filter, \
             CONFIG_SECCOMP_FILTER)"
        ),
        Step::User => anyhow!("cannot become the user of --user: {reason}"),
        Step::Exec => {
            let name = command[0].to_string_lossy();
            let code = exit::of_exec_error(errno);
            let message = if code == exit::NOT_FOUND {
                let hint = match name.contains(char::is_whitespace) {
                    true => " (it is one word with blanks: leave out the quotes, or use sh -c)",
                    false => "",
                };
                format!("{name}: command not found{hint}")
            } else {
                format!("{name}: cannot be executed: {reason}")
            };
            Coded { code, message }.into()
        }
    }
}
