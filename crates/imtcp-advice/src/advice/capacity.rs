// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The capacity of a hop, from what its records told of it.
//!
//! The answer is the upper quartile of the last hour, where fewer than [`LEAST`] records told it
//! of the last [`LEAST`] within a day. It is a quantile so that a wild record changes nothing. It
//! is the upper one because measurements err low: cross traffic stretches the packet trains that
//! show a capacity (docs/adr/0010). It errs on the safe side too: the threshold that keeps congestion
//! control on is a share of the capacity. The median would not do: of values that alternate
//! between two, it is now the one and now the other.
//!
//! A line that becomes faster is followed when a quarter of the records are new, a slower one when
//! three quarters are: within the hour in both cases.

use std::collections::BTreeMap;

use imtcp_client::time::{DAY_US, HOUR_US};

/// Records count that came in the hour before the last one with a capacity. A change of the line shows within
/// an hour, and an agent that sends means of ten seconds tells 360 capacities.
pub const WINDOW_US: i64 = HOUR_US;
/// Where fewer records told it in the hour, so many count: the least of which a quartile leaves
/// one wild record out and still follows three that agree.
pub const LEAST: usize = 5;
/// At most so many records count, the newest: an hour of means of ten seconds.
pub const MOST: usize = 360;
/// A capacity holds for records of this much later that tell none: not every source knows it.
pub const HOLDS_US: i64 = DAY_US;

/// Identifies a record, in the store's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub t_us: i64,
    pub series: i64,
    pub span_s: i64,
}

impl Key {
    /// Comes after all records up to this time, and before all later ones.
    pub fn after(t_us: i64) -> Self {
        Key { t_us: t_us.saturating_add(1), series: i64::MIN, span_s: i64::MIN }
    }
}

/// A capacity and the records that it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    pub bps: f64,
    pub records: u32,
    /// The first of them.
    pub from_us: i64,
    /// The last of them.
    pub to_us: i64,
}

/// The capacities that records told last, in bit/s.
#[derive(Clone, Debug, Default)]
pub struct Told(BTreeMap<Key, u64>);

impl Told {
    /// A record comes once: a second one of the same key changes nothing, as in the store. A capacity of 0, which older
    /// versions stored, is none.
    pub fn add(&mut self, key: Key, bps: u64) {
        if bps == 0 {
            return;
        }
        self.0.entry(key).or_insert(bps);
        if self.0.len() > MOST {
            self.0.pop_first();
        }
    }

    /// The capacity for a hop whose newest record is of this time.
    pub fn capacity(&self, newest_us: i64) -> Option<Capacity> {
        let holds_since_us = newest_us - HOLDS_US;
        let last = *self.0.last_key_value()?.0;
        let since_us = last.t_us - WINDOW_US;
        let counts =
            |i: usize, t_us: i64| t_us >= holds_since_us && (t_us >= since_us || i < LEAST);
        let (mut bps, mut from_us) = (Vec::with_capacity(self.0.len()), last.t_us);
        for (i, (key, value)) in self.0.iter().rev().enumerate() {
            if !counts(i, key.t_us) {
                break;
            }
            bps.push(*value);
            from_us = key.t_us;
        }
        let quartile = bps.len().checked_sub(1)? * 3 / 4;
        let value = *bps.select_nth_unstable(quartile).1;
        Some(Capacity { bps: value as f64, records: bps.len() as u32, from_us, to_us: last.t_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use imtcp_client::time::{MINUTE_US, SECOND_US};
    use proptest::prelude::*;

    fn key(t_us: i64) -> Key {
        Key { t_us, series: 1, span_s: 0 }
    }

    /// One record each ten seconds, the first at 0.
    fn each_ten_seconds(of: impl IntoIterator<Item = u64>) -> (Told, i64) {
        let (mut told, mut t_us) = (Told::default(), 0);
        for bps in of {
            told.add(key(t_us), bps);
            t_us += 10 * SECOND_US;
        }
        (told, t_us - 10 * SECOND_US)
    }

    fn bps((told, newest_us): (Told, i64)) -> f64 {
        told.capacity(newest_us).unwrap().bps
    }

    #[test]
    fn values_that_alternate_have_one_capacity() {
        for count in 4..800 {
            let alternate = (0..count).map(|i| if i % 2 == 0 { 12_600_000 } else { 22_200_000 });
            assert_eq!(bps(each_ten_seconds(alternate)), 22.2e6, "{count}");
        }
    }

    #[test]
    fn a_capacity_of_nothing_is_none() {
        let (told, newest_us) = each_ten_seconds([100_000_000, 0, 0]);
        assert_eq!(told.capacity(newest_us).unwrap().bps, 1e8);
        let (told, newest_us) = each_ten_seconds([0]);
        assert_eq!(told.capacity(newest_us), None);
    }

    #[test]
    fn one_wild_record_changes_nothing() {
        for count in [2, 3, 5, 30, 360] {
            for wild in [200_000_000, 2_000_000] {
                let line = (1..count).map(|_| 20_000_000).chain([wild]);
                let expected = if count == 2 { wild.min(20_000_000) } else { 20_000_000 };
                assert_eq!(bps(each_ten_seconds(line)), expected as f64, "{count} {wild}");
            }
        }
    }

    /// The line changes after an hour; a record each ten seconds.
    #[test]
    fn a_change_of_the_line_is_followed_within_the_hour() {
        for (from, to, after_min) in [(20_000_000, 40_000_000, 16), (40_000_000, 20_000_000, 46)] {
            let line = |minutes| {
                let before = (0..360).map(|_| from);
                bps(each_ten_seconds(before.chain((0..minutes * 6).map(|_| to))))
            };
            assert_eq!(line(after_min), to as f64);
            assert_eq!(line(after_min - 4), from as f64);
        }
    }

    #[test]
    fn where_records_are_rare_the_last_five_of_a_day_count() {
        let mut told = Told::default();
        for (hour, bps) in [(0, 90), (2, 20), (4, 20), (6, 20), (8, 200), (10, 20)] {
            told.add(key(hour * HOUR_US), bps);
        }
        let capacity = told.capacity(10 * HOUR_US).unwrap();
        assert_eq!((capacity.bps, capacity.records), (20.0, 5));
        assert_eq!((capacity.from_us, capacity.to_us), (2 * HOUR_US, 10 * HOUR_US));
        let a_day_later = told.capacity(30 * HOUR_US).unwrap();
        assert_eq!(a_day_later.records, 3);
        assert_eq!(told.capacity(34 * HOUR_US).map(|c| c.records), Some(1));
        assert_eq!(told.capacity(34 * HOUR_US + MINUTE_US), None);
    }

    #[test]
    fn a_record_that_comes_again_counts_once() {
        let mut told = Told::default();
        for value in [10, 99] {
            told.add(key(5), value);
        }
        let capacity = told.capacity(5).unwrap();
        assert_eq!((capacity.bps, capacity.records), (10.0, 1));
    }

    proptest! {
        #[test]
        fn the_order_in_which_records_arrive_does_not_matter(
            mut records in prop::collection::vec((0..3 * HOUR_US, 1..100u64), 1..500),
        ) {
            let of = |records: &[(i64, u64)]| {
                let mut told = Told::default();
                for (t_us, bps) in records {
                    told.add(Key { t_us: *t_us, series: *bps as i64, span_s: 0 }, *bps);
                }
                told.capacity(3 * HOUR_US)
            };
            let first = of(&records);
            records.reverse();
            prop_assert_eq!(of(&records), first);
            records.sort();
            prop_assert_eq!(of(&records), first);
        }
    }
}
