// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The whole advice from made histories, with values worked by hand.

mod support;
use imtcp_advice::advice::answer::{Advice, Mode, Reason, Switch, Verdict};
use imtcp_advice::advice::days::windows;
use imtcp_advice::advice::decide::{advise, fit_days, Hop, Newest, Request};
use imtcp_advice::settings::{Bound, HistorySet, Settings};
use imtcp_client::time::{MINUTE_US, SECOND_US};
use proptest::prelude::*;

use support::at;

const T0: &str = "2026-03-20T14:25:00Z";

fn settings() -> Settings {
    Settings { threshold: Bound::Bps(42e6), history: HistorySet::All, ..Settings::default() }
}

/// A hop whose past days are lines (b0 in Mbit/s, b1 in kbit/s a second), the newest day first,
/// and whose newest record is `age_s` old.
fn hop(name: &str, lines: &[(f64, f64)], age_s: i64, newest_bps: f64) -> Hop {
    hop_with(name, lines, age_s, newest_bps, 60)
}

/// The same with so many samples on the newest day.
fn hop_with(
    name: &str,
    lines: &[(f64, f64)],
    age_s: i64,
    newest_bps: f64,
    newest_day_samples: i64,
) -> Hop {
    let settings = settings();
    let t0_us = at(T0);
    let windows = windows(
        settings.history,
        &settings.time_zone().unwrap(),
        t0_us,
        i64::from(settings.horizon_s) * SECOND_US,
        t0_us - 100 * 86_400 * SECOND_US,
        lines.len(),
    );
    let count = |day| if day == 0 { newest_day_samples } else { 60 };
    let samples: Vec<Vec<_>> = (windows.iter().zip(lines).enumerate())
        .map(|(day, (window, (b0, b1)))| {
            let sample = |i: i64| {
                let bps = b0 * 1e6 + b1 * 1e3 * (i * 60) as f64;
                (window.start_us + i * MINUTE_US, bps)
            };
            (0..count(day)).map(sample).collect()
        })
        .collect();
    let days = windows.into_iter().zip(samples.iter().map(Vec::as_slice));
    let days = fit_days(days, &settings);
    let newest = Newest {
        t_us: t0_us - age_s * SECOND_US,
        available_bps: newest_bps,
        rtt_us: Some(100_000),
        congested: None,
    };
    Hop { name: name.into(), newest: Some(newest), capacity: None, days }
}

fn ask(settings: &Settings, hops: &[Hop]) -> Advice {
    let request = Request { dst: "192.0.2.7", t0_us: at(T0), ping_rtt_us: None, has_tests: false };
    advise(&request, settings, hops).unwrap()
}

const THREE_DAYS: [(f64, f64); 3] = [(40.0, -1.0), (50.0, 0.0), (60.0, 4.0)];

/// The values of `three_days_give_the_values_of_the_equations`, from samples:
/// B̂0 = 50 M, τ = 794.72 s; 10⁹ bytes at 50 Mbit/s take 160 s; 100 ms × 50 Mbit/s = 625 kB.
#[test]
fn a_free_path_gets_congestion_control_off_and_the_next_time() {
    let advice = ask(&settings(), &[hop("", &THREE_DAYS, 30, 70e6)]);
    assert_eq!((advice.verdict, advice.reason), (Verdict::Advice, Reason::Free));
    assert_eq!((advice.congestion_control, advice.mode), (Switch::Off, Mode::Measure));
    assert_eq!(advice.available_bps, Some(50_000_000));
    // B̂0 ± 2 · 10 M
    assert_eq!(advice.available_low_bps, Some(30_000_000));
    assert_eq!(advice.available_high_bps, Some(70_000_000));
    assert_eq!((advice.buffer_bytes, advice.rtt_us), (Some(625_000), Some(100_000)));
    assert!((advice.transfer_s(Some(1_000_000_000)).unwrap() - 160.0).abs() < 1e-6);
    let next_s = (advice.next_advice_at - at(T0)) as f64 / 1e6;
    assert!((next_s - 794.72).abs() < 0.01, "{next_s}");
    // The newest record is 30 s old and counts for 600 s.
    assert_eq!(advice.valid_until, at(T0) + 570 * SECOND_US);
    assert_eq!((advice.age_s, advice.sample_count), (Some(30.0), 180));
    let from = &advice.computed_from;
    assert_eq!((from.days_used, from.days[0].date), (3, jiff::civil::date(2026, 3, 19)));
    assert_eq!(from.days[1].r2, None);
    assert!((from.days[2].r2.unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn a_newest_record_below_the_threshold_keeps_congestion_control_on() {
    let advice = ask(&settings(), &[hop("", &THREE_DAYS, 30, 41e6)]);
    assert_eq!((advice.reason, advice.verdict), (Reason::Congested, Verdict::Advice));
    assert_eq!((advice.congestion_control, advice.mode), (Switch::On, Mode::Bg));
    assert_eq!(advice.available_bps, Some(50_000_000));
}

#[test]
fn a_stale_newest_record_is_no_ground_for_off() {
    for (age_s, reason) in [(600, Reason::Free), (601, Reason::Stale)] {
        let advice = ask(&settings(), &[hop("", &THREE_DAYS, age_s, 90e6)]);
        assert_eq!(advice.reason, reason, "{age_s}");
        assert_eq!(advice.congestion_control == Switch::On, reason == Reason::Stale);
        // The answer has the past days' prediction all the same.
        assert_eq!(advice.available_bps, Some(50_000_000));
    }
}

/// A fresh record may come any moment; τ is that of
/// `a_free_path_gets_congestion_control_off_and_the_next_time`.
#[test]
fn what_is_no_ground_for_a_decision_holds_for_a_minute_whatever_tau_is() {
    let share = Settings { threshold: Bound::Share(0.42), ..settings() };
    for (settings, age_s, reason) in
        [(settings(), 601, Reason::Stale), (share, 30, Reason::NoCapacity)]
    {
        let advice = ask(&settings, &[hop("", &THREE_DAYS, age_s, 90e6)]);
        assert_eq!(advice.reason, reason);
        assert_eq!(advice.valid_until, at(T0) + 60 * SECOND_US);
        let next_s = (advice.next_advice_at - at(T0)) as f64 / 1e6;
        assert!((next_s - 794.72).abs() < 0.01, "{next_s}");
    }
    for hops in [vec![], vec![hop("", &THREE_DAYS[..2], 30, 90e6)]] {
        assert_eq!(ask(&settings(), &hops).valid_until, at(T0) + 60 * SECOND_US);
    }
}

#[test]
fn congestion_is_advice_until_the_next_is_due() {
    let advice = ask(&settings(), &[hop("", &THREE_DAYS, 30, 41e6)]);
    assert_eq!(advice.valid_until, advice.next_advice_at);
}

#[test]
fn a_path_whose_days_are_alike_has_all_three_bandwidths_the_same() {
    for fraction in [2e-7, 4e-7, 6e-7, 8e-7] {
        let line = (50.0 + fraction, 0.0);
        let advice = ask(&settings(), &[hop("", &[line, line, line], 30, 90e6)]);
        let available = advice.available_bps;
        assert_eq!(advice.available_low_bps, available, "{fraction}");
        assert_eq!(advice.available_high_bps, available, "{fraction}");
    }
}

#[test]
fn without_history_the_answer_is_i_dont_know() {
    let advice = ask(&settings(), &[]);
    assert_eq!((advice.verdict, advice.reason), (Verdict::Unknown, Reason::NoHistory));
    assert_eq!((advice.congestion_control, advice.available_bps), (Switch::On, None));
    assert_eq!(advice.next_advice_at, at(T0) + 60 * SECOND_US);
}

#[test]
fn too_few_days_are_said_to_be_too_few() {
    let advice = ask(&settings(), &[hop("", &THREE_DAYS[..2], 30, 90e6)]);
    assert_eq!((advice.verdict, advice.reason), (Verdict::Unknown, Reason::TooFewDays));
    assert!(advice.because.starts_with("fewer than 3 past days have enough history"));
    assert_eq!(advice.congestion_control, Switch::On);
    assert_eq!((advice.computed_from.days_used, advice.computed_from.b0_hat_bps), (2, None));
    let fewer = Settings { min_days: 2, ..settings() };
    assert_eq!(ask(&fewer, &[hop("", &THREE_DAYS[..2], 30, 90e6)]).reason, Reason::Free);
}

#[test]
fn a_day_with_too_few_samples_does_not_count() {
    let hop = hop_with("", &THREE_DAYS, 30, 90e6, 1);
    assert_eq!(ask(&settings(), &[hop]).computed_from.days_used, 2);
}

/// The newest day has 15 samples, a minute apart: 14 minutes of an hour, and a quarter is 15.
#[test]
fn a_day_that_was_measured_for_a_sliver_of_its_window_does_not_count() {
    for (samples, days) in [(15, 2), (16, 3)] {
        let hop = hop_with("", &THREE_DAYS, 30, 90e6, samples);
        let advice = ask(&settings(), &[hop]);
        assert_eq!(advice.computed_from.days_used, days, "{samples}");
        assert_eq!(advice.reason == Reason::TooFewDays, days == 2, "{samples}");
    }
}

/// B̂0 = 50 M, σ0 = 10 M: 50 ± 20 M as the lines say.
#[test]
fn nothing_is_told_to_be_available_beyond_the_capacity() {
    for (capacity_bps, told) in [(100e6, (50, 30, 70)), (60e6, (50, 30, 60)), (25e6, (25, 25, 25))]
    {
        let settings = Settings { capacity_bps: Some(capacity_bps), ..settings() };
        let advice = ask(&settings, &[hop("", &THREE_DAYS, 30, 70e6)]);
        let (bps, low, high) =
            (advice.available_bps, advice.available_low_bps, advice.available_high_bps);
        let mbps = |bps: Option<u64>| bps.unwrap() / 1_000_000;
        assert_eq!((mbps(bps), mbps(low), mbps(high)), told);
        assert!((advice.computed_from.b0_hat_bps.unwrap() - 50e6).abs() < 1e-3);
        assert!((advice.computed_from.tau_s.unwrap() - 794.72).abs() < 0.01);
    }
}

#[test]
fn bandwidth_and_time_come_from_the_hop_with_the_least_and_any_congested_hop_decides() {
    let wide = hop("198.51.100.1", &[(90.0, 1.0), (91.0, 1.1), (92.0, 0.9)], 10, 41e6);
    let narrow = hop("198.51.100.2", &THREE_DAYS, 30, 70e6);
    let advice = ask(&settings(), &[wide, narrow]);
    assert_eq!(advice.computed_from.hop.as_deref(), Some("198.51.100.2"));
    assert_eq!(advice.available_bps, Some(50_000_000));
    assert_eq!(advice.reason, Reason::Congested);
    assert!(advice.because.contains("198.51.100.1"), "{}", advice.because);
    let from = &advice.computed_from;
    assert_eq!(from.deciding_hop.as_deref(), Some("198.51.100.1"));
    assert_eq!(from.newest_bps, Some(41_000_000));
    assert_eq!(advice.age_s, Some(30.0));
}

#[test]
fn a_relative_threshold_needs_a_capacity() {
    let share = Settings { threshold: Bound::Share(0.42), ..settings() };
    let advice = ask(&share, &[hop("", &THREE_DAYS, 30, 70e6)]);
    assert_eq!((advice.reason, advice.congestion_control), (Reason::NoCapacity, Switch::On));
    assert!(advice.because.contains("set a threshold"));
    let known = Settings { capacity_bps: Some(100e6), ..share };
    let advice = ask(&known, &[hop("", &THREE_DAYS, 30, 70e6)]);
    assert_eq!(advice.reason, Reason::Free);
    // 100 ms × 100 Mbit/s
    assert_eq!(advice.buffer_bytes, Some(1_250_000));
}

#[test]
fn the_sources_own_word_on_congestion_goes_before_the_threshold() {
    let mut hop = hop("", &THREE_DAYS, 30, 90e6);
    hop.newest.as_mut().unwrap().congested = Some(true);
    let advice = ask(&settings(), &[hop.clone()]);
    assert_eq!(advice.reason, Reason::Congested);
    assert_eq!(advice.because, "the path is congested by its source's own word");
    hop.newest = hop.newest.map(|n| Newest { congested: Some(false), available_bps: 1.0, ..n });
    let advice = ask(&settings(), &[hop]);
    assert_eq!(advice.reason, Reason::Free);
    assert_eq!(advice.because, "every newest measurement is fresh and not congested");
}

#[test]
fn a_path_that_never_changes_is_asked_about_once_a_day() {
    let advice = ask(&settings(), &[hop("", &[(50.0, 0.0); 4], 30, 90e6)]);
    assert_eq!(advice.computed_from.tau_s, None);
    assert_eq!(advice.next_advice_at, at(T0) + 86_400 * SECOND_US);
    assert_eq!(advice.valid_until, at(T0) + 570 * SECOND_US);
}

proptest! {
    #[test]
    fn off_is_only_ever_advised_on_fresh_records_above_the_threshold(
        lines in prop::collection::vec((0.0..100.0f64, -5.0..5.0f64), 0..8),
        age_s in -10i64..2000, newest_bps in 0.0..1e8f64,
    ) {
        let advice = ask(&settings(), &[hop("", &lines, age_s, newest_bps)]);
        if advice.congestion_control == Switch::Off {
            prop_assert!((-1..=600).contains(&age_s) && newest_bps >= 42e6 && lines.len() >= 3);
            prop_assert!(advice.valid_until <= at(T0) + (600 - age_s) * SECOND_US);
        }
        prop_assert!(advice.next_advice_at > at(T0));
        prop_assert!(serde_json::to_string(&advice).is_ok());
    }
}
