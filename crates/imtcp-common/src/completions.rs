// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Completions for shells.

use anyhow::Result;
use clap::{Args, Command};
pub use clap_complete::Shell;

/// Print completions for a shell
#[derive(Args)]
pub struct CompletionsArgs {
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The script of that shell.
pub fn script(shell: Shell, mut command: Command) -> Result<String> {
    let name = command.get_name().to_string();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    Ok(String::from_utf8(script)?)
}
