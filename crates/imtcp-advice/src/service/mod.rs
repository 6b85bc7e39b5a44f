// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The service: HTTP in front of the history and the algorithm.

pub mod advice_cache;
mod block;
mod cached_path;
mod clients;
pub mod connections;
mod deadlines;
mod entry;
pub mod gate;
pub mod guard;
mod health;
mod history_size;
pub mod ingest;
pub mod limits;
pub mod listen;
mod metrics;
mod names;
pub mod openapi;
mod page;
mod per_client;
mod ping;
mod problem;
mod query;
mod report_body;
mod reports;
mod routes;
mod shares;
mod timeline;
pub mod tls;
mod turns;
mod upcoming;
mod xmlrpc;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware;
use axum::routing::{get, post, put};
use axum::Router;
use imtcp_client::hosts::Hosts;
use imtcp_client::time::now_us;
use imtcp_logs::proxies::Proxy;

use crate::error::{Error, Result};
use crate::store::maintain::{Maintained, Retention};
use crate::store::{Limits, Store};
use advice_cache::AdviceCache;
use connections::Connections;
use guard::Access;
use health::Health;
use ingest::Ingest;
use limits::Buckets;
use metrics::Metrics;
use names::Names;
use ping::Pinger;
use problem::Problem;
use shares::Shares;
use turns::Turns;

/// How the service is to behave.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub access: Access,
    pub hosts: Hosts,
    /// Requests a second of one client; 0: no limit.
    pub rate_limit: u32,
    /// The rate of clients on this machine is not limited.
    pub spares_loopback: bool,
    pub most_connections: connections::Most,
    /// Whose X-Forwarded-For counts.
    pub trusted_proxies: Vec<Proxy>,
    pub retention: Retention,
    pub limits: Limits,
    /// Ask ping(8) for the RTT of paths whose records do not tell it.
    pub ping: bool,
}

pub struct Service {
    cache: Arc<AdviceCache>,
    ingest: Ingest,
    access: RwLock<Arc<Access>>,
    hosts: RwLock<Arc<Hosts>>,
    rate: Buckets,
    wrong_tokens: Buckets,
    /// Lines of the log about wrong tokens, of this machine's clients too.
    wrong_token_lines: Buckets,
    /// Wrong tokens without a line, since the last one with a line.
    wrong_tokens_untold: AtomicU64,
    connections: Arc<Connections>,
    trusted_proxies: Vec<Proxy>,
    names: Arc<Names>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    turns: Arc<Turns>,
    /// Bytes of reports' bodies in memory at once.
    report_room: Shares,
}

type Shared = Arc<Service>;

/// Costly requests of one client that wait for its turn.
const MOST_WAITING: usize = 32;
/// Wrong tokens of one client: so many at once, and as many a minute.
const WRONG_TOKENS: u32 = 10;
/// How often the length of SQLite's log is looked at.
const LOG_EVERY: Duration = Duration::from_secs(1);
const ROLL_UP_EVERY: Duration = Duration::from_secs(3600);

impl Service {
    /// Starts writing and rolling up.
    pub async fn start(mut store: Store, config: Config) -> Result<Shared> {
        store.limit(config.limits);
        if let Some(mode) = store.rights_of_others() {
            tracing::warn!(
                "{} has the mode {mode:o}: who may read it can also hold a lock that stops all \
                 writing; `chmod 600` it, its -wal and its -shm",
                store.place()
            );
        }
        store.check_connections().await?;
        let names = Arc::new(Names::default());
        let pinger = Pinger::new(config.ping, Arc::clone(&names));
        let cache = AdviceCache::new(Arc::new(store), pinger);
        // Fails now rather than at the first request.
        cache.settings(None).await?;
        let routes = [openapi::routes(), UNDESCRIBED.map(String::from).to_vec()].concat();
        let metrics = Arc::new(Metrics::new(&routes).map_err(std::io::Error::other)?);
        let health = Arc::new(Health::default());
        let ingest = Ingest::start(Arc::clone(&cache), Arc::clone(&metrics), Arc::clone(&health));
        history_size::watch(Arc::clone(&cache), Arc::clone(&metrics)).await;
        tokio::spawn(roll_up(Arc::clone(&cache), config.retention, Arc::clone(&metrics)));
        let turns = Arc::new(Turns::new(MOST_WAITING));
        tokio::spawn(keep_log_short(Arc::clone(&cache), Arc::clone(&turns)));
        Ok(Arc::new(Service {
            cache,
            ingest,
            access: RwLock::new(Arc::new(config.access)),
            hosts: RwLock::new(Arc::new(config.hosts)),
            rate: Buckets::new(config.rate_limit, config.rate_limit.into(), config.spares_loopback),
            wrong_tokens: Buckets::new(
                if config.rate_limit == 0 { 0 } else { WRONG_TOKENS },
                f64::from(WRONG_TOKENS) / 60.0,
                config.spares_loopback,
            ),
            wrong_token_lines: Buckets::new(WRONG_TOKENS, f64::from(WRONG_TOKENS) / 60.0, false),
            wrong_tokens_untold: AtomicU64::new(0),
            connections: Connections::new(config.most_connections),
            trusted_proxies: config.trusted_proxies,
            names,
            metrics,
            health,
            turns,
            report_room: Shares::new(report_body::MOST_BYTES),
        }))
    }

    pub fn router(self: &Shared) -> Router {
        Router::new()
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
            .route("/v1/reports", post(reports::reports))
            .route("/RPC2", post(xmlrpc::call))
            .route_layer(middleware::from_fn_with_state(Arc::clone(self), health::with_history))
            .route("/metrics", get(routes::metrics))
            .route("/", get(page::page))
            .route("/openapi.json", get(openapi::document))
            .route("/healthz", get(routes::health))
            .fallback(nowhere)
            .method_not_allowed_fallback(no_such_method)
            // The gate has the limits.
            .layer(DefaultBodyLimit::disable())
            .layer(middleware::from_fn_with_state(Arc::clone(self), gate::gate))
            .with_state(Arc::clone(self))
    }

    fn access(&self) -> Arc<Access> {
        Arc::clone(&self.access.read().unwrap_or_else(|e| e.into_inner()))
    }

    fn hosts(&self) -> Arc<Hosts> {
        Arc::clone(&self.hosts.read().unwrap_or_else(|e| e.into_inner()))
    }

    /// From the next request on.
    pub fn replace_access(&self, access: Access) {
        *self.access.write().unwrap_or_else(|e| e.into_inner()) = Arc::new(access);
    }

    /// From the next request on.
    pub fn replace_hosts(&self, hosts: Hosts) {
        *self.hosts.write().unwrap_or_else(|e| e.into_inner()) = Arc::new(hosts);
    }

    /// In the metrics: Unix time at which the certificate in use expires, if that is known.
    pub fn show_certificate_expiry(&self, expires_s: Option<i64>) {
        if let Some(expires_s) = expires_s {
            self.metrics.set_certificate_expiry(expires_s);
        }
    }

    pub async fn close(&self) {
        self.cache.store().close().await;
    }
}

/// Routes that the description does not have.
const UNDESCRIBED: [&str; 3] = ["/", "/RPC2", "/openapi.json"];

async fn roll_up_once(cache: &AdviceCache, keep: &Retention) -> Result<Maintained> {
    let store = cache.store();
    let mut rolled = |dst: &str, from_us, until_us| cache.rolled_up(dst, from_us, until_us);
    store.maintain(keep, store.aged_us(now_us()).await?, &mut rolled).await
}

async fn roll_up(cache: Arc<AdviceCache>, keep: Retention, metrics: Arc<Metrics>) {
    let mut due = tokio::time::interval(ROLL_UP_EVERY);
    loop {
        due.tick().await;
        let begun = Instant::now();
        let done = roll_up_once(&cache, &keep).await;
        metrics.count_roll_up(done.as_ref().ok(), begun.elapsed());
        match done {
            Ok(done) if done.rolled_up + done.removed > 0 => {
                tracing::info!("rolled up {} records, removed {}", done.rolled_up, done.removed)
            }
            Ok(_) => {}
            // The service ends.
            Err(Error::Db(sqlx::Error::PoolClosed)) => return,
            Err(e) => tracing::error!("cannot roll up: {e}"),
        }
    }
}

/// Holds costly reads back for as long as it takes to move a long log of SQLite's into the file.
async fn keep_log_short(cache: Arc<AdviceCache>, turns: Arc<Turns>) {
    let mut due = tokio::time::interval(LOG_EVERY);
    loop {
        due.tick().await;
        if cache.store().has_long_log() {
            let _nobody_reads = (turns.hold_all().await, cache.turns().hold_all().await);
            cache.store().checkpoint().await;
        }
    }
}

async fn nowhere() -> Problem {
    let detail = "there is nothing here: /openapi.json tells what there is";
    Problem::new(StatusCode::NOT_FOUND, detail)
}

async fn no_such_method() -> Problem {
    let detail = "not with this method: /openapi.json tells with which";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}
