// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The subcommands, a file each. Each returns the exit code.

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
mod undo_attachment;
mod up;
mod version;
mod watch;
use anyhow::Result;
use imtcp_bpf::mountns;

use crate::cli::{Cli, Command};

pub fn dispatch(cli: Cli) -> Result<u8> {
    let home = match &cli.command {
        Command::Version(_) | Command::Completions(_) | Command::Man(_) => None,
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
        Command::Version(args) => version::main(args),
        Command::Completions(args) => completions::main(args),
        Command::Man(args) => man::main(args),
    }
}
