// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The clients: destinations that matter, whose paths agents are to report or to test.

use imtcp_client::time::rfc3339;
use serde::Serialize;
use sqlx::{Executor, Row};
use utoipa::ToSchema;

use super::Store;
use crate::error::{Error, Result};

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
        let mut tx = self.reading().await?;
        let rows = tx.fetch_all("SELECT dst, added_us FROM client ORDER BY dst").await?;
        rows.iter().map(|row| Ok(Client { dst: row.try_get(0)?, added: row.try_get(1)? })).collect()
    }

    /// Adds a client, where it is none yet; tells which it is.
    pub async fn add_client(&self, dst: &str, now_us: i64) -> Result<Client> {
        let mut tx = self.writing().await?;
        let sql = "INSERT INTO client (dst, added_us) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        self.dialect.query(sql).bind(dst).bind(now_us).execute(&mut *tx).await?;
        let count = self.dialect.query_i64("SELECT COUNT(*) FROM client");
        if count.fetch_one(&mut *tx).await? > MOST_CLIENTS {
            let text = format!("there are {MOST_CLIENTS} clients already: remove one first");
            return Err(Error::Input(text));
        }
        let query = self.dialect.query_i64("SELECT added_us FROM client WHERE dst = $1");
        let added = query.bind(dst).fetch_one(&mut *tx).await?;
        self.commit(tx).await?;
        Ok(Client { dst: dst.into(), added })
    }

    pub async fn is_client(&self, dst: &str) -> Result<bool> {
        let mut tx = self.reading().await?;
        let query = self.dialect.query("SELECT 1 FROM client WHERE dst = $1").bind(dst);
        Ok(query.fetch_optional(&mut *tx).await?.is_some())
    }

    /// Was it there?
    pub async fn remove_client(&self, dst: &str) -> Result<bool> {
        let mut tx = self.writing().await?;
        let query = self.dialect.query("DELETE FROM client WHERE dst = $1").bind(dst);
        let was_there = query.execute(&mut *tx).await?.rows_affected() > 0;
        self.commit(tx).await?;
        Ok(was_there)
    }
}
