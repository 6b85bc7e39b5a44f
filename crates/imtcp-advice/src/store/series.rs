// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Paths and their series: a series is a path's records of one hop by one source.

use std::collections::{BTreeSet, HashMap};

use sqlx::any::AnyRow;
use sqlx::{Any, Row, Transaction};

use super::write::{to_json, Batch};
use super::Store;
use crate::error::{Error, Result};
use crate::time::DAY_US;

/// dst, hop, source
pub(crate) type SeriesKey = (String, String, String);

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

impl Store {
    /// The series of all records, made where they are new. Outside of the transaction: a
    /// series without records does no harm, an id that was rolled back would. With them comes how many
    /// paths had been removed then. A series that the limits do not allow has no id.
    pub(super) async fn series_ids(
        &self,
        batches: &[Batch],
    ) -> Result<(HashMap<SeriesKey, i64>, i64)> {
        let mut ids = HashMap::new();
        let mut new = BTreeSet::new();
        let since;
        {
            let known = self.known();
            since = known.forgotten;
            for stored in batches.iter().flat_map(|b| &b.records) {
                let key = stored.record.series();
                match known.ids.get(&key) {
                    Some(known) => drop(ids.insert(key, known.id)),
                    None => drop(new.insert(key)),
                }
            }
        }
        if !new.is_empty() {
            let mut tx = self.writing().await?;
            let made = self.make_series(&mut tx, &new).await?;
            self.commit(tx).await?;
            let mut known = self.known();
            if known.forgotten == since {
                known.extend(&made);
            }
            ids.extend(made);
        }
        Ok((ids, since))
    }

    /// Series with their ids, made where they are new, and their paths too.
    async fn make_series(
        &self,
        tx: &mut Transaction<'_, Any>,
        series: &BTreeSet<SeriesKey>,
    ) -> Result<Vec<(SeriesKey, i64)>> {
        let keys = to_json(series)?;
        let elements = self.dialect.elements("$1");
        let [dst, hop, source] = [0, 1, 2].map(|i| self.dialect.field(i, "text"));
        let paths = format!(
            "INSERT INTO path (dst) SELECT n.dst FROM (SELECT DISTINCT {dst} AS dst FROM {elements}) n
             WHERE NOT EXISTS (SELECT 1 FROM path p WHERE p.dst = n.dst) ORDER BY n.dst
             LIMIT (SELECT CASE WHEN COUNT(*) < $2 THEN $2 - COUNT(*) ELSE 0 END FROM path)
             ON CONFLICT DO NOTHING"
        );
        let query = self.dialect.query(&paths).bind(&keys).bind(i64::from(self.limits.paths));
        query.execute(&mut **tx).await?;
        let series = format!(
            "INSERT INTO series (path_id, hop, source) SELECT n.path_id, n.hop, n.source FROM (
                SELECT p.id AS path_id, {hop} AS hop, {source} AS source,
                    ROW_NUMBER() OVER (PARTITION BY p.id ORDER BY {hop}, {source}) AS i
                FROM {elements} JOIN path p ON p.dst = {dst} WHERE NOT EXISTS (SELECT 1
                    FROM series s WHERE s.path_id = p.id AND s.hop = {hop} AND s.source = {source})) n
             WHERE n.i + (SELECT COUNT(*) FROM series s WHERE s.path_id = n.path_id) <= $2
             ON CONFLICT DO NOTHING"
        );
        let most = i64::from(self.limits.series_of_path);
        self.dialect.query(&series).bind(&keys).bind(most).execute(&mut **tx).await?;
        let sql = format!(
            "SELECT p.dst, s.hop, s.source, s.id FROM {elements} JOIN path p ON p.dst = {dst}
             JOIN series s ON s.path_id = p.id AND s.hop = {hop} AND s.source = {source}"
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
        let sql = "INSERT INTO path (dst) SELECT $1 WHERE (SELECT COUNT(*) FROM path) < $2
             ON CONFLICT DO NOTHING";
        let query = self.dialect.query(sql).bind(dst).bind(i64::from(self.limits.paths));
        query.execute(&mut **tx).await?;
        let found = self.dialect.query_i64("SELECT COUNT(*) FROM path WHERE dst = $1").bind(dst);
        if found.fetch_one(&mut **tx).await? == 0 {
            return Err(Error::Input(self.limits.to_string()));
        }
        Ok(())
    }

    /// Notes, of each path with a report, that one came today.
    pub(super) async fn mark_reported(
        &self,
        tx: &mut Transaction<'_, Any>,
        batches: &[Batch],
        day: i64,
    ) -> Result<()> {
        let paths: BTreeSet<_> = {
            let known = self.known();
            let is_noted =
                |key: &SeriesKey| known.ids.get(key).is_some_and(|k| k.reported_day == day);
            let reported = reported(batches).filter(|key| !is_noted(key));
            reported.map(|(dst, ..)| [dst]).collect()
        };
        if paths.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "UPDATE path SET reported_us = $2 WHERE dst IN (SELECT {} FROM {})",
            self.dialect.field(0, "text"),
            self.dialect.elements("$1")
        );
        let query = self.dialect.query(&sql).bind(to_json(paths)?).bind(day * DAY_US);
        query.execute(&mut **tx).await?;
        Ok(())
    }

    /// Today's note is on disk.
    pub(super) fn marked_reported(&self, batches: &[Batch], day: i64) {
        let mut known = self.known();
        for key in reported(batches) {
            if let Some(series) = known.ids.get_mut(&key) {
                series.reported_day = day;
            }
        }
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

fn reported(batches: &[Batch]) -> impl Iterator<Item = SeriesKey> + '_ {
    let reports = batches.iter().filter(|b| b.is_report());
    reports.flat_map(|b| &b.records).map(|stored| stored.record.series())
}

impl std::fmt::Display for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(
            f,
            "this service keeps at most {} paths (--most-paths), and {} pairs of hop and source of \
             each: remove what is not needed with `imtcp advice forget`",
            self.paths, self.series_of_path
        )
    }
}
