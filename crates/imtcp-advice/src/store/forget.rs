// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Removing a path with everything that is known of it.
//!
//! One short transaction hides the path: its name is free, and no answer has it any more. Its records go
//! after that, in steps. What a kill leaves goes with the next maintenance.

use imtcp_client::record::Kind;
use sqlx::{Any, Executor, Row, Transaction};

use super::Store;
use crate::error::Result;

/// Marks a hidden path, and makes it silent for nobody: the index of reports finds it among many paths.
pub(super) const HIDDEN: &str = "reported_us = 9223372036854775807";
/// How many paths there are, as an expression.
pub(super) const COUNT_PATHS: &str = "((SELECT COUNT(*) FROM path)
    - (SELECT COUNT(*) FROM path WHERE reported_us = 9223372036854775807))";
/// Neither `*` nor hidden: a hidden path is called `*` and its id, as no destination is.
pub(super) const NAMED: &str = "dst NOT LIKE '*%'";

/// A path that nobody sees any more, and whose records are to go.
pub struct Hidden(i64);

impl Store {
    /// Removes a path, its records and its own settings, resting between steps; tells how many records went
    /// after each step and at its end. `None`: there is no such path.
    pub async fn forget(
        &self,
        dst: &str,
        tell: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Option<u64>> {
        match self.hide(dst).await? {
            Some(hidden) => Ok(Some(self.remove_hidden(hidden, true, tell).await?)),
            None => Ok(None),
        }
    }

    /// Takes a path out of sight. `None`: there is no such path.
    pub async fn hide(&self, dst: &str) -> Result<Option<Hidden>> {
        let mut tx = self.writing().await?;
        // First a write: in PostgreSQL too, whoever writes records waits until this is over.
        self.raise_generation(&mut tx).await?;
        let sql = format!(
            "UPDATE path SET dst = '*' || id, settings = '{{}}', {HIDDEN} WHERE dst = $1 RETURNING id"
        );
        let query = self.dialect.query_i64(&sql).bind(dst);
        let Some(path) = query.fetch_optional(&mut *tx).await? else { return Ok(None) };
        let sql = "INSERT INTO meta (key, value) VALUES ('forgotten', 1)
             ON CONFLICT (key) DO UPDATE SET value = meta.value + 1 RETURNING value";
        let forgotten = self.dialect.query_i64(sql).fetch_one(&mut *tx).await?;
        self.commit(tx).await?;
        self.known_since(forgotten);
        Ok(Some(Hidden(path)))
    }

    /// Removes the records of a hidden path, then the path. If there are several calls, one works at a time, so that
    /// reports get in during its rests.
    pub async fn remove_hidden(
        &self,
        Hidden(path): Hidden,
        rests: bool,
        tell: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64> {
        let _turn = self.removing.lock().await;
        let query = self.dialect.query_i64("SELECT id FROM series WHERE path_id = $1").bind(path);
        let all = query.fetch_all(&mut *self.reading().await?).await?;
        let mut removed = 0;
        for series in all {
            for kind in Kind::ALL {
                let mut of_path = |of_series| tell(removed + of_series);
                removed +=
                    self.remove_records((kind, series), i64::MAX, rests, &mut of_path).await?;
            }
            let mut tx = self.writing().await?;
            let query = self.dialect.query("DELETE FROM series WHERE id = $1").bind(series);
            query.execute(&mut *tx).await?;
            self.commit(tx).await?;
        }
        let mut tx = self.writing().await?;
        let query = self.dialect.query("DELETE FROM path WHERE id = $1").bind(path);
        query.execute(&mut *tx).await?;
        self.commit(tx).await?;
        Ok(removed)
    }

    /// Removes what is left of hidden paths; tells how many records went.
    pub(super) async fn remove_all_hidden(&self, rests: bool) -> Result<u64> {
        let sql = format!("SELECT id FROM path WHERE {HIDDEN}");
        let query = self.dialect.query_i64(&sql);
        let hidden = query.fetch_all(&mut *self.reading().await?).await?;
        let mut removed = 0;
        for path in hidden {
            removed += self.remove_hidden(Hidden(path), rests, &mut |_| {}).await?;
        }
        Ok(removed)
    }
}

/// How many paths were removed so far.
pub(super) async fn forgotten(tx: &mut Transaction<'_, Any>) -> Result<i64> {
    let row = tx.fetch_optional("SELECT value FROM meta WHERE key = 'forgotten'").await?;
    Ok(row.map_or(Ok(0), |row| row.try_get(0))?)
}
