// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Paths by a part of their name.

use sqlx::Row;

use super::dialect::Dialect;
use super::forget::NAMED;
use super::Store;
use crate::error::Result;

/// What one search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub names: Vec<String>,
    /// Names that match among those read, also those beyond the limit.
    pub matches: u64,
    /// Search again after this name for more.
    pub next: Option<String>,
}

impl Store {
    /// At most `most` names that contain `part`, in their order, beginning after one. The search reads
    /// at most `reads` names.
    pub async fn find_paths(
        &self,
        part: &str,
        after: &str,
        most: u32,
        reads: i64,
    ) -> Result<Found> {
        // No name has a NUL, and PostgreSQL takes none in a text.
        if part.contains('\0') {
            return Ok(Found { names: Vec::new(), matches: 0, next: None });
        }
        let contains = match self.dialect {
            Dialect::Sqlite => "instr(dst, $2) > 0",
            Dialect::Postgres => "strpos(dst, $2) > 0",
        };
        let read =
            format!("(SELECT dst FROM path WHERE dst > $1 AND {NAMED} ORDER BY dst LIMIT $3) n");
        let count = format!(
            "SELECT COUNT(*), COUNT(CASE WHEN {contains} THEN 1 END), MAX(dst) FROM {read}"
        );
        let mut tx = self.reading().await?;
        let query = self.dialect.query(&count).bind(after).bind(part).bind(reads);
        let row = query.fetch_one(&mut *tx).await?;
        let (all, matches): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let last: Option<String> = row.try_get(2)?;

        let find = format!("SELECT dst FROM {read} WHERE {contains} ORDER BY dst LIMIT $4");
        let query = self.dialect.query(&find).bind(after).bind(part).bind(reads);
        let rows = query.bind(i64::from(most)).fetch_all(&mut *tx).await?;
        let names: Vec<String> =
            rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<_>>()?;
        let next = match names.last() {
            Some(name) if names.len() == most as usize => Some(name.clone()),
            _ => last.filter(|_| all == reads),
        };
        Ok(Found { names, matches: matches.unsigned_abs(), next })
    }
}
