// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A router's counters as history: the paper's own source [EN §3.2.2]. Between two readings of
//! an interface's octets lies a mean rate; available is what it leaves of the line.

use std::io::Read;

use imtcp_client::destination::destination;
use imtcp_client::record::Record;
use imtcp_client::time::{self, HOUR_US};

use crate::csv_text::{Numbers, Table};
use crate::error::{Error, Result};
use crate::exchange::{write, Imported, CHUNK};
use crate::store::Store;

/// Whose counters they are.
#[derive(Clone, Debug)]
pub struct Interface {
    pub dst: String,
    /// The router's address, where the path has several hops.
    pub hop: String,
    pub source: String,
    /// The line's rate.
    pub capacity_bps: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    t_us: i64,
    octets: u64,
}

/// Readings further apart say nothing about the time between.
const MOST_APART_US: i64 = HOUR_US;
/// Clocks of readings are not exact; more than this over the line's rate was no traffic.
const TOLERANCE: f64 = 1.05;

/// Why the time between two readings says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skipped {
    TooLong,
    /// More than the line carries: another line's rate, or the counter was reset.
    TooMuch,
}

/// Reads the columns `time` and `octets`, in the order of time. Intervals that say nothing are left out and
/// counted.
pub async fn import(store: &Store, interface: &Interface, input: impl Read) -> Result<Imported> {
    let mut interface = interface.clone();
    interface.dst = destination(&interface.dst)?;
    let table = Table::open(input)?;
    let column = |name: &str| {
        let at = table.head.iter().position(|h| h == name);
        at.ok_or_else(|| {
            Error::Input(format!("the first line must name a column {name}, as time,octets does"))
        })
    };
    let (time_at, octets_at) = (column("time")?, column("octets")?);
    let numbers = Numbers { decimal: None, comma_separates: table.comma_separates };
    let now_us = time::now_us();
    let mut done = Imported::default();
    let all = async {
        let mut before: Option<Reading> = None;
        let mut chunk = Vec::new();
        for row in table.rows() {
            let (number, row) = row?;
            let at = |e: Error| Error::Input(format!("line {number}: {e}"));
            let cell = |at: usize| row.get(at).unwrap_or_default();
            let t_us = numbers
                .time(cell(time_at))
                .map_err(|e| at(Error::Input(format!("column time: {e}"))))?;
            let octets = cell(octets_at).parse().map_err(|_| {
                let text = cell(octets_at);
                at(Error::Input(format!(
                    "column octets: '{text}' is no whole number of at most 64 bits: write digits \
                     alone, as 300001000"
                )))
            })?;
            let reading = Reading { t_us, octets };
            if let Some(before) = before {
                if t_us <= before.t_us {
                    return Err(at(Error::Input(
                        "column time: times must rise: sort the file".into(),
                    )));
                }
                match record(&interface, before, reading) {
                    Ok(record) => {
                        chunk.push(record.checked(now_us).map_err(|e| at(e.into()))?.into())
                    }
                    Err(why) => {
                        done.skipped += 1;
                        done.skipped_too_much += u64::from(why == Skipped::TooMuch);
                    }
                }
            }
            before = Some(reading);
            if chunk.len() == CHUNK {
                write(store, std::mem::take(&mut chunk), false, &mut done).await?;
            }
        }
        if done.read == 0 && chunk.is_empty() && done.skipped > 0 {
            return Err(Error::Input(nothing_left(&interface, &done)));
        }
        write(store, chunk, false, &mut done).await
    };
    let all = all.await;
    done.after(all)
}

fn nothing_left(of: &Interface, done: &Imported) -> String {
    let line =
        format!("more traffic than {} bit/s carry, or the counter was reset", of.capacity_bps);
    let hint = match done.skipped_too_much {
        0 => "read the counter more often",
        _ => "is --capacity the line's rate?",
    };
    format!(
        "no interval says anything: {} of {} have {line}, the others are longer than an hour: {hint}",
        done.skipped_too_much, done.skipped
    )
}

fn record(of: &Interface, from: Reading, to: Reading) -> std::result::Result<Record, Skipped> {
    let apart_us = to.t_us - from.t_us;
    if apart_us > MOST_APART_US {
        return Err(Skipped::TooLong);
    }
    let capacity = of.capacity_bps as f64;
    let used = |octets: u64| octets as f64 * 8e6 / apart_us as f64;
    let possible = |bps: &f64| *bps <= capacity * TOLERANCE;
    let used_bps = match to.octets.checked_sub(from.octets) {
        Some(octets) => Some(used(octets)).filter(possible),
        // The counter went over its end, or was reset. A reset may look like a full line, so nothing
        // above the line's rate is forgiven here.
        None => Some(used(over_the_end(from.octets, to.octets))).filter(|bps| *bps <= capacity),
    }
    .ok_or(Skipped::TooMuch)?;
    Ok(Record {
        dst: of.dst.clone(),
        hop: of.hop.clone(),
        source: of.source.clone(),
        time: from.t_us + apart_us / 2,
        available_bps: Some((capacity - used_bps).max(0.0).round() as u64),
        capacity_bps: Some(of.capacity_bps),
        ..Record::default()
    })
}

/// The bytes between two values of a counter that wrapped. It has 32 bits if it never showed more, else
/// 64.
fn over_the_end(from: u64, to: u64) -> u64 {
    match u32::try_from(from) {
        // `to` is less than `from`, so it has 32 bits too.
        Ok(from) => u64::from((to as u32).wrapping_sub(from)),
        Err(_) => to.wrapping_sub(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use imtcp_client::time::MINUTE_US;
    use proptest::prelude::*;

    fn available(from: (i64, u64), to: (i64, u64)) -> Option<u64> {
        let of = Interface {
            dst: "192.0.2.7".into(),
            hop: String::new(),
            source: String::new(),
            capacity_bps: 100_000_000,
        };
        let reading = |(minute, octets)| Reading { t_us: minute * MINUTE_US, octets };
        record(&of, reading(from), reading(to)).ok().and_then(|r| r.available_bps)
    }

    /// 300 MB in a minute are 40 Mbit/s.
    #[test]
    fn available_is_what_the_counted_traffic_leaves_of_the_line() {
        assert_eq!(available((0, 1_000), (1, 300_001_000)), Some(60_000_000));
        assert_eq!(available((0, 5), (1, 5)), Some(100_000_000));
        assert_eq!(available((0, 0), (1, 750_000_000)), Some(0));
    }

    #[test]
    fn a_counter_of_32_bits_may_go_over() {
        let last = u64::from(u32::MAX);
        assert_eq!(available((0, last - 149_999_999), (1, 150_000_000)), Some(60_000_000));
    }

    #[test]
    fn a_counter_of_64_bits_may_go_over() {
        assert_eq!(available((0, u64::MAX - 149_999_999), (1, 150_000_000)), Some(60_000_000));
        assert_eq!(available((0, u64::MAX), (1, 7_499_999)), Some(99_000_000));
        assert_eq!(available((0, u64::MAX), (1, u64::MAX - 1)), None);
        // It showed more than 32 bits hold, so it has more.
        let more = 1 << 32;
        assert_eq!(available((0, more + 10), (1, more - 100)), None);
    }

    /// Every number, and those around the ends of both counters more often.
    fn octets() -> impl Strategy<Value = u64> {
        let near = |end: u64| (0..3_000_000_000_u64).prop_map(move |n| end.wrapping_add(n));
        let before = |end: u64| (0..3_000_000_000_u64).prop_map(move |n| end.wrapping_sub(n));
        prop_oneof![any::<u64>(), near(0), before(0), before(1 << 32), near(1 << 32)]
    }

    proptest! {
        #[test]
        fn any_two_readings_give_a_part_of_the_line_or_nothing(from in octets(), to in octets()) {
            let bps = available((0, from), (1, to));
            prop_assert!(bps.is_none_or(|bps| bps <= 100_000_000));
        }

        /// 750 MB fill the line of 100 Mbit/s for a minute.
        #[test]
        fn what_was_counted_is_found_again_over_the_end_of_64_bits(
            from in octets(), more in 0..=750_000_000_u64
        ) {
            let to = from.wrapping_add(more);
            let left = 100_000_000 - (more as f64 * 8.0 / 60.0).round() as i64;
            let bps = available((0, from), (1, to)).expect("this fits the line");
            prop_assert!((bps as i64 - left).abs() <= 1, "{bps} {left}");
        }

        #[test]
        fn what_was_counted_is_found_again_over_the_end_of_32_bits(
            from in any::<u32>(), more in 0..=750_000_000_u32
        ) {
            let to = from.wrapping_add(more);
            let left = 100_000_000 - (f64::from(more) * 8.0 / 60.0).round() as i64;
            let bps = available((0, from.into()), (1, to.into())).expect("this fits the line");
            prop_assert!((bps as i64 - left).abs() <= 1, "{bps} {left}");
        }
    }

    #[test]
    fn resets_and_gaps_say_nothing() {
        // Taken as having gone over, 4.3 GB in a minute.
        assert_eq!(available((0, 20_000), (1, 10_000)), None);
        assert_eq!(available((0, 1 << 40), (1, 10_000)), None);
        // (2³² − 376·10⁶ + 1000) · 8 / 300 s = 104.5 Mbit/s; from 600·10⁶ it would be 98.5.
        assert_eq!(available((0, 376_000_000), (5, 1_000)), None);
        assert_eq!(available((0, 600_000_000), (5, 1_000)), Some(1_467_512));
        assert_eq!(available((0, 0), (1, 2_000_000_000)), None);
        assert_eq!(available((0, 0), (61, 5)), None);
    }
}
