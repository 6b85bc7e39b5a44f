// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Removing records in steps, each a short transaction: reports that come in wait for one step at most.

use std::time::Instant;

use imtcp_client::record::Kind;

use super::dialect::table;
use super::maintain::RECORDS_A_STEP;
use super::Store;
use crate::error::Result;

impl Store {
    /// Removes the records of a series that are from before a time; tells after each step how many went so far.
    pub(super) async fn remove_records(
        &self,
        (kind, series): (Kind, i64),
        before_us: i64,
        rests: bool,
        tell: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64> {
        let due = format!("FROM {} WHERE series_id = $1 AND t_us >= $2 AND t_us < $3", table(kind));
        let nth = format!("SELECT t_us {due} ORDER BY t_us LIMIT 1 OFFSET $4");
        let delete = format!("DELETE {due}");
        let (mut from_us, mut removed) = (i64::MIN, 0);
        loop {
            let mut tx = self.reading().await?;
            let mut times = [None; 2];
            for (time, n) in times.iter_mut().zip([0, RECORDS_A_STEP]) {
                let query = self.dialect.query_i64(&nth).bind(series).bind(from_us).bind(before_us);
                *time = query.bind(n).fetch_optional(&mut *tx).await?;
            }
            drop(tx);
            let [Some(first), next] = times else { return Ok(removed) };
            // One time at least: several records may have it.
            let end_us = next.map_or(before_us, |next: i64| next.max(first + 1));
            let mut tx = self.writing().await?;
            let begun = Instant::now();
            let query = self.dialect.query(&delete).bind(series).bind(first).bind(end_us);
            removed += query.execute(&mut *tx).await?.rows_affected();
            self.commit(tx).await?;
            tell(removed);
            from_us = end_us;
            if rests {
                tokio::time::sleep(begun.elapsed()).await;
            }
        }
    }
}
