// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the kernel tells of this host's connections.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use imtcp_bpf::events::Events;
use imtcp_bpf::loaded::Loaded;
use imtcp_bpf::meta;
use imtcp_bpf::netns::{self, NetNs};
use imtcp_bpf::records::Records;
use imtcp_bpf::rundir;
use imtcp_bpf::{objects, Event};
use imtcp_client::record::Record;
use imtcp_common::fault::Fault;
use nix::fcntl::Flock;

use super::clock::Clock;
use super::messages::say;
use super::peers::Peers;

/// How long results are waited for at once.
pub const TURN: Duration = Duration::from_millis(200);
/// Between looks at who is connected, and at what is loaded.
const LOOK: Duration = Duration::from_secs(1);
/// A result whose connection is not found by then has none any more.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whose connections count. Whoever makes a network namespace chooses the addresses in it, and so
/// could write any host's history.
pub enum Namespaces {
    All,
    /// Kept open: no other one gets its number meanwhile.
    One(NetNs),
}

impl Namespaces {
    /// `own`, `all`, a process or a file.
    pub fn named(text: &str) -> Result<Self> {
        let one = match text {
            "all" => return Ok(Namespaces::All),
            "own" => netns::of_caller(),
            _ => match text.parse() {
                Ok(pid) => netns::of_pid(pid),
                Err(_) => netns::of_file(Path::new(text)),
            },
        };
        one.map(Namespaces::One).with_context(|| format!("network namespace {text}"))
    }

    pub fn takes(&self, number: u32) -> bool {
        match self {
            Namespaces::All => true,
            Namespaces::One(namespace) => namespace.ino == u64::from(number),
        }
    }
}

/// The results of measurements, from whichever programs are loaded.
pub struct Results {
    _one_reader: Flock<File>,
    loaded: Loaded<Handles>,
    looked: Option<Instant>,
    fault: Fault,
    collector: Collector,
}

impl Results {
    /// Refuses to begin while nothing is loaded.
    pub fn open(namespaces: Namespaces) -> Result<Self> {
        let loaded = Loaded::open(Handles::open)?;
        Ok(Results {
            _one_reader: rundir::lock_events()?,
            loaded,
            looked: None,
            fault: Fault::default(),
            collector: Collector { namespaces, peers: Peers::default(), waiting: Vec::new() },
        })
    }

    /// Waits a turn for results. Gives the records of those whose peer is known by now and wanted.
    pub fn wait(
        &mut self,
        source: &str,
        clock: Clock,
        only: Option<&HashSet<String>>,
    ) -> Vec<Record> {
        match self.loaded.last() {
            Some(loaded) => self.collector.add(loaded.events.wait(TURN)),
            None => thread::sleep(TURN),
        }
        // A connection may end soon: look often, even while all are known.
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK) {
            self.looked = Some(Instant::now());
            match self.look() {
                Ok(()) if self.fault.end().is_some() => say!("results come again"),
                Ok(()) => {}
                Err(e) => {
                    let why = format!("{e:#}");
                    if self.fault.is_new(&why) {
                        say!("{why}; no results until then");
                    }
                }
            }
        }
        let mut records = self.collector.take(source, clock);
        records.retain(|record| only.is_none_or(|only| only.contains(&record.dst)));
        records
    }

    fn look(&mut self) -> Result<()> {
        let loaded = self.loaded.look(|old| {
            // What its programs measured last.
            self.collector.add(old.events.wait(Duration::ZERO));
            let _ = old.connections.read().map(|found| self.collector.learn(&found));
        })?;
        self.collector.learn(&loaded.connections.read()?);
        Ok(())
    }
}

struct Handles {
    events: Events,
    connections: Records,
}

impl Handles {
    fn open() -> Result<Self> {
        let meta = meta::require_up()?;
        if !meta.layout_matches()? {
            let (loaded, own) = (meta.version(), objects::VERSION);
            bail!(
                "the loaded programs are of imtcp {loaded} and differ from this agent's ({own}): \
                 restart the agent, or run `imtcp up` to upgrade them"
            );
        }
        Ok(Handles { events: Events::open()?, connections: Records::open()? })
    }
}

/// Results until their connections are known.
struct Collector {
    namespaces: Namespaces,
    peers: Peers,
    waiting: Vec<(Instant, Event)>,
}

impl Collector {
    fn add(&mut self, events: Vec<Event>) {
        let now = Instant::now();
        self.waiting.extend(events.into_iter().map(|event| (now, event)));
    }

    fn learn(&mut self, connections: &[imtcp_bpf::Record]) {
        self.peers.learn(connections, |record| self.namespaces.takes(record.netns_ino));
    }

    fn take(&mut self, source: &str, clock: Clock) -> Vec<Record> {
        let mut records = Vec::new();
        let peers = &self.peers;
        self.waiting.retain(|(arrived, event)| {
            if peers.knows(event.cookie) {
                records.extend(peers.record(event, source, clock));
                return false;
            }
            arrived.elapsed() < PATIENCE
        });
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_network_namespace_is_one_and_all_are_all() {
        let own = Namespaces::named("own").unwrap();
        let number = netns::of_caller().unwrap().ino as u32;
        assert!(own.takes(number) && !own.takes(number + 1));
        assert!(Namespaces::named("all").unwrap().takes(number + 1));
        let by_pid = Namespaces::named(&std::process::id().to_string()).unwrap();
        let by_file = Namespaces::named("/proc/self/ns/net").unwrap();
        assert!(by_pid.takes(number) && by_file.takes(number));
    }

    #[test]
    fn what_is_no_network_namespace_is_refused_by_name() {
        for (name, says) in [
            ("/proc/self/ns/mnt", "it is no network namespace"),
            ("/etc/passwd", "it is no network namespace"),
            ("/nowhere", "No such file"),
            ("0", "No such file"),
        ] {
            let e = Namespaces::named(name).err().map(|e| format!("{e:#}")).unwrap();
            assert!(
                e.starts_with(&format!("network namespace {name}: ")) && e.contains(says),
                "{e}"
            );
        }
    }
}
