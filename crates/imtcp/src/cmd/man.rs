// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use anyhow::Result;
use clap::CommandFactory;
use imtcp_common::exit;
use imtcp_common::man::{self, ManArgs, Pages};

use crate::cli::Cli;

const FILES: &[(&str, &str)] = &[
    ("/etc/imtcp.conf", "Parameters of runs and attachments that name none."),
    ("/run/imtcp", "What runs and what is attached."),
    ("/sys/fs/bpf/imtcp", "The loaded programs and their maps, from imtcp up to imtcp down."),
];

fn exit_status(command: &str) -> &'static str {
    match command {
        "run" => {
            "That of the command, or its end by the same signal; 125 where imtcp itself failed, 126 where the \
             command is not executable, 127 where it was not found, 2 wrong usage."
        }
        "status" => "0 imtcp is up, 3 it is not, 1 failed, 2 wrong usage.",
        _ => man::EXIT_STATUS,
    }
}

pub fn main(args: ManArgs) -> Result<u8> {
    let files = |command: &str| match command {
        "completions" | "version" => &[],
        _ => FILES,
    };
    Pages { exit_status, files }.write(Cli::command(), &args.dir)?;
    Ok(exit::OK)
}
