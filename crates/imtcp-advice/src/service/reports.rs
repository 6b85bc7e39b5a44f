// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Reports from agents: batches of records, each batch once.

use std::fmt;
use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::Json;
use imtcp_client::record::Record;
use imtcp_client::time::now_us;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::problem::{Problem, RefusedRecord};
use super::{report_body, Shared};
use crate::store::write::Batch;

/// Records in one batch at most.
pub const MOST_RECORDS: usize = 10_000;
const SHAPE: &str = "as {\"batch\": \"an id\", \"records\": [{\"dst\": …}]} is one";
/// Characters of what is wrong with a record: the sender chooses some of them.
const MOST_WHY: usize = 300;

// As the interface describes it.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Report {
    /// An id that the sender makes for this batch alone. Sent again within 30 days, the batch is
    /// acknowledged and not stored twice. No control characters.
    #[schema(min_length = 1, max_length = 128, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    batch: String,
    #[schema(max_items = 10_000)]
    records: Vec<Record>,
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
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Json<Receipt>, Problem> {
    let client = client.ip();
    let (body, _room) =
        report_body::read(request.into_body(), client, &service.report_room).await?;
    let Body { batch, records: read } = read_body(&body)?;
    if batch.is_empty() || batch.chars().count() > 128 || batch.chars().any(char::is_control) {
        return Err(Problem::bad_request(
            "batch is an id of 1 to 128 characters, none of them a control character",
        ));
    }
    if read.count > MOST_RECORDS {
        let detail = format!("a batch has at most {MOST_RECORDS} records: send several");
        return Err(Problem::bad_request(detail));
    }
    let now_us = now_us();
    let mut records = Vec::with_capacity(read.records.len());
    let mut refused = Vec::new();
    for (i, record) in read.records.into_iter().enumerate() {
        match record.and_then(|record| record.checked(now_us).map_err(|e| e.to_string())) {
            Ok(checked) => records.push(checked.into()),
            Err(why) => refused.push(RefusedRecord { record: i, why }),
        }
    }
    if let Some(first) = refused.first() {
        let detail = format!("record {} of the batch: {}", first.record, first.why);
        return Err(Problem { refused, ..Problem::bad_request(detail) });
    }
    let written = service.ingest.put(client, Batch { id: Some(batch.clone()), records }).await?;
    let refused = Some(written.refused).filter(|count| *count > 0);
    let because = refused.map(|_| service.cache.store().limits().to_string());
    let (stored, duplicate) = (written.stored, written.duplicate);
    Ok(Json(Receipt { batch, stored, duplicate, refused, because }))
}

/// Most reports are as they should be, and are read in one go; of another each record by itself.
fn read_body(body: &[u8]) -> Result<Body, Problem> {
    if let Ok(Report { batch, records }) = serde_json::from_slice(body) {
        let count = records.len();
        let records = records.into_iter().map(Ok).collect();
        return Ok(Body { batch, records: EachRecord { records, count } });
    }
    serde_json::from_slice(body)
        .map_err(|e| Problem::bad_request(format!("this is no report, {SHAPE}: {e}")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    batch: String,
    records: EachRecord,
}

/// The records, each read by itself: of a wrong one, why. Beyond [`MOST_RECORDS`] they are counted.
#[derive(Default)]
struct EachRecord {
    records: Vec<Result<Record, String>>,
    count: usize,
}

impl<'de> Deserialize<'de> for EachRecord {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(Records)
    }
}

struct Records;

impl<'de> Visitor<'de> for Records {
    type Value = EachRecord;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<EachRecord, A::Error> {
        let mut all = EachRecord::default();
        while let Some(record) = list.next_element::<&RawValue>()? {
            if all.count < MOST_RECORDS {
                all.records.push(read_record(record.get()));
            }
            all.count += 1;
        }
        Ok(all)
    }
}

/// The error names the field. Its line and column would count within the record alone.
fn read_record(json: &str) -> Result<Record, String> {
    serde_json::from_str(json).or_else(|_| {
        let mut from = serde_json::Deserializer::from_str(json);
        serde_path_to_error::deserialize(&mut from).map_err(|e| {
            let why = e.to_string();
            let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why);
            format!("wrong record: {}", why.chars().take(MOST_WHY).collect::<String>())
        })
    })
}
