// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Three clocks: CLOCK_BOOTTIME, this host's wall clock, and the service's.
//!
//! The agent counts by CLOCK_BOOTTIME, which nobody sets: the ages and the order of its records are
//! right whatever happens to the wall clock. It adds the offset that the wall clock had when the
//! agent started, so that the times in the spool can be read.
//!
//! Times become those of the wall clock as it is when a batch is sent. If it differs clearly from
//! the service's clock, they become those of the service's: the service compares records with its own
//! time and with those of other agents, so one history has one clock.

use std::fs;
use std::sync::LazyLock;
use std::time::Instant;

use imtcp_client::http::Dated;
use imtcp_client::time::{now_us, DAY_US, SECOND_US};
use imtcp_common::format;
use nix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};

/// µs. A clock that was set by less than this leaves times as they are.
const SMALLEST_SHIFT_US: i64 = SECOND_US;
/// µs. A `Date` has whole seconds, and servers may make it anew only each second: two clocks that
/// agree seem to differ by up to 2 s.
const AGREE_US: i64 = 3 * SECOND_US;
/// µs. Beyond a day nobody mistook a time zone: one of the clocks was never set.
const MOST_SHIFT_US: i64 = DAY_US;

static BOOT: LazyLock<String> = LazyLock::new(|| {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_string()
});

fn boottime_us() -> i64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME);
    now.map_or(0, |t| t.tv_sec() * SECOND_US + t.tv_nsec() / 1000)
}

/// The wall clock less CLOCK_BOOTTIME.
fn wall_offset_us() -> i64 {
    now_us() - boottime_us()
}

/// The agent's clock: it never jumps.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset_us: i64,
}

impl Clock {
    /// Agrees with the wall clock now.
    pub fn start() -> Self {
        Clock { offset_us: wall_offset_us() }
    }

    pub fn now_us(self) -> i64 {
        boottime_us() + self.offset_us
    }

    pub fn stamp(self) -> Stamp {
        Stamp { boot: BOOT.clone(), offset_us: self.offset_us }
    }
}

/// By which clock the times of a batch are. It is in the spool with them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    boot: String,
    offset_us: i64,
}

/// The service's clock, as its answers tell it.
#[derive(Debug, Default)]
pub struct ServiceClock {
    seen: Option<Seen>,
    /// How far ahead this host's clock was when the agent said so last, µs.
    said_us: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The service's clock less CLOCK_BOOTTIME.
    offset_us: i64,
    uncertain_us: i64,
}

impl ServiceClock {
    pub fn learn(&mut self, dated: Dated) {
        let round_trip_us = (dated.answered - dated.asked).as_micros() as i64;
        let since_us = (Instant::now() - dated.answered).as_micros() as i64;
        let made_us = boottime_us() - since_us - round_trip_us / 2;
        let offset_us = dated.date_us + SECOND_US / 2 - made_us;
        self.seen = Some(Seen { offset_us, uncertain_us: AGREE_US + round_trip_us / 2 });
    }

    /// A message about the difference, if it is not the one that was said.
    pub fn news(&mut self) -> Option<String> {
        self.news_at(wall_offset_us())
    }

    fn news_at(&mut self, wall_us: i64) -> Option<String> {
        let seen = self.seen?;
        let ahead_us = wall_us - seen.offset_us;
        if ahead_us.abs() > MOST_SHIFT_US {
            // Batches wait, and the agent says why.
            return None;
        }
        let differs = ahead_us.abs() > seen.uncertain_us;
        let told = match (differs, self.said_us) {
            (true, Some(said_us)) if (ahead_us - said_us).abs() <= seen.uncertain_us => {
                return None
            }
            (true, _) => apart(ahead_us),
            // Near the limit, one second of a `Date` must not make a line each time.
            (false, Some(_)) if ahead_us.abs() < seen.uncertain_us - SECOND_US => {
                "this host's clock and the service's agree again".into()
            }
            (false, _) => return None,
        };
        self.said_us = differs.then_some(ahead_us);
        Some(told)
    }

    /// The shift of a batch's times, µs; or why the batch has to wait.
    pub fn shift_us(&self, stamp: Option<&Stamp>) -> Result<i64, String> {
        let stamp = stamp.filter(|stamp| stamp.boot == *BOOT && !BOOT.is_empty());
        shift_us(stamp.map(|s| s.offset_us), wall_offset_us(), self.seen)
    }

    /// Would times that were sent with this shift now be sent with clearly another one?
    pub fn is_another(&self, sent_us: i64, stamp: Option<&Stamp>) -> bool {
        self.shift_us(stamp)
            .map_or(true, |shift_us| shift_us.abs_diff(sent_us) > AGREE_US.unsigned_abs())
    }
}

/// Shifts times by the clock of `stamp_us`, if that is known, else by the wall clock.
fn shift_us(stamp_us: Option<i64>, wall_us: i64, seen: Option<Seen>) -> Result<i64, String> {
    let ahead_us = seen.map_or(0, |seen| match wall_us - seen.offset_us {
        ahead_us if ahead_us.abs() > seen.uncertain_us => ahead_us,
        _ => 0,
    });
    if ahead_us.abs() > MOST_SHIFT_US {
        return Err(apart(ahead_us));
    }
    // A stamp is read from a file.
    let shift_us = (wall_us - ahead_us).saturating_sub(stamp_us.unwrap_or(wall_us));
    Ok(if shift_us.unsigned_abs() < SMALLEST_SHIFT_US.unsigned_abs() { 0 } else { shift_us })
}

fn apart(ahead_us: i64) -> String {
    let by = format::duration(ahead_us.unsigned_abs() / SECOND_US as u64);
    let way = if ahead_us > 0 { "ahead of" } else { "behind" };
    let then = match ahead_us.abs() > MOST_SHIFT_US {
        true => "one of them is wrong, and batches wait until it is set",
        false => "records are sent with the service's time",
    };
    format!("this host's clock is {by} {way} the service's: {then}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR_US: i64 = 3600 * SECOND_US;
    /// The wall clock's offset in these tests.
    const WALL_US: i64 = 1_000 * HOUR_US;

    fn seen(ahead_us: i64) -> Option<Seen> {
        Some(Seen { offset_us: WALL_US - ahead_us, uncertain_us: AGREE_US })
    }

    #[test]
    fn times_are_sent_by_the_services_clock_where_it_differs_clearly() {
        assert_eq!(shift_us(None, WALL_US, None), Ok(0));
        assert_eq!(shift_us(None, WALL_US, seen(2 * SECOND_US)), Ok(0));
        assert_eq!(shift_us(None, WALL_US, seen(HOUR_US)), Ok(-HOUR_US));
        assert_eq!(shift_us(Some(WALL_US), WALL_US, seen(-HOUR_US)), Ok(HOUR_US));
    }

    /// NTP moved the wall clock by an hour after the records were made.
    #[test]
    fn a_clock_that_was_set_meanwhile_moves_the_times_of_what_waits() {
        let before = Some(WALL_US - HOUR_US);
        assert_eq!(shift_us(before, WALL_US, None), Ok(HOUR_US));
        assert_eq!(shift_us(before, WALL_US, seen(0)), Ok(HOUR_US));
        assert_eq!(shift_us(before, WALL_US, seen(HOUR_US)), Ok(0));
        assert_eq!(shift_us(Some(WALL_US - 1000), WALL_US, seen(0)), Ok(0), "NTP slews");
    }

    #[test]
    fn batches_wait_while_a_clock_is_off_by_more_than_a_day() {
        let why = shift_us(None, WALL_US, seen(-365 * DAY_US)).unwrap_err();
        assert!(why.contains("is 365d 0h behind the service's: one of them is wrong"), "{why}");
    }

    #[test]
    fn a_difference_is_said_once_again_when_it_changes_and_when_it_is_over() {
        let mut clock = ServiceClock { seen: seen(HOUR_US), said_us: None };
        let said = clock.news_at(WALL_US).unwrap();
        assert!(said.contains("is 1h 0m ahead of the service's"), "{said}");
        assert_eq!(clock.news_at(WALL_US + SECOND_US), None);
        assert!(clock.news_at(WALL_US + HOUR_US).unwrap().contains("2h 0m ahead"));
        assert_eq!(clock.news_at(WALL_US - HOUR_US + AGREE_US - SECOND_US / 2), None);
        assert!(clock.news_at(WALL_US - HOUR_US).unwrap().contains("agree again"));
        assert_eq!(clock.news_at(WALL_US - HOUR_US), None);
    }

    #[test]
    fn a_date_tells_the_services_clock_and_a_slow_answer_makes_it_less_certain() {
        let mut clock = ServiceClock::default();
        let answered = Instant::now();
        let asked = answered - Duration::from_secs(4);
        clock.learn(Dated { date_us: now_us() - HOUR_US, asked, answered });
        let seen = clock.seen.unwrap();
        assert_eq!(seen.uncertain_us, AGREE_US + 2 * SECOND_US);
        let ahead_us = wall_offset_us() - seen.offset_us;
        assert!((ahead_us - HOUR_US).abs() < 4 * SECOND_US, "{ahead_us}");
    }

    #[test]
    fn the_agents_clock_agrees_with_the_wall_clock_when_it_starts() {
        assert!((Clock::start().now_us() - now_us()).abs() < SECOND_US / 10);
    }
}
