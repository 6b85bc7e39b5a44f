// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Manual pages, from the same source as `--help`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_mangen::roff::{roman, Roff};
use clap_mangen::Man;

/// Write the man pages into a directory
#[derive(Args)]
pub struct ManArgs {
    pub dir: PathBuf,
}

/// Sections of a program's manual pages that its command line does not give.
pub struct Pages {
    /// Sections for the command with this name.
    pub exit_status: fn(&str) -> &'static str,
    /// Files and what is in them, on the page of the command with this name.
    pub files: fn(&str) -> &'static [(&'static str, &'static str)],
}

pub const EXIT_STATUS: &str = "0 done, 1 failed, 2 wrong usage.";

impl Pages {
    /// One page for the command and one for each subcommand, with all that `--help` leaves out (`help.rs`).
    pub fn write(&self, command: Command, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let mut command = command.disable_help_subcommand(true);
        command.build();
        self.write_all(&command, dir)
            .with_context(|| format!("cannot write into {}", dir.display()))
    }

    fn write_all(&self, command: &Command, dir: &Path) -> io::Result<()> {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            self.write_all(sub, dir)?;
        }
        let man = Man::new(command.clone())
            .source(format!("imtcp {}", env!("CARGO_PKG_VERSION")))
            .manual("imtcp")
            .title(command.get_display_name().unwrap_or(command.get_name()));
        fs::write(dir.join(man.get_filename()), self.page(command, &man)?)
    }

    fn page(&self, command: &Command, man: &Man) -> io::Result<Vec<u8>> {
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
        section(&mut page, "EXIT STATUS", (self.exit_status)(command.get_name()))?;
        let files = (self.files)(command.get_name());
        if !files.is_empty() {
            let files: Vec<_> =
                files.iter().map(|(file, what)| format!("{file}\n    {what}")).collect();
            section(&mut page, "FILES", &files.join("\n"))?;
        }
        Ok(page)
    }
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
