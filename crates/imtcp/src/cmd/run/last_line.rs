// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Writing the last line of a run, and the messages before it. A pipe that nobody reads, or a stopped
//! terminal, keeps them waiting, and signals are blocked here: one that asks to end ends this wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use imtcp_common::out;
use nix::sys::signal::{kill, Signal};
use nix::unistd::getpid;

use super::line_output::{Line, LineOutput};
use super::wait;
use crate::signals::Blocked;

/// For a reader that is only slow. The signal may be one that the command's group got, and that ended the command.
const GRACE: Duration = Duration::from_millis(200);

/// Writes the messages that were held since [`out::hold`], and the line. Messages and line are given up at a signal
/// that asks to end.
pub fn write(output: LineOutput, line: Option<Line>, signals: &Blocked) {
    let done = Arc::new(AtomicBool::new(false));
    let say = {
        let done = done.clone();
        move || {
            out::release();
            if let Some(Err(e)) = line.map(|line| output.write(&line)) {
                eprintln!("imtcp: cannot write the line at the end: {e}");
            }
            done.store(true, Ordering::Release);
            // Wakes the wait: it waits for signals alone.
            let _ = kill(getpid(), Signal::SIGCHLD);
        }
    };
    // Without a thread, as at a limit of processes, it is said here, and no signal ends that.
    let say = Arc::new(Mutex::new(Some(say)));
    let in_thread = say.clone();
    let thread = thread::Builder::new().name("last line".into());
    if thread.spawn(move || call_once(&in_thread)).is_err() {
        call_once(&say);
    }
    let is_waiting = || !done.load(Ordering::Acquire);
    wait::while_it_lasts(signals, Duration::MAX, is_waiting);
    wait::while_it_lasts(signals, GRACE, is_waiting);
}

fn call_once(it: &Mutex<Option<impl FnOnce()>>) {
    let it = it.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(it) = it {
        it();
    }
}
