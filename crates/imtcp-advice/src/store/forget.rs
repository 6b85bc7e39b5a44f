// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Removing a path with everything that is known of it.

use imtcp_client::record::Kind;
use sqlx::{Any, Executor, Row, Transaction};

use super::dialect::table;
use super::Store;
use crate::error::Result;

impl Store {
    /// Removes a path, its records and its own settings; tells how many records went. `None`: there is
    /// no such path.
    pub async fn forget(&self, dst: &str) -> Result<Option<u64>> {
        let mut tx = self.writing().await?;
        // First a write: in PostgreSQL too, whoever writes records waits until this is over.
        self.raise_generation(&mut tx).await?;
        let query = self.dialect.query_i64("SELECT id FROM path WHERE dst = $1").bind(dst);
        let Some(path) = query.fetch_optional(&mut *tx).await? else { return Ok(None) };
        let mut removed = 0;
        for kind in Kind::ALL {
            let sql = format!(
                "DELETE FROM {} WHERE series_id IN (SELECT id FROM series WHERE path_id = $1)",
                table(kind)
            );
            removed += self.dialect.query(&sql).bind(path).execute(&mut *tx).await?.rows_affected();
        }
        for sql in ["DELETE FROM series WHERE path_id = $1", "DELETE FROM path WHERE id = $1"] {
            self.dialect.query(sql).bind(path).execute(&mut *tx).await?;
        }
        let sql = "INSERT INTO meta (key, value) VALUES ('forgotten', 1)
             ON CONFLICT (key) DO UPDATE SET value = meta.value + 1 RETURNING value";
        let forgotten = self.dialect.query_i64(sql).fetch_one(&mut *tx).await?;
        self.commit(tx).await?;
        self.known_since(forgotten);
        Ok(Some(removed))
    }
}

/// How many paths were removed so far.
pub(super) async fn forgotten(tx: &mut Transaction<'_, Any>) -> Result<i64> {
    let row = tx.fetch_optional("SELECT value FROM meta WHERE key = 'forgotten'").await?;
    Ok(row.map_or(Ok(0), |row| row.try_get(0))?)
}
