// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Connections: TLS, and an end for those that are slow.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request};
use axum::Router;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::connections::Admitted;
use super::deadlines::WithDeadlines;
use super::{Service, Shared};
use crate::error::Result;

/// For a request's head, counted from the answer before it: idle connections end too.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// For the peer to take what was written.
const WRITE_TIME: Duration = Duration::from_secs(10);
/// For all of an answer: the greatest have a megabyte.
const ANSWER_TIME: Duration = Duration::from_secs(60);
const TLS_TIME: Duration = Duration::from_secs(10);
/// For requests under way when the service is told to end: a supervisor waits for it. A batch that was not
/// acknowledged by then is sent again.
const END_TIME: Duration = Duration::from_millis(400);
/// For the database to close. Another process may hold its lock; what was acknowledged is on disk all the same.
const CLOSE_TIME: Duration = Duration::from_millis(400);
const HEAD_BYTES: usize = 16 << 10;

/// Serves until `end`; then requests under way may finish. Each new connection asks `tls` for its
/// certificate.
pub async fn serve(
    service: Shared,
    listener: TcpListener,
    tls: watch::Receiver<Option<TlsAcceptor>>,
    end: impl Future<Output = ()>,
) -> Result<()> {
    let router = service.router();
    let (ending, _) = watch::channel(false);
    tokio::pin!(end);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut end => break,
        };
        let Ok((stream, client)) = accepted else {
            // Out of descriptors, most likely: some will be given back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Some(admitted) = service.connections.admit(client.ip()) else {
            service.metrics.refused.with_label_values(&["connections"]).inc();
            continue;
        };
        let (service, router) = (Arc::clone(&service), router.clone());
        let tls = tls.borrow().clone();
        let ending = ending.subscribe();
        tokio::spawn(async move {
            service.metrics.connections.inc();
            let admitted = Arc::new(admitted);
            let run = connection(&service, stream, client, router, tls, &admitted, ending);
            tokio::select! {
                () = run => {}
                () = admitted.evicted() => {}
            }
            service.metrics.connections.dec();
        });
    }
    drop(listener);
    let _ = ending.send(true);
    let _ = tokio::time::timeout(END_TIME, service.connections.all_closed()).await;
    let _ = tokio::time::timeout(CLOSE_TIME, service.close()).await;
    Ok(())
}

async fn connection(
    service: &Service,
    stream: TcpStream,
    client: SocketAddr,
    router: Router,
    tls: Option<TlsAcceptor>,
    admitted: &Arc<Admitted>,
    ending: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    match tls {
        None => http(stream, client, router, admitted, ending).await,
        Some(tls) => match tokio::time::timeout(TLS_TIME, tls.accept(stream)).await {
            Ok(Ok(stream)) => http(stream, client, router, admitted, ending).await,
            _ => service.metrics.refused.with_label_values(&["tls"]).inc(),
        },
    }
}

async fn http<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: S,
    client: SocketAddr,
    router: Router,
    admitted: &Arc<Admitted>,
    mut ending: watch::Receiver<bool>,
) {
    let stream = WithDeadlines::new(stream, WRITE_TIME, ANSWER_TIME);
    let handler = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(client));
        let router = router.clone();
        // Who is still to send a body may be slow for long, and makes room as an idle one does.
        let busy = match request.body().is_end_stream() {
            true => Some(admitted.begin_request()),
            false => {
                admitted.touch();
                None
            }
        };
        async move {
            let response = router.oneshot(request).await.unwrap_or_else(|e| match e {});
            drop(busy);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), handler);
    tokio::pin!(connection);
    tokio::select! {
        // A failed connection is the peer's affair.
        _ = connection.as_mut() => {}
        _ = ending.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
