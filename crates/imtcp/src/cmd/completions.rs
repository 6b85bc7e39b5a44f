// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use anyhow::Result;
use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::exit;

pub fn main(args: CompletionsArgs) -> Result<u8> {
    clap_complete::generate(args.shell, &mut Cli::command(), "imtcp", &mut std::io::stdout());
    Ok(exit::OK)
}
