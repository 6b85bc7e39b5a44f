// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Waiting for the command, stopping and continuing with it, and for what its connections still send after it.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::{getpid, getsid, Pid};

use super::stop;
use crate::cgroup;
use crate::signals::{asks_to_end, is_for_command, Arrived, Blocked};

/// Waits for the command's end, passing signals on.
pub fn for_end(child: Pid, signals: &Blocked, cgroup: &Path) -> i32 {
    let leads_session = getsid(None).is_ok_and(|s| s == getpid());
    loop {
        let arrived = signals.wait();
        if arrived.signal == libc::SIGCHLD {
            if let Some(status) = reap(child, signals) {
                return status;
            }
        } else if is_for_command(arrived, leads_session, is_in(arrived, cgroup)) {
            arrived.send_to(child);
        }
    }
}

/// Is the sender in the run? One that has ended counts as outside of it, as pkill(1) mostly is: better twice than
/// not at all.
fn is_in(arrived: Arrived, dir: &Path) -> bool {
    arrived.sender > 0 && cgroup::of_pid(arrived.sender).is_ok_and(|of| of.starts_with(dir))
}

/// The least time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until something is over, for so long at most; a signal that asks to end, ends the wait. Looks that
/// take long, at very many connections, are half of the time.
pub fn while_it_lasts(signals: &Blocked, at_most: Duration, lasts: impl Fn() -> bool) {
    // None: no end.
    let deadline = Instant::now().checked_add(at_most);
    loop {
        let began = Instant::now();
        if deadline.is_some_and(|deadline| began >= deadline) || !lasts() {
            return;
        }
        let next = Instant::now() + began.elapsed().max(LOOK);
        // A look may have had a child, whose end is a signal too.
        while let Some(arrived) = signals.wait_for(next.saturating_duration_since(Instant::now())) {
            if asks_to_end(arrived) {
                return;
            }
        }
    }
}

/// The wait status when the command has ended. When it has been stopped (Ctrl-Z), we stop too.
fn reap(child: Pid, signals: &Blocked) -> Option<i32> {
    loop {
        let mut status = 0;
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        // SAFETY: status is ours. nix's waitpid hides the raw status that the code needs.
        let rc = unsafe { libc::waitpid(child.as_raw(), &mut status, flags.bits()) };
        if rc == 0 {
            return None;
        }
        if rc > 0 && libc::WIFSTOPPED(status) {
            stop::with_command(child);
            // The command has been continued too: passed on, it would get the signal twice.
            signals.discard(Signal::SIGCONT);
            continue;
        }
        if rc < 0 && nix::Error::last() == nix::Error::EINTR {
            continue;
        }
        return Some(status);
    }
}
