// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The command line as `--help` shows it: one screen that answers "what do I type".
//!
//! Each description has one line and paragraphs below it. `--help` shows the line, because its reader
//! wants to type a command. The manual page shows all, because its reader wants to understand
//! (`man.rs` takes the command as it is). Both come from one text, so they cannot disagree.

use std::io::{self, Write};

use clap::{Arg, Command, Error, Parser};

use crate::meant::with_what_was_meant;
use crate::out;

/// Reads the command line of this process; prints help or an error and exits where it asks for that.
pub fn parse<C: Parser>() -> C {
    let args: Vec<_> = std::env::args_os().collect();
    let matches = brief(C::command()).try_get_matches_from(&args);
    let cli = matches.and_then(|matches| C::from_arg_matches(&matches));
    cli.unwrap_or_else(|e| print_and_exit(&with_what_was_meant(e, &C::command(), &args)))
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

/// With `hide_short_help` an option has no line of its own: the usage or the line of another option names it.
fn brief_option(option: Arg) -> Arg {
    let explained = option.get_possible_values().iter().any(|value| value.get_help().is_some());
    let elsewhere = option.is_hide_short_help_set();
    let option = option.long_help(None).hide_possible_values(explained);
    if elsewhere {
        option.hide(true)
    } else {
        option
    }
}

/// The name and `--help` of a command and of all below it.
pub fn all(command: Command) -> Vec<(String, String)> {
    let mut command = brief(command);
    command.build();
    all_of(&command)
}

fn all_of(command: &Command) -> Vec<(String, String)> {
    let own = (command.get_name().to_string(), command.clone().render_help().to_string());
    let below = command.get_subcommands().filter(|sub| !sub.is_hide_set()).flat_map(all_of);
    std::iter::once(own).chain(below).collect()
}
