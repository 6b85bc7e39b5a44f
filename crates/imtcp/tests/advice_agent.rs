// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The agent's way to the service, and its peers from there.

mod support;

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use imtcp::agent::from_service::Named;
use imtcp::agent::send::send_all;
use imtcp::agent::spool::Spool;
use imtcp::cli::advice::ServiceArgs;
use imtcp::http::Client;
use imtcp_advice::record::Record;
use support::advice::*;
use support::*;

fn client(url: &str, scratch: &Scratch) -> Client {
    let token_file = Some(token_file(scratch));
    Client::new(&ServiceArgs { url: url.into(), token_file, ca: None }).unwrap()
}

fn records(from: usize, count: usize) -> Vec<Record> {
    (from..from + count)
        .map(|i| {
            let at = jiff::Timestamp::from_second(1_700_000_000 + i as i64).unwrap();
            serde_json::from_value(serde_json::json!({"dst": DST, "time": at, "available_bps": i}))
                .unwrap()
        })
        .collect()
}

#[test]
fn batches_wait_on_disk_while_the_service_is_away_and_are_stored_once() {
    let scratch = Scratch::new();
    let dir = scratch.path("spool");
    let mut spool = Spool::open(&dir, 1_000_000).unwrap();
    spool.put(&records(0, 10)).unwrap();
    let away = client("http://127.0.0.1:1", &scratch);
    assert!(send_all(&spool, &away).unwrap().waits.unwrap().contains("connection refused"));
    // The agent's next life finds them.
    let mut spool = Spool::open(&dir, 1_000_000).unwrap();
    spool.put(&records(10, 5)).unwrap();
    let waiting = spool.waiting().unwrap();
    assert_eq!(waiting.len(), 2);
    let service = Service::start(&[]);
    let here = client(&service.url, &scratch);
    // Sent, and the receipt lost: it comes again under the same id.
    here.post("/v1/reports", &fs::read(&waiting[0]).unwrap()).unwrap();
    let sent = send_all(&spool, &here).unwrap();
    assert_eq!((sent.batches, sent.records, sent.refused, sent.waits), (2, 5, 0, None));
    assert_eq!(spool.waiting().unwrap().len(), 0);
    let all = imtcp_ok(&["advice", "export", "--db", service.db().to_str().unwrap()]);
    assert_eq!(all.lines().count() - 1, 15);
}

#[test]
fn a_spool_is_of_one_agent() {
    let scratch = Scratch::new();
    let spool = Spool::open(&scratch.path("spool"), 1_000_000).unwrap();
    let lock = spool.lock().unwrap();
    let e = Spool::open(&scratch.path("spool"), 1_000_000).unwrap().lock().unwrap_err().to_string();
    assert!(e.starts_with("another imtcp agent uses the spool"), "{e}");
    drop(lock);
    spool.lock().unwrap();
}

#[test]
fn the_agent_says_where_it_sends_and_how_often() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    let spool = scratch.path("spool");
    let first_line = |more: &[&str]| {
        let mut agent = std::process::Command::new(&*IMTCP);
        agent.args(["agent", "--url", "http://127.0.0.1:1", "--source", "here", "--interval", "7"]);
        agent.arg("--spool").arg(&spool).args(more).stdout(std::process::Stdio::piped());
        let mut agent = Background(agent.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(agent.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        agent.signal(libc::SIGTERM);
        assert_eq!(agent.finish().status.code(), Some(0));
        line
    };
    let line = first_line(&[]);
    assert!(line.contains("means of 10 s to http://127.0.0.1:1 as here, every 7 s"), "{line}");
    assert!(first_line(&["--every", "0"]).contains("each result to"));
    let line = json(&first_line(&["--json"]));
    assert_eq!((&line["url"], &line["interval_s"]), (&"http://127.0.0.1:1".into(), &7.into()));
}

#[test]
fn peers_that_the_service_names_follow_it_and_stay_while_it_is_away() {
    let scratch = Scratch::new();
    let kept = scratch.path("peers");
    let service = Service::start(&[]);
    service.put("/v1/clients/192.0.2.7");
    service.put("/v1/clients/no-such-host.invalid");
    let every = Duration::from_millis(50);
    let named = |url: &str| Named::start(client(url, &scratch), kept.clone(), every);
    let first = named(&service.url);
    assert_eq!(first.peers, HashSet::from([DST.to_string()]));
    service.put("/v1/clients/2001:DB8::0:7");
    let both = HashSet::from([DST.to_string(), "2001:db8::7".to_string()]);
    assert_eq!(first.changes.recv_timeout(Duration::from_secs(20)).unwrap(), both);
    let url = service.url.clone();
    drop(service);
    let later = named(&url);
    assert_eq!(later.peers, both);
    assert!(later.changes.recv_timeout(4 * every).is_err(), "nothing has changed");
}

/// A test of one peer costs 840 bytes, 1440 times a day.
#[test]
fn an_agent_tells_the_cost_of_testing_the_peers_that_the_service_names() {
    let service = Service::start(&[]);
    service.put("/v1/clients/192.0.2.7");
    let agent = |more: &[&str]| {
        let mut agent = std::process::Command::new(&*IMTCP);
        agent.args(["agent", "--url", &service.url, "--no-connections", "--peers-from-service"]);
        agent.args(["--ping", "60", "--spool"]).arg(service.scratch.path("spool")).args(more);
        agent.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        Background(agent.spawn().unwrap())
    };
    let mut running = agent(&[]);
    let lines = BufReader::new(running.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let lines: Vec<_> = lines.take(3).collect();
    assert_eq!(lines[1], "imtcp: 1 peer named by the service, asked again each minute");
    assert!(lines[2].contains("ping of 1 peer every 60 s: up to 840 bytes a test, 1.21 MB a day"));
    running.signal(libc::SIGTERM);
    assert_eq!(running.finish().status.code(), Some(0));
    let refused = agent(&["--test-budget", "1000000"]).finish();
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--test-budget is 1.00 MB"));
}

#[test]
fn a_batch_that_the_service_never_takes_is_put_aside_and_a_wrong_token_waits() {
    let scratch = Scratch::new();
    let mut spool = Spool::open(&scratch.path("spool"), 1_000_000).unwrap();
    let mut wrong = records(0, 1);
    wrong[0].source = "a\nb".into();
    spool.put(&wrong).unwrap();
    spool.put(&records(0, 1)).unwrap();
    let service = Service::start(&[]);
    let stranger =
        Client::new(&ServiceArgs { url: service.url.clone(), token_file: None, ca: None });
    assert!(send_all(&spool, &stranger.unwrap()).unwrap().waits.unwrap().contains("token"));
    let sent = send_all(&spool, &client(&service.url, &scratch)).unwrap();
    assert_eq!((sent.batches, sent.refused, sent.waits), (1, 1, None));
}

#[test]
fn a_full_spool_gives_up_the_oldest() {
    let scratch = Scratch::new();
    let mut spool = Spool::open(&scratch.path("spool"), 3_000).unwrap();
    let dropped: usize = (0..20).map(|i| spool.put(&records(i * 10, 10)).unwrap()).sum();
    let waiting = spool.waiting().unwrap();
    assert_eq!(dropped + waiting.len(), 20);
    assert!(fs::read_to_string(waiting.last().unwrap()).unwrap().contains("\"available_bps\":199"));
}
