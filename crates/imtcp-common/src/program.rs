// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A program of ours from its command line to its exit code.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::{descriptors, exit, help, name};

/// Reads the command line, runs the command, and says why it failed. `goes_on_unread`: must a reader who leaves not
/// end it? A daemon works for others than who reads its log.
pub fn main<C: Parser>(goes_on_unread: fn(&C) -> bool, run: fn(C) -> Result<u8>) -> ExitCode {
    // `imtcp watch --json | head` should end quietly: Rust ignores SIGPIPE.
    set_sigpipe(libc::SIG_DFL);
    name::set(C::command().get_name());
    let cli: C = help::parse();
    if goes_on_unread(&cli) {
        set_sigpipe(libc::SIG_IGN);
    }
    let code = match run(cli) {
        Ok(code) => code,
        Err(e) => {
            let hint = descriptors::hint(&format!("{e:#}"));
            eprintln!("{}: {e:#}{hint}", name::of_program());
            exit::of_error(&e)
        }
    };
    ExitCode::from(code)
}

fn set_sigpipe(disposition: libc::sighandler_t) {
    // SAFETY: sets a disposition, before any thread exists.
    unsafe {
        libc::signal(libc::SIGPIPE, disposition);
    }
}
