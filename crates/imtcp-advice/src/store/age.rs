// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The time that ages are counted to, which a wrong clock moves on slowly.
//!
//! A clock that leaps ahead makes everything old at once: each path would be silent for too long, each
//! record due to go. So this time follows the clock at [`FASTEST`] times its pace at most. After a leap of
//! 500 days an operator has 20 days to mend the clock, and nothing is lost until then.

use imtcp_client::time::{DAY_US, HOUR_US, SECOND_US};
use sqlx::Row;

use super::Store;
use crate::error::Result;

/// ours: a service that stood still for two months catches up in two and a half days.
const FASTEST: i64 = 24;
/// The time by the clock that counts since the last look, at most: one look moves on by a day.
const MOST_SINCE_US: i64 = HOUR_US;

/// 2026-01-01: a clock that is before it was never set, as at the start of a machine without a battery.
const NEVER_SET_US: i64 = 1_767_225_600 * SECOND_US;

/// Where the time stood at the last look, and the clock then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    aged_us: i64,
    clock_us: i64,
}

/// Where it stands now. The first look trusts the clock.
fn aged_us(last: Option<Look>, now_us: i64) -> i64 {
    let Some(last) = last else { return now_us };
    let since_us = now_us.saturating_sub(last.clock_us).clamp(0, MOST_SINCE_US);
    now_us.min(last.aged_us.saturating_add(FASTEST * since_us))
}

impl Store {
    /// The time for this roll-up. Says so if the clock is ahead of it.
    pub async fn aged_us(&self, now_us: i64) -> Result<i64> {
        if now_us < NEVER_SET_US {
            return Ok(now_us);
        }
        let mut tx = self.writing().await?;
        let sql = "SELECT (SELECT value FROM meta WHERE key = 'aged'),
                          (SELECT value FROM meta WHERE key = 'aged_clock')";
        let row = self.dialect.query(sql).fetch_one(&mut *tx).await?;
        let last: (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        let last = last.0.zip(last.1).map(|(aged_us, clock_us)| Look { aged_us, clock_us });
        let aged_us = aged_us(last, now_us);
        for (key, value) in [("aged", aged_us), ("aged_clock", now_us)] {
            let sql = "INSERT INTO meta (key, value) VALUES ($1, $2)
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value";
            self.dialect.query(sql).bind(key).bind(value).execute(&mut *tx).await?;
        }
        self.commit(tx).await?;
        if aged_us < now_us {
            tracing::warn!(
                "the clock is {} days ahead of what was last seen: if it is wrong, set it; ages of \
                 records and paths move on by a day an hour until they agree",
                (now_us - aged_us).div_euclid(DAY_US) + 1
            );
        }
        Ok(aged_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at these times by the clock; where the time stands after each.
    fn looks(clock_us: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let mut last = None;
        let look = |clock_us: i64| {
            let aged_us = aged_us(last, clock_us);
            last = Some(Look { aged_us, clock_us });
            aged_us
        };
        clock_us.into_iter().map(look).collect()
    }

    #[test]
    fn the_clock_is_followed_where_it_goes_on() {
        let hours: Vec<_> = (0..100).map(|h| h * HOUR_US).collect();
        assert_eq!(looks(hours.clone()), hours);
    }

    #[test]
    fn after_a_leap_a_day_is_counted_for_each_hour_and_a_clock_set_back_is_right_at_once() {
        let leap = 500 * DAY_US;
        let aged = looks([0, leap, leap + HOUR_US, leap + 2 * HOUR_US, 3 * HOUR_US]);
        assert_eq!(aged, [0, DAY_US, 2 * DAY_US, 3 * DAY_US, 3 * HOUR_US]);
    }

    #[test]
    fn many_looks_at_once_count_no_more_than_one() {
        let leap = 500 * DAY_US;
        let aged = looks([0].into_iter().chain((0..1000).map(|i| leap + i * SECOND_US)));
        assert_eq!(*aged.last().unwrap(), DAY_US + FASTEST * 999 * SECOND_US);
    }
}
