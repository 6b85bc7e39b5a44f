// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use anyhow::Result;
use clap::CommandFactory;
use imtcp_common::completions::{script, CompletionsArgs, Shell};
use imtcp_common::exit;

use crate::cli::Cli;

/// The generator for bash knows no hint for a command with arguments, as that for zsh does.
/// Words behind `run --` are completed as after sudo, if bash-completion is loaded. After a parameter's
/// name it would leave a space.
const BASH_OURS: &str = r#"
_imtcp_or_command() {
    local at
    if [[ "${COMP_WORDS[1]}" == run ]]; then
        for ((at = 2; at < COMP_CWORD; at++)); do
            [[ "${COMP_WORDS[at]}" == -- ]] || continue
            if declare -F _command_offset >/dev/null; then
                _command_offset $((at + 1))
            elif ((at + 1 == COMP_CWORD)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$2")
            fi
            return
        done
    fi
    _imtcp "$@"
    # A value follows at once.
    if [[ "${COMP_WORDS[COMP_CWORD - 1]}" == --param ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _imtcp_or_command -o bashdefault -o default imtcp
"#;

pub fn main(args: CompletionsArgs) -> Result<u8> {
    let ours = if args.shell == Shell::Bash { BASH_OURS } else { "" };
    out!("{}{ours}", script(args.shell, Cli::command())?);
    Ok(exit::OK)
}
