// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Giving space back that removed records had.

use imtcp_client::record::Kind;
use sqlx::{Executor, Row};

use super::dialect::{table, Dialect};
use super::Store;
use crate::error::Result;

/// Pages of one step: 4 MB. Writers wait for one step at most, and between two of them it can be ended.
const PAGES: i64 = 1_000;

impl Store {
    /// Gives the space back, telling after each step how many bytes of how many are done.
    pub async fn vacuum(&self, tell: &mut (dyn FnMut(u64, u64) + Send)) -> Result<()> {
        match self.dialect {
            Dialect::Sqlite => self.vacuum_file(tell).await,
            Dialect::Postgres => {
                // PostgreSQL reuses the space; outside of a transaction, as it wants.
                for kind in Kind::ALL {
                    let sql = format!("VACUUM ANALYZE imtcp.{}", table(kind));
                    self.writer.execute(&*sql).await?;
                }
                Ok(())
            }
        }
    }

    async fn vacuum_file(&self, tell: &mut (dyn FnMut(u64, u64) + Send)) -> Result<()> {
        self.check_files()?;
        if self.pragma("auto_vacuum").await? == 0 {
            // Made before histories gave space back in steps: rewritten once, after which it does.
            self.writer.execute("VACUUM").await?;
        }
        let page_bytes = self.pragma("page_size").await?;
        let free = self.pragma("freelist_count").await?;
        let steps = format!("PRAGMA incremental_vacuum({PAGES})");
        let mut left = free;
        while left > 0 {
            self.check_files()?;
            self.writer.fetch_all(&*steps).await?;
            let before = std::mem::replace(&mut left, self.pragma("freelist_count").await?);
            // A service beside this one may free as many as are given back.
            if left >= before {
                break;
            }
            let bytes = |pages: i64| (pages * page_bytes).unsigned_abs();
            tell(bytes(free - left), bytes(free));
        }
        self.checkpoint().await;
        self.check_files()
    }

    async fn pragma(&self, name: &str) -> Result<i64> {
        Ok(self.writer.fetch_one(&*format!("PRAGMA {name}")).await?.try_get(0)?)
    }
}
