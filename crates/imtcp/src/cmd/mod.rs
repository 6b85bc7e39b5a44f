// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The subcommands, a file each. Each returns the exit code.

#[cfg(feature = "full")]
mod advice;
#[cfg(feature = "full")]
mod advise;
#[cfg(feature = "full")]
mod agent;
mod attach;
mod completions;
mod detach;
mod doctor;
mod down;
mod man;
mod move_tree;
mod rules;
mod run;
mod status;
mod up;
mod version;
mod watch;

use anyhow::Result;

use crate::cli::{Cli, Command};
#[cfg(not(feature = "full"))]
use crate::left_out::{absent as advice, absent as advise, absent as agent};
use crate::{format, mountns};

pub fn dispatch(cli: Cli) -> Result<u8> {
    let home = match &cli.command {
        Command::Version(_) | Command::Completions(_) | Command::Man(_) => None,
        Command::Advice(_) | Command::Advise(_) => None,
        // It needs nothing of /sys, and names have their addresses by `ip netns exec`'s own /etc/resolv.conf.
        Command::Agent(args) if args.tests.no_connections => None,
        _ => mountns::leave_bare_sys(),
    };
    match cli.command {
        Command::Up(args) => up::main(args),
        Command::Down(args) => down::main(args),
        Command::Run(args) => run::main(args, home),
        Command::Attach(args) => attach::main(args),
        Command::Detach(args) => detach::main(args),
        Command::Rules(args) => rules::main(args),
        Command::Watch(args) => watch::main(args),
        Command::Status(args) => status::main(args),
        Command::Doctor(args) => doctor::main(args),
        Command::Advise(args) => advise::main(args),
        Command::Advice(args) => advice::main(args),
        Command::Agent(args) => agent::main(args),
        Command::Version(args) => version::main(args),
        Command::Completions(args) => completions::main(args),
        Command::Man(args) => man::main(args),
    }
}

/// Prints one JSON value on a line of its own. Others wrote some of its texts, and somebody may read it
/// on a terminal.
fn print_json(value: &impl serde::Serialize) -> Result<()> {
    outln!("{}", format::json_for_terminal(&serde_json::to_string(value)?));
    Ok(())
}
