// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Paths and their series: a series is a path's records of one hop by one source.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use imtcp_client::record::Record;
use imtcp_client::time::DAY_US;
use sqlx::any::AnyRow;
use sqlx::{Any, Row, Transaction};

use super::forget::COUNT_PATHS;
use super::write::{to_json, Batch};
use super::Store;
use crate::error::{Error, Result};

/// dst, hop, source
pub(crate) type SeriesKey = (String, String, String);

/// The series that a record belongs to.
pub(crate) fn key_of(record: &Record) -> SeriesKey {
    (record.dst.clone(), record.hop.clone(), record.source.clone())
}

/// How many paths there may be, and series of each. Whoever may write could make any number of
/// them, each with a history of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub paths: u32,
    /// Pairs of hop and source.
    pub series_of_path: u32,
}

impl Default for Limits {
    /// None: for whoever has the database itself.
    fn default() -> Self {
        Limits { paths: u32::MAX, series_of_path: u32::MAX }
    }
}

/// Series looked up before, so that a batch need not ask for its own. About 150 bytes each.
const MOST_KNOWN: usize = 200_000;

#[derive(Default)]
pub(super) struct KnownSeries {
    ids: HashMap<SeriesKey, Known>,
    /// How many paths had been removed when these were looked up.
    forgotten: i64,
}

#[derive(Clone, Copy)]
struct Known {
    id: i64,
    /// The day on which this store last noted a report of the path.
    reported_day: i64,
}

impl KnownSeries {
    fn extend(&mut self, made: &[(SeriesKey, i64)]) {
        if self.ids.len() + made.len() > MOST_KNOWN {
            self.ids.clear();
        }
        let known =
            |(key, id): &(SeriesKey, i64)| (key.clone(), Known { id: *id, reported_day: 0 });
        self.ids.extend(made.iter().map(known));
    }
}

/// Series of records that are to be written.
pub(super) struct Found {
    /// One for each record of each batch; `None` if the limits do not allow its series.
    pub ids: Vec<Vec<Option<i64>>>,
    /// Those of reports that are not noted on this day yet.
    pub to_note: BTreeSet<SeriesKey>,
    /// Those that this store did not know.
    made: Vec<(SeriesKey, i64)>,
    /// How many paths had been removed then.
    since: i64,
}

impl Store {
    /// The series of all records, made where they are new. New ids are remembered once they are on disk
    /// ([`Store::learned`]): an id that was rolled back will go to another series.
    pub(super) async fn series_of(
        &self,
        tx: &mut Transaction<'_, Any>,
        batches: &[Batch],
        day: i64,
    ) -> Result<Found> {
        let mut ids: Vec<_> = batches.iter().map(|b| vec![None; b.records.len()]).collect();
        let (mut to_note, mut new) = (BTreeSet::new(), BTreeMap::<_, Vec<_>>::new());
        let since;
        {
            let known = self.known();
            since = known.forgotten;
            for (i, batch) in batches.iter().enumerate() {
                for (j, stored) in batch.records.iter().enumerate() {
                    let key = key_of(&stored.record);
                    let found = known.ids.get(&key);
                    if batch.is_report() && found.is_none_or(|known| known.reported_day != day) {
                        to_note.insert(key.clone());
                    }
                    match found {
                        Some(known) => ids[i][j] = Some(known.id),
                        None => new.entry(key).or_default().push((i, j)),
                    }
                }
            }
        }
        let mut made = Vec::new();
        if !new.is_empty() {
            made = self.make_series(tx, new.keys()).await?;
        }
        for (key, id) in &made {
            for (i, j) in new.remove(key).into_iter().flatten() {
                ids[i][j] = Some(*id);
            }
        }
        Ok(Found { ids, to_note, made, since })
    }

    /// The series found, and today's note of them, are on disk.
    pub(super) fn learned(&self, found: &Found, day: i64) {
        let mut known = self.known();
        if known.forgotten != found.since {
            // Somebody removed a path meanwhile.
            return;
        }
        known.extend(&found.made);
        for key in &found.to_note {
            if let Some(series) = known.ids.get_mut(key) {
                series.reported_day = day;
            }
        }
    }

    /// Series with their ids, made where they are new, and their paths too.
    async fn make_series(
        &self,
        tx: &mut Transaction<'_, Any>,
        series: impl Iterator<Item = &SeriesKey>,
    ) -> Result<Vec<(SeriesKey, i64)>> {
        let keys = to_json(series)?;
        let elements = self.dialect.elements("$1");
        let [dst, hop, source] = [0, 1, 2].map(|i| self.dialect.field(i, "text"));
        let paths = format!(
            "INSERT INTO path (dst) SELECT n.dst FROM (SELECT DISTINCT {dst} AS dst FROM {elements}) n
             WHERE NOT EXISTS (SELECT 1 FROM path p WHERE p.dst = n.dst) ORDER BY n.dst
             LIMIT (SELECT CASE WHEN n.count < $2 THEN $2 - n.count ELSE 0 END
                FROM (SELECT {COUNT_PATHS} AS count) n)
             ON CONFLICT DO NOTHING"
        );
        let query = self.dialect.query(&paths).bind(&keys).bind(i64::from(self.limits.paths));
        query.execute(&mut **tx).await?;
        // Ids by subqueries, so by an index: a join with elements, of which PostgreSQL knows nothing, may
        // read every path for each.
        let path = format!("(SELECT p.id FROM path p WHERE p.dst = {dst})");
        let series = format!(
            "INSERT INTO series (path_id, hop, source)
             WITH k AS (
                SELECT {path} AS path_id, {hop} AS hop, {source} AS source FROM {elements}),
             has AS (SELECT path_id, COUNT(*) AS count FROM series
                WHERE path_id IN (SELECT path_id FROM k) GROUP BY path_id),
             n AS (SELECT k.path_id, k.hop, k.source,
                    ROW_NUMBER() OVER (PARTITION BY k.path_id ORDER BY k.hop, k.source) AS i
                FROM k WHERE k.path_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM series s
                    WHERE s.path_id = k.path_id AND s.hop = k.hop AND s.source = k.source))
             SELECT n.path_id, n.hop, n.source FROM n LEFT JOIN has ON has.path_id = n.path_id
             WHERE n.i + COALESCE(has.count, 0) <= $2
             ON CONFLICT DO NOTHING"
        );
        let most = i64::from(self.limits.series_of_path);
        self.dialect.query(&series).bind(&keys).bind(most).execute(&mut **tx).await?;
        let sql = format!(
            "SELECT n.dst, n.hop, n.source, n.id FROM (
                SELECT {dst} AS dst, {hop} AS hop, {source} AS source, (SELECT s.id FROM series s
                    WHERE s.path_id = {path} AND s.hop = {hop} AND s.source = {source}) AS id
                FROM {elements}) n WHERE n.id IS NOT NULL"
        );
        let rows = self.dialect.query(&sql).bind(&keys).fetch_all(&mut **tx).await?;
        let made = |row: &AnyRow| {
            let key = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            Ok((key, row.try_get(3)?))
        };
        rows.iter().map(made).collect()
    }

    /// A path for settings alone.
    pub(super) async fn make_path(&self, tx: &mut Transaction<'_, Any>, dst: &str) -> Result<()> {
        let sql = format!(
            "INSERT INTO path (dst) SELECT $1
             WHERE {COUNT_PATHS} < $2 ON CONFLICT DO NOTHING"
        );
        let query = self.dialect.query(&sql).bind(dst).bind(i64::from(self.limits.paths));
        query.execute(&mut **tx).await?;
        let found = self.dialect.query_i64("SELECT COUNT(*) FROM path WHERE dst = $1").bind(dst);
        if found.fetch_one(&mut **tx).await? == 0 {
            return Err(Error::Input(self.limits.to_string()));
        }
        Ok(())
    }

    /// Notes, of each of these paths, that a report came today.
    pub(super) async fn mark_reported(
        &self,
        tx: &mut Transaction<'_, Any>,
        series: &BTreeSet<SeriesKey>,
        day: i64,
    ) -> Result<()> {
        if series.is_empty() {
            return Ok(());
        }
        let paths: BTreeSet<_> = series.iter().map(|(dst, ..)| [dst]).collect();
        let sql = format!(
            "UPDATE path SET reported_us = $2 WHERE dst IN (SELECT {} FROM {})",
            self.dialect.field(0, "text"),
            self.dialect.elements("$1")
        );
        let query = self.dialect.query(&sql).bind(to_json(paths)?).bind(day * DAY_US);
        query.execute(&mut **tx).await?;
        Ok(())
    }

    /// Ids from before then may be others' by now: SQLite gives them away again.
    pub(super) fn known_since(&self, forgotten: i64) {
        let mut known = self.known();
        if known.forgotten != forgotten {
            *known = KnownSeries { forgotten, ids: HashMap::new() };
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, KnownSeries> {
        self.series.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl std::fmt::Display for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(
            f,
            "this service keeps at most {} paths (--most-paths), and {} pairs of hop and source of \
             each: remove what is not needed with `imtcp-advice forget`",
            self.paths, self.series_of_path
        )
    }
}
