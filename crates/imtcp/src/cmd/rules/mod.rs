// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp rules`: lasting rules, and who applies them.

mod edit;
mod round;
mod show;
mod watch;

use anyhow::Result;

use crate::cli::rules::{RulesArgs, RulesCommand};

pub fn main(args: RulesArgs) -> Result<u8> {
    match args.command {
        RulesCommand::List(args) => show::list(&args),
        RulesCommand::Test(args) => show::test(&args),
        RulesCommand::Add(args) => edit::add(&args),
        RulesCommand::Remove(args) => edit::remove(&args),
        RulesCommand::Watch(args) => watch::main(&args),
    }
}
