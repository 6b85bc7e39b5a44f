// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::fs;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::cli::{Cli, ManArgs};
use crate::exit;

/// One page for the command and one for each subcommand.
pub fn main(args: ManArgs) -> Result<u8> {
    fs::create_dir_all(&args.dir)
        .with_context(|| format!("cannot create {}", args.dir.display()))?;
    clap_mangen::generate_to(Cli::command(), &args.dir)?;
    Ok(exit::OK)
}
