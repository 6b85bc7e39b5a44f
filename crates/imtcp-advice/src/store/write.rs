// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Writing: many batches in one transaction, each batch once.

use std::collections::HashSet;

use imtcp_client::record::{Kind, Record};
use imtcp_client::time::DAY_US;
use serde::Serialize;
use sqlx::any::AnyArguments;
use sqlx::query::Query;
use sqlx::{Acquire, Any, Executor, Row, Transaction};

use super::dialect::table;
use super::forget::forgotten;
use super::Store;
use crate::error::Result;

/// Records that came together; the id makes them come once.
#[derive(Clone, Debug)]
pub struct Batch {
    pub id: Option<String>,
    pub records: Vec<Stored>,
}

impl Batch {
    /// Agents name their batches, imports do not.
    pub(super) fn is_report(&self) -> bool {
        self.id.is_some()
    }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Records that were new.
    pub stored: u64,
    /// The batch had come before: nothing was written.
    pub duplicate: bool,
    /// Records that were left out: their path or series is beyond the store's limits.
    pub refused: u64,
}

/// A batch id is remembered this long.
pub const BATCH_MEMORY_US: i64 = 30 * DAY_US;

/// Columns that the tables of all kinds have, in the order of [`Placed::bind_to`].
const COMMON_COLUMNS: [&str; 7] =
    ["series_id", "t_us", "span_s", "samples", "rtt_us", "loss", "validity_pct"];

/// All columns of a kind's table, in that order.
fn columns(kind: Kind) -> Vec<&'static str> {
    let own: &[&str] = match kind {
        Kind::Bandwidth => &["available_bps", "low_bps", "high_bps", "capacity_bps", "congested"],
        Kind::Test => &["throughput_bps"],
    };
    [&COMMON_COLUMNS, own].concat()
}

/// Rows in one statement at most. ours: its 1536 parameters are far from the 32 766 that SQLite takes, and
/// PostgreSQL's 65 535.
const MOST_ROWS: usize = 128;

impl Store {
    /// Writes batches in one transaction: all are safe on disk when this returns.
    /// With them comes the generation that this made.
    pub async fn write(&self, batches: &[Batch], now_us: i64) -> Result<(Vec<Written>, i64)> {
        let day = now_us.div_euclid(DAY_US);
        let mut tx = self.writing().await?;
        // First a write: who removes a path, whose ids may become another's, waits until this is over.
        let generation = self.raise_generation(&mut tx).await?;
        self.known_since(forgotten(&mut tx).await?);
        let series = self.series_of(&mut tx, batches, day).await?;
        let is_new = self.remember(&mut tx, batches, now_us).await?;
        let of_new = batches.iter().zip(&series.ids).zip(&is_new).filter(|(_, new)| **new);
        let rows: Vec<Vec<_>> = of_new
            .map(|((batch, ids), _)| {
                let of_record =
                    |(stored, id): (_, &Option<_>)| Some(Placed { series: (*id)?, stored });
                batch.records.iter().zip(ids).filter_map(of_record).collect()
            })
            .collect();
        let stored = self.insert_each(&mut tx, &rows).await?;
        self.mark_reported(&mut tx, &series.to_note, day).await?;
        let mut of_new = rows.iter().zip(stored);
        let told = |(batch, new): (&Batch, bool)| match new.then(|| of_new.next()).flatten() {
            Some((rows, stored)) => {
                let refused = (batch.records.len() - rows.len()) as u64;
                Written { stored, refused, duplicate: false }
            }
            None => Written { duplicate: !new, ..Written::default() },
        };
        let written = batches.iter().zip(is_new).map(told).collect();
        self.commit(tx).await?;
        self.saw(generation);
        self.learned(&series, day);
        Ok((written, generation))
    }

    /// Says of each batch whether it is new. If two have one id, the first is.
    async fn remember(
        &self,
        tx: &mut Transaction<'_, Any>,
        batches: &[Batch],
        now_us: i64,
    ) -> Result<Vec<bool>> {
        let named = batches.iter().filter_map(|b| b.id.as_ref()).map(|id| [id]);
        let sql = format!(
            "INSERT INTO batch (id, received_us) SELECT {}, CAST($2 AS BIGINT) FROM {}
             WHERE true ON CONFLICT DO NOTHING RETURNING id",
            self.dialect.field(0, "text"),
            self.dialect.elements("$1")
        );
        let query = self.dialect.query(&sql).bind(to_json(named)?).bind(now_us);
        let mut new: HashSet<String> = HashSet::new();
        for row in query.fetch_all(&mut **tx).await? {
            new.insert(row.try_get(0)?);
        }
        Ok(batches.iter().map(|b| b.id.as_ref().is_none_or(|id| new.remove(id))).collect())
    }

    /// How many records of each batch were not there.
    async fn insert_each(
        &self,
        tx: &mut Transaction<'_, Any>,
        batches: &[Vec<Placed<'_>>],
    ) -> Result<Vec<u64>> {
        // Usually all are new, and one statement writes the records of all batches. Agents' batches are small: a
        // statement for each would take longer than the rest.
        let counts: Vec<_> = batches.iter().map(|b| b.len() as u64).collect();
        let mut all = tx.begin().await?;
        let stored = self.insert(&mut all, batches).await?;
        if stored == counts.iter().sum::<u64>() || batches.len() == 1 {
            all.commit().await?;
            return Ok(counts.into_iter().map(|count| count.min(stored)).collect());
        }
        all.rollback().await?;
        let mut stored = Vec::with_capacity(batches.len());
        for batch in batches {
            stored.push(self.insert(tx, std::slice::from_ref(batch)).await?);
        }
        Ok(stored)
    }

    /// How many of these were not there.
    async fn insert(
        &self,
        tx: &mut Transaction<'_, Any>,
        batches: &[Vec<Placed<'_>>],
    ) -> Result<u64> {
        let mut stored = 0;
        for kind in Kind::ALL {
            let of_kind = batches.iter().flatten().filter(|row| row.stored.record.kind() == kind);
            let (of_kind, columns): (Vec<_>, _) = (of_kind.collect(), columns(kind));
            let mut left = of_kind.as_slice();
            while !left.is_empty() {
                // Powers of two are few lengths: the driver keeps a statement of each prepared.
                let (rows, later) = left.split_at(MOST_ROWS.min(1 << left.len().ilog2()));
                left = later;
                let sql = format!(
                    "INSERT INTO {} ({}) VALUES {} ON CONFLICT DO NOTHING",
                    table(kind),
                    columns.join(", "),
                    self.dialect.rows(rows.len(), columns.len())
                );
                let query = self.dialect.query(&sql);
                let query = rows.iter().fold(query, |query, row| row.bind_to(query));
                stored += query.execute(&mut **tx).await?.rows_affected();
            }
        }
        Ok(stored)
    }

    /// Tells readers, in other processes too, that something has changed.
    pub(super) async fn raise_generation(&self, tx: &mut Transaction<'_, Any>) -> Result<i64> {
        let sql = format!(
            "UPDATE meta SET value = value + 1 WHERE key = 'generation' RETURNING value, {}",
            self.dialect.table_id()
        );
        let seen = self.seen();
        let row = tx.fetch_one(&*sql).await?;
        self.check_tables(row.try_get(1)?)?;
        let generation: i64 = row.try_get(0)?;
        self.check_generation(generation - 1, seen)?;
        Ok(generation)
    }

    /// Writes as reports would: does the database take it?
    pub async fn probe_write(&self, now_us: i64) -> Result<()> {
        self.place.check_room()?;
        let mut tx = self.writing().await?;
        let sql = "INSERT INTO meta (key, value) VALUES ('probe', $1)
             ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        self.dialect.query(sql).bind(now_us).execute(&mut *tx).await?;
        self.commit(tx).await
    }
}

/// A record with its series' id.
struct Placed<'r> {
    series: i64,
    stored: &'r Stored,
}

impl Placed<'_> {
    /// In the order of [`columns`].
    fn bind_to<'q>(
        &self,
        query: Query<'q, Any, AnyArguments<'q>>,
    ) -> Query<'q, Any, AnyArguments<'q>> {
        let Stored { record: r, span_s, samples, low_bps, high_bps } = self.stored;
        let query = query
            .bind(self.series)
            .bind(r.time)
            .bind(i64::from(*span_s))
            .bind(integer(*samples))
            .bind(r.rtt_us.map(integer))
            .bind(r.loss)
            .bind(r.validity_pct.map(i64::from));
        match r.available_bps {
            Some(bps) => query
                .bind(integer(bps))
                .bind(integer(*low_bps))
                .bind(integer(*high_bps))
                .bind(r.capacity_bps.map(integer))
                .bind(r.congested.map(i64::from)),
            None => query.bind(r.throughput_bps.map(integer)),
        }
    }
}

/// As databases have them; a checked record has none that is greater.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// An array of these, written as they come: tens of thousands need not be there twice.
pub(super) fn to_json<T: Serialize>(elements: impl IntoIterator<Item = T>) -> Result<String> {
    let mut json = vec![b'['];
    for (i, element) in elements.into_iter().enumerate() {
        if i > 0 {
            json.push(b',');
        }
        serde_json::to_writer(&mut json, &element).map_err(std::io::Error::from)?;
    }
    json.push(b']');
    String::from_utf8(json).map_err(|e| std::io::Error::other(e).into())
}
