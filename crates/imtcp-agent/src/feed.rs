// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use imtcp_bpf::probe;
use imtcp_client::http::Client;
use imtcp_client::record;
use imtcp_client::time::SECOND_US;
use imtcp_common::{exit, format};
use imtcp_logs::args::forwarded;
use serde_json::{json, Value};

use crate::active::iperf3::Iperf3;
use crate::active::{Plan, Program, Schedule, Tester};
use crate::cli::{ActiveTestArgs, FeedArgs};
use crate::clock::Clock;
use crate::follow_log;
use crate::from_service::{self, EVERY};
use crate::means;
use crate::messages::{say, to_stdout};
use crate::peers_file;
use crate::results::{Namespaces, Results, TURN};
use crate::send::{self, Sender};
use crate::signals::{end_on_signals, ENDED};
use crate::spool::Spool;
use crate::writer::{Writer, BATCH};

pub fn main(args: FeedArgs) -> Result<u8> {
    if !args.tests.no_connections {
        probe::require_privileges("imtcp-agent feed")?;
    }
    let client = Client::new(&args.service)?;
    let source = args.source.clone().map_or_else(host_name, Ok)?;
    // Tests have the longest.
    record::source(&format!("{source}/iperf3")).context("--source")?;
    let listed = args.peers.as_deref().map(peers_file::start).transpose()?;
    let mut plan = plan(&args.tests)?;
    let clock = Clock::start();
    let spool = Spool::open(&args.spool, args.spool_mb * 1_000_000, clock)?;
    let _alone = spool.lock()?;
    let watched = match args.peers_from_service {
        true => {
            let kept = args.spool.join("peers");
            Some(from_service::start(Client::new(&args.service)?, kept, EVERY))
        }
        false if args.log.is_empty() => listed,
        false => {
            let (format, from) = (args.lines.format.into(), forwarded(&args.lines)?);
            Some(follow_log::start(&args.log, format, from, args.spool.join("followed-logs")))
        }
    };
    let mut only = watched.as_ref().map(|w| w.peers.clone());
    plan.peers = addresses(only.as_ref());
    let budget = args.tests.test_budget;
    let mut untested = 0;
    match args.peers {
        Some(_) => plan.require_within(budget)?,
        None => untested = plan.keep_within(budget),
    }
    let mut results = match args.tests.no_connections {
        true => None,
        false => Some(Results::open(Namespaces::named(&args.netns)?)?),
    };
    let every_us = args.every as i64 * SECOND_US;
    end_on_signals()?;
    announce(&args, &source, &plan, only.as_ref().map(HashSet::len));
    say_untested(untested);

    let (more, sender) = send::start(Sender::new(spool.clone(), client));
    let mut writer = Writer::new(spool);
    let mut tester = Tester::start(plan.clone(), &source, clock);
    let mut records = Vec::new();
    let mut due = Instant::now() + Duration::from_secs(args.interval);
    loop {
        let ended = ENDED.load(Ordering::Relaxed);
        match &mut results {
            Some(results) => records.extend(results.wait(&source, clock, only.as_ref())),
            None => thread::sleep(TURN),
        }
        if let Some(peers) = watched.as_ref().and_then(|w| w.changes.try_iter().last()) {
            let mut next = Plan { peers: addresses(Some(&peers)), ..plan.clone() };
            let untested = next.keep_within(budget);
            changed(&args, &peers, &next);
            say_untested(untested);
            tester.replace_peers(next.peers);
            only = Some(peers);
        }
        let flush = ended || Instant::now() >= due || (every_us == 0 && records.len() >= BATCH);
        if ended {
            tester.stop();
        }
        if flush {
            // At the end, a step that has begun counts as over.
            let over_us = if ended { i64::MAX } else { clock.now_us() };
            writer.put(means::take(&mut records, every_us, over_us));
            writer.put(tester.take());
            due = Instant::now() + Duration::from_secs(args.interval);
            let _ = more.send(());
        }
        if ended {
            break;
        }
    }
    // Records not sent by now wait in the spool for the next agent.
    drop(more);
    let _ = sender.join();
    writer.end();
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

/// The peers are others now.
fn changed(args: &FeedArgs, peers: &HashSet<String>, plan: &Plan) {
    if args.json {
        return tell_json(&json!({
            "peers": peers.len(),
            "tests": plan.json(),
            "tests_most_bytes_a_day": plan.day_bytes(),
        }));
    }
    to_stdout(&named_by(args, peers.len()));
    plan.lines().iter().for_each(|line| to_stdout(line));
}

fn say_untested(count: usize) {
    if count > 0 {
        say!("{} not tested: more would cost over --test-budget", format::count(count, "peer"));
    }
}

fn tell_json(value: &Value) {
    to_stdout(&value.to_string());
}

fn named_by(args: &FeedArgs, peers: usize) -> String {
    let by = match (&args.peers, args.log.len()) {
        (Some(file), _) => format!("in {}, names looked up again", file.display()),
        (None, 0) => "named by the service, asked again each minute".into(),
        (None, logs) => format!("from {}, more as they come", format::count(logs as u64, "log")),
    };
    format!("imtcp-agent: {} {by}", format::count(peers, "peer"))
}

/// So that a log or a user sees what goes where, and what tests will cost.
fn announce(args: &FeedArgs, source: &str, plan: &Plan, named: Option<usize>) {
    let (url, spool) = (&args.service.url, args.spool.display());
    if args.json {
        return tell_json(&json!({
            "url": url,
            "source": source,
            "interval_s": args.interval,
            "every_s": args.every,
            "spool": args.spool,
            "connections": !args.tests.no_connections,
            "netns": args.netns,
            "peers_from_service": named.filter(|_| args.peers_from_service),
            "peers_from_logs": named.filter(|_| !args.log.is_empty()),
            "tests": plan.json(),
            "tests_most_bytes_a_day": plan.day_bytes(),
        }));
    }
    let what = match args.every {
        _ if args.tests.no_connections => "results of tests alone".to_string(),
        0 => "each result".to_string(),
        every => format!("results as means of {every} s"),
    };
    to_stdout(&format!(
        "imtcp-agent: sending {what} to {url} as {source}, every {} s; until then they wait in {spool}",
        args.interval
    ));
    if let Some(count) = named.filter(|_| args.peers.is_none()) {
        to_stdout(&named_by(args, count));
    }
    for line in plan.lines() {
        to_stdout(&line);
    }
}

fn host_name() -> Result<String> {
    Ok(nix::unistd::gethostname()?.to_string_lossy().into_owned())
}
