// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The command `imtcp`. One file for each subcommand in `cmd/`, what they share beside it;
//! a library, so that the tests can reach the parts.

#![deny(clippy::print_stdout)] // imtcp_common::out

#[macro_use]
extern crate imtcp_common;

pub mod attachment;
pub mod caps;
pub mod cgroup;
pub mod cli;
pub mod cmd;
pub mod coverage;
pub mod device;
pub mod each_socket;
pub mod filter;
pub mod follow;
pub mod in_no_table;
pub mod left_behind;
pub mod made;
pub mod mode;
pub mod nested;
pub mod nocc;
pub mod open_sockets;
pub mod opened_inside;
pub mod param;
pub mod policy;
pub mod rules;
pub mod runs;
pub mod signals;
pub mod socket;
pub mod state;
pub mod sweep;
pub mod tui;
pub mod user;
pub mod view;

use std::process::ExitCode;

pub fn main() -> ExitCode {
    imtcp_bpf::set_up_logging();
    imtcp_common::program::main(|cli: &cli::Cli| cli.command.goes_on_unread(), cmd::dispatch)
}
