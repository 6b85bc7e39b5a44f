// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Reading the newest records up to a time, and those that come after it.

use imtcp_client::record::Kind;
use sqlx::any::AnyRow;
use sqlx::Row;

use super::dialect::table;
use super::read::{from_text, unsigned, SeriesInfo, VALID};
use super::Store;
use crate::advice::capacity::{Key, LEAST, MOST, WINDOW_US};
use crate::advice::decide::Newest;
use crate::error::Result;

/// A record of bandwidth, as far as an answer needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    pub newest: Newest,
    pub capacity_bps: Option<u64>,
}

impl Store {
    /// The newest record of a series up to a time.
    pub async fn newest(
        &self,
        series: i64,
        until_us: i64,
        min_validity_pct: u8,
    ) -> Result<Option<(Key, Newest)>> {
        let mut tx = self.reading().await?;
        let sql = format!(
            "SELECT r.series_id, r.t_us, r.span_s, r.available_bps, r.rtt_us, r.congested,
                 r.capacity_bps
             FROM record r WHERE r.series_id = $2 AND r.t_us <= $3 AND {VALID}
             ORDER BY r.t_us DESC, r.span_s DESC LIMIT 1"
        );
        let query =
            self.dialect.query(&sql).bind(i64::from(min_validity_pct)).bind(series).bind(until_us);
        let row = query.fetch_optional(&mut *tx).await?;
        row.map(|row| Ok((key(&row)?, seen(&row)?.newest))).transpose()
    }

    /// When the newest record of a kind was, none after a time.
    pub(crate) async fn newest_time(
        &self,
        series: &SeriesInfo,
        kind: Kind,
        until_us: i64,
    ) -> Result<Option<i64>> {
        let at_best = match kind {
            Kind::Bandwidth => series.newest_us,
            Kind::Test => series.newest_test_us,
        };
        if at_best.is_none_or(|t_us| t_us <= until_us) {
            return Ok(at_best);
        }
        let mut tx = self.reading().await?;
        let sql =
            format!("SELECT MAX(t_us) FROM {} WHERE series_id = $1 AND t_us <= $2", table(kind));
        let query = self.dialect.query(&sql).bind(series.id).bind(until_us);
        Ok(query.fetch_one(&mut *tx).await?.try_get(0)?)
    }

    /// The newest capacities that a series told between two times, as many as count: those of the last hour
    /// with one, or the last few.
    pub async fn newest_capacities(
        &self,
        series: i64,
        (from_us, to_us): (i64, i64),
        min_validity_pct: u8,
    ) -> Result<Vec<(Key, u64)>> {
        let mut tx = self.reading().await?;
        let sql = format!(
            "SELECT {} FROM (SELECT r.t_us, r.span_s, r.capacity_bps FROM record r
                 WHERE r.series_id = $2 AND r.t_us BETWEEN $3 AND $4 AND r.capacity_bps IS NOT NULL
                     AND {VALID} ORDER BY r.t_us DESC, r.span_s DESC LIMIT $5) r",
            self.dialect.as_one_text("r.t_us, r.span_s, r.capacity_bps")
        );
        let mut read = async |from_us: i64, most: usize| -> Result<Vec<(Key, u64)>> {
            let query = self.dialect.query(&sql).bind(i64::from(min_validity_pct)).bind(series);
            let query = query.bind(from_us).bind(to_us).bind(most as i64);
            let found: Vec<(i64, i64, u64)> = from_text(&query.fetch_one(&mut *tx).await?, 0)?;
            let of = |(t_us, span_s, bps)| (Key { series, t_us, span_s }, bps);
            Ok(found.into_iter().map(of).collect())
        };
        // Few are read first: most histories have an hour of minutes.
        let last = read(from_us, LEAST).await?;
        let times = || last.iter().map(|(key, _)| key.t_us);
        let hour_us = times().max().map_or(to_us, |newest_us| newest_us - WINDOW_US);
        match times().min() {
            Some(oldest_us) if last.len() == LEAST && oldest_us >= hour_us => {
                read(from_us.max(hour_us), MOST).await
            }
            _ => Ok(last),
        }
    }

    /// The first records of a series after a time.
    pub(crate) async fn upcoming(
        &self,
        series: i64,
        after_us: i64,
        min_validity_pct: u8,
        most: u32,
    ) -> Result<Vec<(Key, Seen)>> {
        let mut tx = self.reading().await?;
        let sql = format!(
            "SELECT r.series_id, r.t_us, r.span_s, r.available_bps, r.rtt_us, r.congested,
                 r.capacity_bps
             FROM record r WHERE r.series_id = $2 AND r.t_us > $3 AND {VALID}
             ORDER BY r.t_us, r.span_s LIMIT $4"
        );
        let query = self.dialect.query(&sql).bind(i64::from(min_validity_pct)).bind(series);
        let rows = query.bind(after_us).bind(i64::from(most)).fetch_all(&mut *tx).await?;
        rows.iter().map(|row| Ok((key(row)?, seen(row)?))).collect()
    }

    /// The first RTTs that active tests of a series tell after a time.
    pub(crate) async fn upcoming_rtts(
        &self,
        series: i64,
        after_us: i64,
        min_validity_pct: u8,
        most: u32,
    ) -> Result<Vec<(Key, u64)>> {
        let mut tx = self.reading().await?;
        let sql = format!(
            "SELECT r.series_id, r.t_us, r.span_s, r.rtt_us FROM active_test r
             WHERE r.series_id = $2 AND r.t_us > $3 AND r.rtt_us IS NOT NULL AND {VALID}
             ORDER BY r.t_us, r.span_s LIMIT $4"
        );
        let query = self.dialect.query(&sql).bind(i64::from(min_validity_pct)).bind(series);
        let rows = query.bind(after_us).bind(i64::from(most)).fetch_all(&mut *tx).await?;
        rows.iter().map(|row| Ok((key(row)?, unsigned(row, 3)?.unwrap_or(0)))).collect()
    }

    /// The newest RTT that active tests of series told between two times, and when.
    pub async fn newest_tested_rtt(
        &self,
        series: &[SeriesInfo],
        (from_us, to_us): (i64, i64),
        min_validity_pct: u8,
    ) -> Result<Option<(i64, u64)>> {
        let mut tx = self.reading().await?;
        let mut newest: Option<(i64, u64)> = None;
        for of in series.iter().filter(|s| s.newest_test_us.is_some_and(|t| t >= from_us)) {
            let sql = format!(
                "SELECT r.t_us, r.rtt_us FROM active_test r
                 WHERE r.series_id = $2 AND r.t_us BETWEEN $3 AND $4 AND r.rtt_us IS NOT NULL
                     AND {VALID} ORDER BY r.t_us DESC LIMIT 1"
            );
            let query = self.dialect.query(&sql).bind(i64::from(min_validity_pct)).bind(of.id);
            let row = query.bind(from_us).bind(to_us).fetch_optional(&mut *tx).await?;
            if let Some(row) = row {
                let found = (row.try_get(0)?, unsigned(&row, 1)?.unwrap_or(0));
                newest = newest.max(Some(found));
            }
        }
        Ok(newest)
    }
}

/// Of the first three columns.
fn key(row: &AnyRow) -> Result<Key> {
    Ok(Key { series: row.try_get(0)?, t_us: row.try_get(1)?, span_s: row.try_get(2)? })
}

/// Of the columns after them.
fn seen(row: &AnyRow) -> Result<Seen> {
    let newest = Newest {
        t_us: row.try_get(1)?,
        available_bps: row.try_get::<i64, _>(3)? as f64,
        rtt_us: unsigned(row, 4)?,
        congested: row.try_get::<Option<i64>, _>(5)?.map(|c| c != 0),
    };
    Ok(Seen { newest, capacity_bps: unsigned(row, 6)? })
}
