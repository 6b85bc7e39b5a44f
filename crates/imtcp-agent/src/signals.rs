// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! SIGTERM and SIGINT end the agent when it has put away what it has.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use nix::sys::signal::{self, SigHandler, Signal};

pub static ENDED: AtomicBool = AtomicBool::new(false);

pub fn end_on_signals() -> Result<()> {
    extern "C" fn end(_: i32) {
        ENDED.store(true, Ordering::Relaxed);
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        // SAFETY: the handler stores to an atomic, nothing else.
        unsafe { signal::signal(signal, SigHandler::Handler(end)) }?;
    }
    Ok(())
}
