// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Piecewise constant rates over time: steps and square waves.

use crate::units::{parse_bps, parse_us};

/// Rates over time; nothing is sent before the first step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// (start_us, rate_bps), in strictly rising order of time.
    steps: Vec<(u64, u64)>,
}

impl Schedule {
    /// Reads `TIME:RATE,…` (such as `0:0,10:70M,20:30M`), or the square wave
    /// `square:LOW:HIGH:PERIOD` (high in each period's first half) up to `end_us`.
    pub fn parse(text: &str, end_us: u64) -> Result<Self, String> {
        if let Some(wave) = text.strip_prefix("square:") {
            return Self::square(wave, end_us);
        }
        let mut steps: Vec<(u64, u64)> = Vec::new();
        for part in text.split(',') {
            let (time, rate) =
                part.split_once(':').ok_or_else(|| format!("a step is TIME:RATE, not {part:?}"))?;
            let start_us = parse_us(time)?;
            if steps.last().is_some_and(|(last_us, _)| *last_us >= start_us) {
                return Err(format!("times must rise: {text:?}"));
            }
            steps.push((start_us, parse_bps(rate)?));
        }
        Ok(Schedule { steps })
    }

    fn square(text: &str, end_us: u64) -> Result<Self, String> {
        let fields: Vec<&str> = text.split(':').collect();
        let [low, high, period] = fields[..] else {
            return Err(format!("a square wave is LOW:HIGH:PERIOD, not {text:?}"));
        };
        let (low_bps, high_bps, period_us) = (parse_bps(low)?, parse_bps(high)?, parse_us(period)?);
        if period_us < 2 {
            return Err("the period is too short".into());
        }
        let mut steps = Vec::new();
        let mut start_us = 0;
        while start_us < end_us {
            steps.push((start_us, high_bps));
            steps.push((start_us + period_us / 2, low_bps));
            start_us += period_us;
        }
        Ok(Schedule { steps })
    }

    /// The rate at `t_us`, and the time at which it ends (`u64::MAX`: never).
    pub fn at(&self, t_us: u64) -> (u64, u64) {
        let next = self.steps.partition_point(|(start_us, _)| *start_us <= t_us);
        let rate_bps = if next == 0 { 0 } else { self.steps[next - 1].1 };
        let until_us = self.steps.get(next).map_or(u64::MAX, |step| step.0);
        (rate_bps, until_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_hold_until_the_next_one() {
        let schedule = Schedule::parse("0:0,10:70M,20:30M", 0).unwrap();
        assert_eq!(schedule.at(0), (0, 10_000_000));
        assert_eq!(schedule.at(9_999_999), (0, 10_000_000));
        assert_eq!(schedule.at(10_000_000), (70_000_000, 20_000_000));
        assert_eq!(schedule.at(99_000_000), (30_000_000, u64::MAX));
    }

    #[test]
    fn nothing_is_sent_before_the_first_step() {
        let schedule = Schedule::parse("5:1M", 0).unwrap();
        assert_eq!(schedule.at(0), (0, 5_000_000));
    }

    #[test]
    fn a_square_wave_starts_high_and_ends_with_the_run() {
        let schedule = Schedule::parse("square:1M:9M:200ms", 400_000).unwrap();
        assert_eq!(schedule.at(0), (9_000_000, 100_000));
        assert_eq!(schedule.at(100_000), (1_000_000, 200_000));
        assert_eq!(schedule.at(350_000), (1_000_000, u64::MAX));
    }

    #[test]
    fn a_schedule_that_makes_no_sense_is_refused() {
        for text in ["", "10", "0:1M,0:2M", "5:1M,2:1M", "0:1X", "square:1M:2M"] {
            assert!(Schedule::parse(text, 1_000_000).is_err(), "{text}");
        }
    }
}
