// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::collections::HashSet;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use imtcp_advice::record::{destination, Record};
use imtcp_advice::time::{now_us, SECOND_US};
use imtcp_bpf::events::Events;
use imtcp_bpf::records::Records;
use imtcp_bpf::{meta, probe, Event};
use nix::sys::signal::{self, SigHandler, Signal};
use serde_json::json;

use super::print_json;
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
    let only = args.peers.as_deref().map(listed).transpose()?;
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

/// Addresses of the peers in a file, as records have them.
fn listed(file: &Path) -> Result<HashSet<String>> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let mut all = HashSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let name = line.split('#').next().unwrap_or_default().trim();
        if name.is_empty() {
            continue;
        }
        let at = || format!("line {number} of {shown}");
        let name = destination(name).with_context(at)?;
        let found = (name.as_str(), 0).to_socket_addrs();
        let found = found.with_context(|| format!("{}: no address of {name}", at()))?;
        all.extend(found.map(|address| address.ip().to_canonical().to_string()));
    }
    if all.is_empty() {
        bail!("there is no peer in {shown}: write an address or a name a line");
    }
    Ok(all)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn listed_in(text: &str) -> Result<HashSet<String>> {
        let file = std::env::temp_dir().join(format!("imtcp-peers-{}", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let all = listed(&file);
        std::fs::remove_file(&file).unwrap();
        all
    }

    /// One test for all: the file is one.
    #[test]
    fn peers_are_listed_by_address_or_name_and_what_is_wrong_is_named() {
        let all = listed_in("# mirrors\n192.0.2.7\n\n 2001:DB8::0:1 # far\nlocalhost\n").unwrap();
        assert!(all.contains("192.0.2.7") && all.contains("2001:db8::1"), "{all:?}");
        assert!(all.contains("127.0.0.1") || all.contains("::1"), "{all:?}");
        for (text, says) in [
            ("192.0.2.7\na b\n", "line 2 of"),
            ("no-such-host.invalid\n", "no address of no-such-host.invalid"),
            ("# nobody\n", "there is no peer in"),
        ] {
            let e = format!("{:#}", listed_in(text).unwrap_err());
            assert!(e.contains(says), "{e}");
        }
        assert!(listed(Path::new("/nonexistent")).is_err());
    }
}
