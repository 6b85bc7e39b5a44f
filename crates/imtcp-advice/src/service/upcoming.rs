// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Records whose time has not come yet. Clocks of senders are some seconds ahead, and older
//! versions stored records of any time. Such a record counts from its time on.

use std::collections::BTreeMap;

use crate::advice::capacity::Key;

/// Upcoming records of one hop kept in memory, some 100 bytes each. The store holds the others.
pub const MOST: usize = 100;

pub struct Upcoming<T> {
    records: BTreeMap<Key, T>,
    /// The store holds records after the last of these.
    more: bool,
}

impl<T> Upcoming<T> {
    /// From the earliest that the store holds of each series, at most [`MOST`] of each.
    pub fn new(read: impl IntoIterator<Item = (Key, T)>) -> Self {
        let mut records: BTreeMap<_, _> = read.into_iter().collect();
        let more = records.len() >= MOST;
        while records.len() > MOST {
            records.pop_last();
        }
        Upcoming { records, more }
    }

    /// A record that the store holds by now.
    pub fn add(&mut self, key: Key, record: T) {
        let last = self.records.last_key_value().map(|(last, _)| *last);
        if self.more && last.is_none_or(|last| key > last) {
            return;
        }
        self.records.entry(key).or_insert(record);
        if self.records.len() > MOST {
            self.records.pop_last();
            self.more = true;
        }
    }

    /// Takes out what has come by now, the earliest first.
    pub fn take_until(&mut self, until_us: i64) -> BTreeMap<Key, T> {
        if self.next_us().is_none_or(|t_us| t_us > until_us) {
            return BTreeMap::new();
        }
        let later = self.records.split_off(&Key::after(until_us));
        std::mem::replace(&mut self.records, later)
    }

    /// When the next one comes.
    pub fn next_us(&self) -> Option<i64> {
        self.records.first_key_value().map(|(key, _)| key.t_us)
    }

    /// The next one is in the store alone: read again.
    pub fn is_used_up(&self) -> bool {
        self.more && self.records.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(t_us: i64) -> Key {
        Key { t_us, series: 1, span_s: 0 }
    }

    #[test]
    fn records_come_at_their_time_in_their_order() {
        let mut upcoming = Upcoming::new([]);
        for t_us in [30, 10, 20] {
            upcoming.add(key(t_us), t_us);
        }
        assert_eq!(upcoming.next_us(), Some(10));
        assert!(upcoming.take_until(9).is_empty());
        assert_eq!(upcoming.take_until(20).into_values().collect::<Vec<_>>(), [10, 20]);
        assert_eq!((upcoming.next_us(), upcoming.is_used_up()), (Some(30), false));
    }

    #[test]
    fn with_more_records_than_are_kept_the_earliest_are_and_then_the_store_is_read() {
        let mut upcoming = Upcoming::new([]);
        for t_us in (0..2 * MOST as i64).rev() {
            upcoming.add(key(t_us), ());
        }
        assert_eq!(upcoming.take_until(i64::MAX).len(), MOST);
        assert!(upcoming.is_used_up());
        let mut read = Upcoming::new((0..MOST as i64).map(|t_us| (key(t_us), ())));
        read.add(key(MOST as i64), ());
        assert_eq!(read.take_until(i64::MAX).len(), MOST);
        assert!(read.is_used_up());
    }
}
