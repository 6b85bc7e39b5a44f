// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp-agent metrics`: what this host's connections do, for Prometheus. docs/how-to/monitor.md has a line for each
//! metric.

mod looks;
mod serve;
mod whose;

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use imtcp_bpf::loaded::Loaded;
use imtcp_bpf::probe;
use imtcp_bpf::records::Records;
use imtcp_bpf::totals::TotalsMap;
use imtcp_client::hosts::Hosts;
use imtcp_common::exit;
use imtcp_common::fault::Fault;

use crate::cli::MetricsArgs;
use crate::messages::{say, to_stdout};
use crate::signals::{end_on_signals, ENDED};
use looks::Looks;

/// A look takes no more than this share of the time: with very many connections there are fewer of them.
const MOST_SHARE: u32 = 10;

struct Handles {
    connections: Records,
    totals: TotalsMap,
}

impl Handles {
    fn open() -> Result<Self> {
        Ok(Handles { connections: Records::open()?, totals: TotalsMap::open()? })
    }
}

pub fn main(args: MetricsArgs) -> Result<u8> {
    probe::require_privileges("imtcp-agent metrics")?;
    let listener = TcpListener::bind(args.listen)
        .with_context(|| format!("cannot listen on {} (--listen chooses another)", args.listen))?;
    let hosts = Hosts::new(args.listen.ip(), &args.host, &[])?;
    let mut looks = Looks::new()?;
    let registry = looks.registry.clone();
    end_on_signals()?;
    let every = Duration::from_secs_f64(args.interval);
    let mut loaded = Loaded::new(Handles::open);
    let mut fault = Fault::default();
    let mut turn = || {
        let begun = Instant::now();
        match look(&mut loaded, &mut looks) {
            Ok(()) if fault.end().is_some() => say!("it is up again"),
            Ok(()) => {}
            Err(e) => {
                looks.nothing_is_loaded();
                let why = format!("{e:#}");
                if fault.is_new(&why) {
                    say!("{why}; no connections until then");
                }
            }
        }
        every.max(begun.elapsed() * MOST_SHARE).saturating_sub(begun.elapsed())
    };
    // Before somebody asks.
    let mut rest = turn();
    to_stdout(&format!("imtcp-agent: metrics at http://{}/metrics", listener.local_addr()?));
    serve::start(listener, hosts, registry)?;
    loop {
        wait(rest, &ENDED);
        if ENDED.load(Ordering::Relaxed) {
            return Ok(exit::OK);
        }
        rest = turn();
    }
}

fn look(loaded: &mut Loaded<Handles>, looks: &mut Looks) -> Result<()> {
    let handles = loaded.look(drop)?;
    looks.look(&handles.connections.read()?, &handles.totals.read()?);
    Ok(())
}

/// Until the time is over, or this is set.
fn wait(time: Duration, ended: &AtomicBool) {
    let until = Instant::now() + time;
    while !ended.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
}
