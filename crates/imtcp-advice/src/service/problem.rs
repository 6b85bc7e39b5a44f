// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Errors as problem documents (RFC 9457): what is wrong, and what to do.

use std::sync::Mutex;
use std::time::Instant;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use imtcp_client::hosts::Refused;
use imtcp_client::Wrong;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::Error;

pub const CONTENT: &str = "application/problem+json";

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    pub title: String,
    pub status: u16,
    /// One sentence: what is wrong and what to do.
    pub detail: String,
    /// The wrong records of a report. The service stored nothing of its batch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedRecord>,
    /// Where asking again may help: when, in the header Retry-After.
    #[serde(skip)]
    pub retry_after_s: u32,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RefusedRecord {
    /// Its place in the batch, from 0.
    pub record: usize,
    pub why: String,
}

impl Problem {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error").into();
        let (detail, refused) = (detail.into(), Vec::new());
        Problem { title, status: status.as_u16(), detail, refused, retry_after_s: 1 }
    }

    pub fn retry_after_s(self, retry_after_s: u32) -> Self {
        Problem { retry_after_s, ..self }
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    pub fn too_slow() -> Self {
        let detail = "the request took too long to come: send it faster";
        Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
    }

    pub fn busy() -> Self {
        let detail = "the history is busy: try again later, with less if you can";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    pub fn too_large() -> Self {
        let detail = "the body is too large: a report has at most 4 MiB, an XML-RPC call 16 KiB, \
                      another request 64 KiB";
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }
}

impl From<Error> for Problem {
    fn from(e: Error) -> Self {
        match e {
            Error::Input(detail) => Problem::bad_request(detail),
            Error::Db(sqlx::Error::PoolClosed) => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the service ends: try again later")
            }
            e => {
                log(&e.to_string(), Instant::now());
                let detail = "the history cannot be read at present: see the service's log";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
            }
        }
    }
}

/// A client that asks a thousand times a second while the history cannot be read must not fill the disk with log lines.
/// The same line is written once a minute, a different one after a second.
fn log(error: &str, now: Instant) {
    static LAST: Mutex<Option<(Instant, String)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(|e| e.into_inner());
    let is_due = last.as_ref().is_none_or(|(at, line)| {
        now.duration_since(*at).as_secs() >= if line == error { 60 } else { 1 }
    });
    if is_due {
        *last = Some((now, error.into()));
        tracing::error!("{error}");
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        Problem::new(refused.status, refused.detail)
    }
}

impl From<Wrong> for Problem {
    fn from(wrong: Wrong) -> Self {
        Problem::bad_request(wrong.0)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        let body = serde_json::to_string(&self).unwrap_or_default();
        let mut response = (status, [(CONTENT_TYPE, CONTENT)], body).into_response();
        let headers = response.headers_mut();
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, axum::http::HeaderValue::from_static("Bearer"));
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, self.retry_after_s.into());
            }
            _ => {}
        }
        response
    }
}
