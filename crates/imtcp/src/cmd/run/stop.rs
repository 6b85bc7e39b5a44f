// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Stopping with the command, so that the shell sees it, and going on with it.
//!
//! A stopped process does not see that somebody continues the command alone. A watcher sees it in our place.

use std::thread::sleep;
use std::time::Duration;

use imtcp_common::procfs;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{kill, raise, Signal};
use nix::sys::wait::{waitid, waitpid, Id, WaitPidFlag, WaitStatus};
use nix::unistd::{fork, getpid, getppid, ForkResult, Pid};

/// How often the watcher looks.
const LOOK: Duration = Duration::from_millis(100);

/// Returns when the command or this process was continued. Both go on then.
pub fn with_command(child: Pid) {
    let watcher = watcher_of(child);
    let _ = raise(Signal::SIGSTOP);
    if let Ok(watcher) = watcher {
        let _ = kill(watcher, Signal::SIGKILL);
        let _ = waitpid(watcher, None);
    }
    // It may have gone on, and have been stopped again since.
    if !has_news(child) {
        let _ = kill(child, Signal::SIGCONT);
    }
}

/// Did the command go on, stop or end since we were told last? It leaves that to be told.
fn has_news(child: Pid) -> bool {
    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WCONTINUED | WaitPidFlag::WEXITED;
    let flags = flags | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::Pid(child), flags) != Ok(WaitStatus::StillAlive)
}

/// A process that continues us when the command goes on, or has ended, while we are stopped.
fn watcher_of(child: Pid) -> nix::Result<Pid> {
    let us = getpid();
    // SAFETY: the child has no other thread. The C library releases its own locks in the child, and the child takes
    // no other.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            // It holds our descriptors, and with them the run.
            let _ = set_pdeathsig(Signal::SIGKILL);
            while getppid() == us {
                if !procfs::is_stopped(child.as_raw()) {
                    // Again at each look: we may not have stopped yet.
                    let _ = kill(us, Signal::SIGCONT);
                }
                sleep(LOOK);
            }
            // SAFETY: ends the watcher without running what we have registered.
            unsafe { libc::_exit(0) }
        }
    }
}
