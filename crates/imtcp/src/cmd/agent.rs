// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use imtcp_advice::record::Record;
use imtcp_advice::time::{now_us, SECOND_US};
use imtcp_bpf::events::Events;
use imtcp_bpf::records::Records;
use imtcp_bpf::{meta, probe, Event};
use nix::sys::signal::{self, SigHandler, Signal};
use serde_json::json;

use super::print_json;
use crate::agent::listed;
use crate::agent::peers::Peers;
use crate::agent::send::{pause, send_all};
use crate::agent::spool::Spool;
use crate::agent::thin;
use crate::cli::advice::AgentArgs;
use crate::http::Client;
use crate::{exit, state};

static ENDED: AtomicBool = AtomicBool::new(false);

/// Records in a batch at most.
const BATCH: usize = 5_000;
/// Between looks at who is connected.
const LOOK: Duration = Duration::from_secs(1);
/// A result whose connection is not found by then has none any more.
const PATIENCE: Duration = Duration::from_secs(3);

pub fn main(args: AgentArgs) -> Result<u8> {
    probe::require_privileges("imtcp agent")?;
    let client = Client::new(&args.service)?;
    let only = args.peers.as_deref().map(listed::peers).transpose()?;
    let mut spool = Spool::open(&args.spool, args.spool_mb * 1_000_000)?;
    meta::require_same_layout()?;
    let _one_reader = state::lock_events()?;
    let (events, connections) = (Events::open()?, Records::open()?);
    let every_us = args.every as i64 * SECOND_US;
    let source = args.source.clone().map_or_else(host_name, Ok)?;
    end_on_signals()?;
    announce(&args, &source)?;

    let (more, sender) = start_sending(spool.clone(), client);
    let mut collector =
        Collector { only, peers: Peers::default(), waiting: Vec::new(), looked: None };
    let mut records = Vec::new();
    let mut due = Instant::now() + Duration::from_secs(args.interval);
    loop {
        let ended = ENDED.load(Ordering::Relaxed);
        collector.add(events.wait(Duration::from_millis(200)), &connections)?;
        collector.take(&source, &mut records);
        let flush = ended || Instant::now() >= due || (every_us == 0 && records.len() >= BATCH);
        if flush {
            // At the end, a step that has begun counts as over.
            let over_us = if ended { i64::MAX } else { now_us() };
            let batch = thin::take(&mut records, every_us, over_us);
            let dropped = if batch.is_empty() { 0 } else { spool.put(&batch)? };
            if dropped > 0 {
                eprintln!("imtcp: the spool is full: {dropped} old batches are lost");
            }
        }
        if flush {
            due = Instant::now() + Duration::from_secs(args.interval);
            let _ = more.send(());
        }
        if ended {
            break;
        }
    }
    // What is not sent now waits in the spool for the next agent.
    drop(more);
    let _ = sender.join();
    Ok(exit::OK)
}

/// One line, so that a log or a user sees what goes where.
fn announce(args: &AgentArgs, source: &str) -> Result<()> {
    let (url, spool) = (&args.service.url, args.spool.display());
    if args.json {
        return print_json(&json!({
            "url": url,
            "source": source,
            "interval_s": args.interval,
            "every_s": args.every,
            "spool": args.spool,
        }));
    }
    let what = match args.every {
        0 => "each result".to_string(),
        every => format!("results as means of {every} s"),
    };
    println!(
        "imtcp: sending {what} to {url} as {source}, every {} s; until then they wait in {spool}",
        args.interval
    );
    Ok(())
}

fn host_name() -> Result<String> {
    Ok(nix::unistd::gethostname()?.to_string_lossy().into_owned())
}

fn end_on_signals() -> Result<()> {
    extern "C" fn end(_: i32) {
        ENDED.store(true, Ordering::Relaxed);
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        // SAFETY: the handler stores to an atomic, nothing else.
        unsafe { signal::signal(signal, SigHandler::Handler(end)) }?;
    }
    Ok(())
}

/// A thread that sends whenever it is told that there is more, and by itself after failures.
fn start_sending(spool: Spool, client: Client) -> (mpsc::Sender<()>, thread::JoinHandle<()>) {
    let (more, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        let mut failures = 0;
        let mut not_before = Instant::now();
        loop {
            let over = told.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Disconnected);
            if !over && Instant::now() < not_before {
                continue;
            }
            match send_all(&spool, &client) {
                Ok(sent) => {
                    failures = match (&sent.waits, failures) {
                        (None, _) => 0,
                        (Some(why), before) => {
                            if before == 0 {
                                eprintln!("imtcp: {}: {why}; batches wait", client.url());
                            }
                            not_before = Instant::now() + pause(before);
                            before + 1
                        }
                    };
                }
                Err(e) => eprintln!("imtcp: {e:#}"),
            }
            if over {
                return;
            }
        }
    });
    (more, thread)
}

/// Results until their connections are known.
struct Collector {
    /// Whose results are wanted; `None`: everybody's.
    only: Option<HashSet<String>>,
    peers: Peers,
    waiting: Vec<(Instant, Event)>,
    looked: Option<Instant>,
}

impl Collector {
    fn add(&mut self, events: Vec<Event>, connections: &Records) -> Result<()> {
        let now = Instant::now();
        self.waiting.extend(events.into_iter().map(|event| (now, event)));
        // A connection may end soon: look often, even while all are known.
        if self.looked.is_none_or(|at| now - at >= LOOK) {
            self.peers.learn(&connections.read()?);
            self.looked = Some(now);
        }
        Ok(())
    }

    fn take(&mut self, source: &str, records: &mut Vec<Record>) {
        let peers = &self.peers;
        let wanted = |of: &Record| self.only.as_ref().is_none_or(|only| only.contains(&of.dst));
        self.waiting.retain(|(arrived, event)| {
            if peers.knows(event.cookie) {
                records.extend(peers.record(event, source).filter(wanted));
                return false;
            }
            arrived.elapsed() < PATIENCE
        });
    }
}
