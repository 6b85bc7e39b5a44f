// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The command line as `--help` shows it: one screen that answers "what do I type".
//!
//! Each description has one line and paragraphs below it. `--help` shows the line, because its reader
//! wants to type a command. The manual page shows all, because its reader wants to understand
//! (`cmd/man.rs` takes `Cli::command()` as it is). Both come from one text, so they cannot disagree.

use std::io::{self, Write};

use clap::{Arg, Command, CommandFactory, Error, FromArgMatches};

use super::meant::with_what_was_meant;
use super::Cli;
use crate::out;

/// Options without a line of their own: the usage or the line of another option names them.
const NAMED_ELSEWHERE: [&str; 3] = ["command", "advise_token_file", "advise_ca"];

/// Reads the command line of this process; prints help or an error and exits where it asks for that.
pub fn parse() -> Cli {
    let args: Vec<_> = std::env::args_os().collect();
    let matches = brief(Cli::command()).try_get_matches_from(&args);
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    cli.unwrap_or_else(|e| print_and_exit(&with_what_was_meant(e, &args)))
}

/// Help that could not be written is no help.
fn print_and_exit(e: &Error) -> ! {
    let printed = e.print().and_then(|()| io::stdout().flush());
    match printed {
        Err(io) if !e.use_stderr() => out::cannot_write(&io),
        _ => std::process::exit(e.exit_code()),
    }
}

/// The command without the paragraphs of its manual page, and examples before options.
pub fn brief(command: Command) -> Command {
    let page = command.get_name().to_string();
    brief_of(command, &page)
}

fn brief_of(command: Command, page: &str) -> Command {
    let template = format!(
        "{{about}}\n\nUsage:  {{usage}}\nManual: man {page}{{after-help}}\n\n{{all-args}}\n"
    );
    command.long_about(None).help_template(template).mut_args(brief_option).mut_subcommands(|sub| {
        let page = format!("{page}-{}", sub.get_name());
        brief_of(sub, &page)
    })
}

fn brief_option(option: Arg) -> Arg {
    let explained = option.get_possible_values().iter().any(|value| value.get_help().is_some());
    let elsewhere = NAMED_ELSEWHERE.contains(&option.get_id().as_str());
    let option = option.long_help(None).hide_possible_values(explained);
    if elsewhere {
        option.hide(true)
    } else {
        option
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (name, help) of the command and of all below it.
    fn all(command: &Command) -> Vec<(String, String)> {
        let mut shown = command.clone();
        let own = (command.get_name().to_string(), shown.render_help().to_string());
        let below = command.get_subcommands().filter(|sub| !sub.is_hide_set()).flat_map(all);
        std::iter::once(own).chain(below).collect()
    }

    fn whole() -> Command {
        let mut command = brief(Cli::command());
        command.build();
        command
    }

    #[test]
    fn each_help_has_fewer_than_250_words() {
        for (name, help) in all(&whole()) {
            let words = help.split_whitespace().count();
            assert!(words < 250, "{name} has {words} words: {help}");
        }
    }

    #[test]
    fn the_help_of_run_fits_a_terminal_of_24_lines_and_80_columns() {
        let helps = all(&whole());
        let (_, help) = helps.iter().find(|(name, _)| name == "run").unwrap();
        let help = help.trim_end();
        assert!(help.lines().count() <= 24, "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    }

    #[test]
    fn examples_come_before_options() {
        for (name, help) in all(&whole()) {
            let Some(options) = help.find("Options:") else { continue };
            let example = help.find("Example");
            assert!(name == "help" || example.is_some_and(|at| at < options), "{name}: {help}");
        }
    }
}
