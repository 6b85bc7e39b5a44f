// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The command `imtcp`. One file for each subcommand in `cmd/`, what they share beside it;
//! a library, so that the tests can reach the parts.

#![deny(clippy::print_stdout)] // out.rs

#[macro_use]
pub mod out;
#[cfg(feature = "full")]
pub mod agent;
pub mod alike;
pub mod amount;
#[cfg(feature = "full")]
pub mod answers;
pub mod attachment;
pub mod caps;
pub mod cgroup;
pub mod cli;
pub mod cmd;
mod descriptors;
pub mod device;
pub mod exit;
pub mod fault;
#[cfg(feature = "full")]
pub mod follow;
pub mod format;
#[cfg(feature = "full")]
pub mod http;
pub mod left_behind;
#[cfg(not(feature = "full"))]
mod left_out;
pub mod loaded;
pub mod mountns;
pub mod nested;
#[cfg(feature = "full")]
pub mod no_client;
pub mod nocc;
pub mod open_sockets;
pub mod param;
pub mod policy;
pub mod procfs;
#[cfg(feature = "full")]
pub mod proxy;
pub mod rate;
pub mod rules;
pub mod signals;
pub mod socket;
pub mod state;
#[cfg(feature = "full")]
pub mod tui;
pub mod user;
pub mod view;

use std::process::ExitCode;

#[cfg(not(feature = "full"))]
use left_out::{follow, tui};

pub fn main() -> ExitCode {
    // `imtcp watch --json | head` should end quietly: Rust ignores SIGPIPE.
    set_sigpipe(libc::SIG_DFL);
    imtcp_bpf::set_up_logging();
    let cli = cli::help::parse();
    if cli.command.goes_on_unread() {
        set_sigpipe(libc::SIG_IGN);
    }
    let code = match cmd::dispatch(cli) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("imtcp: {e:#}{}", descriptors::hint(&format!("{e:#}")));
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
