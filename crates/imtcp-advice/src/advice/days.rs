// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Which past days count, and where the request's time of day lies in each of them
//! [EN §5.5.3].

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::settings::{HistorySet, Settings};

/// [t0, t1] of one past day, both ends included. Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub day: Date,
    pub start_us: i64,
    pub end_us: i64,
}

impl Window {
    /// For a request so much later.
    pub fn later(&self, by_us: i64) -> Self {
        Window { start_us: self.start_us + by_us, end_us: self.end_us + by_us, ..*self }
    }

    /// Was enough of it measured for a line through it? From a sliver the line would lead far beyond
    /// everything that was seen. Samples in the order of time.
    pub fn is_covered(&self, samples: &[(i64, f64)], settings: &Settings) -> bool {
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return false };
        let least = (self.end_us - self.start_us) * i64::from(settings.min_span_pct);
        samples.len() >= settings.min_samples as usize && (last.0 - first.0) * 100 >= least
    }
}

/// The windows of the past days of `set` back to `oldest_us`, the newest day first.
///
/// A window begins where the zone's clocks show the request's time of day, and lasts
/// `horizon_us` of true time. On a day without that time (clocks went forward) it begins as
/// much later as clocks were moved; on a day that has it twice, at the first.
pub fn windows(
    set: HistorySet,
    zone: &TimeZone,
    t0_us: i64,
    horizon_us: i64,
    oldest_us: i64,
    most_days: usize,
) -> Vec<Window> {
    let (Some(now), Some(oldest)) = (local(t0_us, zone), local(oldest_us, zone)) else {
        return Vec::new();
    };
    let (today, time, oldest) = (now.date(), now.time(), oldest.date());
    let mut found = Vec::new();
    let mut day = today;
    for back in 1.. {
        let Ok(before) = day.checked_sub(1.day()) else { break };
        day = before;
        let over = set == HistorySet::Week && back > 7;
        if day < oldest || over || found.len() >= most_days {
            break;
        }
        if !counts(set, day, today, back) {
            continue;
        }
        let Ok(start) = day.to_datetime(time).to_zoned(zone.clone()) else { continue };
        let start_us = start.timestamp().as_microsecond();
        let end_us = start_us.saturating_add(horizon_us);
        // Advice as of a time knows nothing of what came after.
        if end_us <= t0_us {
            found.push(Window { day, start_us, end_us });
        }
    }
    found
}

/// Does a day, so many days back from today, count in a set?
fn counts(set: HistorySet, day: Date, today: Date, back: i64) -> bool {
    match set {
        HistorySet::All => true,
        HistorySet::Week => back <= 7,
        HistorySet::Weekday => day.weekday() == today.weekday(),
    }
}

fn local(t_us: i64, zone: &TimeZone) -> Option<jiff::Zoned> {
    Some(Timestamp::from_microsecond(t_us).ok()?.to_zoned(zone.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR_US: i64 = 3_600_000_000;

    fn us(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_microsecond()
    }

    fn utc(of: &[Window]) -> Vec<String> {
        of.iter().map(|w| Timestamp::from_microsecond(w.start_us).unwrap().to_string()).collect()
    }

    fn of(set: HistorySet, zone: &str, t0: &str, oldest: &str) -> Vec<Window> {
        windows(set, &TimeZone::get(zone).unwrap(), us(t0), HOUR_US, us(oldest), 1000)
    }

    /// A quarter of an hour is 15 minutes.
    #[test]
    fn a_window_is_covered_by_enough_samples_over_enough_of_it() {
        let day = jiff::civil::date(2026, 3, 19);
        let window = Window { day, start_us: 0, end_us: HOUR_US };
        let samples =
            |minutes: &[i64]| -> Vec<_> { minutes.iter().map(|m| (m * 60_000_000, 5e7)).collect() };
        let covered = |minutes: &[i64], settings| window.is_covered(&samples(minutes), &settings);
        assert!(covered(&[30, 45], Settings::default()));
        assert!(!covered(&[30, 37, 44], Settings::default()));
        assert!(!covered(&[0, 60], Settings { min_samples: 3, ..Settings::default() }));
        assert!(covered(&[50, 51], Settings { min_span_pct: 0, ..Settings::default() }));
        assert!(!covered(&[], Settings { min_span_pct: 0, ..Settings::default() }));
    }

    #[test]
    fn the_week_before_is_seven_days_at_the_same_time() {
        let found = of(HistorySet::Week, "UTC", "2026-03-20T14:25:00Z", "2025-01-01T00:00:00Z");
        assert_eq!(found.len(), 7);
        assert_eq!(utc(&found)[0], "2026-03-19T14:25:00Z");
        assert_eq!(utc(&found)[6], "2026-03-13T14:25:00Z");
        assert_eq!(found[0].end_us - found[0].start_us, HOUR_US);
    }

    #[test]
    fn the_same_weekday_is_every_seventh_day() {
        let found = of(HistorySet::Weekday, "UTC", "2026-03-20T14:25:00Z", "2026-02-20T00:00:00Z");
        let days: Vec<_> = found.iter().map(|w| w.day.to_string()).collect();
        assert_eq!(days, ["2026-03-13", "2026-03-06", "2026-02-27", "2026-02-20"]);
    }

    #[test]
    fn all_days_reach_back_to_the_first_record() {
        let found = of(HistorySet::All, "UTC", "2026-03-20T14:25:00Z", "2026-02-28T23:00:00Z");
        assert_eq!(found.len(), 20);
        assert_eq!(found.last().unwrap().day.to_string(), "2026-02-28");
    }

    #[test]
    fn the_time_of_day_is_the_zones_before_and_after_clocks_change() {
        // Berlin: summer time began on 2026-03-29. 14:00 was 13:00 UTC before, 12:00 after.
        let found =
            of(HistorySet::Week, "Europe/Berlin", "2026-03-31T12:00:00Z", "2026-01-01T00:00:00Z");
        assert_eq!(
            utc(&found)[..3],
            ["2026-03-30T12:00:00Z", "2026-03-29T12:00:00Z", "2026-03-28T13:00:00Z"]
        );
    }

    #[test]
    fn a_time_that_was_skipped_begins_as_much_later() {
        // 02:30 did not exist on 2026-03-29 in Berlin: 03:30 summer time, 01:30 UTC.
        let found =
            of(HistorySet::Week, "Europe/Berlin", "2026-03-30T00:30:00Z", "2026-01-01T00:00:00Z");
        assert_eq!(utc(&found)[..2], ["2026-03-29T01:30:00Z", "2026-03-28T01:30:00Z"]);
    }

    #[test]
    fn a_time_that_came_twice_is_the_first() {
        // 02:30 came at 00:30 and at 01:30 UTC on 2026-10-25 in Berlin.
        let found =
            of(HistorySet::Week, "Europe/Berlin", "2026-10-26T01:30:00Z", "2026-01-01T00:00:00Z");
        assert_eq!(utc(&found)[..2], ["2026-10-25T00:30:00Z", "2026-10-24T00:30:00Z"]);
    }

    #[test]
    fn the_date_is_that_of_the_zone() {
        // 22:30 UTC on Friday is Saturday in Berlin.
        let found = of(
            HistorySet::Weekday,
            "Europe/Berlin",
            "2026-03-20T23:30:00Z",
            "2026-03-01T00:00:00Z",
        );
        assert_eq!(found[0].day.to_string(), "2026-03-14");
    }

    proptest! {
        #[test]
        fn no_window_reaches_into_the_future_and_each_shows_the_same_clock(
            t0_s in 1_500_000_000i64..2_000_000_000, hours in 1i64..12,
            zone in prop::sample::select(vec![
                "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu",
            ]),
        ) {
            let zone = TimeZone::get(zone).unwrap();
            let t0_us = t0_s * 1_000_000;
            let oldest_us = t0_us - 400 * 24 * HOUR_US;
            let found =
                windows(HistorySet::All, &zone, t0_us, hours * HOUR_US, oldest_us, 365);
            let clock = |t_us: i64| local(t_us, &zone).unwrap().time();
            let same = found.iter().filter(|w| clock(w.start_us) == clock(t0_us)).count();
            // At most one day a year skips the time.
            prop_assert!(same + 2 >= found.len() && found.len() == 365);
            prop_assert!(found.iter().all(|w| w.end_us <= t0_us));
        }
    }
}
