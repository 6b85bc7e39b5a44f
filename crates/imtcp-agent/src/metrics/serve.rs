// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Answers Prometheus. Whoever asks holds few connections, each not for long; of too many the one that has been
//! idle longest makes room.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use imtcp_client::hosts::Hosts;
use prometheus::{Encoder, Registry, TextEncoder};
use tokio::task::AbortHandle;

/// At once: a dozen scrapers, and some more.
const MOST_CONNECTIONS: usize = 16;
/// From the beginning of a connection to its end. Prometheus opens another.
const LONGEST: Duration = Duration::from_secs(60);
const HEAD_TIME: Duration = Duration::from_secs(5);
const HEAD_BYTES: usize = 16 * 1024;

/// Answers on a thread of its own, as long as this process lives.
pub fn start(listener: TcpListener, hosts: Hosts, registry: Registry) -> Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("metrics".into()).spawn(move || {
        runtime.block_on(serve(listener, hosts, registry));
    })?;
    Ok(())
}

/// Open connections by their numbers.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<HashMap<u64, Connection>>>);

struct Connection {
    /// Each request is answered at once.
    idle_since: Instant,
    task: AbortHandle,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Connection>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Where there are too many, ends the one that has been idle longest.
    fn make_room(&self) {
        let mut open = self.open();
        if open.len() < MOST_CONNECTIONS {
            return;
        }
        let longest = open.iter().min_by_key(|(_, one)| one.idle_since).map(|(number, _)| *number);
        if let Some(one) = longest.and_then(|number| open.remove(&number)) {
            one.task.abort();
        }
    }

    fn add(&self, number: u64, task: AbortHandle) {
        self.open().insert(number, Connection { idle_since: Instant::now(), task });
    }

    fn touch(&self, number: u64) {
        if let Some(one) = self.open().get_mut(&number) {
            one.idle_since = Instant::now();
        }
    }

    fn remove(&self, number: u64) {
        self.open().remove(&number);
    }
}

async fn serve(listener: TcpListener, hosts: Hosts, registry: Registry) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let (hosts, connections) = (Arc::new(hosts), Connections::default());
    for number in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, for one.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        connections.make_room();
        let (hosts, registry, own) = (Arc::clone(&hosts), registry.clone(), connections.clone());
        let task = tokio::spawn(async move {
            let answering = service_fn(|request| {
                own.touch(number);
                let answer = answer(&request, &hosts, &registry);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), answering);
            // A failed connection is the peer's affair.
            let _ = tokio::time::timeout(LONGEST, connection).await;
            own.remove(number);
        });
        // The task runs when this thread waits next.
        connections.add(number, task.abort_handle());
    }
}

fn answer(request: &Request<Incoming>, hosts: &Hosts, registry: &Registry) -> Response<String> {
    let plain = |status, text: &str| {
        let mut response = Response::new(text.to_string());
        *response.status_mut() = status;
        response
    };
    let headers = request.headers();
    if let Err(e) =
        hosts.may_call(request.uri(), headers).and_then(|()| hosts.may_come_from(headers))
    {
        return plain(e.status, &format!("{}\n", e.detail));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "GET is what there is\n");
    }
    match request.uri().path() {
        "/metrics" => {}
        "/" => return plain(StatusCode::OK, "imtcp-agent: the metrics are at /metrics\n"),
        _ => return plain(StatusCode::NOT_FOUND, "the metrics are at /metrics\n"),
    }
    let mut text = Vec::new();
    let encoder = TextEncoder::new();
    if encoder.encode(&registry.gather(), &mut text).is_err() {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n");
    }
    let mut response = plain(StatusCode::OK, &String::from_utf8_lossy(&text));
    if let Ok(kind) = encoder.format_type().parse() {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    fn started() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        start(listener, Hosts::new(address.ip(), &[], &[]).unwrap(), Registry::new()).unwrap();
        address
    }

    /// The status line of an answer; empty where the connection was closed.
    fn ask(mut stream: &TcpStream, headers: &str) -> String {
        let request = format!("GET /metrics HTTP/1.1\r\n{headers}\r\n\r\n");
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut answer = [0; 4096];
        let length = stream.write_all(request.as_bytes()).and_then(|()| stream.read(&mut answer));
        let answer = String::from_utf8_lossy(&answer[..length.unwrap_or(0)]).into_owned();
        answer.lines().next().unwrap_or_default().into()
    }

    #[test]
    fn a_web_page_that_leads_its_own_name_here_reads_nothing() {
        let address = started();
        let status = |headers: &str| ask(&TcpStream::connect(address).unwrap(), headers);
        assert_eq!(status("Host: localhost"), "HTTP/1.1 200 OK");
        assert_eq!(status("Host: evil.example"), "HTTP/1.1 421 Misdirected Request");
        let page = "Host: localhost\r\nOrigin: http://evil.example";
        assert_eq!(status(page), "HTTP/1.1 403 Forbidden");
    }

    #[test]
    fn a_new_connection_takes_the_place_of_the_one_that_has_been_idle_longest() {
        let address = started();
        let connect = || TcpStream::connect(address).unwrap();
        let kept = connect();
        let held: Vec<_> = (1..MOST_CONNECTIONS).map(|_| connect()).collect();
        assert_eq!(ask(&kept, "Host: localhost"), "HTTP/1.1 200 OK");
        let mut later = Vec::new();
        for longest_idle in &held {
            later.push(connect());
            assert_eq!(ask(&later[later.len() - 1], "Host: localhost"), "HTTP/1.1 200 OK");
            assert_eq!(ask(longest_idle, "Host: localhost"), "");
            assert_eq!(ask(&kept, "Host: localhost"), "HTTP/1.1 200 OK");
        }
    }
}
