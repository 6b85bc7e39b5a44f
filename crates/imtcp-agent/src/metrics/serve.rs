// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Answers Prometheus. Whoever asks holds few connections, each not for long.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::{Encoder, Registry, TextEncoder};
use tokio::sync::Semaphore;

/// At once; further ones are closed.
const MOST_CONNECTIONS: usize = 16;
/// From the beginning of a connection to its end. Prometheus opens another.
const LONGEST: Duration = Duration::from_secs(60);
const HEAD_TIME: Duration = Duration::from_secs(5);
const HEAD_BYTES: usize = 16 * 1024;

/// Answers on a thread of its own, as long as this process lives.
pub fn start(listener: TcpListener, registry: Registry) -> Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("metrics".into()).spawn(move || {
        runtime.block_on(serve(listener, registry));
    })?;
    Ok(())
}

async fn serve(listener: TcpListener, registry: Registry) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, for one.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(held) = Arc::clone(&room).try_acquire_owned() else { continue };
        let registry = registry.clone();
        tokio::spawn(async move {
            let answering = service_fn(move |request| {
                let registry = registry.clone();
                async move { Ok::<_, Infallible>(answer(&request, &registry)) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), answering);
            // A failed connection is the peer's affair.
            let _ = tokio::time::timeout(LONGEST, connection).await;
            drop(held);
        });
    }
}

fn answer(request: &Request<Incoming>, registry: &Registry) -> Response<String> {
    let plain = |status, text: &str| {
        let mut response = Response::new(text.to_string());
        *response.status_mut() = status;
        response
    };
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
