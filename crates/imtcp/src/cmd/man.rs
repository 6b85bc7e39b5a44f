// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::roff::{roman, Roff};
use clap_mangen::Man;
use imtcp_bpf::objects;

use crate::cli::{Cli, ManArgs};
use crate::exit;

const EXIT_STATUS: &str = "0 done, 1 failed, 2 wrong usage.";
const STATUS_EXIT_STATUS: &str = "0 imtcp is up, 3 it is not, 1 failed, 2 wrong usage.";
const RUN_EXIT_STATUS: &str =
    "That of the command, or its end by the same signal; 125 where imtcp \
     itself failed, 126 where the command is not executable, 127 where it was not found, 2 wrong usage.";
const FILES: [(&str, &str); 3] = [
    ("/etc/imtcp.conf", "Parameters of runs and attachments that name none."),
    ("/run/imtcp", "What runs and what is attached."),
    ("/sys/fs/bpf/imtcp", "The loaded programs and their maps, from imtcp up to imtcp down."),
];

/// Pages of commands that touch none of them.
const WITHOUT_FILES: [&str; 4] =
    ["imtcp-advi", "imtcp-agent", "imtcp-completions", "imtcp-version"];

/// One page for the command and one for each subcommand, with all that `--help` leaves out
/// (`cli/help.rs`).
pub fn main(args: ManArgs) -> Result<u8> {
    fs::create_dir_all(&args.dir)
        .with_context(|| format!("cannot create {}", args.dir.display()))?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, &args.dir)
        .with_context(|| format!("cannot write into {}", args.dir.display()))?;
    Ok(exit::OK)
}

fn write_pages(command: &Command, dir: &Path) -> io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(sub, dir)?;
    }
    let man = Man::new(command.clone())
        .source(format!("imtcp {}", objects::VERSION))
        .manual("imtcp")
        .title(command.get_display_name().unwrap_or("imtcp"));
    fs::write(dir.join(man.get_filename()), page(command, &man)?)
}

fn page(command: &Command, man: &Man) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    section(&mut page, "SYNOPSIS", &synopsis(command))?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string();
        // Below the blank line --help has a note that is in the description here.
        let (examples, _) = examples.split_once("\n\n").unwrap_or((&examples, ""));
        let (_, examples) = examples.split_once(':').unwrap_or(("", examples));
        section(&mut page, "EXAMPLES", examples.trim_start_matches('\n').trim_end())?;
    }
    let exit_status = match command.get_name() {
        "run" => RUN_EXIT_STATUS,
        "status" => STATUS_EXIT_STATUS,
        _ => EXIT_STATUS,
    };
    section(&mut page, "EXIT STATUS", exit_status)?;
    if WITHOUT_FILES.iter().any(|name| man.get_filename().starts_with(name)) {
        return Ok(page);
    }
    let files: Vec<_> = FILES.iter().map(|(file, what)| format!("{file}\n    {what}")).collect();
    section(&mut page, "FILES", &files.join("\n"))?;
    Ok(page)
}

/// As in --help: there with the values' names, which clap_mangen leaves out.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    usage.trim_start_matches("Usage:").trim().to_string()
}

/// A section whose lines are kept as they are, but for blanks at their ends.
fn section(page: &mut impl Write, name: &str, text: &str) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [name]);
    for (i, line) in text.lines().enumerate() {
        if i > 0 {
            roff.control("br", []);
        }
        let shown = line.trim_start();
        // no-break spaces keep what is set in
        let indent = "\u{a0}".repeat(line.len() - shown.len());
        roff.text([roman(format!("{indent}{}", shown.trim_end()))]);
    }
    roff.to_writer(page)
}
