// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Reading: paths, the newest records, the samples of windows, a stretch of history.

use imtcp_client::record::{Kind, Record};
use imtcp_client::time::rfc3339;
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::json;
use sqlx::any::AnyRow;
use sqlx::{Executor, Row};
use utoipa::ToSchema;

use super::dialect::table;
use super::forget::NAMED;
use super::write::Stored;
use super::{SeriesKey, Store};
use crate::advice::days::Window;
use crate::error::{Error, Result};
use crate::settings::Changes;

/// A path with its own settings and its series.
#[derive(Clone, Debug, Default)]
pub struct PathInfo {
    pub dst: String,
    pub settings: Changes,
    pub series: Vec<SeriesInfo>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SeriesInfo {
    pub id: i64,
    pub hop: String,
    pub source: String,
    /// First and newest record of available bandwidth; `None` before there is one.
    pub oldest_us: Option<i64>,
    pub newest_us: Option<i64>,
    /// First and newest record of an active test.
    pub oldest_test_us: Option<i64>,
    pub newest_test_us: Option<i64>,
}

/// The joined results of one source's active tests in a stretch of time. A value that no test told is
/// null.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct TestPoint {
    pub source: String,
    /// Mean time of what was joined.
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub time: i64,
    pub samples: u64,
    pub rtt_us: Option<u64>,
    /// Share of packets lost.
    pub loss: Option<f64>,
    /// The throughput of one TCP transfer; not the available bandwidth.
    pub throughput_bps: Option<u64>,
}

/// A stretch of one hop's history, joined into one value.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Point {
    /// Mean time of what was joined.
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub time: i64,
    pub samples: u64,
    pub available_bps: u64,
    pub low_bps: u64,
    pub high_bps: u64,
    pub capacity_bps: Option<u64>,
    pub rtt_us: Option<u64>,
    pub loss: Option<f64>,
}

const TABLES: [&str; 6] = ["path", "series", "record", "active_test", "batch", "client"];

/// The name that the settings of all paths go by.
pub const ALL_PATHS: &str = "*";
/// Points of active tests in one answer: each has its source's name, a kilobyte at most.
const MOST_TEST_POINTS: u32 = 1_000;

/// A record's validity, in SQL: one that its source does not vouch for at all is left out.
pub(super) const VALID: &str = "(r.validity_pct IS NULL OR r.validity_pct >= $1)";

impl Store {
    /// How often the history was changed. Fails where one of its tables is gone, as writing then does.
    pub async fn generation(&self) -> Result<i64> {
        let mut tx = self.reading().await?;
        let id = self.dialect.table_id();
        let has = |table| format!("(SELECT COUNT(*) FROM (SELECT 1 FROM {table} LIMIT 1) t) >= 0");
        let has_all = TABLES.map(has).join(" AND ");
        let sql = format!("SELECT value, {id} FROM meta WHERE key = 'generation' AND {has_all}");
        let seen = self.seen();
        let row = tx.fetch_one(&*sql).await?;
        self.check_tables(row.try_get(1)?)?;
        let generation = row.try_get(0)?;
        self.check_generation(generation, seen)?;
        self.saw(generation);
        Ok(generation)
    }

    /// One path; `*` for what is set for all.
    pub async fn path(&self, dst: &str) -> Result<Option<PathInfo>> {
        let mut tx = self.reading().await?;
        let sql = "SELECT id, settings FROM path WHERE dst = $1";
        let Some(row) = self.dialect.query(sql).bind(dst).fetch_optional(&mut *tx).await? else {
            return Ok(None);
        };
        let sql = "SELECT s.id, s.hop, s.source,
                (SELECT MIN(t_us) FROM record WHERE series_id = s.id) AS oldest,
                (SELECT MAX(t_us) FROM record WHERE series_id = s.id) AS newest,
                (SELECT MIN(t_us) FROM active_test WHERE series_id = s.id) AS oldest_test,
                (SELECT MAX(t_us) FROM active_test WHERE series_id = s.id) AS newest_test
             FROM series s WHERE s.path_id = $1 ORDER BY s.hop, s.source";
        let id: i64 = row.try_get(0)?;
        let series = self.dialect.query(sql).bind(id).fetch_all(&mut *tx).await?;
        Ok(Some(PathInfo {
            dst: dst.into(),
            settings: serde_json::from_str(row.try_get(1)?).unwrap_or_default(),
            series: series.iter().map(series_info).collect::<Result<_>>()?,
        }))
    }

    pub async fn has_path(&self, dst: &str) -> Result<bool> {
        let query = self.dialect.query("SELECT 1 FROM path WHERE dst = $1").bind(dst);
        Ok(query.fetch_optional(&mut *self.reading().await?).await?.is_some())
    }

    /// Names of paths in their order, beginning after one.
    pub async fn path_names(&self, after: &str, most: u32) -> Result<Vec<String>> {
        let mut tx = self.reading().await?;
        let sql = format!("SELECT dst FROM path WHERE dst > $1 AND {NAMED} ORDER BY dst LIMIT $2");
        let rows = self.dialect.query(&sql).bind(after).bind(i64::from(most));
        let rows = rows.fetch_all(&mut *tx).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// (time, available bandwidth) of series in each window. Their order is one whichever way the
    /// database found them: sums of the same samples have the same last digits. `None` where there are more than `most`.
    pub async fn samples(
        &self,
        series: &[i64],
        windows: &[Window],
        min_validity_pct: u8,
        most: usize,
    ) -> Result<Option<Vec<Vec<(i64, f64)>>>> {
        let mut samples: Vec<Vec<(i64, f64)>> = vec![Vec::new(); windows.len()];
        if windows.is_empty() {
            return Ok(Some(samples));
        }
        let mut tx = self.reading().await?;
        let bounds: Vec<_> =
            windows.iter().enumerate().map(|(i, w)| json!([w.start_us, w.end_us, i])).collect();
        let sql = format!(
            "SELECT i, {found} FROM (SELECT w.i AS i, r.t_us AS t_us, r.available_bps AS available_bps
             FROM (SELECT {from} AS a, {to} AS b, {i} AS i FROM {windows}) w
             CROSS JOIN (SELECT {from} AS id FROM {series}) s {records} LIMIT $4) found GROUP BY i",
            found = self.dialect.as_one_text("t_us, available_bps"),
            records = self.dialect.records(
                Kind::Bandwidth,
                &format!("r.series_id = s.id AND r.t_us BETWEEN w.a AND w.b AND {VALID}")
            ),
            from = self.dialect.field(0, "bigint"),
            to = self.dialect.field(1, "bigint"),
            i = self.dialect.field(2, "bigint"),
            windows = self.dialect.elements("$3"),
            series = self.dialect.elements("$2"),
        );
        let query = self
            .dialect
            .query(&sql)
            .bind(i64::from(min_validity_pct))
            .bind(ids(series))
            .bind(serde_json::Value::Array(bounds).to_string())
            .bind(most as i64 + 1);
        let mut count = 0;
        for row in query.fetch_all(&mut *tx).await? {
            let i: i64 = row.try_get(0)?;
            let found: Vec<(i64, i64)> = from_text(&row, 1)?;
            count += found.len();
            samples[i as usize] = found.into_iter().map(|(t_us, bps)| (t_us, bps as f64)).collect();
        }
        if count > most {
            return Ok(None);
        }
        for of_window in &mut samples {
            of_window.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        }
        Ok(Some(samples))
    }

    /// All samples of series, in the order of time.
    pub async fn all_samples(
        &self,
        series: &[i64],
        min_validity_pct: u8,
    ) -> Result<Vec<(i64, f64)>> {
        let mut tx = self.reading().await?;
        let mut all = Vec::new();
        for id in series {
            let sql = format!(
                "SELECT r.t_us, r.available_bps FROM record r WHERE r.series_id = $2 AND {VALID}"
            );
            let query = self.dialect.query(&sql).bind(i64::from(min_validity_pct)).bind(id);
            for row in query.fetch_all(&mut *tx).await? {
                all.push((row.try_get(0)?, row.try_get::<i64, _>(1)? as f64));
            }
        }
        all.sort_by_key(|s| s.0);
        Ok(all)
    }

    /// The history of a hop between two times, in at most about `points` steps. Sums are doubles: ten
    /// years of microseconds, each many samples, are more than 64 bits hold.
    pub async fn history(
        &self,
        series: &[i64],
        from_us: i64,
        to_us: i64,
        points: u32,
    ) -> Result<Vec<Point>> {
        let mut tx = self.reading().await?;
        let step_us = ((to_us - from_us) / i64::from(points.max(1))).max(1);
        let sql = format!(
            "SELECT CAST(SUM(CAST(r.t_us - $3 AS DOUBLE PRECISION) * r.samples)
                        / SUM(r.samples) AS BIGINT) + $3,
                    CAST(SUM(r.samples) AS BIGINT),
                    {}, MIN(r.low_bps), MAX(r.high_bps), MAX(r.capacity_bps),
                    CAST(AVG(r.rtt_us) AS BIGINT), AVG(r.loss)
             FROM (SELECT {} AS id FROM {}) s {}
             GROUP BY (r.t_us - $3) / $5 ORDER BY 1",
            self.dialect.clamp(
                "CAST(SUM(CAST(r.available_bps AS DOUBLE PRECISION) * r.samples)
                    / SUM(r.samples) AS BIGINT)",
                "MIN(r.low_bps)",
                "MAX(r.high_bps)"
            ),
            self.dialect.field(0, "bigint"),
            self.dialect.elements("$2"),
            self.dialect.records(
                Kind::Bandwidth,
                &format!("r.series_id = s.id AND r.t_us >= $3 AND r.t_us < $4 AND {VALID}")
            ),
        );
        let query = self
            .dialect
            .query(&sql)
            .bind(1_i64)
            .bind(ids(series))
            .bind(from_us)
            .bind(to_us)
            .bind(step_us);
        query.fetch_all(&mut *tx).await?.iter().map(point).collect()
    }

    /// The active tests of series between two times, in at most about `points` points for all sources
    /// together, or one for each.
    pub async fn tests(
        &self,
        series: &[SeriesInfo],
        from_us: i64,
        to_us: i64,
        points: u32,
    ) -> Result<Vec<TestPoint>> {
        let mut tx = self.reading().await?;
        let tested: Vec<_> = series.iter().filter(|s| s.newest_test_us.is_some()).collect();
        let points_of_one = i64::from(points.min(MOST_TEST_POINTS)) / tested.len().max(1) as i64;
        let step_us = ((to_us - from_us) / points_of_one.max(1)).max(1);
        let mut all = Vec::new();
        for of in tested {
            let sql = format!(
                "SELECT CAST(SUM(CAST(r.t_us - $3 AS DOUBLE PRECISION) * r.samples)
                        / SUM(r.samples) AS BIGINT) + $3,
                        CAST(SUM(r.samples) AS BIGINT), CAST(AVG(r.rtt_us) AS BIGINT),
                        AVG(r.loss), CAST(AVG(r.throughput_bps) AS BIGINT)
                 FROM active_test r
                 WHERE r.series_id = $2 AND r.t_us >= $3 AND r.t_us < $4 AND {VALID}
                 GROUP BY (r.t_us - $3) / $5 ORDER BY 1"
            );
            let query = self.dialect.query(&sql).bind(1_i64).bind(of.id).bind(from_us).bind(to_us);
            for row in query.bind(step_us).fetch_all(&mut *tx).await? {
                all.push(TestPoint {
                    source: of.source.clone(),
                    time: row.try_get(0)?,
                    samples: unsigned(&row, 1)?.unwrap_or(0),
                    rtt_us: unsigned(&row, 2)?,
                    loss: row.try_get(3)?,
                    throughput_bps: unsigned(&row, 4)?,
                });
            }
        }
        Ok(all)
    }

    /// Times and spans of the means of a kind in a series between two times.
    pub(crate) async fn roll_ups(
        &self,
        kind: Kind,
        (dst, hop, source): &SeriesKey,
        (from_us, to_us): (i64, i64),
    ) -> Result<Vec<(i64, i64)>> {
        let mut tx = self.reading().await?;
        let sql = format!(
            "SELECT r.t_us, r.span_s FROM path p JOIN series s ON s.path_id = p.id
                JOIN {} r ON r.series_id = s.id
             WHERE p.dst = $1 AND s.hop = $2 AND s.source = $3 AND r.t_us BETWEEN $4 AND $5
                AND r.span_s > 0",
            table(kind)
        );
        let query =
            self.dialect.query(&sql).bind(dst).bind(hop).bind(source).bind(from_us).bind(to_us);
        let rows = query.fetch_all(&mut *tx).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Records of a kind in a series as they are stored, in their order, after (time, span).
    pub async fn stored(
        &self,
        dst: &str,
        (series, kind): (&SeriesInfo, Kind),
        (t_us, span_s): (i64, i64),
        until_us: i64,
        most: u32,
    ) -> Result<Vec<Stored>> {
        let mut tx = self.reading().await?;
        let values = match kind {
            Kind::Bandwidth => {
                "r.available_bps, r.low_bps, r.high_bps, r.capacity_bps, r.congested,
                 CAST(NULL AS BIGINT)"
            }
            Kind::Test => {
                "CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT),
                 CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), r.throughput_bps"
            }
        };
        let sql = format!(
            "SELECT r.t_us, r.span_s, r.samples, r.rtt_us, r.loss, r.validity_pct, {values}
             FROM {} r WHERE r.series_id = $1 AND (r.t_us, r.span_s) > ($2, $3)
                AND r.t_us < $4 ORDER BY r.t_us, r.span_s LIMIT $5",
            table(kind)
        );
        let query = self
            .dialect
            .query(&sql)
            .bind(series.id)
            .bind(t_us)
            .bind(span_s)
            .bind(until_us)
            .bind(i64::from(most));
        let rows = query.fetch_all(&mut *tx).await?;
        rows.iter().map(|row| stored(dst, series, row)).collect()
    }
}

/// Series as a parameter: a JSON array of arrays.
fn ids(series: &[i64]) -> String {
    serde_json::Value::Array(series.iter().map(|id| json!([id])).collect()).to_string()
}

fn series_info(row: &AnyRow) -> Result<SeriesInfo> {
    Ok(SeriesInfo {
        id: row.try_get(0)?,
        hop: row.try_get(1)?,
        source: row.try_get(2)?,
        oldest_us: row.try_get(3)?,
        newest_us: row.try_get(4)?,
        oldest_test_us: row.try_get(5)?,
        newest_test_us: row.try_get(6)?,
    })
}

/// A column of [`Dialect::as_one_text`].
pub(super) fn from_text<T: DeserializeOwned>(row: &AnyRow, column: usize) -> Result<T> {
    let text: &str = row.try_get(column)?;
    serde_json::from_str(text).map_err(|e| Error::Db(sqlx::Error::Decode(e.into())))
}

fn point(row: &AnyRow) -> Result<Point> {
    Ok(Point {
        time: row.try_get(0)?,
        samples: unsigned(row, 1)?.unwrap_or(0),
        available_bps: unsigned(row, 2)?.unwrap_or(0),
        low_bps: unsigned(row, 3)?.unwrap_or(0),
        high_bps: unsigned(row, 4)?.unwrap_or(0),
        capacity_bps: unsigned(row, 5)?,
        rtt_us: unsigned(row, 6)?,
        loss: row.try_get(7)?,
    })
}

fn stored(dst: &str, series: &SeriesInfo, row: &AnyRow) -> Result<Stored> {
    let of = |i| Ok::<_, crate::error::Error>(unsigned(row, i)?.unwrap_or(0));
    Ok(Stored {
        record: Record {
            dst: dst.into(),
            hop: series.hop.clone(),
            source: series.source.clone(),
            time: row.try_get(0)?,
            rtt_us: unsigned(row, 3)?,
            loss: row.try_get(4)?,
            validity_pct: unsigned(row, 5)?.map(|v| v.min(100) as u8),
            available_bps: unsigned(row, 6)?,
            capacity_bps: unsigned(row, 9)?,
            congested: row.try_get::<Option<i64>, _>(10)?.map(|c| c != 0),
            throughput_bps: unsigned(row, 11)?,
        },
        span_s: of(1)? as u32,
        samples: of(2)?,
        low_bps: of(7)?,
        high_bps: of(8)?,
    })
}

pub(super) fn unsigned(row: &AnyRow, index: usize) -> Result<Option<u64>> {
    Ok(row.try_get::<Option<i64>, _>(index)?.map(|value| value.max(0) as u64))
}
