// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What would each predictor have said, and what came? All predict the mean available
//! bandwidth of [t0, t0 + horizon] from what was known at t0.

use imtcp_client::time::{DAY_US, HOUR_US, SECOND_US};
use jiff::tz::TimeZone;
use serde::Serialize;

use super::days::{windows, Window};
use super::decide::day_line;
use super::model::mean_and_deviation;
use crate::error::Result;
use crate::settings::{HistorySet, Settings};

/// (time, available bandwidth), in the order of time.
pub type Series = [(i64, f64)];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    pub predictor: &'static str,
    /// Predictions made, of those that could be compared.
    pub predictions: usize,
    pub possible: usize,
    /// The median of |predicted − measured| / measured. This and the next two are missing without a prediction.
    pub error_median_pct: Option<f64>,
    pub error_p90_pct: Option<f64>,
    /// Mean of predicted − measured.
    pub bias_bps: Option<f64>,
    pub error_mean_bps: Option<f64>,
    /// How often what came lay within z standard deviations of past days; `None` for predictors
    /// that tell no interval.
    pub covered_pct: Option<f64>,
}

/// What a predictor says.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Said {
    bps: f64,
    /// z standard deviations of what past days were.
    swing_bps: Option<f64>,
}

impl From<f64> for Said {
    fn from(bps: f64) -> Self {
        Said { bps, swing_bps: None }
    }
}

struct Past<'a> {
    /// What came before t0.
    series: &'a Series,
    settings: &'a Settings,
    zone: &'a TimeZone,
    t0_us: i64,
}

const TEN_MINUTES_US: i64 = HOUR_US / 6;

type Predictor = fn(&Past) -> Option<Said>;

const PREDICTORS: [(&str, Predictor); 8] = [
    ("linear, all days", |p| p.linear(HistorySet::All)),
    ("linear, week before", |p| p.linear(HistorySet::Week)),
    ("linear, same weekday", |p| p.linear(HistorySet::Weekday)),
    ("mean, same time, week before", |p| p.same_time(HistorySet::Week)),
    ("last value", |p| p.last_value().map(Said::from)),
    ("mean of the last hour", |p| p.last_hour().map(Said::from)),
    ("same time, corrected by the last hour", |p| {
        p.corrected(HistorySet::Week, HOUR_US).map(Said::from)
    }),
    ("same weekday, corrected by the last ten minutes", |p| {
        p.corrected(HistorySet::Weekday, TEN_MINUTES_US).map(Said::from)
    }),
];

/// Scores of all predictors over `steps` moments of each of the last `days` days.
pub fn backtest(series: &Series, settings: &Settings, days: u32, steps: u32) -> Result<Vec<Score>> {
    let zone = settings.time_zone()?;
    let horizon_us = i64::from(settings.horizon_s) * SECOND_US;
    let mut errors = vec![Vec::new(); PREDICTORS.len()];
    let mut possible = 0;
    if let (Some(first), Some(last)) = (series.first(), series.last()) {
        let begin = (last.0 - i64::from(days) * DAY_US).max(first.0 + DAY_US);
        let mut t0_us = begin;
        while t0_us + horizon_us <= last.0 {
            let came = mean(slice(series, t0_us, t0_us + horizon_us));
            if let Some(came) = came.filter(|c| *c > 0.0) {
                possible += 1;
                let before = &series[..series.partition_point(|s| s.0 < t0_us)];
                let past = Past { series: before, settings, zone: &zone, t0_us };
                for ((_, predict), errors) in PREDICTORS.iter().zip(&mut errors) {
                    errors.extend(predict(&past).map(|said| (said, came)));
                }
            }
            t0_us += DAY_US / i64::from(steps.max(1));
        }
    }
    Ok(PREDICTORS.iter().zip(errors).map(|((name, _), e)| score(name, &e, possible)).collect())
}

/// `pairs`: what was said, and what came.
fn score(predictor: &'static str, pairs: &[(Said, f64)], possible: usize) -> Score {
    // A line may lead below 0; the service's answer does not.
    let off = |(said, came): &(Said, f64)| said.bps.max(0.0) - came;
    let mut relative: Vec<f64> = pairs.iter().map(|p| off(p).abs() / p.1 * 100.0).collect();
    relative.sort_by(f64::total_cmp);
    let quantile = |q: f64| {
        let index = (relative.len() as f64 * q) as usize;
        relative.get(index.min(relative.len().saturating_sub(1))).copied()
    };
    let mean_of = |error: fn(f64) -> f64| {
        let sum: f64 = pairs.iter().map(|p| error(off(p))).sum();
        (!pairs.is_empty()).then(|| sum / pairs.len() as f64)
    };
    let within: Vec<bool> = pairs
        .iter()
        .filter_map(|(said, came)| Some((said.bps - came).abs() <= said.swing_bps?))
        .collect();
    let covered = within.iter().filter(|within| **within).count();
    Score {
        predictor,
        predictions: pairs.len(),
        possible,
        error_median_pct: quantile(0.5),
        error_p90_pct: quantile(0.9),
        bias_bps: mean_of(|error| error),
        error_mean_bps: mean_of(f64::abs),
        covered_pct: (!within.is_empty()).then(|| covered as f64 / within.len() as f64 * 100.0),
    }
}

/// The part of a series within [from, to].
fn slice(series: &Series, from_us: i64, to_us: i64) -> &Series {
    let from = series.partition_point(|s| s.0 < from_us);
    let to = series.partition_point(|s| s.0 <= to_us);
    &series[from..to.max(from)]
}

fn mean(of: &Series) -> Option<f64> {
    (!of.is_empty()).then(|| of.iter().map(|s| s.1).sum::<f64>() / of.len() as f64)
}

impl Past<'_> {
    fn horizon_us(&self) -> i64 {
        i64::from(self.settings.horizon_s) * SECOND_US
    }

    /// The same part of past days: `long_us` from the time of day of t0 on.
    fn windows(&self, set: HistorySet, long_us: i64) -> Vec<Window> {
        let Some(oldest) = self.series.first() else { return Vec::new() };
        let most = self.settings.max_days as usize;
        windows(set, self.zone, self.t0_us, long_us, oldest.0, most)
    }

    /// The paper's model: the mean of B̂0 + B̄1·t over the horizon, which is the mean of what each
    /// day's line says of it.
    fn linear(&self, set: HistorySet) -> Option<Said> {
        let mut days = Vec::new();
        let middle_s = f64::from(self.settings.horizon_s) / 2.0;
        for window in self.windows(set, self.horizon_us()) {
            let within = slice(self.series, window.start_us, window.end_us);
            if let Some(line) = day_line(&window, within, self.settings) {
                let fit = line.in_window(window.start_us);
                days.push(fit.b0_bps + fit.b1_bps_per_s * middle_s);
            }
        }
        self.of_days(&days)
    }

    fn same_time(&self, set: HistorySet) -> Option<Said> {
        self.usual(set, self.horizon_us())
    }

    /// The past days' bandwidth in the `long_us` from this time of day on.
    fn usual(&self, set: HistorySet, long_us: i64) -> Option<Said> {
        let of = |w: &Window| mean(slice(self.series, w.start_us, w.end_us));
        let days: Vec<_> = self.windows(set, long_us).iter().filter_map(of).collect();
        self.of_days(&days)
    }

    /// The mean of days that are enough, and how much they differ.
    fn of_days(&self, days: &[f64]) -> Option<Said> {
        if days.len() < self.settings.min_days as usize {
            return None;
        }
        let (bps, deviation_bps) = mean_and_deviation(days.iter().copied());
        Some(Said { bps, swing_bps: Some(self.settings.z * deviation_bps) })
    }

    fn last_value(&self) -> Option<f64> {
        self.series.last().filter(|last| self.t0_us - last.0 <= HOUR_US).map(|last| last.1)
    }

    fn last_hour(&self) -> Option<f64> {
        mean(slice(self.series, self.t0_us - HOUR_US, self.t0_us))
    }

    /// The same time of past days, and half of what the time just past, so long, differed from theirs.
    fn corrected(&self, set: HistorySet, past_us: i64) -> Option<f64> {
        let earlier = Past { t0_us: self.t0_us - past_us, ..*self };
        let usual_bps = earlier.usual(set, past_us)?.bps;
        let was_bps = mean(slice(self.series, earlier.t0_us, self.t0_us))?;
        Some(self.same_time(set)?.bps + (was_bps - usual_bps) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty days of minutes: a daily wave about 50 Mbit/s.
    fn wave(noise: impl Fn(i64) -> f64) -> Vec<(i64, f64)> {
        let at = |i: i64| {
            let phase = (i % 1440) as f64 / 1440.0 * std::f64::consts::TAU;
            (i * 60 * SECOND_US, 50e6 + 20e6 * phase.sin() + noise(i))
        };
        (0..20 * 1440).map(at).collect()
    }

    fn of<'s>(scores: &'s [Score], name: &str) -> &'s Score {
        scores.iter().find(|s| s.predictor.contains(name)).unwrap()
    }

    #[test]
    fn a_daily_shape_is_predicted_by_its_past_and_not_by_the_last_value() {
        let scores = backtest(&wave(|_| 0.0), &Settings::default(), 7, 24).unwrap();
        let linear = of(&scores, "linear, week");
        assert!(linear.error_median_pct.unwrap() < 1.0, "{linear:?}");
        assert!(linear.bias_bps.unwrap().abs() < 1e5, "{linear:?}");
        assert_eq!(linear.predictions, linear.possible);
        assert!(of(&scores, "last value").error_median_pct.unwrap() > 3.0);
    }

    /// Days differ by up to 5 Mbit/s either way, evenly: σ is 2.9, so that twice that holds all.
    #[test]
    fn an_interval_covers_days_like_the_past_ones_and_not_an_odd_one() {
        let days = |i: i64| (i / 1440 * 7 % 11 - 5) as f64 * 1e6;
        let scores = backtest(&wave(days), &Settings::default(), 7, 24).unwrap();
        assert_eq!(of(&scores, "linear, all").covered_pct, Some(100.0));
        assert_eq!(of(&scores, "last value").covered_pct, None);
        let odd = |i: i64| if i / 1440 == 19 { -20e6 } else { 0.0 };
        let scores = backtest(&wave(odd), &Settings::default(), 1, 24).unwrap();
        assert!(of(&scores, "linear, all").covered_pct.unwrap() < 20.0, "{scores:?}");
    }

    #[test]
    fn a_day_unlike_the_others_is_predicted_better_with_the_last_hour() {
        let odd_days = |i: i64| if i / 1440 % 5 == 4 { -20e6 } else { 0.0 };
        let scores = backtest(&wave(odd_days), &Settings::default(), 10, 24).unwrap();
        let (plain, better) = (of(&scores, "mean, same time"), of(&scores, "the last hour"));
        assert!(better.error_mean_bps < plain.error_mean_bps, "{better:?} {plain:?}");
    }

    /// Weekends lie 20 Mbit/s lower, which the weekday tells, and the last day 10 Mbit/s, of which the
    /// last ten minutes make up for half.
    #[test]
    fn the_last_ten_minutes_make_up_for_half_of_what_the_weekday_does_not_tell() {
        let level = |i: i64| match i / 1440 {
            day if day % 7 < 2 => -20e6,
            47 => -10e6,
            _ => 0.0,
        };
        let at = |i: i64| (i * 60 * SECOND_US, 50e6 + level(i));
        let series: Vec<_> = (0..48 * 1440).map(at).collect();
        let scores = backtest(&series, &Settings::default(), 1, 24).unwrap();
        let error = |name: &str| of(&scores, name).error_mean_bps.unwrap();
        assert!((error("linear, same weekday") - 10e6).abs() < 1e4, "{scores:?}");
        // The first moment has no ten minutes of the odd day before it.
        let ten_minutes = error("last ten minutes");
        assert!((5e6..5.3e6).contains(&ten_minutes), "{ten_minutes}");
    }

    #[test]
    fn nothing_is_predicted_from_nothing() {
        let scores = backtest(&[], &Settings::default(), 7, 24).unwrap();
        assert!(scores.iter().all(|s| s.possible == 0 && s.predictions == 0));
        assert!(scores.iter().all(|s| s.error_median_pct.is_none() && s.bias_bps.is_none()));
    }
}
