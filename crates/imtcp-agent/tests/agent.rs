// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The agent's way to the service, and its peers from there.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use imtcp_agent::clock::Clock;
use imtcp_agent::from_service;
use imtcp_agent::send::{Sender, Sent};
use imtcp_agent::spool::{Batch, Spool};
use imtcp_agent::writer::Writer;
use imtcp_client::http::Client;
use imtcp_client::record::Record;
use imtcp_client::service::ServiceArgs;
use imtcp_test_support::advice::*;
use imtcp_test_support::*;
use nix::sys::stat::Mode;
use serde_json::json;

fn client(url: &str, scratch: &Scratch) -> Client {
    let token_file = Some(token_file(scratch));
    Client::new(&ServiceArgs { url: url.into(), token_file, ca: None }).unwrap()
}

fn open(dir: &Path, most_bytes: u64) -> Spool {
    Spool::open(dir, most_bytes, Clock::start()).unwrap()
}

fn send_all(spool: &Spool, client: Client) -> Sent {
    Sender::new(spool.clone(), client).send_all()
}

fn batch_in(file: &Path) -> Batch {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// Values of the bandwidth in the history, as they were put there.
fn stored(service: &Service) -> Vec<String> {
    let all = advice_ok(&["export", "--db", service.db().to_str().unwrap()]);
    let mut lines = all.lines().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
    let column = lines.next().unwrap().iter().position(|c| c == "available_bps").unwrap();
    lines.map(|row| row[column].clone()).collect()
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
    let mut spool = open(&dir, 1_000_000);
    spool.put(&records(0, 10)).unwrap();
    let away = client("http://127.0.0.1:1", &scratch);
    assert!(send_all(&spool, away).waits.unwrap().contains("connection refused"));
    // The agent's next life finds them.
    let mut spool = open(&dir, 1_000_000);
    spool.put(&records(10, 5)).unwrap();
    let waiting = spool.waiting().unwrap();
    assert_eq!(waiting.len(), 2);
    let service = Service::start(&[]);
    let here = client(&service.url, &scratch);
    // Sent, and the receipt lost: it comes again under the same id.
    here.report(&batch_in(&waiting[0]).report(0)).unwrap();
    let sent = send_all(&spool, here);
    assert_eq!(sent, Sent { batches: 2, records: 5, ..Sent::default() });
    assert_eq!(spool.waiting().unwrap().len(), 0);
    assert_eq!(stored(&service).len(), 15);
}

#[test]
fn a_spool_is_of_one_agent() {
    let scratch = Scratch::new();
    let spool = open(&scratch.path("spool"), 1_000_000);
    let lock = spool.lock().unwrap();
    let e = open(&scratch.path("spool"), 1_000_000).lock().unwrap_err().to_string();
    assert!(e.starts_with("another imtcp-agent uses the spool"), "{e}");
    drop(lock);
    spool.lock().unwrap();
}

#[test]
fn the_agent_says_where_it_sends_and_how_often() {
    let Some(_alone) = alone() else { return };
    let scratch = Scratch::new();
    let spool = scratch.path("spool");
    let first_line = |more: &[&str]| {
        let mut agent = std::process::Command::new(&*IMTCP_AGENT);
        agent.args(["feed", "--url", "http://127.0.0.1:1", "--source", "here", "--interval", "7"]);
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
    // A name may lead anywhere.
    service.put("/v1/clients/localhost");
    let every = Duration::from_millis(50);
    let named = |url: &str| from_service::start(client(url, &scratch), kept.clone(), every);
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
    let started = |more: &[&str]| {
        let mut agent = std::process::Command::new(&*IMTCP_AGENT);
        agent.args(["feed", "--url", &service.url, "--no-connections", "--peers-from-service"]);
        agent.args(["--ping", "60", "--spool"]).arg(service.scratch.path("spool")).args(more);
        agent.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        Background(agent.spawn().unwrap())
    };
    let mut running = started(&[]);
    let lines = BufReader::new(running.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let lines: Vec<_> = lines.take(3).collect();
    assert_eq!(lines[1], "imtcp-agent: 1 peer named by the service, asked again each minute");
    assert!(lines[2].contains("ping of 1 peer every 60 s: up to 840 bytes a test, 1.21 MB a day"));
    running.signal(libc::SIGTERM);
    assert_eq!(running.finish().status.code(), Some(0));
    let mut left_out = started(&["--test-budget", "1000000"]);
    let mut said = BufReader::new(left_out.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let about_budget = said.find(|line| line.contains("--test-budget")).unwrap();
    assert_eq!(about_budget, "imtcp-agent: 1 peer not tested: more would cost over --test-budget");
    left_out.signal(libc::SIGTERM);
    assert_eq!(left_out.finish().status.code(), Some(0));
}

#[test]
fn one_bad_record_does_not_condemn_its_batch() {
    let scratch = Scratch::new();
    let dir = scratch.path("spool");
    let mut spool = open(&dir, 1_000_000);
    let mut some_wrong = records(0, 5);
    some_wrong[1].source = "a\nb".into();
    some_wrong[3].rtt_us = Some(u64::MAX >> 1);
    spool.put(&some_wrong).unwrap();
    let mut all_wrong = records(5, 1);
    all_wrong[0].source = "a\nb".into();
    spool.put(&all_wrong).unwrap();
    spool.put(&records(6, 1)).unwrap();
    let kept = fs::read(&spool.waiting().unwrap()[0]).unwrap();
    let service = Service::start(&[]);
    let sent = send_all(&spool, client(&service.url, &scratch));
    let expected = Sent { batches: 2, records: 4, refused_records: 3, ..Sent::default() };
    assert_eq!(sent, expected);
    assert_eq!(stored(&service), ["0", "2", "4", "6"]);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "nothing waits and nothing is put aside");
    // A kill before the file was removed: the rest has the same id again.
    fs::write(dir.join("0.json"), kept).unwrap();
    let again = send_all(&spool, client(&service.url, &scratch));
    assert_eq!((again.batches, again.records), (1, 0));
    assert_eq!(stored(&service).len(), 4);
}

#[test]
fn records_that_the_service_leaves_out_are_counted_and_hold_up_no_batch() {
    let scratch = Scratch::new();
    let mut spool = open(&scratch.path("spool"), 1_000_000);
    spool.put(&records(0, 3)).unwrap();
    let service = Service::start(&["--most-paths", "1"]);
    assert_eq!(service.report("first", &[record("2026-03-20T14:25:00Z", 1)]).0, 200);
    let mut others = records(3, 2);
    others.iter_mut().for_each(|r| r.dst = "192.0.2.99".into());
    spool.put(&others).unwrap();
    let sent = send_all(&spool, client(&service.url, &scratch));
    let expected = Sent { batches: 2, records: 3, refused_records: 2, ..Sent::default() };
    assert_eq!(sent, expected);
}

#[test]
fn a_wrong_report_says_which_records_are_wrong_and_stores_none_of_its_batch() {
    let service = Service::start(&[]);
    let mut batch = vec![record("2026-03-20T14:25:00Z", 1); 3];
    batch[1]["dst"] = "a b".into();
    batch[2]["rtt_us"] = (u64::MAX >> 1).into();
    let (status, problem) = service.report("1", &batch);
    assert_eq!(status, 400, "{problem}");
    assert!(
        problem["detail"].as_str().unwrap().starts_with("record 1 of the batch: "),
        "{problem}"
    );
    let refused = problem["refused"].as_array().unwrap();
    let places: Vec<_> = refused.iter().map(|r| r["record"].as_u64().unwrap()).collect();
    assert_eq!(places, [1, 2]);
    assert!(refused[1]["why"].as_str().unwrap().contains("rtt_us is at most an hour"));
    assert_eq!(stored(&service).len(), 0);
    // A line that is no record is one of them.
    let wrong = [
        ("time", json!(1_774_016_700), "expected a time of RFC 3339 in quotes, as \"2026-"),
        ("time", json!("14:25"), "'14:25' is not a time: write RFC 3339"),
        ("available_bps", json!(-5), "available_bps: -5 is below 0: write 0 or more"),
        ("colour", json!("red"), "unknown field `colour`"),
        ("available_bps", json!("5"), "available_bps: invalid type: string"),
    ];
    let mut batch = vec![record("2026-03-20T14:25:00Z", 1); wrong.len() + 2];
    for (record, (field, value, _)) in batch.iter_mut().zip(&wrong) {
        record[field] = value.clone();
    }
    batch[wrong.len()].as_object_mut().unwrap().remove("time");
    let (status, problem) = service.report("2", &batch);
    assert_eq!((status, problem["refused"].as_array().unwrap().len()), (400, wrong.len() + 1));
    let whys = wrong.iter().map(|(_, _, why)| *why).chain(["missing field `time`"]);
    for (i, says) in whys.enumerate() {
        let refused = &problem["refused"][i];
        let why = refused["why"].as_str().unwrap();
        assert!(why.contains(says) && !why.contains("column"), "{why}");
        assert_eq!(refused["record"], i);
    }
    assert_eq!(stored(&service).len(), 0);
    // A body that is no report names no record.
    assert_eq!(service.post("/v1/reports", Some(TOKEN), "[]").1.get("refused"), None);
}

#[test]
fn a_batch_that_the_service_never_takes_is_put_aside_and_a_wrong_token_waits() {
    let scratch = Scratch::new();
    let dir = scratch.path("spool");
    let mut spool = open(&dir, 1_000_000);
    // Of another imtcp.
    spool.put(&records(0, 1)).unwrap();
    let file = &spool.waiting().unwrap()[0];
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, text.replace("available_bps", "colour")).unwrap();
    spool.put(&records(0, 1)).unwrap();
    let service = Service::start(&[]);
    let stranger =
        Client::new(&ServiceArgs { url: service.url.clone(), token_file: None, ca: None });
    assert!(send_all(&spool, stranger.unwrap()).waits.unwrap().contains("token"));
    let sent = send_all(&spool, client(&service.url, &scratch));
    assert_eq!((sent.batches, sent.records, sent.waits), (1, 1, None));
    let left: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left, [dir.join(format!("{:020}.refused", 0))]);
}

#[test]
fn what_is_put_aside_counts_in_the_spools_bound_and_goes_first() {
    let scratch = Scratch::new();
    let dir = scratch.path("spool");
    fs::create_dir_all(&dir).unwrap();
    for number in 0..3 {
        fs::write(dir.join(format!("{number:020}.refused")), vec![b' '; 1_000]).unwrap();
    }
    let mut spool = open(&dir, 3_000);
    spool.put(&records(0, 10)).unwrap();
    spool.put(&records(10, 10)).unwrap();
    let bytes = |ending: &str| -> u64 {
        let all = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path());
        let ending_so = all.filter(|path| path.extension().is_some_and(|e| e == ending));
        ending_so.map(|path| fs::metadata(path).unwrap().len()).sum()
    };
    assert!(bytes("json") + bytes("refused") <= 3_000);
    let refused = fs::read_dir(&dir)
        .unwrap()
        .filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|e| e == "refused"));
    // Removed files are counted: the log had said that they are kept.
    let gone = 3 - refused.count() as u64;
    assert_eq!((spool.waiting().unwrap().len(), spool.dropped()), (2, gone));
    assert!(gone > 0);
}

#[test]
fn a_full_spool_gives_up_the_oldest() {
    let scratch = Scratch::new();
    let mut spool = open(&scratch.path("spool"), 3_000);
    for i in 0..20 {
        spool.put(&records(i * 10, 10)).unwrap();
    }
    let waiting = spool.waiting().unwrap();
    assert_eq!(spool.dropped() as usize + waiting.len(), 20);
    assert!(fs::read_to_string(waiting.last().unwrap()).unwrap().contains("\"available_bps\":199"));
}

/// The sender removes what a full spool wants to remove, at the same moment.
#[test]
fn a_full_spool_that_is_emptied_at_the_same_time_takes_every_batch() {
    let scratch = Scratch::new();
    let mut spool = open(&scratch.path("spool"), 3_000);
    let emptied = spool.clone();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                for path in emptied.waiting().unwrap() {
                    let _ = fs::remove_file(path);
                }
            }
        });
        let put: Result<Vec<u64>, _> = (0..300).map(|i| spool.put(&records(i, 10))).collect();
        ended.store(true, Ordering::Relaxed);
        put.unwrap();
    });
}

#[test]
fn batches_are_numbered_on_from_those_that_wait_whatever_the_clock_says() {
    let scratch = Scratch::new();
    let dir = scratch.path("spool");
    fs::create_dir_all(&dir).unwrap();
    // An older imtcp's file, from the year 2100.
    let old = dir.join("04102444800000000000-000001-0000abcd.json");
    let batch = serde_json::json!({"batch": "old", "records": records(0, 1)});
    fs::write(&old, batch.to_string()).unwrap();
    for i in 1..3 {
        open(&dir, 1_000_000).put(&records(i, 1)).unwrap();
    }
    let spool = open(&dir, 1_000_000);
    let order: Vec<_> =
        spool.waiting().unwrap().iter().map(|f| batch_in(f).records[0].available_bps).collect();
    assert_eq!(order, [Some(0), Some(1), Some(2)]);
    let service = Service::start(&[]);
    assert_eq!(send_all(&spool, client(&service.url, &scratch)).records, 3);
}

/// More than the service takes in one batch, and of both kinds.
#[test]
fn many_results_become_several_batches_of_one_kind() {
    let scratch = Scratch::new();
    let spool = open(&scratch.path("spool"), 100_000_000);
    let mut all = records(0, 10_001);
    all.push(Record { available_bps: None, rtt_us: Some(1), ..records(0, 1)[0].clone() });
    Writer::new(spool.clone()).put(all);
    let sizes: Vec<_> =
        spool.waiting().unwrap().iter().map(|f| batch_in(f).records.len()).collect();
    assert_eq!(sizes, [5_000, 5_000, 1, 1]);
    let service = Service::start(&[]);
    assert_eq!(send_all(&spool, client(&service.url, &scratch)).records, 10_002);
}

/// At 64 kbit/s each takes half of what the service waits.
#[test]
fn a_large_batch_is_sent_in_pieces_of_64_kb_and_in_the_same_ones_again() {
    let scratch = Scratch::new();
    let mut spool = open(&scratch.path("spool"), 100_000_000);
    spool.put(&records(0, 5_000)).unwrap();
    let pieces = || batch_in(&spool.waiting().unwrap()[0]).parts();
    let (first, again) = (pieces(), pieces());
    assert_eq!(first, again);
    assert!(first.iter().all(|piece| piece.report(0).len() < 65_000));
    assert_eq!(first.iter().map(|piece| piece.records.len()).sum::<usize>(), 5_000);
    let ids: HashSet<_> = first.iter().map(Batch::id).collect();
    assert!(ids.len() == first.len() && ids.len() < 10, "{}", ids.len());
}

/// A captive portal, or another program at the URL.
#[test]
fn what_is_no_receipt_leaves_the_batch_in_the_spool() {
    let url = answering(|_| r#"{"status": "ok"}"#.into());
    let scratch = Scratch::new();
    let mut spool = open(&scratch.path("spool"), 1_000_000);
    spool.put(&records(0, 3)).unwrap();
    let sent = send_all(&spool, client(&url, &scratch));
    assert_eq!((sent.batches, sent.records), (0, 0));
    assert!(sent.waits.unwrap().contains("no receipt"));
    assert_eq!(spool.waiting().unwrap().len(), 1);
}

/// A service that answers each request with what this makes of its body.
fn answering(answer: fn(&str) -> String) -> String {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut request, mut chunk) = (String::new(), [0; 65536]);
            // A report is an object; what asks has a head alone.
            while !request.ends_with('}') && !request.ends_with("\r\n\r\n")
                || request.starts_with("POST") && request.ends_with("\r\n\r\n")
            {
                let n = stream.read(&mut chunk).unwrap();
                request += &String::from_utf8_lossy(&chunk[..n]);
            }
            let body = answer(&request);
            let head = format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}{body}").as_bytes());
        }
    });
    url
}

#[test]
fn what_a_receipt_claims_to_have_stored_or_refused_ends_no_sender() {
    let url = answering(|request| {
        let id = request.split("\"batch\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let most = u64::MAX;
        let (id, because) = (id.unwrap_or_default(), "full");
        serde_json::json!({
            "status": "ok", "batch": id, "stored": most, "refused": most, "because": because,
        })
        .to_string()
    });
    let scratch = Scratch::new();
    let mut spool = open(&scratch.path("spool"), 1_000_000);
    for i in 0..3 {
        spool.put(&records(i, 1)).unwrap();
    }
    let sent = send_all(&spool, client(&url, &scratch));
    assert_eq!((sent.batches, sent.records), (3, u64::MAX));
    assert!(spool.waiting().unwrap().is_empty());
}

#[test]
fn what_is_no_batch_in_a_spool_is_left_alone_and_costs_no_batch() {
    let scratch = Scratch::new();
    let dir = scratch.path("spool");
    open(&dir, 1_000_000).put(&records(0, 1)).unwrap();
    let others =
        ["zzz.json", "old.refused", "18446744073709551615.json", "99999999999999999999999.json"];
    for name in others {
        fs::write(dir.join(name), "{}").unwrap();
    }
    std::os::unix::fs::symlink("/dev/zero", dir.join("00000000000000000007.json")).unwrap();
    nix::unistd::mkfifo(&dir.join("00000000000000000008.json"), Mode::S_IRUSR).unwrap();
    fs::create_dir(dir.join("00000000000000000009.refused")).unwrap();
    let mut spool = open(&dir, 1_000_000);
    spool.put(&records(1, 1)).unwrap();
    let service = Service::start(&[]);
    let sent = send_all(&spool, client(&service.url, &scratch));
    assert_eq!((sent.batches, sent.records, sent.refused_batches), (2, 2, 0));
    assert_eq!(stored(&service), ["0", "1"]);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), others.len() + 3);
}

/// A file with holes: no disk has so much.
#[test]
fn a_file_that_is_larger_than_any_batch_is_put_aside_and_not_read_whole() {
    let scratch = Scratch::new();
    let dir = scratch.path("spool");
    open(&dir, 1 << 50);
    let large = fs::File::create(dir.join(format!("{:020}.json", 0))).unwrap();
    large.set_len(1 << 40).unwrap();
    fs::File::create(dir.join("peers")).unwrap().set_len(1 << 40).unwrap();
    let mut spool = open(&dir, 1 << 50);
    spool.put(&records(0, 1)).unwrap();
    let service = Service::start(&[]);
    let sent = send_all(&spool, client(&service.url, &scratch));
    assert_eq!((sent.records, sent.refused_batches, sent.unreadable), (1, 1, None));
    let every = Duration::from_secs(60);
    let named =
        from_service::start(client("http://127.0.0.1:1", &scratch), dir.join("peers"), every);
    assert!(named.peers.is_empty());
}

#[test]
fn a_spool_that_others_may_write_is_refused_and_so_is_one_of_another_user() {
    use std::os::unix::fs::{chown, PermissionsExt};
    let scratch = Scratch::new();
    let dir = scratch.path("spool");
    open(&dir, 1_000_000);
    let refusal = || Spool::open(&dir, 1_000_000, Clock::start()).err().map(|e| format!("{e:#}"));
    for mode in [0o770, 0o702, 0o1777] {
        fs::set_permissions(&dir, PermissionsExt::from_mode(mode)).unwrap();
        let e = refusal().unwrap_or_default();
        assert!(
            e.contains("other users may write to the spool") && e.contains("chmod go-w"),
            "{e}"
        );
    }
    fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(refusal(), None);
    if chown(&dir, Some(65_534), None).is_ok() {
        let e = refusal().unwrap_or_default();
        assert!(e.contains("belongs to another user (uid 65534)"), "{e}");
    }
}

/// As they are where a spool once had wider rights.
#[test]
fn files_of_other_users_in_a_spool_are_left_out_with_one_sentence() {
    use std::os::unix::fs::chown;
    let scratch = Scratch::new();
    let dir = scratch.path("spool");
    let mut spool = open(&dir, 1_000_000);
    for i in 0..3 {
        spool.put(&records(i, 1)).unwrap();
    }
    fs::write(dir.join("peers"), "192.0.2.99\n").unwrap();
    let waiting = spool.waiting().unwrap();
    let planted = [&waiting[0], &waiting[1], &dir.join("peers")];
    if planted.iter().any(|file| chown(file, Some(65_534), None).is_err()) {
        eprintln!("skipped: only root gives files to others");
        return;
    }
    let service = Service::start(&[]);
    let sent = send_all(&spool, client(&service.url, &scratch));
    assert_eq!((sent.batches, sent.records, sent.unreadable), (1, 1, None));
    assert_eq!(stored(&service), ["2"]);
    let mut agent = std::process::Command::new(&*IMTCP_AGENT);
    agent.args(["feed", "--url", "http://127.0.0.1:1", "--no-connections", "--ping", "60"]);
    agent.args(["--peers-from-service", "--spool"]).arg(&dir);
    agent.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut agent = Background(agent.spawn().unwrap());
    let lines = BufReader::new(agent.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.take(2).last().unwrap().contains(" 0 peers named by the service"));
    agent.signal(libc::SIGTERM);
    let said = text(&agent.finish().stderr);
    let told: Vec<_> = said.lines().filter(|line| line.contains("of other users")).collect();
    assert!(told.len() == 1 && told[0].contains("3 files of other users"), "{said}");
}

#[test]
fn a_pipe_in_the_place_of_a_spools_lock_is_told() {
    let scratch = Scratch::new();
    let dir = scratch.path("spool");
    let spool = open(&dir, 1_000_000);
    nix::unistd::mkfifo(&dir.join("lock"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let e = format!("{:#}", spool.lock().unwrap_err());
    assert!(e.contains("cannot write") && e.contains("lock"), "{e}");
}

#[test]
fn a_source_that_no_record_may_have_is_refused_at_the_start() {
    for source in ["x".repeat(250), "a\tb".into()] {
        let options = ["feed", "--no-connections", "--ping", "60", "--peers", "/dev/null"];
        let mut agent = std::process::Command::new(&*IMTCP_AGENT);
        agent.args(options).args(["--source", &source, "--spool", "/nonexistent/spool"]);
        let done = agent.output().unwrap();
        assert_eq!(done.status.code(), Some(1));
        let said = text(&done.stderr);
        assert!(said.contains("--source: source is at most 255 characters"), "{said}");
    }
}

#[test]
fn a_spool_is_its_owners_alone_and_no_link_leads_its_files_elsewhere() {
    use std::os::unix::fs::{symlink, PermissionsExt};
    let scratch = Scratch::new();
    let (dir, victim) = (scratch.path("spool"), scratch.path("victim"));
    fs::write(&victim, "as it was").unwrap();
    let mut spool = open(&dir, 1_000_000);
    symlink(&victim, dir.join("00000000000000000000.new")).unwrap();
    spool.put(&records(0, 1)).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "as it was");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&spool.waiting().unwrap()[0]), 0o600);
}

#[test]
fn the_agent_reads_the_peers_that_the_service_s_command_writes_for_it() {
    let scratch = Scratch::new();
    let (log, file) = (scratch.path("access.log"), scratch.path("peers"));
    let line = |host| format!("{host} - - [22/Nov/2026:04:19:19 +0000] \"GET / HTTP/1.1\" 200 9\n");
    fs::write(&log, line("198.51.100.7") + &line("2001:db8::7")).unwrap();
    fs::write(&file, advice_ok(&["clients", "--peers", "--log", log.to_str().unwrap()])).unwrap();
    let mut peers: Vec<_> =
        imtcp_agent::peers_file::start(&file).unwrap().peers.into_iter().collect();
    peers.sort();
    assert_eq!(peers, ["198.51.100.7", "2001:db8::7"]);
}

#[test]
fn a_spool_that_cannot_be_made_is_told_with_the_option_that_names_another() {
    let output = agent(
        &"feed --no-connections --ping 60 --log log --spool /proc/no/spool"
            .split(' ')
            .collect::<Vec<_>>(),
    );
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("cannot make the spool /proc/no/spool (--spool names another): "),
        "{said}"
    );
}
