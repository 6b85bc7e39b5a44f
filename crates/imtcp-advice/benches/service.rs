// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! How fast the service answers and takes reports, over HTTP on loopback.
//!
//! The service has one thread, each connection of a client another, and the database its own. A
//! year of minutes on 100 paths, unless IMTCP_BENCH_DAYS and IMTCP_BENCH_PATHS say otherwise;
//! first SQLite in a temporary directory, then a PostgreSQL of its own, unless IMTCP_BENCH_DB names
//! a file or a PostgreSQL database; one that is filled already is used as it is.
//!
//! Delays count from when a request was due, at 5000 a second, so that none is left out that
//! had to wait for another; then as many as go. The same requests for something that is not
//! there show what of the delays is the machine's, HTTP's and the clients'; and the same beside
//! reports for the paths that are asked about, what writing costs those who read. At the end a
//! service rolls up a twelfth of the history beside all of that. Such days are rolled up once: a
//! history that IMTCP_BENCH_DB names has enough of them for six runs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use imtcp_advice::service::guard::{Access, Tokens};
use imtcp_advice::service::{listen, Config, Service};
use imtcp_advice::store::maintain::Retention;
use imtcp_advice::store::read::PathInfo;
use imtcp_advice::store::write::{Batch, Stored};
use imtcp_advice::store::{Place, Store};
use imtcp_client::record::{Kind, Record};
use imtcp_client::time::{now_us, MINUTE_US};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

#[path = "../tests/support/mod.rs"]
mod support;
use support::Postgres;

const TOKEN: &str = "a-token-of-the-benchmark";
const CONNECTIONS: usize = 32;
const ASKING_TIME: Duration = Duration::from_secs(10);
/// Requests a second, all connections together.
const PACE: f64 = 5_000.0;
const AGENTS: usize = 10_000;
const RECORDS_A_BATCH: usize = 20;
/// Records a second beside what is asked, and the connections that bring them.
const REPORTED: f64 = 10_000.0;
const REPORTERS: usize = 8;

fn main() {
    let of = |name: &str, usual: i64| {
        std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(usual)
    };
    let (days, paths) = (of("IMTCP_BENCH_DAYS", 365), of("IMTCP_BENCH_PATHS", 100));
    if let Ok(place) = std::env::var("IMTCP_BENCH_DB") {
        return bench(&Place::new(&place).expect("a place"), days, paths);
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    bench(&Place::File(dir.path().join("history.db")), days, paths);
    drop(dir);
    match Postgres::start_own(&[]) {
        Ok(postgres) => bench(&postgres.place(), days, paths),
        Err(why) => println!("PostgreSQL: left out: {why}"),
    }
}

fn bench(place: &Place, days: i64, paths: i64) {
    // The most memory is that of this database's turn.
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux lets a process forget its peak");
    let server =
        Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("runtime");

    let started = Instant::now();
    server.block_on(fill(place, days, paths));
    let filled = started.elapsed().as_secs_f64();
    let count = days * 1440 * paths;
    println!("{place}: {count} records in {filled:.0} s");

    for history in ["week", "all"] {
        let service = server.block_on(start(place, history, 9999));
        let address = service.address;
        warm(address, paths);
        let advice = |path| format!("/v1/advice?dst={}&bytes=1000000", dst(path % paths));
        for pace in [Some(PACE), None] {
            let nothing = |_| "/nothing".to_string();
            report("nothing", pace, gets(address, pace, "404", nothing));
            let asked = Asked::of(address);
            report(&format!("advice, history={history}"), pace, gets(address, pace, "200", advice));
            asked.report(address);
        }
        let asked = Asked::of(address);
        let beside = beside_reports(address, paths, || gets(address, Some(PACE), "200", advice));
        report(&format!("advice, history={history}, beside reports"), Some(PACE), beside);
        asked.report(address);
        if history == "week" {
            let (records, took) = ingest(address);
            let rate = records as f64 / took.as_secs_f64();
            println!("ingest: {rate:.0} records a second ({AGENTS} agents, {RECORDS_A_BATCH} records a batch)");
        }
        server.block_on(service.end());
        let rolled_days = server.block_on(rolled_days(place, days));
        let raw_days = days - rolled_days - days / 12;
        let service = server.block_on(start(place, history, raw_days as u32));
        let address = service.address;
        warm(address, paths);
        let asked = Asked::of(address);
        let beside = beside_reports(address, paths, || gets(address, Some(PACE), "200", advice));
        let what = format!("advice, history={history}, beside reports and a roll-up");
        report(&what, Some(PACE), beside);
        asked.report(address);
        let at_work = server.block_on(self::rolled_days(place, days)) < rolled_days + days / 12;
        println!("the roll-up {} then", if at_work { "was still at work" } else { "had ended by" });
        server.block_on(service.end());
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or("VmHWM: ?");
    println!("memory at most, clients included: {}", memory.trim_start_matches("VmHWM:").trim());
}

/// The service's own count of its advice: all of it, and that within 2 ms by its clock.
struct Asked {
    all: f64,
    within_2_ms: f64,
}

impl Asked {
    fn of(address: SocketAddr) -> Self {
        let (mut stream, mut buffer) = (connect(address), Vec::new());
        ask(&mut stream, &get("/metrics"), "200", &mut buffer);
        let text = String::from_utf8_lossy(&buffer).into_owned();
        let value = |name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name)).expect("a metric");
            line.trim().parse().expect("a number")
        };
        let [all, within_2_ms] = ["count", "bucket{le=\"0.002\"}"]
            .map(|of| value(&format!("imtcp_advice_seconds_{of} ")));
        Asked { all, within_2_ms }
    }

    fn report(&self, address: SocketAddr) {
        let now = Self::of(address);
        let share = (now.within_2_ms - self.within_2_ms) / (now.all - self.all);
        println!("in the service, {:.2} % of them took 2 ms at most", share * 100.0);
    }
}

fn report(what: &str, pace: Option<f64>, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[(times.len() as f64 * share) as usize % times.len()];
    println!(
        "{what}, {}: {:.0} a second, median {:?}, p99 {:?}, greatest {:?}",
        if pace.is_some() { "paced" } else { "as fast as it goes" },
        times.len() as f64 / ASKING_TIME.as_secs_f64(),
        at(0.5),
        at(0.99),
        times[times.len() - 1],
    );
}

fn dst(path: i64) -> String {
    format!("10.0.{}.{}", path / 250, path % 250 + 1)
}

async fn fill(place: &Place, days: i64, paths: i64) {
    let store = Store::open(place).await.expect("the store opens");
    if !store.path_names("", 1).await.expect("names").is_empty() {
        return store.close().await;
    }
    let now = now_us() / MINUTE_US * MINUTE_US;
    for path in 0..paths {
        for chunk in 0..(days + 29) / 30 {
            let minutes = (days - chunk * 30).min(30) * 1440;
            let first = now - (days - chunk * 30) * 1440 * MINUTE_US;
            let record = |i: i64| -> Stored {
                let wave = (i % 1440) as f64 / 1440.0 * std::f64::consts::TAU;
                let noise = (i * 7919 % 997) as f64 * 1e3;
                record(&dst(path), "fill", first + i * MINUTE_US, 6e7 + 2e7 * wave.sin() + noise)
                    .into()
            };
            let records = (0..=minutes).map(record).collect();
            store.write(&[Batch { id: None, records }], now).await.expect("a batch is written");
        }
    }
    store.close().await;
}

fn record(dst: &str, source: &str, time: i64, bps: f64) -> Record {
    Record {
        dst: dst.into(),
        source: source.into(),
        time,
        available_bps: Some(bps as u64),
        capacity_bps: Some(100_000_000),
        rtt_us: Some(30_000),
        ..Record::default()
    }
}

/// How many of the oldest days are rolled up on all paths: those of the last one, whose turn is last.
async fn rolled_days(place: &Place, days: i64) -> i64 {
    let store = Store::open(place).await.expect("the store opens");
    let mut names = store.path_names("10.0.", 1000).await.expect("names");
    names.retain(|name| name.starts_with("10.0."));
    let mut last: Option<PathInfo> = None;
    for name in names {
        let path = store.path(&name).await.expect("a path").expect("it is there");
        let filled =
            |p: &PathInfo| p.series.iter().filter(|s| s.source == "fill").map(|s| s.id).max();
        if last.as_ref().is_none_or(|l| filled(&path) > filled(l)) {
            last = Some(path);
        }
    }
    let last = last.expect("a path");
    let series = last.series.iter().find(|s| s.source == "fill").expect("a series");
    let mut rolled = 0;
    let oldest_us = series.oldest_us.expect("records");
    for day in 0..days {
        let from = (oldest_us + (day * 1440 + 720) * MINUTE_US, 0);
        let of = (series, Kind::Bandwidth);
        let found = store.stored(&last.dst, of, from, i64::MAX, 1).await.expect("records");
        if found.first().is_none_or(|s| s.span_s == 0) {
            break;
        }
        rolled = day + 1;
    }
    store.close().await;
    rolled
}

/// A service on a port of its own. Two at one history would each take the other's writes for a
/// stranger's, and forget all that they keep.
struct Running {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Running {
    async fn end(self) {
        self.end.send(()).expect("it runs");
        self.ended.await.expect("it ends");
    }
}

async fn start(place: &Place, history: &str, raw_days: u32) -> Running {
    let store = Store::open(place).await.expect("the store opens");
    let settings = json!({ "history": history });
    store.change_settings("*", settings.as_object().expect("an object")).await.expect("set");
    let access = Access { write: Some(Tokens::new(&[TOKEN])), read: None };
    let config = Config { access, ..Config::default() };
    let forever =
        Retention { raw_days, minute_days: 9999, hour_days: 9999, ..Retention::default() };
    let config = Config { retention: forever, ..config };
    let service = Service::start(store, config).await.expect("the service starts");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (_, no_tls) = tokio::sync::watch::channel(None);
    let (end, told) = oneshot::channel();
    let ended = tokio::spawn(async move {
        let told = async { told.await.unwrap_or(()) };
        listen::serve(service, listener, no_tls, told).await.expect("it serves");
    });
    Running { address, end, ended }
}

/// Sends a request, reads its answer whole; fails unless it has this status.
fn ask(stream: &mut TcpStream, request: &[u8], status: &str, buffer: &mut Vec<u8>) {
    stream.write_all(request).expect("sent");
    buffer.clear();
    let mut read = |buffer: &mut Vec<u8>| {
        let mut part = [0; 16 << 10];
        let length = stream.read(&mut part).expect("an answer");
        assert!(length > 0, "the service has closed the connection");
        buffer.extend(&part[..length]);
    };
    let head = loop {
        read(buffer);
        if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|l| l.strip_prefix("content-length: "));
    let length: usize = length.and_then(|l| l.parse().ok()).expect("a length");
    assert_eq!(text.split(' ').nth(1), Some(status), "{text}");
    while buffer.len() < head + length {
        read(buffer);
    }
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_nodelay(true).expect("no delay");
    stream
}

/// Each path once, so that what is measured is the service at work and not at its start: neither does
/// it see a source for the first time later.
fn warm(address: SocketAddr, paths: i64) {
    let (mut stream, mut buffer) = (connect(address), Vec::new());
    for path in 0..paths {
        let first_us = now_us() - 100_000;
        let request = post(&dst(path), &format!("{first_us}-warm-{path}"), first_us);
        ask(&mut stream, &request, "200", &mut buffer);
    }
    let started = Instant::now();
    for path in 0..paths {
        let request = get(&format!("/v1/advice?dst={}", dst(path)));
        ask(&mut stream, &request, "200", &mut buffer);
    }
    println!("first advice of a path: {:?} on average", started.elapsed() / paths as u32);
}

/// Asks over all connections; tells how long each answer took from when it was due.
fn gets(
    address: SocketAddr,
    pace: Option<f64>,
    status: &str,
    what: impl Fn(i64) -> String + Sync,
) -> Vec<Duration> {
    let begin = Instant::now();
    let client = |connection: i64| {
        let (mut stream, mut buffer) = (connect(address), Vec::new());
        let mut times = Vec::new();
        for i in 0.. {
            let turn = (i * CONNECTIONS as i64 + connection) as f64;
            let due = pace.map_or_else(Instant::now, |p| begin + Duration::from_secs_f64(turn / p));
            if due > begin + ASKING_TIME {
                break;
            }
            // To some 50 µs, where a timer of tokio's has a millisecond.
            thread::sleep(due.saturating_duration_since(Instant::now()));
            ask(&mut stream, &get(&what(connection * 37 + i * 11)), status, &mut buffer);
            times.push(due.elapsed());
        }
        times
    };
    thread::scope(|scope| {
        let client = &client;
        let connections = 0..CONNECTIONS as i64;
        let threads: Vec<_> = connections.map(|c| scope.spawn(move || client(c))).collect();
        threads.into_iter().flat_map(|t| t.join().expect("a client")).collect()
    })
}

/// A batch of reports of one path.
fn post(dst: &str, batch: &str, first_us: i64) -> Vec<u8> {
    let at = |i: usize| first_us + i as i64 * 1000;
    let records: Vec<_> = (0..RECORDS_A_BATCH).map(|i| record(dst, "agent", at(i), 5e7)).collect();
    let body = json!({ "batch": batch, "records": records }).to_string();
    let length = body.len();
    let head = format!(
        "POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    (head + &body).into_bytes()
}

/// Does something, and sends batches for one path after the other beside it, as many as are due.
fn beside_reports<T>(address: SocketAddr, paths: i64, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let stored = AtomicUsize::new(0);
    let reporter = |reporter: usize| {
        let (mut stream, mut buffer) = (connect(address), Vec::new());
        for i in (reporter..).step_by(REPORTERS) {
            let due_s = (i * RECORDS_A_BATCH) as f64 / REPORTED;
            let due = begin + Duration::from_secs_f64(due_s);
            if due > begin + ASKING_TIME || begin.elapsed() > ASKING_TIME {
                break;
            }
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // Each of its own times: a path's next batch comes 0.2 s later.
            let first_us = now_us() - 100_000;
            let request = post(&dst(i as i64 % paths), &format!("{first_us}-{i}"), first_us);
            ask(&mut stream, &request, "200", &mut buffer);
            stored.fetch_add(RECORDS_A_BATCH, Ordering::Relaxed);
        }
    };
    let done = thread::scope(|scope| {
        let reporter = &reporter;
        for one in 0..REPORTERS {
            scope.spawn(move || reporter(one));
        }
        work()
    });
    let rate = stored.into_inner() as f64 / begin.elapsed().as_secs_f64();
    println!("beside it: {rate:.0} records a second of {REPORTED:.0} that were due");
    done
}

/// Three batches of each agent, over as many connections as the machine has patience for.
fn ingest(address: SocketAddr) -> (usize, Duration) {
    let now = now_us();
    let report = |agent: usize, round: usize| {
        let dst = format!("10.1.{}.{}", agent / 250, agent % 250 + 1);
        let first_us = now - MINUTE_US + (round * RECORDS_A_BATCH) as i64 * 1000;
        post(&dst, &format!("{now}-{agent}-{round}"), first_us)
    };
    let requests: Vec<Vec<u8>> =
        (0..3).flat_map(|r| (0..AGENTS).map(move |a| (a, r))).map(|(a, r)| report(a, r)).collect();
    let senders = 500;
    let started = Instant::now();
    thread::scope(|scope| {
        for sender in 0..senders {
            let requests = &requests;
            scope.spawn(move || {
                let (mut stream, mut buffer) = (connect(address), Vec::new());
                for request in requests.iter().skip(sender).step_by(senders) {
                    ask(&mut stream, request, "200", &mut buffer);
                }
            });
        }
    });
    (requests.len() * RECORDS_A_BATCH, started.elapsed())
}
