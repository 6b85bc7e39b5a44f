// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use anyhow::Result;
use imtcp_bpf::{down, probe};
use serde_json::json;

use super::{detach, print_json};
use crate::cli::DownArgs;
use crate::{exit, state};

pub fn main(args: DownArgs) -> Result<u8> {
    probe::require_privileges("imtcp down")?;
    let lock = state::lock()?;
    state::sweep(&lock);
    for attachment in state::attachments() {
        detach::detach(&attachment)?;
    }
    let report = down::down()?;
    let runs = state::runs();
    if args.json {
        print_json(&json!({
            "was_up": report.was_loaded,
            "moved_connections": report.switched.connections,
            "moved_listeners": report.switched.listeners,
            "still_using": report.still_using,
            "defaults_changed": report.defaults_changed.iter()
                .map(|(ns, cc)| json!({"netns": ns, "control": cc})).collect::<Vec<_>>(),
            "runs": runs.len(),
        }))?;
        return Ok(exit::OK);
    }
    if !report.was_loaded {
        println!("imtcp is not up");
        return Ok(exit::OK);
    }
    println!(
        "imtcp is down: {} and {} moved to the default congestion control",
        count(report.switched.connections as usize, "connection"),
        count(report.switched.listeners as usize, "listener"),
    );
    if report.still_using > 0 {
        println!(
            "{} could not be moved and keeps the program to its end",
            count(report.still_using, "connection")
        );
    }
    for (ns, cc) in &report.defaults_changed {
        println!("the default of network namespace {ns} was imtcp's: it is {cc} now");
    }
    if !runs.is_empty() {
        println!("{} of `imtcp run` goes on with the default", count(runs.len(), "command"));
    }
    Ok(exit::OK)
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
