// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! How large the history is.

use sqlx::{Executor, Row};

use super::forget::HIDDEN;
use super::{Place, Store};
use crate::error::Result;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// On disk: SQLite's file and its log, or PostgreSQL's tables and indexes.
    pub bytes: i64,
    /// Paths with series.
    pub paths: i64,
    pub series: i64,
}

const POSTGRES_BYTES: &str = "
SELECT CAST(COALESCE(SUM(pg_total_relation_size(c.oid)), 0) AS BIGINT)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'imtcp' AND c.relkind = 'r'";

impl Store {
    pub async fn size(&self) -> Result<Size> {
        let counts = format!(
            "SELECT COUNT(DISTINCT path_id), COUNT(*) FROM series
             WHERE path_id NOT IN (SELECT id FROM path WHERE {HIDDEN})"
        );
        let counts = self.reading().await?.fetch_one(&*counts).await?;
        Ok(Size {
            bytes: self.bytes().await?,
            paths: counts.try_get(0)?,
            series: counts.try_get(1)?,
        })
    }

    async fn bytes(&self) -> Result<i64> {
        let (Place::File(path), Some(files)) = (&self.place, &self.files) else {
            return Ok(self.reading().await?.fetch_one(POSTGRES_BYTES).await?.try_get(0)?);
        };
        Ok((tokio::fs::metadata(path).await?.len() + files.log_bytes()?) as i64)
    }
}
