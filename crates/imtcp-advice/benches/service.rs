// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! How fast the service answers and takes reports, over HTTP on loopback.
//!
//! The service has one thread; the clients have another, and the database its own. A year of
//! minutes on 100 paths, unless IMTCP_BENCH_DAYS and IMTCP_BENCH_PATHS say otherwise; SQLite in
//! a temporary directory, unless IMTCP_BENCH_DB names a file or a PostgreSQL database; one that
//! is filled already is used as it is.
//!
//! Delays count from when a request was due, at 5000 a second, so that none is left out that
//! had to wait for another; then as many as go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use imtcp_advice::record::Record;
use imtcp_advice::service::guard::{Access, Tokens};
use imtcp_advice::service::{listen, Config, Service};
use imtcp_advice::store::write::{Batch, Stored};
use imtcp_advice::store::{Place, Store};
use imtcp_advice::time::{now_us, MINUTE_US};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

const TOKEN: &str = "a-token-of-the-benchmark";
const CONNECTIONS: usize = 32;
const ADVICE_TIME: Duration = Duration::from_secs(10);
/// Requests a second, all connections together.
const PACE: f64 = 5_000.0;
const AGENTS: usize = 10_000;
const RECORDS_A_BATCH: usize = 20;

fn main() {
    let of = |name: &str, usual: i64| {
        std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(usual)
    };
    let (days, paths) = (of("IMTCP_BENCH_DAYS", 365), of("IMTCP_BENCH_PATHS", 100));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("history.db");
    let place =
        std::env::var("IMTCP_BENCH_DB").map_or_else(|_| Place::File(file), |url| Place::new(&url));
    let server =
        Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("runtime");
    let clients =
        Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("runtime");

    let started = Instant::now();
    server.block_on(fill(&place, days, paths));
    let filled = started.elapsed().as_secs_f64();
    let count = days * 1440 * paths;
    println!("{place}: {count} records in {filled:.0} s");

    for history in ["week", "all"] {
        let address = server.block_on(start(&place, history));
        clients.block_on(warm(address, paths));
        for pace in [Some(PACE), None] {
            let mut times = clients.block_on(advice(address, paths, pace));
            times.sort();
            let at = |share: f64| times[(times.len() as f64 * share) as usize % times.len()];
            println!(
                "advice, history={history}, {}: {:.0} a second, median {:?}, p99 {:?}, greatest {:?}",
                if pace.is_some() { "paced" } else { "as fast as it goes" },
                times.len() as f64 / ADVICE_TIME.as_secs_f64(),
                at(0.5),
                at(0.99),
                times[times.len() - 1],
            );
        }
        if history == "week" {
            let (records, took) = clients.block_on(ingest(address));
            let rate = records as f64 / took.as_secs_f64();
            println!("ingest: {rate:.0} records a second ({AGENTS} agents, {RECORDS_A_BATCH} records a batch)");
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or("VmHWM: ?");
    println!("memory at most, clients included: {}", memory.trim_start_matches("VmHWM:").trim());
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
        hop: String::new(),
        source: source.into(),
        time,
        available_bps: bps as u64,
        capacity_bps: Some(100_000_000),
        rtt_us: Some(30_000),
        loss: None,
        congested: None,
        validity_pct: None,
    }
}

async fn start(place: &Place, history: &str) -> SocketAddr {
    let store = Store::open(place).await.expect("the store opens");
    let settings = json!({ "history": history });
    store.change_settings("*", settings.as_object().expect("an object")).await.expect("set");
    let access = Access { write: Some(Tokens::new(&[TOKEN])), read: None };
    let config = Config { access, ..Config::default() };
    // The benchmark's history is not rolled up while it runs.
    let config = Config {
        retention: imtcp_advice::store::maintain::Retention {
            raw_days: 9999,
            minute_days: 9999,
            hour_days: 9999,
        },
        ..config
    };
    let service = Service::start(store, config).await.expect("the service starts");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(listen::serve(service, listener, None, std::future::pending()));
    address
}

/// Sends a request, reads its answer whole; returns its first line.
async fn ask(stream: &mut TcpStream, request: &[u8], buffer: &mut Vec<u8>) -> String {
    stream.write_all(request).await.expect("sent");
    buffer.clear();
    let head = loop {
        stream.read_buf(buffer).await.expect("an answer");
        if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&buffer[..head]).into_owned();
    let length = text
        .lines()
        .find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_string));
    let length: usize = length.and_then(|l| l.parse().ok()).expect("a length");
    while buffer.len() < head + length {
        stream.read_buf(buffer).await.expect("the rest");
    }
    text.lines().next().unwrap_or_default().to_string()
}

fn get_advice(path: i64) -> Vec<u8> {
    format!("GET /v1/advice?dst={}&bytes=1000000 HTTP/1.1\r\nHost: x\r\n\r\n", dst(path))
        .into_bytes()
}

/// Each path once, so that what is measured is the service at work and not at its start.
async fn warm(address: SocketAddr, paths: i64) {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let mut buffer = Vec::new();
    let started = Instant::now();
    for path in 0..paths {
        let line = ask(&mut stream, &get_advice(path), &mut buffer).await;
        assert!(line.contains("200"), "{line}");
    }
    println!("first advice of a path: {:?} on average", started.elapsed() / paths as u32);
}

async fn advice(address: SocketAddr, paths: i64, pace: Option<f64>) -> Vec<Duration> {
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for connection in 0..CONNECTIONS as i64 {
        tasks.push(tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("connected");
            let _ = stream.set_nodelay(true);
            let (mut buffer, mut times) = (Vec::new(), Vec::new());
            for i in 0.. {
                let turn = (i * CONNECTIONS as i64 + connection) as f64;
                let due =
                    pace.map_or_else(Instant::now, |p| begin + Duration::from_secs_f64(turn / p));
                if due > begin + ADVICE_TIME {
                    break;
                }
                tokio::time::sleep_until(due.into()).await;
                let request = get_advice((connection * 37 + i * 11) % paths);
                let line = ask(&mut stream, &request, &mut buffer).await;
                assert!(line.contains("200"), "{line}");
                times.push(due.elapsed());
            }
            times
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.expect("a client"));
    }
    all
}

/// Three batches of each agent, over as many connections as the machine has patience for.
async fn ingest(address: SocketAddr) -> (usize, Duration) {
    let now = now_us();
    let report = move |agent: usize, round: usize| {
        let dst = format!("10.1.{}.{}", agent / 250, agent % 250 + 1);
        let at = |i: usize| now - MINUTE_US + (round * RECORDS_A_BATCH + i) as i64 * 1000;
        let records: Vec<_> =
            (0..RECORDS_A_BATCH).map(|i| record(&dst, "agent", at(i), 5e7)).collect();
        let body =
            json!({ "batch": format!("{now}-{agent}-{round}"), "records": records }).to_string();
        let length = body.len();
        format!(
            "POST /v1/reports HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
    };
    let requests: Arc<Vec<Vec<u8>>> = Arc::new(
        (0..3)
            .flat_map(|r| (0..AGENTS).map(move |a| (a, r)))
            .map(|(a, r)| report(a, r).into_bytes())
            .collect(),
    );
    let senders = 500;
    let started = Instant::now();
    let mut tasks = Vec::new();
    for sender in 0..senders {
        let requests = Arc::clone(&requests);
        tasks.push(tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("connected");
            let mut buffer = Vec::new();
            for request in requests.iter().skip(sender).step_by(senders) {
                let line = ask(&mut stream, request, &mut buffer).await;
                assert!(line.contains("200"), "{line}");
            }
        }));
    }
    for task in tasks {
        task.await.expect("a sender");
    }
    (requests.len() * RECORDS_A_BATCH, started.elapsed())
}
