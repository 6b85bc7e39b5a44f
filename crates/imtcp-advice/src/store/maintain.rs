// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Retention: raw records become minutes, minutes hours, and the oldest go. Ages count from the
//! newest record of a series: an old trace that was imported stays as it came. Each step is
//! one transaction, so that a kill leaves a record either as it was or rolled up, never neither.

use serde::{Deserialize, Serialize};
use sqlx::{Executor, Row};

use super::schema::{table, Dialect};
use super::write::{raise_generation, BATCH_MEMORY_US};
use super::Store;
use crate::error::Result;
use crate::record::Kind;
use crate::time::{DAY_US, HOUR_US, MINUTE_US};

/// How long each form is kept, in days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    pub raw_days: u32,
    pub minute_days: u32,
    pub hour_days: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { raw_days: 30, minute_days: 400, hour_days: 3660 }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Maintained {
    /// Records that went into minutes and hours.
    pub rolled_up: u64,
    /// Records that were too old.
    pub removed: u64,
}

/// Joins the records of bandwidth of a bucket. Means are weighted with the samples in them; the time is
/// the mean too, so that a line through the means is the line through the records. Sums are doubles:
/// products with samples are more than 64 bits hold.
const ROLL_UP_BANDWIDTH: &str = "
INSERT INTO record (series_id, t_us, span_s, samples, available_bps, low_bps, high_bps,
    capacity_bps, rtt_us, loss, congested, validity_pct)
SELECT series_id,
    MIN(t_us) / $2 * $2
        + CAST(SUM(CAST(t_us % $2 AS DOUBLE PRECISION) * samples) / SUM(samples) AS BIGINT),
    $2 / 1000000, CAST(SUM(samples) AS BIGINT),
    CAST(SUM(CAST(available_bps AS DOUBLE PRECISION) * samples) / SUM(samples) AS BIGINT),
    MIN(low_bps), MAX(high_bps),
    MAX(capacity_bps), CAST(AVG(rtt_us) AS BIGINT), AVG(loss),
    CAST(ROUND(AVG(congested)) AS BIGINT), CAST(AVG(validity_pct) AS BIGINT)
FROM record
WHERE series_id = $1 AND span_s < $2 / 1000000 AND t_us < $3
    AND (validity_pct IS NULL OR validity_pct > 0)
GROUP BY series_id, t_us / $2
ON CONFLICT (series_id, t_us, span_s) DO UPDATE SET
    samples = record.samples + excluded.samples,
    available_bps = CAST((CAST(record.available_bps AS DOUBLE PRECISION) * record.samples
        + CAST(excluded.available_bps AS DOUBLE PRECISION) * excluded.samples)
        / (record.samples + excluded.samples) AS BIGINT),
    low_bps = CASE WHEN excluded.low_bps < record.low_bps
        THEN excluded.low_bps ELSE record.low_bps END,
    high_bps = CASE WHEN excluded.high_bps > record.high_bps
        THEN excluded.high_bps ELSE record.high_bps END";

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
WHERE series_id = $1 AND span_s < $2 / 1000000 AND t_us < $3
    AND (validity_pct IS NULL OR validity_pct > 0)
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

fn roll_up_sql(kind: Kind) -> &'static str {
    match kind {
        Kind::Bandwidth => ROLL_UP_BANDWIDTH,
        Kind::Test => ROLL_UP_TESTS,
    }
}

impl Store {
    /// Rolls up and removes what is due.
    pub async fn maintain(&self, keep: &Retention, now_us: i64) -> Result<Maintained> {
        let done = self.maintain_all(keep, now_us).await?;
        if done.rolled_up + done.removed > 0 {
            // At the end alone: who keeps records as they were knows the same of the path meanwhile,
            // and would read all of it anew after each of many steps.
            let mut tx = self.writer.begin().await?;
            raise_generation(&mut tx).await?;
            tx.commit().await?;
        }
        Ok(done)
    }

    async fn maintain_all(&self, keep: &Retention, now_us: i64) -> Result<Maintained> {
        let mut done = Maintained::default();
        let rows = self.readers.fetch_all("SELECT id FROM series ORDER BY id").await?;
        for row in rows {
            let series: i64 = row.try_get(0)?;
            for kind in Kind::ALL {
                self.maintain_series((kind, series), keep, now_us, &mut done).await?;
            }
        }
        let sql = "DELETE FROM batch WHERE received_us < $1";
        sqlx::query(sql).bind(now_us - BATCH_MEMORY_US).execute(&self.writer).await?;
        Ok(done)
    }

    async fn maintain_series(
        &self,
        of: (Kind, i64),
        keep: &Retention,
        now_us: i64,
        done: &mut Maintained,
    ) -> Result<()> {
        let (table, series) = (table(of.0), of.1);
        let sql = format!("SELECT MAX(t_us) FROM {table} WHERE series_id = $1");
        let newest = sqlx::query(&sql).bind(series).fetch_one(&self.readers).await?;
        let Some(newest) = newest.try_get::<Option<i64>, _>(0)? else { return Ok(()) };
        let before = |days: u32| newest.min(now_us) - i64::from(days) * DAY_US;
        // Whole hours only: a bucket is made once, when all of it is due.
        let raw = before(keep.raw_days) / HOUR_US * HOUR_US;
        done.rolled_up += self.roll_up(of, MINUTE_US, raw).await?;
        let minutes = before(keep.minute_days) / HOUR_US * HOUR_US;
        done.rolled_up += self.roll_up(of, HOUR_US, minutes).await?;
        let sql = format!("DELETE FROM {table} WHERE series_id = $1 AND t_us < $2");
        let query = sqlx::query(&sql).bind(series).bind(before(keep.hour_days));
        done.removed += query.execute(&self.writer).await?.rows_affected();
        Ok(())
    }

    /// A day at a time: a long backlog does not keep writers waiting.
    async fn roll_up(
        &self,
        (kind, series): (Kind, i64),
        bucket_us: i64,
        until_us: i64,
    ) -> Result<u64> {
        let due = format!(
            "FROM {} WHERE series_id = $1 AND span_s < $2 / 1000000 AND t_us < $3",
            table(kind)
        );
        let (oldest, rolled) = (format!("SELECT MIN(t_us) {due}"), format!("DELETE {due}"));
        let mut rolled_up = 0;
        loop {
            let query = sqlx::query(&oldest).bind(series).bind(bucket_us).bind(until_us);
            let first = query.fetch_one(&self.writer).await?.try_get::<Option<i64>, _>(0)?;
            let Some(first) = first else { return Ok(rolled_up) };
            let until_us = until_us.min((first / DAY_US + 1) * DAY_US);
            let mut tx = self.writer.begin().await?;
            let sql = roll_up_sql(kind);
            sqlx::query(sql).bind(series).bind(bucket_us).bind(until_us).execute(&mut *tx).await?;
            let query = sqlx::query(&rolled).bind(series).bind(bucket_us).bind(until_us);
            rolled_up += query.execute(&mut *tx).await?.rows_affected();
            tx.commit().await?;
        }
    }

    /// Gives space back that removed records had.
    pub async fn vacuum(&self) -> Result<()> {
        match self.dialect {
            Dialect::Sqlite => {
                self.writer.execute("VACUUM").await?;
                self.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").await?;
            }
            Dialect::Postgres => {
                self.writer.execute("SET statement_timeout TO 0").await?;
                for kind in Kind::ALL {
                    self.writer.execute(&*format!("VACUUM ANALYZE {}", table(kind))).await?;
                }
            }
        }
        Ok(())
    }
}
