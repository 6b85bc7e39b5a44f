// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Writing: many batches in one transaction, each batch once.

use std::collections::{BTreeSet, HashMap};

use serde_json::{json, Value};
use sqlx::{Any, Executor, Row, Transaction};

use super::schema::table;
use super::{SeriesKey, Store};
use crate::error::Result;
use crate::record::{Kind, Record};
use crate::settings::{Changes, Settings};
use crate::time::DAY_US;

/// Records that came together; the id makes them come once.
#[derive(Clone, Debug)]
pub struct Batch {
    pub id: Option<String>,
    pub records: Vec<Stored>,
}

/// A record, or the mean of several (roll-ups, on their way in again after an export).
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub record: Record,
    pub span_s: u32,
    pub samples: u64,
    /// The least and the most available bandwidth; 0 and of no meaning where there is none.
    pub low_bps: u64,
    pub high_bps: u64,
}

impl From<Record> for Stored {
    fn from(record: Record) -> Self {
        let bps = record.available_bps.unwrap_or(0);
        Stored { record, span_s: 0, samples: 1, low_bps: bps, high_bps: bps }
    }
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Records that were new.
    pub stored: u64,
    /// The batch had come before: nothing was written.
    pub duplicate: bool,
}

/// A batch id is remembered this long.
pub const BATCH_MEMORY_US: i64 = 30 * DAY_US;

/// Columns of a kind's table, with their types: the elements of a row in the JSON that carries
/// records.
fn columns(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Bandwidth => &[
            ("series_id", "bigint"),
            ("t_us", "bigint"),
            ("span_s", "bigint"),
            ("samples", "bigint"),
            ("available_bps", "bigint"),
            ("low_bps", "bigint"),
            ("high_bps", "bigint"),
            ("capacity_bps", "bigint"),
            ("rtt_us", "bigint"),
            ("loss", "double precision"),
            ("congested", "bigint"),
            ("validity_pct", "bigint"),
        ],
        Kind::Test => &[
            ("series_id", "bigint"),
            ("t_us", "bigint"),
            ("span_s", "bigint"),
            ("samples", "bigint"),
            ("rtt_us", "bigint"),
            ("loss", "double precision"),
            ("throughput_bps", "bigint"),
            ("validity_pct", "bigint"),
        ],
    }
}

impl Store {
    /// Writes batches in one transaction: all are safe on disk when this returns.
    /// With them comes the generation that this made.
    pub async fn write(&self, batches: &[Batch], now_us: i64) -> Result<(Vec<Written>, i64)> {
        let ids = self.series_ids(batches).await?;
        let mut tx = self.writer.begin().await?;
        // First a write: SQLite's lock is taken before anything is read.
        let generation = raise_generation(&mut tx).await?;
        let mut written = Vec::with_capacity(batches.len());
        for batch in batches {
            written.push(self.write_batch(&mut tx, batch, &ids, now_us).await?);
        }
        tx.commit().await?;
        Ok((written, generation))
    }

    async fn write_batch(
        &self,
        tx: &mut Transaction<'_, Any>,
        batch: &Batch,
        ids: &HashMap<SeriesKey, i64>,
        now_us: i64,
    ) -> Result<Written> {
        if let Some(id) = &batch.id {
            let sql = "INSERT INTO batch (id, received_us) VALUES ($1, $2) ON CONFLICT DO NOTHING";
            let insert = sqlx::query(sql).bind(id).bind(now_us);
            if insert.execute(&mut **tx).await?.rows_affected() == 0 {
                return Ok(Written { stored: 0, duplicate: true });
            }
        }
        let mut stored = 0;
        for kind in Kind::ALL {
            let of_kind = batch.records.iter().filter(|s| s.record.kind() == kind);
            let rows: Vec<Value> = of_kind.map(|s| row(s, ids)).collect();
            if rows.is_empty() {
                continue;
            }
            let names: Vec<_> = columns(kind).iter().map(|c| c.0).collect();
            let field = |(i, column): (usize, &(&str, &str))| self.dialect.field(i, column.1);
            let fields: Vec<_> = columns(kind).iter().enumerate().map(field).collect();
            let sql = format!(
                "INSERT INTO {} ({}) SELECT {} FROM {} WHERE true ON CONFLICT DO NOTHING",
                table(kind),
                names.join(", "),
                fields.join(", "),
                self.dialect.elements("$1")
            );
            let query = sqlx::query(&sql).bind(Value::Array(rows).to_string());
            stored += query.execute(&mut **tx).await?.rows_affected();
        }
        Ok(Written { stored, duplicate: false })
    }

    /// The series of all records, made where they are new. Outside of the transaction: a
    /// series without records does no harm, an id that was rolled back would.
    async fn series_ids(&self, batches: &[Batch]) -> Result<HashMap<SeriesKey, i64>> {
        let mut ids = HashMap::new();
        let mut new = BTreeSet::new();
        {
            let known = self.series.lock().unwrap_or_else(|e| e.into_inner());
            for stored in batches.iter().flat_map(|b| &b.records) {
                let key = stored.record.series();
                match known.get(&key) {
                    Some(id) => drop(ids.insert(key, *id)),
                    None => drop(new.insert(key)),
                }
            }
        }
        if !new.is_empty() {
            let mut tx = self.writer.begin().await?;
            let mut made = Vec::with_capacity(new.len());
            for key in new {
                let id = make_series(&mut tx, &key).await?;
                made.push((key, id));
            }
            tx.commit().await?;
            ids.extend(made.iter().cloned());
            self.series.lock().unwrap_or_else(|e| e.into_inner()).extend(made);
        }
        Ok(ids)
    }

    /// Sets some of a path's settings (`*`: of all paths); null takes one back.
    pub async fn change_settings(&self, dst: &str, changes: &Changes) -> Result<Changes> {
        let mut tx = self.writer.begin().await?;
        raise_generation(&mut tx).await?;
        make_path(&mut tx, dst).await?;
        let sql = "SELECT settings FROM path WHERE dst = $1";
        let row = sqlx::query(sql).bind(dst).fetch_one(&mut *tx).await?;
        let mut all: Changes = serde_json::from_str(row.try_get(0)?).unwrap_or_default();
        all.extend(changes.clone());
        all.retain(|_, value| !value.is_null());
        Settings::layered(&[&all])?;
        let sql = "UPDATE path SET settings = $2 WHERE dst = $1";
        let text = Value::Object(all.clone()).to_string();
        sqlx::query(sql).bind(dst).bind(text).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(all)
    }
}

async fn make_series(tx: &mut Transaction<'_, Any>, (dst, hop, source): &SeriesKey) -> Result<i64> {
    make_path(tx, dst).await?;
    let sql = "INSERT INTO series (path_id, hop, source)
               SELECT id, $2, $3 FROM path WHERE dst = $1 ON CONFLICT DO NOTHING";
    sqlx::query(sql).bind(dst).bind(hop).bind(source).execute(&mut **tx).await?;
    let sql = "SELECT s.id FROM series s JOIN path p ON p.id = s.path_id
               WHERE p.dst = $1 AND s.hop = $2 AND s.source = $3";
    let row = sqlx::query(sql).bind(dst).bind(hop).bind(source).fetch_one(&mut **tx).await?;
    Ok(row.try_get(0)?)
}

async fn make_path(tx: &mut Transaction<'_, Any>, dst: &str) -> Result<()> {
    let sql = "INSERT INTO path (dst) VALUES ($1) ON CONFLICT DO NOTHING";
    sqlx::query(sql).bind(dst).execute(&mut **tx).await?;
    Ok(())
}

/// Tells readers, in other processes too, that something has changed.
pub(super) async fn raise_generation(tx: &mut Transaction<'_, Any>) -> Result<i64> {
    let sql = "UPDATE meta SET value = value + 1 WHERE key = 'generation' RETURNING value";
    Ok(tx.fetch_one(sql).await?.try_get(0)?)
}

/// In the order of [`columns`].
fn row(stored: &Stored, ids: &HashMap<SeriesKey, i64>) -> Value {
    let r = &stored.record;
    let id = ids.get(&r.series());
    let (span_s, samples) = (stored.span_s, stored.samples);
    let Some(available_bps) = r.available_bps else {
        let told = (r.rtt_us, r.loss, r.throughput_bps, r.validity_pct);
        return json!([id, r.time, span_s, samples, told.0, told.1, told.2, told.3]);
    };
    json!([
        id,
        r.time,
        span_s,
        samples,
        available_bps,
        stored.low_bps,
        stored.high_bps,
        r.capacity_bps,
        r.rtt_us,
        r.loss,
        r.congested.map(u8::from),
        r.validity_pct,
    ])
}
