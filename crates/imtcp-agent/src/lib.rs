// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The agent of a host: it sends what the host's connections measure to an advice service (whose results are wanted, who
//! a result belongs to, active tests, the spool, the sending), and shows what they do to Prometheus (`metrics`).

#![deny(clippy::print_stdout)] // imtcp_common::out

#[macro_use]
extern crate imtcp_common;

pub mod active;
pub mod cli;
pub mod clock;
mod feed;
pub mod follow_log;
pub mod from_service;
mod log_tail;
mod lookups;
pub mod means;
pub mod messages;
mod metrics;
pub mod peers;
pub mod peers_file;
pub mod results;
pub mod send;
mod signals;
pub mod spool;
pub mod watched_peers;
pub mod writer;
use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use imtcp_bpf::mountns;
use imtcp_common::man::{self, Pages};
use imtcp_common::{completions, exit, program};

use cli::{Cli, Command};

pub fn main() -> ExitCode {
    imtcp_bpf::set_up_logging();
    program::main(|cli: &Cli| matches!(cli.command, Command::Feed(_) | Command::Metrics(_)), run)
}

fn files(command: &str) -> &'static [(&'static str, &'static str)] {
    match command {
        "feed" => &[("/var/lib/imtcp/spool", "Batches that wait for the service.")],
        _ => &[],
    }
}

fn run(cli: Cli) -> Result<u8> {
    match cli.command {
        Command::Feed(args) => {
            // Without connections it needs nothing of /sys, and names have their addresses by `ip netns exec`'s own
            // /etc/resolv.conf.
            if !args.tests.no_connections {
                mountns::leave_bare_sys();
            }
            feed::main(*args)
        }
        Command::Metrics(args) => {
            mountns::leave_bare_sys();
            metrics::main(args)
        }
        Command::Completions(args) => {
            out!("{}", completions::script(args.shell, Cli::command())?);
            Ok(exit::OK)
        }
        Command::Man(args) => {
            let pages = Pages { exit_status: |_| man::EXIT_STATUS, files };
            pages.write(Cli::command(), &args.dir)?;
            Ok(exit::OK)
        }
    }
}
