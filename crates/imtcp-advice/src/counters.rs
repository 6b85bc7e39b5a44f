// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A router's counters as history: the paper's own source [EN §3.2.2]. Between two readings of
//! an interface's octets lies a mean rate; available is what it leaves of the line.

use std::io::Read;

use crate::error::{Error, Result};
use crate::exchange::{write, wrong_csv, Imported, CHUNK};
use crate::record::{destination, Record};
use crate::store::Store;
use crate::time::{self, HOUR_US};

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

/// Reads the columns `time` and `octets`, in the order of time. Intervals over which the
/// counter was reset, or that are too long, are left out and counted as skipped.
pub async fn import(store: &Store, interface: &Interface, input: impl Read) -> Result<Imported> {
    let mut interface = interface.clone();
    interface.dst = destination(&interface.dst)?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(input);
    let head = reader.headers().map_err(wrong_csv)?;
    let column = |name: &str| {
        let at = head.iter().position(|h| h.trim_start_matches('\u{feff}') == name);
        at.ok_or_else(|| Error::Input(format!("the first line must name a column {name}")))
    };
    let (time_at, octets_at) = (column("time")?, column("octets")?);
    let now_us = time::now_us();
    let mut done = Imported::default();
    let all = async {
        let mut before: Option<Reading> = None;
        let mut chunk = Vec::new();
        for line in reader.into_records() {
            let line = line.map_err(wrong_csv)?;
            let number = line.position().map_or(0, csv::Position::line);
            let at = |e: Error| Error::Input(format!("line {number}: {e}"));
            let t_us = time::parse(line.get(time_at).unwrap_or_default()).map_err(at)?;
            let octets = line.get(octets_at).unwrap_or_default().parse();
            let octets =
                octets.map_err(|_| at(Error::Input("octets is no whole number".into())))?;
            let reading = Reading { t_us, octets };
            if let Some(before) = before {
                if t_us <= before.t_us {
                    return Err(at(Error::Input("times must rise".into())));
                }
                match record(&interface, before, reading) {
                    Some(record) => chunk.push(record.checked(now_us).map_err(at)?.into()),
                    None => done.skipped += 1,
                }
            }
            before = Some(reading);
            if chunk.len() == CHUNK {
                write(store, std::mem::take(&mut chunk), false, &mut done).await?;
            }
        }
        write(store, chunk, false, &mut done).await
    };
    let all = all.await;
    done.after(all)
}

fn record(of: &Interface, from: Reading, to: Reading) -> Option<Record> {
    let apart_us = to.t_us - from.t_us;
    if apart_us > MOST_APART_US {
        return None;
    }
    let capacity = of.capacity_bps as f64;
    let used = |octets: u64| octets as f64 * 8e6 / apart_us as f64;
    let possible = |bps: &f64| *bps <= capacity * TOLERANCE;
    let used_bps = match to.octets.checked_sub(from.octets) {
        Some(octets) => Some(used(octets)).filter(possible),
        // A counter of 32 bits goes over, or one was reset, which would look like a full line: here
        // nothing above the line's rate is forgiven.
        None => {
            let over = (to.octets + (1 << 32)).checked_sub(from.octets);
            over.map(used).filter(|bps| *bps <= capacity)
        }
    }?;
    Some(Record {
        dst: of.dst.clone(),
        hop: of.hop.clone(),
        source: of.source.clone(),
        time: from.t_us + apart_us / 2,
        available_bps: Some((capacity - used_bps).max(0.0).round() as u64),
        capacity_bps: Some(of.capacity_bps),
        ..Record::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MINUTE_US;

    fn available(from: (i64, u64), to: (i64, u64)) -> Option<u64> {
        let of = Interface {
            dst: "192.0.2.7".into(),
            hop: String::new(),
            source: String::new(),
            capacity_bps: 100_000_000,
        };
        let reading = |(minute, octets)| Reading { t_us: minute * MINUTE_US, octets };
        record(&of, reading(from), reading(to)).and_then(|r| r.available_bps)
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
