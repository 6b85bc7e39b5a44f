// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::collections::HashSet;
use std::fs::File;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use imtcp_advice::record::Record;
use imtcp_advice::time::{now_us, SECOND_US};
use imtcp_bpf::events::Events;
use imtcp_bpf::records::Records;
use imtcp_bpf::{meta, probe, Event};
use nix::fcntl::Flock;
use nix::sys::signal::{self, SigHandler, Signal};
use serde_json::json;

use super::print_json;
use crate::agent::active::iperf3::Iperf3;
use crate::agent::active::{Plan, Program, Schedule, Tester};
use crate::agent::from_service::{Named, EVERY};
use crate::agent::listed;
use crate::agent::peers::Peers;
use crate::agent::send::{pause, send_all};
use crate::agent::spool::Spool;
use crate::agent::thin;
use crate::cli::agent::{ActiveTestArgs, AgentArgs};
use crate::http::Client;
use crate::{exit, format, state};

static ENDED: AtomicBool = AtomicBool::new(false);

/// Records in a batch at most.
const BATCH: usize = 5_000;
/// How long results are waited for at once.
const TURN: Duration = Duration::from_millis(200);
/// Between looks at who is connected.
const LOOK: Duration = Duration::from_secs(1);
/// A result whose connection is not found by then has none any more.
const PATIENCE: Duration = Duration::from_secs(3);

pub fn main(args: AgentArgs) -> Result<u8> {
    if !args.tests.no_connections {
        probe::require_privileges("imtcp agent")?;
    }
    let client = Client::new(&args.service)?;
    let mut only = args.peers.as_deref().map(listed::peers).transpose()?;
    let mut plan = plan(&args.tests)?;
    let mut spool = Spool::open(&args.spool, args.spool_mb * 1_000_000)?;
    let _alone = spool.lock()?;
    let named = match args.peers_from_service {
        true => Some(Named::start(Client::new(&args.service)?, args.spool.join("peers"), EVERY)),
        false => None,
    };
    if let Some(named) = &named {
        only = Some(named.peers.clone());
    }
    plan.peers = addresses(only.as_ref());
    plan.require_within(args.tests.test_budget)?;
    let mut connections =
        (!args.tests.no_connections).then(|| Connections::open(only)).transpose()?;
    let every_us = args.every as i64 * SECOND_US;
    let source = args.source.clone().map_or_else(host_name, Ok)?;
    end_on_signals()?;
    announce(&args, &source, &plan, named.as_ref().map(|n| n.peers.len()))?;

    let (more, sender) = start_sending(spool.clone(), client);
    let mut tester = Tester::start(plan.clone(), &source);
    let mut records = Vec::new();
    let mut due = Instant::now() + Duration::from_secs(args.interval);
    loop {
        let ended = ENDED.load(Ordering::Relaxed);
        match &mut connections {
            Some(connections) => connections.wait(&source, &mut records)?,
            None => thread::sleep(TURN),
        }
        if let Some(peers) = named.as_ref().and_then(|n| n.changes.try_iter().last()) {
            let next = Plan { peers: addresses(Some(&peers)), ..plan.clone() };
            changed(&args, &peers, &next)?;
            if next.require_within(args.tests.test_budget).is_ok() {
                tester.replace_peers(next.peers);
            }
            if let Some(connections) = &mut connections {
                connections.collector.only = Some(peers);
            }
        }
        let flush = ended || Instant::now() >= due || (every_us == 0 && records.len() >= BATCH);
        if ended {
            tester.stop();
        }
        if flush {
            // At the end, a step that has begun counts as over.
            let over_us = if ended { i64::MAX } else { now_us() };
            keep(&mut spool, &thin::take(&mut records, every_us, over_us))?;
            // In batches of their own: a service that knows no tests refuses these alone.
            keep(&mut spool, &tester.take())?;
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

/// The active tests that were asked for, of nobody yet.
fn plan(args: &ActiveTestArgs) -> Result<Plan> {
    let mut schedules = Vec::new();
    if let Some(every_s) = args.ping {
        schedules.push(Schedule { program: Program::Ping, every_s });
    }
    if let Some(every_s) = args.iperf3 {
        let iperf3 = Iperf3::new(args.iperf3_port, args.iperf3_seconds, args.iperf3_bytes)?;
        schedules.push(Schedule { program: Program::Iperf3(iperf3), every_s });
    }
    if args.no_connections && schedules.is_empty() {
        bail!("nothing to do: give --ping or --iperf3 beside --no-connections");
    }
    Ok(Plan { schedules: schedules.into(), peers: Vec::new() })
}

fn addresses(listed: Option<&HashSet<String>>) -> Vec<IpAddr> {
    let mut peers: Vec<_> = listed.into_iter().flatten().flat_map(|peer| peer.parse()).collect();
    peers.sort();
    peers
}

/// Puts a batch into the spool, where there is one.
fn keep(spool: &mut Spool, batch: &[Record]) -> Result<()> {
    let dropped = if batch.is_empty() { 0 } else { spool.put(batch)? };
    if dropped > 0 {
        eprintln!("imtcp: the spool is full: {dropped} old batches are lost");
    }
    Ok(())
}

/// The service names other peers now.
fn changed(args: &AgentArgs, peers: &HashSet<String>, plan: &Plan) -> Result<()> {
    if args.json {
        return print_json(&json!({
            "peers": peers.len(),
            "tests": plan.json(),
            "tests_most_bytes_a_day": plan.day_bytes(),
        }));
    }
    outln!("{}", from_service(peers.len()));
    match plan.require_within(args.tests.test_budget) {
        Ok(()) => plan.lines().iter().for_each(|line| outln!("{line}")),
        Err(e) => eprintln!("imtcp: {e}; the peers before are tested on"),
    }
    Ok(())
}

fn from_service(peers: usize) -> String {
    format!("imtcp: {} named by the service, asked again each minute", format::count(peers, "peer"))
}

/// So that a log or a user sees what goes where, and what tests will cost.
fn announce(args: &AgentArgs, source: &str, plan: &Plan, named: Option<usize>) -> Result<()> {
    let (url, spool) = (&args.service.url, args.spool.display());
    if args.json {
        return print_json(&json!({
            "url": url,
            "source": source,
            "interval_s": args.interval,
            "every_s": args.every,
            "spool": args.spool,
            "connections": !args.tests.no_connections,
            "peers_from_service": named,
            "tests": plan.json(),
            "tests_most_bytes_a_day": plan.day_bytes(),
        }));
    }
    let what = match args.every {
        _ if args.tests.no_connections => "results of tests alone".to_string(),
        0 => "each result".to_string(),
        every => format!("results as means of {every} s"),
    };
    outln!(
        "imtcp: sending {what} to {url} as {source}, every {} s; until then they wait in {spool}",
        args.interval
    );
    if let Some(count) = named {
        outln!("{}", from_service(count));
    }
    for line in plan.lines() {
        outln!("{line}");
    }
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

/// What the kernel tells of this host's connections.
struct Connections {
    _one_reader: Flock<File>,
    events: Events,
    records: Records,
    collector: Collector,
}

impl Connections {
    /// `only`: whose results are wanted; `None`: everybody's.
    fn open(only: Option<HashSet<String>>) -> Result<Self> {
        meta::require_same_layout()?;
        let collector =
            Collector { only, peers: Peers::default(), waiting: Vec::new(), looked: None };
        Ok(Connections {
            _one_reader: state::lock_events()?,
            events: Events::open()?,
            records: Records::open()?,
            collector,
        })
    }

    /// Waits a turn for results and adds the records of those whose peer is known by now.
    fn wait(&mut self, source: &str, records: &mut Vec<Record>) -> Result<()> {
        self.collector.add(self.events.wait(TURN), &self.records)?;
        self.collector.take(source, records);
        Ok(())
    }
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
