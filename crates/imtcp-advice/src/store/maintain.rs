// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Retention: raw records become minutes, minutes hours, and the oldest go. Ages count from the
//! newest record of a path, of whichever source: an old trace that was imported alone stays as it came, and
//! a source that went silent ages with the others. Each step is
//! one transaction, so that a kill leaves a record either as it was or rolled up, never neither.
//! Of paths that nobody reports any more, see [`super::silent`].

use std::time::Instant;

use imtcp_client::record::Kind;
use imtcp_client::time::{DAY_US, HOUR_US, MINUTE_US};
use serde::{Deserialize, Serialize};
use sqlx::Row;

use super::dialect::{table, Dialect};
use super::forget::HIDDEN;
use super::read::{from_text, ALL_PATHS};
use super::write::BATCH_MEMORY_US;
use super::Store;
use crate::error::Result;
use crate::settings::Settings;

/// How long each form is kept, in days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    pub raw_days: u32,
    pub minute_days: u32,
    pub hour_days: u32,
    /// Days after its last report until a path goes; 0: none goes.
    pub silent_days: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { raw_days: 30, minute_days: 400, hour_days: 3660, silent_days: 400 }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Maintained {
    /// Records that went into minutes and hours.
    pub rolled_up: u64,
    /// Records that were too old, or of paths that were forgotten.
    pub removed: u64,
    /// Paths that were silent for too long; their records count as removed.
    pub silent_paths: u64,
}

/// The progress of maintenance, for whoever waits for it.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub series: usize,
    pub of_series: usize,
    pub rolled_up: u64,
}

/// Records that one transaction rolls up or removes, about: a report waits for one, some 20 ms.
pub(super) const RECORDS_A_STEP: i64 = 2_000;

/// Ids of batches that are remembered, whatever their age: about 250 MB of them. An agent sends 8640 a
/// day; without its id a batch that comes again is still known by its records.
const MOST_BATCH_IDS: i64 = 1_000_000;

/// Joins the records of bandwidth of a bucket that count: a mean tells nothing of who is in it, so those that do not
/// ($5, the least validity) are in none. Means are weighted with the samples in them; the time is
/// the mean too, so that a line through the means is the line through the records. Sums are doubles:
/// products with samples are more than 64 bits hold.
fn roll_up_bandwidth(dialect: Dialect) -> String {
    let mean = dialect.clamp(
        "CAST(SUM(CAST(available_bps AS DOUBLE PRECISION) * samples) / SUM(samples) AS BIGINT)",
        "MIN(low_bps)",
        "MAX(high_bps)",
    );
    let low = "CASE WHEN excluded.low_bps < record.low_bps
        THEN excluded.low_bps ELSE record.low_bps END";
    let high = "CASE WHEN excluded.high_bps > record.high_bps
        THEN excluded.high_bps ELSE record.high_bps END";
    let joined_mean = dialect.clamp(
        "CAST((CAST(record.available_bps AS DOUBLE PRECISION) * record.samples
            + CAST(excluded.available_bps AS DOUBLE PRECISION) * excluded.samples)
            / (record.samples + excluded.samples) AS BIGINT)",
        low,
        high,
    );
    format!(
        "INSERT INTO record (series_id, t_us, span_s, samples, available_bps, low_bps, high_bps,
            capacity_bps, rtt_us, loss, congested, validity_pct)
         SELECT series_id,
            MIN(t_us) / $2 * $2
                + CAST(SUM(CAST(t_us % $2 AS DOUBLE PRECISION) * samples) / SUM(samples) AS BIGINT),
            $2 / 1000000, CAST(SUM(samples) AS BIGINT), {mean},
            MIN(low_bps), MAX(high_bps),
            MAX(capacity_bps), CAST(AVG(rtt_us) AS BIGINT), AVG(loss),
            CAST(ROUND(AVG(congested)) AS BIGINT), CAST(AVG(validity_pct) AS BIGINT)
         FROM record
         WHERE series_id = $1 AND span_s < $2 / 1000000 AND t_us >= $3 AND t_us < $4
            AND (validity_pct IS NULL OR validity_pct >= $5)
         GROUP BY series_id, t_us / $2
         ON CONFLICT (series_id, t_us, span_s) DO UPDATE SET
            samples = record.samples + excluded.samples,
            available_bps = {joined_mean}, low_bps = {low}, high_bps = {high}"
    )
}

/// The same for active tests. A test tells some of the values alone, so each mean is of those that
/// tell it; a bucket of lost packets has a loss and no RTT.
const ROLL_UP_TESTS: &str = "
INSERT INTO active_test (series_id, t_us, span_s, samples, rtt_us, loss, throughput_bps,
    validity_pct)
SELECT series_id,
    MIN(t_us) / $2 * $2
        + CAST(SUM(CAST(t_us % $2 AS DOUBLE PRECISION) * samples) / SUM(samples) AS BIGINT),
    $2 / 1000000, CAST(SUM(samples) AS BIGINT),
    CAST(SUM(CAST(rtt_us AS DOUBLE PRECISION) * samples)
        / SUM(CASE WHEN rtt_us IS NOT NULL THEN samples END) AS BIGINT),
    SUM(loss * samples) / SUM(CASE WHEN loss IS NOT NULL THEN samples END),
    CAST(SUM(CAST(throughput_bps AS DOUBLE PRECISION) * samples)
        / SUM(CASE WHEN throughput_bps IS NOT NULL THEN samples END) AS BIGINT),
    CAST(AVG(validity_pct) AS BIGINT)
FROM active_test
WHERE series_id = $1 AND span_s < $2 / 1000000 AND t_us >= $3 AND t_us < $4
    AND (validity_pct IS NULL OR validity_pct >= $5)
GROUP BY series_id, t_us / $2
ON CONFLICT (series_id, t_us, span_s) DO UPDATE SET
    samples = active_test.samples + excluded.samples,
    rtt_us = COALESCE(CAST((CAST(active_test.rtt_us AS DOUBLE PRECISION) * active_test.samples
        + CAST(excluded.rtt_us AS DOUBLE PRECISION) * excluded.samples)
        / (active_test.samples + excluded.samples) AS BIGINT), active_test.rtt_us, excluded.rtt_us),
    loss = COALESCE((active_test.loss * active_test.samples + excluded.loss * excluded.samples)
        / (active_test.samples + excluded.samples), active_test.loss, excluded.loss),
    throughput_bps = COALESCE(CAST((CAST(active_test.throughput_bps AS DOUBLE PRECISION)
        * active_test.samples + CAST(excluded.throughput_bps AS DOUBLE PRECISION) * excluded.samples)
        / (active_test.samples + excluded.samples) AS BIGINT),
        active_test.throughput_bps, excluded.throughput_bps)";

/// The source of records, and the least validity with which they count.
struct Of {
    kind: Kind,
    series: i64,
    least_pct: u8,
}

/// Hears after each step of a series how many records were rolled up, of all, and from when until when others are there now.
type Step<'a> = &'a mut (dyn FnMut(u64, Option<(i64, i64)>) + Send);

fn roll_up_sql(dialect: Dialect, kind: Kind) -> String {
    match kind {
        Kind::Bandwidth => roll_up_bandwidth(dialect),
        Kind::Test => ROLL_UP_TESTS.into(),
    }
}

/// Records of a path that became others: its name, from when until when.
pub type Rolled<'a> = &'a mut (dyn FnMut(&str, i64, i64) + Send);

/// The retention, the time, and whether somebody waits.
struct Task<'a> {
    keep: &'a Retention,
    now_us: i64,
    /// Rests after each step for as long as the step took: reports have half of the time at least.
    rests: bool,
}

impl Store {
    /// Rolls up and removes records that are due, while reports come in. After each transaction `rolled` hears of the
    /// stretch that changed. So a cache of this process need not read all days of all paths again, which takes seconds.
    pub async fn maintain(
        &self,
        keep: &Retention,
        now_us: i64,
        rolled: Rolled<'_>,
    ) -> Result<Maintained> {
        self.maintain_task(&Task { keep, now_us, rests: true }, &mut |_| {}, rolled).await
    }

    /// The same without a rest, telling after each step how far it is.
    pub async fn maintain_telling(
        &self,
        keep: &Retention,
        now_us: i64,
        tell: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Maintained> {
        self.maintain_task(&Task { keep, now_us, rests: false }, tell, &mut |_, _, _| {}).await
    }

    async fn maintain_task(
        &self,
        task: &Task<'_>,
        tell: &mut (dyn FnMut(Progress) + Send),
        rolled: Rolled<'_>,
    ) -> Result<Maintained> {
        // First, so that none of them is rolled up in vain.
        let of_hidden = self.remove_all_hidden(task.rests).await?;
        let mut done = self.maintain_all(task, tell, rolled).await?;
        // Other processes hear of a generation alone, and a database may have several services.
        let others = !task.rests || self.dialect == Dialect::Postgres;
        if done.removed > 0 || others && done.rolled_up > 0 {
            let mut tx = self.writing().await?;
            self.raise_generation(&mut tx).await?;
            self.commit(tx).await?;
        }
        let silent = self.forget_silent(task.keep.silent_days, task.now_us, task.rests).await?;
        done.removed += of_hidden + silent.records;
        done.silent_paths += silent.paths;
        Ok(done)
    }

    async fn maintain_all(
        &self,
        task: &Task<'_>,
        tell: &mut (dyn FnMut(Progress) + Send),
        rolled: Rolled<'_>,
    ) -> Result<Maintained> {
        let mut done = Maintained::default();
        let all_paths = self.path(ALL_PATHS).await?.map(|p| p.settings).unwrap_or_default();
        let sql = format!(
            "SELECT s.path_id, s.id, p.dst, p.settings FROM series s JOIN path p ON p.id = s.path_id
             WHERE p.id NOT IN (SELECT id FROM path WHERE {HIDDEN})
             ORDER BY s.path_id, s.id"
        );
        let query = self.dialect.query(&sql);
        let all = query.fetch_all(&mut *self.reading().await?).await?;
        let mut newest = (None, None);
        for (i, row) in all.iter().enumerate() {
            let (series_number, of_series) = (i + 1, all.len());
            let (path, series): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            if newest.0 != Some(path) {
                newest = (Some(path), self.newest_of_path(path).await?);
            }
            let Some(newest_us) = newest.1 else { continue };
            let dst: String = row.try_get(2)?;
            let own = from_text(row, 3).unwrap_or_default();
            // Wrong settings count as none; such a path gets no advice.
            let settings = Settings::layered(&[&all_paths, &own]).unwrap_or_default();
            let mut step = |rolled_up, changed: Option<(i64, i64)>| {
                if let Some((from_us, until_us)) = changed {
                    rolled(&dst, from_us, until_us);
                }
                tell(Progress { series: series_number, of_series, rolled_up });
            };
            for kind in Kind::ALL {
                let of = Of { kind, series, least_pct: settings.min_validity_pct };
                self.maintain_series(&of, newest_us, task, &mut done, &mut step).await?;
            }
        }
        self.forget_batch_ids(task.now_us).await?;
        Ok(done)
    }

    /// The time of a path's newest record, of all its series and kinds.
    async fn newest_of_path(&self, path: i64) -> Result<Option<i64>> {
        // A lookup in the key for each series; a join would read all records.
        let of_kind = |kind| {
            format!(
                "SELECT (SELECT MAX(t_us) FROM {} WHERE series_id = s.id) AS t_us
                 FROM series s WHERE s.path_id = $1",
                table(kind)
            )
        };
        let sql =
            format!("SELECT MAX(n.t_us) FROM ({}) n", Kind::ALL.map(of_kind).join(" UNION ALL "));
        let query = self.dialect.query(&sql).bind(path);
        Ok(query.fetch_one(&mut *self.reading().await?).await?.try_get(0)?)
    }

    async fn forget_batch_ids(&self, now_us: i64) -> Result<()> {
        let mut tx = self.writing().await?;
        let sql = "DELETE FROM batch WHERE received_us < $1";
        let query = self.dialect.query(sql).bind(now_us - BATCH_MEMORY_US);
        query.execute(&mut *tx).await?;
        let sql = "DELETE FROM batch WHERE received_us < (SELECT received_us FROM batch
             ORDER BY received_us DESC LIMIT 1 OFFSET $1)";
        self.dialect.query(sql).bind(MOST_BATCH_IDS - 1).execute(&mut *tx).await?;
        self.commit(tx).await
    }

    async fn maintain_series(
        &self,
        of: &Of,
        newest_us: i64,
        task: &Task<'_>,
        done: &mut Maintained,
        step: Step<'_>,
    ) -> Result<()> {
        let keep = task.keep;
        let (table, series) = (table(of.kind), of.series);
        let sql = format!("SELECT MIN(t_us) FROM {table} WHERE series_id = $1");
        let query = self.dialect.query(&sql).bind(series);
        let row = query.fetch_one(&mut *self.reading().await?).await?;
        let Some(oldest) = row.try_get::<Option<i64>, _>(0)? else { return Ok(()) };
        let before = |days: u32| newest_us.min(task.now_us) - i64::from(days) * DAY_US;
        // Whole hours only: a bucket is made once, when all of it is due.
        let raw = before(keep.raw_days) / HOUR_US * HOUR_US;
        let minutes = before(keep.minute_days) / HOUR_US * HOUR_US;
        // Hours first: what is old enough for them need not become minutes before.
        let rests = task.rests;
        self.roll_up(of, (HOUR_US, rests), (oldest, minutes), done, step).await?;
        self.roll_up(of, (MINUTE_US, rests), (oldest.max(minutes), raw), done, step).await?;
        if oldest >= before(keep.hour_days) {
            return Ok(());
        }
        done.removed += self
            .remove_records((of.kind, of.series), before(keep.hour_days), rests, &mut |_| {})
            .await?;
        Ok(())
    }

    /// In steps: a long backlog does not keep writers waiting. Each step begins where the last one
    /// ended: from the oldest record on it would read all means again that were made before.
    async fn roll_up(
        &self,
        &Of { kind, series, least_pct }: &Of,
        (bucket_us, rests): (i64, bool),
        (mut from_us, until_us): (i64, i64),
        done: &mut Maintained,
        step: Step<'_>,
    ) -> Result<()> {
        let due = format!(
            "FROM {} WHERE series_id = $1 AND span_s < $2 / 1000000 AND t_us >= $3 AND t_us < $4",
            table(kind)
        );
        let (roll_up, rolled) = (roll_up_sql(self.dialect, kind), format!("DELETE {due}"));
        let count = format!(
            "SELECT COUNT(*) FROM {} WHERE series_id = $1 AND t_us >= $2 AND t_us < $3",
            table(kind)
        );
        let nth = format!("SELECT t_us {due} ORDER BY t_us LIMIT 1 OFFSET $5");
        while from_us < until_us {
            let mut tx = self.reading().await?;
            let mut times = [None; 2];
            for (time, n) in times.iter_mut().zip([0, RECORDS_A_STEP]) {
                let query = self.dialect.query_i64(&nth).bind(series).bind(bucket_us);
                let query = query.bind(from_us).bind(until_us).bind(n);
                *time = query.fetch_optional(&mut *tx).await?;
            }
            drop(tx);
            let [Some(first), next] = times else { break };
            // Whole hours, and one at least.
            let hour = |t_us: i64| t_us.div_euclid(HOUR_US) * HOUR_US;
            let end_us = next.map_or(until_us, hour).max(hour(first) + HOUR_US).min(until_us);
            let mut tx = self.writing().await?;
            let begun = Instant::now();
            let of_step = |sql| {
                let query = self.dialect.query(sql).bind(series).bind(bucket_us);
                query.bind(first).bind(end_us)
            };
            let count = || self.dialect.query_i64(&count).bind(series).bind(first).bind(end_us);
            let before: i64 = count().fetch_one(&mut *tx).await?;
            of_step(&roll_up).bind(i64::from(least_pct)).execute(&mut *tx).await?;
            done.rolled_up += of_step(&rolled).execute(&mut *tx).await?.rows_affected();
            let after = count().fetch_one(&mut *tx).await?;
            self.commit(tx).await?;
            // As many as before: each became a mean of its own, which says the same.
            step(done.rolled_up, (before != after).then_some((first, end_us)));
            from_us = end_us;
            if rests {
                tokio::time::sleep(begun.elapsed()).await;
            }
        }
        Ok(())
    }
}
