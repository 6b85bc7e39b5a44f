// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The service: HTTP in front of the history and the algorithm.

mod block;
pub mod book;
mod clients;
pub mod guard;
pub mod ingest;
pub mod listen;
mod metrics;
mod openapi;
mod page;
mod patient;
mod ping;
mod problem;
mod reports;
mod routes;
mod timeline;
mod xmlrpc;

use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::header::{HeaderValue, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::Router;
use tokio::sync::Semaphore;

use crate::error::Result;
use crate::store::maintain::Retention;
use crate::store::Store;
use crate::time::now_us;
use book::Book;
use guard::{Access, Hosts, RateLimit};
use ingest::Ingest;
use metrics::Metrics;
use ping::Pinger;
use problem::Problem;

/// How the service is to behave.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub access: Access,
    pub hosts: Hosts,
    /// Requests a second of one client; 0: no limit.
    pub rate_limit: u32,
    /// Clients on this machine are not limited.
    pub spares_loopback: bool,
    pub retention: Retention,
    /// Ask ping(8) for the RTT of paths whose records do not tell it.
    pub ping: bool,
}

pub struct Service {
    book: Arc<Book>,
    ingest: Ingest,
    access: RwLock<Arc<Access>>,
    hosts: Hosts,
    rate: RateLimit,
    metrics: Arc<Metrics>,
    /// Requests that read much at once: they must not keep advice waiting.
    heavy: Semaphore,
}

type Shared = Arc<Service>;

/// A request's answer takes no longer than this, its body's arrival included.
const REQUEST_TIME: Duration = Duration::from_secs(15);
/// Bodies of reports; others are smaller still.
const MOST_REPORT_BYTES: usize = 4 << 20;
const MOST_BODY_BYTES: usize = 64 << 10;
const ROLL_UP_EVERY: Duration = Duration::from_secs(3600);

impl Service {
    /// Starts writing and rolling up.
    pub async fn start(store: Store, config: Config) -> Result<Shared> {
        let book = Arc::new(Book::new(Arc::new(store), Pinger::new(config.ping)));
        // Fails now rather than at the first request.
        book.settings(None).await?;
        let metrics = Arc::new(Metrics::new().map_err(std::io::Error::other)?);
        let ingest = Ingest::start(Arc::clone(&book), Arc::clone(&metrics));
        tokio::spawn(roll_up(Arc::clone(&book), config.retention));
        Ok(Arc::new(Service {
            book,
            ingest,
            access: RwLock::new(Arc::new(config.access)),
            hosts: config.hosts,
            rate: RateLimit::new(config.rate_limit, config.spares_loopback),
            metrics,
            heavy: Semaphore::new(2),
        }))
    }

    pub fn router(self: &Shared) -> Router {
        let read = Router::new()
            .route("/v1/advice", get(routes::advice))
            .route("/v1/paths", get(routes::paths))
            .route(
                "/v1/paths/{dst}",
                get(routes::path).patch(routes::change_path).delete(routes::forget_path),
            )
            .route("/v1/clients", get(clients::clients))
            .route("/v1/clients/{dst}", put(clients::add).delete(clients::remove))
            .route("/v1/history", get(routes::history))
            .route("/v1/timeline", get(timeline::timeline))
            .route("/RPC2", post(xmlrpc::call))
            .route("/metrics", get(routes::metrics))
            .layer(DefaultBodyLimit::max(MOST_BODY_BYTES))
            .route_layer(middleware::from_fn_with_state(Arc::clone(self), readers));
        let reports = Router::new()
            .route("/v1/reports", post(reports::reports))
            .layer(DefaultBodyLimit::max(MOST_REPORT_BYTES));
        Router::new()
            .merge(read)
            .merge(reports)
            .route("/", get(page::page))
            .route("/openapi.json", get(openapi::document))
            .route("/healthz", get(routes::health))
            .fallback(nowhere)
            .method_not_allowed_fallback(no_such_method)
            .layer(middleware::from_fn_with_state(Arc::clone(self), every_request))
            .with_state(Arc::clone(self))
    }

    fn access(&self) -> Arc<Access> {
        Arc::clone(&self.access.read().unwrap_or_else(|e| e.into_inner()))
    }

    /// From the next request on.
    pub fn replace_access(&self, access: Access) {
        *self.access.write().unwrap_or_else(|e| e.into_inner()) = Arc::new(access);
    }

    pub async fn close(&self) {
        self.book.store().close().await;
    }
}

async fn roll_up(book: Arc<Book>, keep: Retention) {
    let mut due = tokio::time::interval(ROLL_UP_EVERY);
    loop {
        due.tick().await;
        match book.store().maintain(&keep, now_us()).await {
            Ok(done) if done.rolled_up + done.removed > 0 => {
                tracing::info!("rolled up {} records, removed {}", done.rolled_up, done.removed)
            }
            Ok(_) => {}
            Err(e) => tracing::error!("cannot roll up: {e}"),
        }
    }
}

/// The name, the rate, the time, the count; and what every answer has.
async fn every_request(
    State(service): State<Shared>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    if let Err(problem) = service.hosts.may_call(request.headers()) {
        service.metrics.refused.with_label_values(&["host"]).inc();
        return problem.into_response();
    }
    if !service.rate.allows(client.ip(), Instant::now()) {
        service.metrics.refused.with_label_values(&["rate"]).inc();
        let detail = "too many requests from your address: send fewer, or wait a second";
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).into_response();
    }
    let route = request.extensions().get::<MatchedPath>().map(|p| p.as_str().to_string());
    let mut response = match tokio::time::timeout(REQUEST_TIME, next.run(request)).await {
        Ok(response) => as_problem(response),
        Err(_) => {
            let detail = "the request took too long: send it faster, or ask for less";
            Problem::new(StatusCode::REQUEST_TIMEOUT, detail).into_response()
        }
    };
    let status = response.status();
    let labels = [route.as_deref().unwrap_or("-"), status.as_str()];
    service.metrics.requests.with_label_values(&labels).inc();
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// What is refused before it comes to us is refused in plain text.
fn as_problem(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE);
    if !status.is_client_error() || kind.is_some_and(|k| k == problem::CONTENT) {
        return response;
    }
    let detail = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "the body is too large: at most 64 KiB, a report 4 MiB",
        _ => "the request cannot be read: /openapi.json tells how its path and body are written",
    };
    Problem::new(status, detail).into_response()
}

async fn readers(State(service): State<Shared>, request: Request, next: Next) -> Response {
    // Writing has its own right, which is asked for where it is written.
    if ![Method::PATCH, Method::PUT, Method::DELETE].contains(request.method()) {
        if let Err(problem) = service.access().may_read(request.headers()) {
            return problem.into_response();
        }
    }
    next.run(request).await
}

async fn nowhere() -> Problem {
    let detail = "there is nothing here: /openapi.json tells what there is";
    Problem::new(StatusCode::NOT_FOUND, detail)
}

async fn no_such_method() -> Problem {
    let detail = "not with this method: /openapi.json tells with which";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}
