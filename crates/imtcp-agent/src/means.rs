// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Fewer records: a connection has a dozen results a second, a history of days needs no more
//! than one in a while.

use std::collections::BTreeMap;

use imtcp_client::record::Record;

/// Takes the records of steps that are over, as their means; the others stay for later.
/// `every_us` 0: takes all as they are.
pub fn take(records: &mut Vec<Record>, every_us: i64, over_us: i64) -> Vec<Record> {
    if every_us == 0 {
        return std::mem::take(records);
    }
    let mut steps: BTreeMap<(String, i64), Vec<Record>> = BTreeMap::new();
    for record in std::mem::take(records) {
        let step = record.time.div_euclid(every_us);
        if (step + 1) * every_us <= over_us {
            steps.entry((record.dst.clone(), step)).or_default().push(record);
        } else {
            records.push(record);
        }
    }
    steps.into_values().filter_map(|of| mean(&of)).collect()
}

fn mean(of: &[Record]) -> Option<Record> {
    let last = of.last()?;
    let n = of.len() as i64;
    Some(Record {
        // A mean of differences: sums of times since 1970 would overflow.
        time: last.time + of.iter().map(|r| r.time - last.time).sum::<i64>() / n,
        available_bps: mean_of(of, |r| r.available_bps),
        rtt_us: mean_of(of, |r| r.rtt_us),
        ..last.clone()
    })
}

/// The mean of the records that have a value.
fn mean_of(records: &[Record], value: fn(&Record) -> Option<u64>) -> Option<u64> {
    let known: Vec<u64> = records.iter().filter_map(value).collect();
    (!known.is_empty()).then(|| known.iter().sum::<u64>() / known.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(dst: &str, time: i64, available_bps: u64) -> Record {
        Record {
            dst: dst.into(),
            source: "here".into(),
            time,
            available_bps: Some(available_bps),
            capacity_bps: Some(100),
            rtt_us: (available_bps > 1).then_some(available_bps * 10),
            validity_pct: Some(90),
            ..Record::default()
        }
    }

    #[test]
    fn steps_that_are_over_become_means_for_each_peer() {
        let mut records = vec![
            record("a", 1_000, 1),
            record("b", 2_000, 50),
            record("a", 3_000, 3),
            record("a", 12_000, 7),
        ];
        let taken = take(&mut records, 10_000, 11_000);
        let told: Vec<_> =
            taken.iter().map(|r| (r.dst.as_str(), r.time, r.available_bps, r.rtt_us)).collect();
        assert_eq!(told, [("a", 2_000, Some(2), Some(30)), ("b", 2_000, Some(50), Some(500))]);
        assert_eq!(records, [record("a", 12_000, 7)]);
        assert_eq!(take(&mut records, 10_000, i64::MAX).len(), 1);
    }

    #[test]
    fn without_steps_all_are_taken_as_they_are() {
        let mut records = vec![record("a", 1, 1), record("a", 2, 2)];
        assert_eq!(take(&mut records, 0, 0).len(), 2);
        assert!(records.is_empty());
    }
}
