// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The clients: destinations that matter, whose paths agents are to report or to test.

use serde::Serialize;
use sqlx::Row;
use utoipa::ToSchema;

use super::Store;
use crate::error::{Error, Result};
use crate::time::rfc3339;

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Client {
    pub dst: String,
    /// When it was added.
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub added: i64,
}

/// All of them are one answer of the service.
pub const MOST_CLIENTS: i64 = 10_000;

impl Store {
    /// All clients, in the order of their names.
    pub async fn clients(&self) -> Result<Vec<Client>> {
        let query = sqlx::query("SELECT dst, added_us FROM client ORDER BY dst");
        let rows = query.fetch_all(&self.readers).await?;
        rows.iter().map(|row| Ok(Client { dst: row.try_get(0)?, added: row.try_get(1)? })).collect()
    }

    /// Adds a client, where it is none yet; tells which it is.
    pub async fn add_client(&self, dst: &str, now_us: i64) -> Result<Client> {
        let mut tx = self.writer.begin().await?;
        let sql = "INSERT INTO client (dst, added_us) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        sqlx::query(sql).bind(dst).bind(now_us).execute(&mut *tx).await?;
        let count = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM client");
        if count.fetch_one(&mut *tx).await? > MOST_CLIENTS {
            let text = format!("there are {MOST_CLIENTS} clients already: remove one first");
            return Err(Error::Input(text));
        }
        let query = sqlx::query_scalar("SELECT added_us FROM client WHERE dst = $1");
        let added = query.bind(dst).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(Client { dst: dst.into(), added })
    }

    pub async fn is_client(&self, dst: &str) -> Result<bool> {
        let query = sqlx::query("SELECT 1 FROM client WHERE dst = $1").bind(dst);
        Ok(query.fetch_optional(&self.readers).await?.is_some())
    }

    /// Was it there?
    pub async fn remove_client(&self, dst: &str) -> Result<bool> {
        let query = sqlx::query("DELETE FROM client WHERE dst = $1").bind(dst);
        Ok(query.execute(&self.writer).await?.rows_affected() > 0)
    }
}
