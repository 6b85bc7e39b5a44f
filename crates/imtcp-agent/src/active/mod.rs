// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Active tests of listed peers, by programs that everybody knows. They cost the network what the
//! measurements of connections do not, so they are off unless asked for, and the cost is told
//! before the first one.
//!
//! One thread makes them, one after another: a ping beside a transfer of iperf3 would measure its
//! queue. A round that has not ended when the next is due takes its place. The first round comes
//! after its interval: an agent that is started again and again sends no more than one that runs.

pub mod child;
pub mod iperf3;
pub mod ping;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use imtcp_client::record::Record;
use imtcp_common::format;
use serde_json::{json, Value};

use super::clock::Clock;
use super::messages::say;
use child::Failure;
use iperf3::Iperf3;

const DAY_S: u64 = 86_400;
const LOOK: Duration = Duration::from_millis(50);

pub enum Program {
    Ping,
    Iperf3(Iperf3),
}

impl Program {
    fn name(&self) -> &'static str {
        match self {
            Program::Ping => "ping",
            Program::Iperf3(_) => "iperf3",
        }
    }

    /// The Debian package that has it.
    fn package(&self) -> &'static str {
        match self {
            Program::Ping => "iputils-ping",
            Program::Iperf3(_) => "iperf3",
        }
    }

    /// Bytes of IP packets that one test sends and receives at most, retransmissions aside.
    fn cost_bytes(&self, peer: IpAddr) -> u64 {
        match self {
            Program::Ping => ping::cost_bytes(peer),
            Program::Iperf3(iperf3) => iperf3.cost_bytes(),
        }
    }

    fn test(&self, peer: IpAddr, stop: &AtomicBool) -> Result<Record, Failure> {
        match self {
            Program::Ping => ping::test(peer, stop),
            Program::Iperf3(iperf3) => iperf3.test(peer, stop),
        }
    }
}

/// A program and how often it tests each peer.
pub struct Schedule {
    pub program: Program,
    pub every_s: u64,
}

impl Schedule {
    fn test_bytes(&self, peers: &[IpAddr]) -> u64 {
        peers.iter().map(|peer| self.program.cost_bytes(*peer)).max().unwrap_or(0)
    }

    fn day_bytes(&self, peers: &[IpAddr]) -> u64 {
        let round: u64 = peers.iter().map(|peer| self.program.cost_bytes(*peer)).sum();
        round.saturating_mul(DAY_S.div_ceil(self.every_s))
    }
}

/// Which tests, of whom.
#[derive(Clone, Default)]
pub struct Plan {
    pub schedules: Arc<[Schedule]>,
    pub peers: Vec<IpAddr>,
}

impl Plan {
    /// Bytes that all tests of a day send and receive at most, retransmissions aside.
    pub fn day_bytes(&self) -> u64 {
        let each = self.schedules.iter().map(|s| s.day_bytes(&self.peers));
        each.fold(0, u64::saturating_add)
    }

    /// Refuses a plan that could cost more in a day.
    pub fn require_within(&self, budget_bytes: Option<u64>) -> Result<()> {
        match budget_bytes {
            Some(budget) if self.day_bytes() > budget => bail!(
                "the tests cost up to {} a day, --test-budget is {}: test less often (--ping, \
                 --iperf3), send less (--iperf3-bytes), or list fewer peers ({} now)",
                format::bytes(self.day_bytes()),
                format::bytes(budget),
                self.peers.len()
            ),
            _ => Ok(()),
        }
    }

    /// Leaves out the last peers until a day's tests fit the budget. Returns how many: a service or a log may name
    /// more peers than somebody here would list.
    pub fn keep_within(&mut self, budget_bytes: Option<u64>) -> usize {
        let Some(budget) = budget_bytes else { return 0 };
        let costs_too_much = |count: usize| {
            let first = &self.peers[..count];
            let each = self.schedules.iter().map(|s| s.day_bytes(first));
            each.fold(0, u64::saturating_add) > budget
        };
        let (mut fits, mut most) = (0, self.peers.len());
        while fits < most {
            let middle = (fits + most).div_ceil(2);
            if costs_too_much(middle) {
                most = middle - 1;
            } else {
                fits = middle;
            }
        }
        let untested = self.peers.len() - fits;
        self.peers.truncate(fits);
        untested
    }

    /// A line for each program, and what all of them cost.
    pub fn lines(&self) -> Vec<String> {
        let peers = format::count(self.peers.len(), "peer");
        let line = |s: &Schedule| {
            format!(
                "imtcp-agent: {} of {peers} every {} s: up to {} a test, {} a day",
                s.program.name(),
                s.every_s,
                format::bytes(s.test_bytes(&self.peers)),
                format::bytes(s.day_bytes(&self.peers))
            )
        };
        self.schedules.iter().map(line).collect()
    }

    /// The same for programs.
    pub fn json(&self) -> Vec<Value> {
        let one = |s: &Schedule| {
            json!({
                "program": s.program.name(),
                "peers": self.peers.len(),
                "every_s": s.every_s,
                "most_bytes_a_test": s.test_bytes(&self.peers),
                "most_bytes_a_day": s.day_bytes(&self.peers),
            })
        };
        self.schedules.iter().map(one).collect()
    }
}

/// The thread that tests. When this is dropped, a test that runs is ended and leaves nothing.
pub struct Tester {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
    results: mpsc::Receiver<Record>,
    peers: mpsc::Sender<Vec<IpAddr>>,
}

impl Tester {
    /// Sources of the records are `source`/ping and `source`/iperf3.
    pub fn start(plan: Plan, source: &str, clock: Clock) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (results, receiver) = mpsc::channel();
        let (peers, new_peers) = mpsc::channel();
        let rounds = Rounds {
            source: source.into(),
            clock,
            stop: Arc::clone(&stop),
            results,
            new_peers,
            failing: HashMap::new(),
        };
        let thread = (!plan.schedules.is_empty()).then(|| thread::spawn(|| rounds.run(plan)));
        Tester { stop, thread, results: receiver, peers }
    }

    /// From the next round on these are tested.
    pub fn replace_peers(&self, peers: Vec<IpAddr>) {
        // Without tests nobody listens.
        let _ = self.peers.send(peers);
    }

    /// Results that have come since the last call.
    pub fn take(&self) -> Vec<Record> {
        self.results.try_iter().collect()
    }

    /// Ends the test that runs, if one does, and its program with it.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Tester {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Rounds {
    source: String,
    clock: Clock,
    stop: Arc<AtomicBool>,
    results: mpsc::Sender<Record>,
    new_peers: mpsc::Receiver<Vec<IpAddr>>,
    /// The last message about each program and peer, so that it is said once.
    failing: HashMap<(&'static str, Option<IpAddr>), String>,
}

impl Rounds {
    fn run(mut self, mut plan: Plan) {
        let began = Instant::now();
        let mut due: Vec<_> =
            plan.schedules.iter().map(|s| began + Duration::from_secs(s.every_s)).collect();
        while !self.stop.load(Ordering::Relaxed) {
            for (schedule, due) in plan.schedules.iter().zip(&mut due) {
                if Instant::now() < *due {
                    continue;
                }
                if let Some(peers) = self.new_peers.try_iter().last() {
                    plan.peers = peers;
                    let are_tested = &plan.peers;
                    self.failing.retain(|of, _| of.1.is_none_or(|peer| are_tested.contains(&peer)));
                }
                self.round(schedule, &plan.peers);
                while *due <= Instant::now() {
                    *due += Duration::from_secs(schedule.every_s);
                }
            }
            thread::sleep(LOOK);
        }
    }

    fn round(&mut self, schedule: &Schedule, peers: &[IpAddr]) {
        let program = &schedule.program;
        let name = program.name();
        for peer in peers {
            let time = self.clock.now_us();
            match program.test(*peer, &self.stop) {
                Ok(record) => {
                    self.failing.remove(&(name, None));
                    if record.loss == Some(1.0) {
                        let all_lost = "nothing came back; stored as a loss of 100 %".into();
                        self.say((name, Some(*peer)), all_lost, schedule.every_s);
                    } else {
                        self.failing.remove(&(name, Some(*peer)));
                    }
                    let source = format!("{}/{name}", self.source);
                    let dst = peer.to_string();
                    let _ = self.results.send(Record { dst, source, time, ..record });
                }
                Err(Failure::Stopped) => return,
                Err(Failure::NotInstalled) => {
                    let why = format!("not installed (Debian: apt install {})", program.package());
                    return self.say((name, None), why, schedule.every_s);
                }
                Err(Failure::Other(why)) => {
                    self.say((name, Some(*peer)), why, schedule.every_s);
                }
            }
        }
    }

    /// Once, until it changes: a log need not have it each minute.
    fn say(&mut self, of: (&'static str, Option<IpAddr>), why: String, every_s: u64) {
        if self.failing.get(&of) != Some(&why) {
            let to = of.1.map_or_else(String::new, |peer| format!(" to {peer}"));
            say!("{}{to}: {why}; it is tried again every {every_s} s", of.0);
            self.failing.insert(of, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;

    fn plan() -> Plan {
        let iperf3 = Program::Iperf3(Iperf3::new(5201, 5, 10_000_000).unwrap());
        Plan {
            schedules: [
                Schedule { program: Program::Ping, every_s: 60 },
                Schedule { program: iperf3, every_s: 3600 },
            ]
            .into(),
            peers: vec![IpAddr::from([192, 0, 2, 7]), "2001:db8::7".parse().unwrap()],
        }
    }

    /// (840 + 1040) bytes a minute; 2 × 11 028 432 bytes an hour.
    #[test]
    fn a_plan_tells_what_it_costs_before_it_begins() {
        assert_eq!(plan().day_bytes(), 1880 * 1440 + 2 * 11_028_432 * 24);
        let lines = plan().lines();
        let ping = "imtcp-agent: ping of 2 peers every 60 s: up to 1.04 kB a test, 2.71 MB a day";
        let iperf3 =
            "imtcp-agent: iperf3 of 2 peers every 3600 s: up to 11.0 MB a test, 529 MB a day";
        assert_eq!(lines, [ping, iperf3]);
        assert_eq!(plan().json()[0]["most_bytes_a_day"], 1880 * 1440);
        assert_eq!(Plan::default().day_bytes(), 0);
    }

    #[test]
    fn a_plan_over_its_budget_is_refused() {
        let mut some = plan();
        let (all, cost) = (some.peers.len(), some.day_bytes());
        assert_eq!((some.keep_within(None), some.keep_within(Some(cost))), (0, 0));
        assert_eq!(some.keep_within(Some(cost - 1)), 1);
        assert!(some.day_bytes() < cost && some.peers == plan().peers[..all - 1]);
        assert_eq!(some.keep_within(Some(0)), all - 1);
        assert!(plan().require_within(None).is_ok());
        assert!(plan().require_within(Some(plan().day_bytes())).is_ok());
        let refused = plan().require_within(Some(1_000_000)).unwrap_err().to_string();
        assert!(refused.contains("532 MB a day, --test-budget is 1.00 MB"), "{refused}");
    }

    #[test]
    fn peers_that_come_later_are_tested_from_the_next_round_on() {
        if std::process::Command::new("ping").arg("-V").output().is_err() {
            let _ = writeln!(io::stderr(), "\nskipped: ping: there is none (Debian: iputils-ping)");
            return;
        }
        let schedules = [Schedule { program: Program::Ping, every_s: 1 }].into();
        let mut tester =
            Tester::start(Plan { schedules, peers: Vec::new() }, "here", Clock::start());
        tester.replace_peers(vec![IpAddr::from([127, 0, 0, 1])]);
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut records = Vec::new();
        while records.is_empty() && Instant::now() < deadline {
            thread::sleep(LOOK);
            records = tester.take();
        }
        tester.stop();
        assert_eq!(
            (records[0].dst.as_str(), records[0].source.as_str()),
            ("127.0.0.1", "here/ping")
        );
    }

    #[test]
    fn without_tests_there_is_no_thread_and_nothing_comes() {
        let mut tester = Tester::start(Plan::default(), "here", Clock::start());
        assert!(tester.thread.is_none() && tester.take().is_empty());
        tester.replace_peers(Vec::new());
        tester.stop();
    }
}
