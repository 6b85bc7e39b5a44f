// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Reports from agents: batches of records, each batch once.

use axum::extract::{Request, State};
use axum::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::{Problem, RefusedRecord};
use super::{report_body, Shared};
use crate::record::Record;
use crate::store::write::Batch;
use crate::time::now_us;

/// Records in one batch at most.
pub const MOST_RECORDS: usize = 10_000;

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// An id that the sender makes for this batch alone. Sent again within 30 days, the batch is
    /// acknowledged and not stored twice. No control characters.
    #[schema(min_length = 1, max_length = 128, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
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
    /// Records that were left out: their path, or their pair of hop and source, would be one more than
    /// this service keeps. Null if there are none.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub refused: Option<u64>,
    /// Why, and what to do.
    #[serde(default)]
    pub because: Option<String>,
}

/// Add records to the history
#[utoipa::path(post, path = "/v1/reports", tag = "reports", request_body = Report, security(("write" = [])),
    responses(
    (status = 200, description = "All that was not refused is safe on disk", body = Receipt),
))]
pub async fn reports(
    State(service): State<Shared>,
    request: Request,
) -> Result<Json<Receipt>, Problem> {
    let (body, _room) = report_body::read(request.into_body(), &service.report_room).await?;
    let report: Report = serde_json::from_slice(&body)
        .map_err(|e| Problem::bad_request(format!("this is no report: {e}")))?;
    let batch = report.batch;
    if batch.is_empty() || batch.chars().count() > 128 || batch.chars().any(char::is_control) {
        return Err(Problem::bad_request(
            "batch is an id of 1 to 128 characters, none of them a control character",
        ));
    }
    if report.records.len() > MOST_RECORDS {
        let detail = format!("a batch has at most {MOST_RECORDS} records: send several");
        return Err(Problem::bad_request(detail));
    }
    let now_us = now_us();
    let mut records = Vec::with_capacity(report.records.len());
    let mut refused = Vec::new();
    for (i, record) in report.records.into_iter().enumerate() {
        match record.checked(now_us) {
            Ok(checked) => records.push(checked.into()),
            Err(e) => refused.push(RefusedRecord { record: i, why: e.to_string() }),
        }
    }
    if let Some(first) = refused.first() {
        let detail = format!("record {} of the batch: {}", first.record, first.why);
        return Err(Problem { refused, ..Problem::bad_request(detail) });
    }
    let written = service.ingest.put(Batch { id: Some(batch.clone()), records }).await?;
    let refused = Some(written.refused).filter(|count| *count > 0);
    let because = refused.map(|_| service.book.store().limits().to_string());
    let (stored, duplicate) = (written.stored, written.duplicate);
    Ok(Json(Receipt { batch, stored, duplicate, refused, because }))
}
