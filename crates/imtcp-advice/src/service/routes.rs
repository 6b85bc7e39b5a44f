// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Advice, paths, history, metrics, health.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::Json;
use imtcp_client::destination::{destination, Destination, DestinationOrAll, DestinationOrNone};
use imtcp_client::record::Kind;
use imtcp_client::time::{self, now_us};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::advice_cache::AdviceCache;
use super::problem::Problem;
use super::query::{params, period, QueryOf};
use super::Shared;
use crate::advice::answer::Answer;
use crate::error::Error;
use crate::settings::schema::SettingsChange;
use crate::settings::{Changes, Settings};
use crate::store::read::{PathInfo, Point, TestPoint, ALL_PATHS};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AdviceParams {
    /// The transfer's destination: an address, or a name that records have.
    #[param(value_type = Destination)]
    dst: String,
    /// What remains to be sent.
    #[param(minimum = 0, maximum = 18_446_744_073_709_551_615u64)]
    bytes: Option<u64>,
    /// Ask as of this time (RFC 3339); records that came after it do not count.
    #[param(format = DateTime)]
    at: Option<String>,
}

/// What a transfer should do now, and until when
#[utoipa::path(get, path = "/v1/advice", tag = "advice", params(AdviceParams), responses(
    (status = 200, description = "Advice, or 'unknown' with the safe default", body = Answer),
))]
pub async fn advice(
    State(service): State<Shared>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    query: QueryOf<AdviceParams>,
) -> Result<Response, Problem> {
    let params = params(query)?;
    let dst = destination(&params.dst)?;
    let timer = service.metrics.advice_seconds.start_timer();
    let answered = match &params.at {
        None => service.cache.now(client.ip(), &dst).await?,
        Some(at) => {
            let t0_us = time::parse(at)?;
            let cache = Arc::clone(&service.cache);
            let as_of = async move { Ok(cache.as_of(&dst, t0_us).await?) };
            service.turns.run(client.ip(), as_of).await?
        }
    };
    timer.observe_duration();
    service.metrics.count_advice(&answered.advice);
    // The advice is the same for all lengths and made once a second; the length comes before it.
    let length = serde_json::json!({
        "bytes": params.bytes,
        "transfer_s": answered.advice.transfer_s(params.bytes),
    });
    let length = length.to_string();
    let body = format!("{},{}", &length[..length.len() - 1], &answered.json[1..]);
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// A path that the service knows.
#[derive(Debug, Serialize, ToSchema)]
pub struct PathView {
    dst: String,
    /// Hops with records; the empty one is the path as a whole.
    hops: BTreeSet<String>,
    sources: BTreeSet<String>,
    /// First and newest record of available bandwidth; one of the future is not the newest.
    #[schema(format = DateTime)]
    oldest: Option<String>,
    #[schema(format = DateTime)]
    newest: Option<String>,
    /// Newest active test.
    #[schema(format = DateTime)]
    newest_test: Option<String>,
    /// The settings in force for it; null if `error` says why there are none.
    settings: Option<Settings>,
    /// Why no advice can be given: its settings are wrong, as an older version may have stored them.
    error: Option<String>,
    /// The settings of this path alone.
    #[schema(value_type = SettingsChange)]
    own_settings: Changes,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Paths {
    paths: Vec<PathView>,
    /// Ask again with after= this for more.
    next: Option<String>,
    /// With `q`: how many of the 100 000 names from `after` on contain it. Null without `q`.
    matches: Option<u64>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PathsParams {
    /// Begin after this one; empty for the first.
    #[serde(default)]
    #[param(value_type = DestinationOrNone)]
    after: String,
    /// At most so many, and fewer where they fill a megabyte: then `next` goes on behind them.
    #[serde(default = "hundred")]
    #[param(minimum = 1, maximum = 1000)]
    limit: u32,
    /// Only paths whose name contains this. One request reads 100 000 names at most; `next` goes on
    /// behind them.
    #[param(max_length = 253)]
    q: Option<String>,
}

/// A DNS name has at most so many characters.
const LONGEST_NAME: usize = 253;
/// A path may have a thousand sources. A page of the list ends behind the path with which it has so many
/// bytes: clients that do not read hold an answer for a minute.
const MOST_LISTED_BYTES: usize = 1 << 20;
/// Names that one search reads: the index gives them in tens of milliseconds.
const NAMES_READ: i64 = 100_000;

fn hundred() -> u32 {
    100
}

/// The paths that have history
#[utoipa::path(get, path = "/v1/paths", tag = "paths", params(PathsParams), responses(
    (status = 200, description = "Some paths, in the order of their names", body = Paths),
))]
pub async fn paths(
    State(service): State<Shared>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    query: QueryOf<PathsParams>,
) -> Result<Json<Paths>, Problem> {
    let params = params(query)?;
    if !(1..=1000).contains(&params.limit) {
        return Err(Problem::bad_request("limit is between 1 and 1000"));
    }
    let after = destination_or_none(&params.after)?;
    if params.q.as_ref().is_some_and(|q| q.chars().count() > LONGEST_NAME) {
        return Err(Problem::bad_request("q has at most 253 characters, as a name has"));
    }
    let cache = Arc::clone(&service.cache);
    let read = async move { list(&cache, params, &after).await };
    Ok(Json(service.turns.run(client.ip(), read).await?))
}

async fn list(cache: &AdviceCache, params: PathsParams, after: &str) -> Result<Paths, Problem> {
    let store = cache.store();
    let (names, mut next, matches) = match params.q {
        None => {
            let names = store.path_names(after, params.limit).await?;
            let next = names.last().filter(|_| names.len() == params.limit as usize).cloned();
            (names, next, None)
        }
        Some(q) => {
            // Names are stored in lower case, and addresses without brackets.
            let part = q.trim().trim_matches(['[', ']']).to_lowercase();
            let found = store.find_paths(&part, after, params.limit, NAMES_READ).await?;
            (found.names, found.next, Some(found.matches))
        }
    };
    let (mut paths, mut bytes) = (Vec::new(), 0);
    let last = names.last().cloned();
    for name in names {
        if let Some(path) = store.path(&name).await? {
            let shown = view(cache, path).await?;
            bytes += serde_json::to_vec(&shown).map_or(0, |json| json.len());
            paths.push(shown);
        }
        if bytes >= MOST_LISTED_BYTES && last.as_ref() != Some(&name) {
            next = Some(name);
            break;
        }
    }
    Ok(Paths { paths, next, matches })
}

async fn view(cache: &AdviceCache, path: PathInfo) -> Result<PathView, Problem> {
    // One path with wrong settings is listed as it is, and the others with it.
    let (settings, error) = match cache.settings(Some(&path)).await {
        Ok(settings) => (Some(settings), None),
        Err(Error::Input(error)) => (None, Some(error)),
        Err(e) => return Err(e.into()),
    };
    let oldest = path.series.iter().filter_map(|s| s.oldest_us).min();
    let (mut newest, mut newest_test) = (None, None);
    let now_us = now_us();
    let store = cache.store();
    for series in &path.series {
        newest = newest.max(store.newest_time(series, Kind::Bandwidth, now_us).await?);
        newest_test = newest_test.max(store.newest_time(series, Kind::Test, now_us).await?);
    }
    Ok(PathView {
        hops: path.series.iter().map(|s| s.hop.clone()).collect(),
        sources: path.series.into_iter().map(|s| s.source).collect(),
        oldest: oldest.map(time::format),
        newest: newest.map(time::format),
        newest_test: newest_test.map(time::format),
        dst: path.dst,
        settings,
        error,
        own_settings: path.settings,
    })
}

fn destination_or_none(text: &str) -> Result<String, Problem> {
    Ok(if text.is_empty() { String::new() } else { destination(text)? })
}

/// A destination in a URL; `*` for what is set for all.
fn named(dst: &str) -> Result<String, Problem> {
    if dst == ALL_PATHS {
        return Ok(dst.into());
    }
    Ok(destination(dst)?)
}

/// One path with its settings; `*` for the settings of all
#[utoipa::path(get, path = "/v1/paths/{dst}", tag = "paths",
    params(("dst" = DestinationOrAll, Path)), responses(
    (status = 200, description = "The path", body = PathView),
    (status = 404, description = "No history of this destination", body = Problem,
        content_type = "application/problem+json"),
))]
pub async fn path(
    State(service): State<Shared>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    Path(dst): Path<String>,
) -> Result<Json<PathView>, Problem> {
    let dst = named(&dst)?;
    let cache = Arc::clone(&service.cache);
    // A path may have a thousand series.
    let read = async move {
        let path = match cache.store().path(&dst).await? {
            None if dst == ALL_PATHS => PathInfo { dst, ..PathInfo::default() },
            None => return Err(not_known()),
            Some(path) => path,
        };
        view(&cache, path).await
    };
    Ok(Json(service.turns.run(client.ip(), read).await?))
}

/// Change settings of a path, or with `*` of all; null takes one back
#[utoipa::path(patch, path = "/v1/paths/{dst}", tag = "paths",
    params(("dst" = DestinationOrAll, Path)),
    request_body = SettingsChange, security(("write" = [])), responses(
    (status = 200, description = "The path as it is now", body = PathView),
))]
pub async fn change_path(
    State(service): State<Shared>,
    Path(dst): Path<String>,
    body: axum::body::Bytes,
) -> Result<Json<PathView>, Problem> {
    let dst = named(&dst)?;
    let changes: Changes = serde_json::from_slice(&body)
        .map_err(|e| Problem::bad_request(format!("a JSON object of settings is wanted: {e}")))?;
    service.cache.store().change_settings(&dst, &changes).await?;
    service.cache.forget_all();
    let path = service.cache.store().path(&dst).await?.unwrap_or_default();
    Ok(Json(view(&service.cache, path).await?))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Forgotten {
    dst: String,
    /// Records that are gone by now, of bandwidth and of active tests.
    removed: u64,
    /// False: the rest of a long history goes in the next minutes. No answer has any of it.
    finished: bool,
}

/// How long a removal is waited for. ours: a second removes some 80 000 records, a month at one each half minute.
const FORGET_TIME: Duration = Duration::from_secs(1);

/// Remove a path: its records, and what is set for it alone
#[utoipa::path(delete, path = "/v1/paths/{dst}", tag = "paths", security(("write" = [])),
    params(("dst" = Destination, Path)), responses(
    (status = 200, description = "It is removed", body = Forgotten),
    (status = 404, description = "No history of this destination", body = Problem,
        content_type = "application/problem+json"),
))]
pub async fn forget_path(
    State(service): State<Shared>,
    Path(dst): Path<String>,
) -> Result<Json<Forgotten>, Problem> {
    let dst = destination(&dst)?;
    let Some(hidden) = service.cache.store().hide(&dst).await? else {
        return Err(not_known());
    };
    service.cache.forget_all();
    let (gone, cache) = (Arc::new(AtomicU64::new(0)), Arc::clone(&service.cache));
    let so_far = Arc::clone(&gone);
    let removing = tokio::spawn(async move {
        let mut tell = |records| so_far.store(records, Ordering::Relaxed);
        let removed = cache.store().remove_hidden(hidden, true, &mut tell).await;
        if let Err(e) = &removed {
            tracing::error!(
                "cannot remove the rest of a path now, the next roll-up tries again: {e}"
            );
        }
        removed.is_ok()
    });
    let finished = matches!(tokio::time::timeout(FORGET_TIME, removing).await, Ok(Ok(true)));
    Ok(Json(Forgotten { dst, removed: gone.load(Ordering::Relaxed), finished }))
}

fn not_known() -> Problem {
    let detail = "there is no history of this destination: /v1/paths lists those known";
    Problem::new(StatusCode::NOT_FOUND, detail)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryParams {
    #[param(value_type = Destination)]
    dst: String,
    /// A hop; empty for the path as a whole. `hops` in the answer are those with records.
    #[serde(default)]
    #[param(value_type = DestinationOrNone)]
    hop: String,
    /// RFC 3339, before `to`; a day before it when absent.
    #[param(format = DateTime)]
    from: Option<String>,
    /// RFC 3339; now when absent.
    #[param(format = DateTime)]
    to: Option<String>,
    /// Records are joined into at most about so many points, and results of active tests into as many for all
    /// sources together, a thousand at most.
    #[serde(default = "five_hundred")]
    #[param(minimum = 1, maximum = 5000)]
    points: u32,
}

fn five_hundred() -> u32 {
    500
}

#[derive(Debug, Serialize, ToSchema)]
pub struct History {
    dst: String,
    hop: String,
    /// Hops with records, to be asked for with `hop`; the empty one is the path as a whole.
    hops: BTreeSet<String>,
    points: Vec<Point>,
    /// Results of active tests, by source.
    tests: Vec<TestPoint>,
}

/// What was measured
#[utoipa::path(get, path = "/v1/history", tag = "history", params(HistoryParams), responses(
    (status = 200, description = "Points in the order of time", body = History),
    (status = 404, description = "No history of this destination", body = Problem,
        content_type = "application/problem+json"),
))]
pub async fn history(
    State(service): State<Shared>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    query: QueryOf<HistoryParams>,
) -> Result<Json<History>, Problem> {
    let params = params(query)?;
    if !(1..=5000).contains(&params.points) {
        return Err(Problem::bad_request("points is between 1 and 5000"));
    }
    let (from_us, to_us) = period(params.from.as_deref(), params.to.as_deref())?;
    let dst = destination(&params.dst)?;
    let hop = destination_or_none(&params.hop)?;
    let cache = Arc::clone(&service.cache);
    let read = async move {
        let path = cache.store().path(&dst).await?.ok_or_else(not_known)?;
        let hops = path.series.iter().map(|s| s.hop.clone()).collect();
        let series: Vec<_> = path.series.into_iter().filter(|s| s.hop == hop).collect();
        let ids: Vec<_> = series.iter().map(|s| s.id).collect();
        let points = cache.store().history(&ids, from_us, to_us, params.points).await?;
        let tests = cache.store().tests(&series, from_us, to_us, params.points).await?;
        Ok(History { dst, hop, hops, points, tests })
    };
    Ok(Json(service.turns.run(client.ip(), read).await?))
}

/// Numbers for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "service", responses(
    (status = 200, description = "The text format of Prometheus", body = String),
))]
pub async fn metrics(State(service): State<Shared>) -> Response {
    let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4")];
    service.metrics.queue_records.set(service.ingest.waiting() as i64);
    (kind, service.metrics.text()).into_response()
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    status: &'static str,
    version: &'static str,
}

/// Can the service read and write its history?
#[utoipa::path(get, path = "/healthz", tag = "service", responses(
    (status = 200, description = "It can", body = Health),
))]
pub async fn health(State(service): State<Shared>) -> Result<Json<Health>, Problem> {
    service.health.check()?;
    Ok(Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") }))
}
