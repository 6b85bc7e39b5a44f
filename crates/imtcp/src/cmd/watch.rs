// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::io::{self, IsTerminal, Write};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{bail, Result};
use imtcp_bpf::events::Events;
use imtcp_bpf::loaded::Loaded;
use imtcp_bpf::records::Records;
use imtcp_bpf::totals::TotalsMap;
use imtcp_bpf::{meta, probe};
use imtcp_common::fault::Fault;
use imtcp_common::out::print_json;
use imtcp_common::{exit, format, out};
use nix::time::{clock_gettime, ClockId};
use serde_json::json;

use crate::cli::WatchArgs;
use crate::view::{self, Connection, Looks};
use crate::{signals, tui};

/// How long `--once` looks for the rate.
const ONCE: Duration = Duration::from_millis(500);

pub fn main(args: WatchArgs) -> Result<u8> {
    probe::require_privileges("imtcp watch")?;
    if args.events {
        return events(&args);
    }
    let loaded = Loaded::open(Records::open)?;
    if args.once || args.json {
        return lines(&args, loaded);
    }
    if !std::io::stdout().is_terminal() {
        bail!("standard output is not a terminal: use --once or --json");
    }
    tui::run(loaded, args.interval, args.sort, args.filter)?;
    Ok(exit::OK)
}

fn lines(args: &WatchArgs, mut loaded: Loaded<Records>) -> Result<u8> {
    let mut looks = Looks::default();
    let mut fault = Fault::default();
    if args.once && !looks.look(&loaded.look(drop)?.read()?).is_empty() {
        // A rate needs two looks.
        sleep(args.interval.min(ONCE));
    }
    let mut missing = Fault::default();
    loop {
        let mut code = exit::OK;
        match loaded.look(drop).and_then(|records| records.read_seen()) {
            Ok((records, unseen)) => {
                tell_end(&mut fault);
                show(args, looks.look(&records))?;
                match unseen.text() {
                    Some(text) => {
                        tell_missing(&mut missing, &text);
                        code = exit::FAILURE;
                    }
                    None => _ = missing.end(),
                }
            }
            Err(e) if args.once => return Err(e),
            Err(e) => tell(&mut fault, &e),
        }
        if args.once {
            return Ok(code);
        }
        wait_for_reader(args.interval);
    }
}

/// Says, once, that connections are not shown.
fn tell_missing(missing: &mut Fault, why: &str) {
    if missing.is_new(why) {
        let _ = writeln!(io::stderr(), "imtcp: connections may be missing: {why}");
    }
}

/// Until the next look; to the end where nobody reads on. Without connections there is no write to fail.
fn wait_for_reader(at_most: Duration) {
    if out::reader_is_gone(at_most) {
        std::process::exit(signals::end_by(libc::SIGPIPE).into());
    }
}

fn show(args: &WatchArgs, mut connections: Vec<Connection>) -> Result<()> {
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
    Ok(())
}

/// Says, once, why nothing is shown for now. Nobody may read it any more.
fn tell(fault: &mut Fault, error: &anyhow::Error) {
    let why = format!("{error:#}");
    if fault.is_new(&why) {
        let _ = writeln!(io::stderr(), "imtcp: {why}; `watch` goes on then");
    }
}

fn tell_end(fault: &mut Fault) {
    if fault.end().is_some() {
        let _ = writeln!(io::stderr(), "imtcp: it is up again, `watch` goes on");
    }
}

const HEAD: [&str; 10] =
    ["PID", "COMMAND", "LOCAL", "PEER", "MODE", "RATE", "AVAILABLE", "RTT", "BYTES", "COOKIE"];

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
            c.rate_shown(format::rate),
            c.avail_smoothed_bps.or(c.avail_last_bps).map_or_else(dash, format::rate),
            c.srtt_us.map_or_else(dash, |us| format::micros(us.into())),
            c.bytes_shown(),
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
    let mut loaded = Loaded::open(Stream::open)?;
    let _one_reader = imtcp_bpf::rundir::lock_events()?;
    // The buffer still has what ended while nobody read it.
    let mut from_ns = began_ns;
    if args.from_start {
        from_ns = 0;
        loaded.look(drop)?.lost_told = 0;
    }
    let mut fault = Fault::default();
    let turn = args.interval.min(Duration::from_millis(200));
    loop {
        let mut last = Ok(());
        match loaded.look(|mut old| last = old.tell(args.json, from_ns, Duration::ZERO)) {
            Ok(stream) => {
                tell_end(&mut fault);
                stream.tell(args.json, from_ns, turn)?;
                wait_for_reader(Duration::ZERO);
            }
            Err(e) => {
                tell(&mut fault, &e);
                wait_for_reader(turn);
            }
        }
        last?;
    }
}

/// The buffer of results of one `imtcp up`.
struct Stream {
    events: Events,
    totals: TotalsMap,
    lost_told: u64,
}

impl Stream {
    fn open() -> Result<Self> {
        meta::require_same_layout()?;
        let totals = TotalsMap::open()?;
        let lost_told = totals.read()?.events_dropped;
        Ok(Stream { events: Events::open()?, totals, lost_told })
    }

    /// Waits for results, and prints those that are not from before.
    fn tell(&mut self, as_json: bool, from_ns: u64, wait: Duration) -> Result<()> {
        let mut arrived = self.events.wait(wait);
        arrived.retain(|event| event.at_ns >= from_ns);
        let now = self.totals.read()?.events_dropped;
        if now != self.lost_told {
            let lost = now - self.lost_told;
            if as_json {
                print_json(&json!({ "dropped": lost }))?;
            } else {
                outln!("the buffer was full: {} lost", format::count(lost, "result"));
            }
            self.lost_told = now;
        }
        for event in &arrived {
            let result = view::Result::from(event);
            if as_json {
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
        Ok(())
    }
}
