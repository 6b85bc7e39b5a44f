// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The advice service and its commands, a file each.

#![deny(clippy::print_stdout)] // imtcp_common::out

#[macro_use]
extern crate imtcp_common;

mod ask;
mod backtest;
mod cli;
mod clients;
mod exchange;
mod follow;
mod forget;
mod histories;
mod said;
mod serve;
mod set;
mod vacuum;
use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use imtcp_common::man::{self, Pages};
use imtcp_common::{completions, exit, program};

use cli::{Cli, Command};

fn main() -> ExitCode {
    program::main(|cli: &Cli| matches!(cli.command, Command::Serve(_)), run)
}

fn run(cli: Cli) -> Result<u8> {
    match cli.command {
        Command::Serve(args) => serve::main(args),
        Command::Ask(args) => ask::main(args),
        Command::Import(args) => exchange::import(args),
        Command::Export(args) => exchange::export(args),
        Command::Clients(args) => clients::main(args),
        Command::Forget(args) => forget::main(args),
        Command::Set(args) => set::main(args),
        Command::Backtest(args) => backtest::main(args),
        Command::Vacuum(args) => vacuum::main(args),
        Command::Follow(args) => follow::main(args),
        Command::Completions(args) => {
            out!("{}", completions::script(args.shell, Cli::command())?);
            Ok(exit::OK)
        }
        Command::Man(args) => {
            let pages = Pages { exit_status: |_| man::EXIT_STATUS, files: |_| &[] };
            pages.write(Cli::command(), &args.dir)?;
            Ok(exit::OK)
        }
    }
}
