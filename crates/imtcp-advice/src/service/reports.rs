// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Reports from agents: batches of records, each batch once.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::Problem;
use super::Shared;
use crate::record::Record;
use crate::store::write::Batch;
use crate::time::now_us;

/// Records in one batch at most.
pub const MOST_RECORDS: usize = 10_000;

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Of the sender's making, and never used for anything else: sent again, the batch is
    /// acknowledged and not stored twice. Remembered for 30 days.
    #[schema(min_length = 1, max_length = 128)]
    pub batch: String,
    #[schema(max_items = 10_000)]
    pub records: Vec<Record>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    pub batch: String,
    /// Records that were new; they are on disk.
    pub stored: u64,
    /// The batch had come before.
    pub duplicate: bool,
}

/// Add records to the history
#[utoipa::path(post, path = "/v1/reports", request_body = Report, security(("write" = [])),
    responses(
    (status = 200, description = "All is safe on disk", body = Receipt),
    (status = 400, body = Problem, content_type = "application/problem+json"),
    (status = 401, body = Problem, content_type = "application/problem+json"),
    (status = 403, body = Problem, content_type = "application/problem+json"),
    (status = 413, description = "Over 4 MiB", body = Problem,
        content_type = "application/problem+json"),
    (status = 503, description = "Send it again", body = Problem,
        content_type = "application/problem+json"),
))]
pub async fn reports(
    State(service): State<Shared>,
    headers: HeaderMap,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Result<Json<Receipt>, Problem> {
    // Before the body is looked at.
    service.access().may_write(&headers)?;
    let body = body.map_err(|e| too_large_or(e.status(), &e.body_text()))?;
    let report: Report = serde_json::from_slice(&body)
        .map_err(|e| Problem::bad_request(format!("this is no report: {e}")))?;
    let batch = report.batch;
    if batch.is_empty() || batch.len() > 128 || batch.chars().any(char::is_control) {
        return Err(Problem::bad_request("batch is an id of 1 to 128 characters"));
    }
    if report.records.len() > MOST_RECORDS {
        let detail = format!("a batch has at most {MOST_RECORDS} records: send several");
        return Err(Problem::bad_request(detail));
    }
    let now_us = now_us();
    let mut records = Vec::with_capacity(report.records.len());
    for (i, record) in report.records.into_iter().enumerate() {
        let checked = record.checked(now_us);
        let checked =
            checked.map_err(|e| Problem::bad_request(format!("record {i} of the batch: {e}")))?;
        records.push(checked.into());
    }
    let written = service.ingest.put(Batch { id: Some(batch.clone()), records }).await?;
    Ok(Json(Receipt { batch, stored: written.stored, duplicate: written.duplicate }))
}

fn too_large_or(status: StatusCode, text: &str) -> Problem {
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        return Problem::new(status, "a report is at most 4 MiB: send smaller batches");
    }
    Problem::new(status, text)
}
