// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The one way in. The head of each request is checked here, before a byte of its body is read:
//! name, origin, rate, right, type and length. What every answer has is added here too.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::header::{
    HeaderValue, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, DATE, EXPECT, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Frame, SizeHint};
use imtcp_logs::proxies::{self, Behind};
use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::Timestamp;

use super::guard::{Denied, Right};
use super::metrics::Refusal;
use super::problem::{self, Problem};
use super::{Service, Shared};

/// A request's answer takes no longer than this, its body's arrival included.
pub const REQUEST_TIME: Duration = Duration::from_secs(15);
/// The body of a refused request is thrown away for so long, that its sender reads the answer.
const DISCARD_TIME: Duration = Duration::from_secs(2);
const MOST_REPORT_BYTES: usize = 4 << 20;
/// A call of the paper's has a host's name and a number: a kilobyte.
const MOST_XMLRPC_BYTES: usize = 16 << 10;
const MOST_OTHER_BYTES: usize = 64 << 10;

/// Checks the head, runs the request, and completes the answer.
pub async fn gate(
    State(service): State<Shared>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let client = SocketAddr::new(client(&service, peer.ip(), request.headers()), peer.port());
    // For all who ask whose request it is.
    request.extensions_mut().insert(ConnectInfo(client));
    let route = request.extensions().get::<MatchedPath>().map(|p| p.as_str().to_string());
    let response = match check_head(&service, client.ip(), route.as_deref(), &request) {
        Ok(()) => run(route.as_deref(), request, next).await,
        Err((why, problem)) => {
            service.metrics.refused.with_label_values(&[why.label()]).inc();
            discard(request).await;
            problem.into_response()
        }
    };
    service.metrics.count_request(route.as_deref(), response.status());
    with_headers(response)
}

/// The one who asks: where a trusted proxy does for somebody, that one.
fn client(service: &Service, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    if service.trusted_proxies.is_empty() {
        return peer;
    }
    let lines = headers.get_all("x-forwarded-for").iter();
    // On the left stands what a client wrote, of any bytes: it must not hide what the proxy wrote on the right.
    let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    let header = lines.join(",");
    match proxies::behind(&service.trusted_proxies, peer, || Some(&header)) {
        Behind::Client(client) => client,
        Behind::Proxies | Behind::NoAddress => peer,
    }
}

fn check_head(
    service: &Service,
    client: IpAddr,
    route: Option<&str>,
    request: &Request,
) -> Result<(), (Refusal, Problem)> {
    let (headers, now) = (request.headers(), Instant::now());
    let hosts = service.hosts();
    hosts.may_call(request.uri(), headers).map_err(|e| (Refusal::Host, e.into()))?;
    hosts.may_come_from(headers).map_err(|e| (Refusal::Origin, e.into()))?;
    if !service.rate.take(client, now) {
        let detail = "too many requests from your address: send fewer, or wait a second";
        return Err((Refusal::Rate, Problem::new(StatusCode::TOO_MANY_REQUESTS, detail)));
    }
    check_right(service, client, Right::of(request.method(), route), headers, now)?;
    if route == Some("/RPC2") && request.method() == "POST" && !is_xml(headers) {
        let detail = "XML-RPC is text/xml: send it with 'Content-Type: text/xml'";
        return Err((Refusal::Type, Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)));
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|l| l.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > most_bytes(route) as u64) {
        return Err((Refusal::Length, Problem::too_large()));
    }
    Ok(())
}

/// A right token always counts: somebody else behind the same address may be guessing. The limit is on how often a
/// wrong token gets an answer and a line in the log.
fn check_right(
    service: &Service,
    client: IpAddr,
    right: Right,
    headers: &HeaderMap,
    now: Instant,
) -> Result<(), (Refusal, Problem)> {
    service.access().check(right, headers).map_err(|denied| {
        if let Denied::WrongToken(_) = denied {
            if !service.wrong_tokens.take(client, now) {
                let detail =
                    "too many wrong tokens from your address: mend the token, wait a minute";
                let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).retry_after_s(60);
                return (Refusal::WrongToken, problem);
            }
            // So many a minute: a log must not grow with who guesses.
            if service.wrong_token_lines.take(client, now) {
                match service.wrong_tokens_untold.swap(0, Ordering::Relaxed) {
                    0 => tracing::warn!("{client} sent a wrong token"),
                    more => tracing::warn!(
                        "{client} sent a wrong token; there were {more} more since the line before"
                    ),
                }
            } else {
                service.wrong_tokens_untold.fetch_add(1, Ordering::Relaxed);
            }
            return (Refusal::WrongToken, denied.into());
        }
        (Refusal::NoToken, denied.into())
    })
}

async fn run(route: Option<&str>, request: Request, next: Next) -> Response {
    let has_come = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let request = request.map(|body| {
        let inner = Body::new(Limited::new(body, most_bytes(route)));
        Body::new(Watched { inner, has_come: Arc::clone(&has_come) })
    });
    match tokio::time::timeout(REQUEST_TIME, next.run(request)).await {
        Ok(response) => as_problem(response),
        Err(_) if has_come.load(Ordering::Relaxed) => Problem::busy().into_response(),
        Err(_) => Problem::too_slow().into_response(),
    }
}

/// A body that notes when all of it has come.
struct Watched {
    inner: Body,
    has_come: Arc<AtomicBool>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) {
            self.has_come.store(true, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn most_bytes(route: Option<&str>) -> usize {
    match route {
        Some("/v1/reports") => MOST_REPORT_BYTES,
        Some("/RPC2") => MOST_XMLRPC_BYTES,
        _ => MOST_OTHER_BYTES,
    }
}

fn is_xml(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/xml")
}

/// A sender that still writes when its connection is closed never reads why. One that waits for
/// `100 Continue` has sent nothing, and must not be asked to.
async fn discard(request: Request) {
    if request.headers().contains_key(EXPECT) {
        return;
    }
    let mut body = request.into_body();
    // A piece at a time: this takes time and no memory.
    let all = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = tokio::time::timeout(DISCARD_TIME, all).await;
}

/// The libraries below refuse in plain text.
fn as_problem(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE);
    if !status.is_client_error() || kind.is_some_and(|k| k == problem::CONTENT) {
        return response;
    }
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        return Problem::too_large().into_response();
    }
    let detail =
        "the request cannot be read: /openapi.json tells how its path and body are written";
    Problem::new(status, detail).into_response()
}

fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    // Agents set their records' times by it. hyper's own stands still when the clock was set back.
    let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&Timestamp::now());
    if let Some(date) = date.ok().and_then(|date| HeaderValue::try_from(date).ok()) {
        headers.insert(DATE, date);
    }
    response
}
