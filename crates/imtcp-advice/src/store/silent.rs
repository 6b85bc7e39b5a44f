// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Paths that nobody reports any more: removed whole, some time after their last report.
//!
//! A path that was only imported has no report, and stays. Silence is counted up to the newest report of
//! any path: where no agent reports, nothing goes.

use imtcp_client::time::DAY_US;
use sqlx::Row;

use super::Store;
use crate::error::Result;

#[derive(Default)]
pub(super) struct Forgotten {
    pub paths: u64,
    /// Records of these paths.
    pub records: u64,
}

impl Store {
    pub(super) async fn forget_silent(
        &self,
        silent_days: u32,
        now_us: i64,
        rests: bool,
    ) -> Result<Forgotten> {
        let mut forgotten = Forgotten::default();
        if silent_days == 0 {
            return Ok(forgotten);
        }
        let sql = "SELECT dst FROM path
             WHERE reported_us < (SELECT MAX(reported_us) FROM path WHERE reported_us <= $1) - $2";
        let query = self.dialect.query(sql).bind(now_us).bind(i64::from(silent_days) * DAY_US);
        let silent = query.fetch_all(&mut *self.reading().await?).await?;
        for row in silent {
            let dst: String = row.try_get(0)?;
            let Some(hidden) = self.hide(&dst).await? else { continue };
            let removed = self.remove_hidden(hidden, rests, &mut |_| {}).await?;
            tracing::info!(
                "removed the path to {dst} and its {removed} records: no report of it came for \
                 {silent_days} days (--keep-silent)"
            );
            forgotten.records += removed;
            forgotten.paths += 1;
        }
        Ok(forgotten)
    }
}
