// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::io::IsTerminal;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{bail, Result};
use imtcp_bpf::events::Events;
use imtcp_bpf::records::Records;
use imtcp_bpf::totals::TotalsMap;
use imtcp_bpf::{meta, probe};
use nix::time::{clock_gettime, ClockId};
use serde_json::json;

use super::print_json;
use crate::cli::WatchArgs;
use crate::view::{self, Connection, Looks};
use crate::{exit, format, state, tui};

/// How long `--once` looks for the rate.
const ONCE: Duration = Duration::from_millis(500);

pub fn main(args: WatchArgs) -> Result<u8> {
    probe::require_privileges("imtcp watch")?;
    if args.events {
        return events(&args);
    }
    meta::require_up()?;
    let records = Records::open()?;
    if args.once || args.json {
        return lines(&args, &records);
    }
    if !std::io::stdout().is_terminal() {
        bail!("standard output is not a terminal: use --once or --json");
    }
    tui::run(records, args.interval, args.sort, args.filter)?;
    Ok(exit::OK)
}

fn lines(args: &WatchArgs, records: &Records) -> Result<u8> {
    let mut looks = Looks::default();
    if args.once && !looks.look(&records.read()?).is_empty() {
        // A rate needs two looks.
        sleep(args.interval.min(ONCE));
    }
    loop {
        let mut connections = looks.look(&records.read()?);
        let all = connections.len();
        connections.retain(|c| c.matches(&args.filter));
        view::sort(&mut connections, args.sort);
        if args.json {
            for connection in &connections {
                print_json(connection)?;
            }
        } else if connections.is_empty() {
            outln!("{}", view::none_shown(all, &args.filter));
        } else {
            out!("{}", table(&connections));
        }
        if args.once {
            return Ok(exit::OK);
        }
        sleep(args.interval);
    }
}

const HEAD: [&str; 10] =
    ["PID", "COMMAND", "LOCAL", "PEER", "MODE", "RATE", "AVAILABLE", "RTT", "SENT", "COOKIE"];

fn table(connections: &[Connection]) -> String {
    let mut rows = vec![HEAD.map(str::to_string).to_vec()];
    for c in connections {
        let dash = || "-".to_string();
        rows.push(vec![
            c.pid.map_or_else(dash, |p| p.to_string()),
            c.command.clone().unwrap_or_else(dash),
            c.src.to_string(),
            c.dst.to_string(),
            c.mode.into(),
            c.rate_bps.map_or_else(dash, format::rate),
            c.avail_smoothed_bps.or(c.avail_last_bps).map_or_else(dash, format::rate),
            c.srtt_us.map_or_else(dash, |us| format::micros(us.into())),
            format::bytes(c.bytes_acked),
            c.cookie.map_or_else(dash, |cookie| cookie.to_string()),
        ]);
    }
    format::table(&rows)
}

/// The clock of the events.
fn monotonic_ns() -> Result<u64> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?).as_nanos() as u64)
}

/// The results of measurements as they end, and how many were lost.
fn events(args: &WatchArgs) -> Result<u8> {
    // First of all: what ends while the rest gets ready is not from before.
    let began_ns = monotonic_ns()?;
    meta::require_same_layout()?;
    let _one_reader = state::lock_events()?;
    let events = Events::open()?;
    let totals = TotalsMap::open()?;
    // The buffer still has what ended while nobody read it.
    let (from_ns, mut dropped) = match args.from_start {
        true => (0, 0),
        false => (began_ns, totals.read()?.events_dropped),
    };
    loop {
        let mut arrived = events.wait(args.interval.min(Duration::from_millis(200)));
        arrived.retain(|event| event.at_ns >= from_ns);
        let now = totals.read()?.events_dropped;
        if now != dropped {
            let lost = now - dropped;
            if args.json {
                print_json(&json!({ "dropped": lost }))?;
            } else {
                outln!("the buffer was full: {} lost", format::count(lost, "result"));
            }
            dropped = now;
        }
        for event in &arrived {
            let result = view::Result::from(event);
            if args.json {
                print_json(&result)?;
            } else {
                let avail = result.avail_bps.map_or_else(|| "-".into(), format::rate);
                let cookie = result.cookie.unwrap_or(0);
                outln!(
                    "{:.6}  {cookie:>8}  {:<12}  {avail}",
                    result.t_us as f64 / 1e6,
                    result.outcome
                );
            }
        }
    }
}
