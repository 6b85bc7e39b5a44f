// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Putting it together: the hop with the least bandwidth, the newest record of every hop,
//! the answer [EN §3.3.1].

use std::net::IpAddr;

use imtcp_client::time::{format, last_us, SECOND_US};
use jiff::Timestamp;

use super::answer::{Advice, Basis, Day, Days, Mode, Reason, Switch};
use super::capacity::Capacity;
use super::days::Window;
use super::fit::DayLine;
use super::model::{estimate, Estimate, Line};
use crate::error::Result;
use crate::settings::Settings;

/// Everything known of one hop. The path as a whole is a hop without name.
#[derive(Clone, Debug, Default)]
pub struct Hop {
    pub name: String,
    pub newest: Option<Newest>,
    /// As its records told it.
    pub capacity: Option<Capacity>,
    /// Of [`fit_days`].
    pub days: Days,
}

/// A hop's newest record at the request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Newest {
    pub t_us: i64,
    pub available_bps: f64,
    pub rtt_us: Option<u64>,
    /// The source's own word; otherwise the threshold decides.
    pub congested: Option<bool>,
}

#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub dst: &'a str,
    pub t0_us: i64,
    /// RTT of a ping, at the request or fresh from active tests, for paths whose records of
    /// bandwidth do not tell it.
    pub ping_rtt_us: Option<u64>,
    /// Are there active tests of the path? They are no history of available bandwidth.
    pub has_tests: bool,
}

/// When nothing tells when to ask again, and as long as an answer that is no ground for a decision
/// holds: what it lacks may come with the next record.
const RETRY_S: f64 = 60.0;

pub const METHOD: &str = "linear, same time of day";

/// A hop and what follows from its lines.
struct Estimated<'a> {
    hop: &'a Hop,
    estimate: Option<Estimate>,
}

pub fn advise(request: &Request, settings: &Settings, hops: &[Hop]) -> Result<Advice> {
    let estimated: Vec<_> = hops.iter().map(|hop| estimate_hop(hop, settings)).collect();
    let least = estimated
        .iter()
        .filter_map(|f| Some((f, f.estimate?)))
        .min_by(|a, b| a.1.b0_hat_bps.total_cmp(&b.1.b0_hat_bps));
    // Without an estimate, tell of the hop that has the most.
    let shown = least.map(|l| l.0).or(estimated.iter().max_by_key(|f| f.hop.days.len()));
    let estimate = least.map(|l| l.1);
    let deciding = hops.iter().max_by_key(|hop| gravity(hop, request.t0_us, settings));
    // One hop without enough days leaves the least bandwidth unknown.
    let enough = !estimated.is_empty() && estimated.iter().all(|f| f.estimate.is_some());
    let reason = reason(request.t0_us, settings, hops, enough);
    let on = reason != Reason::Free;

    let capacity_bps = shown.and_then(|f| capacity(f.hop, settings));
    // A capacity that is set needs no records.
    let told_capacity =
        shown.and_then(|f| f.hop.capacity).filter(|_| settings.capacity_bps.is_none());
    let rtt_us = hops
        .iter()
        .filter(|h| h.name.is_empty())
        .chain(hops)
        .find_map(|h| h.newest.and_then(|n| n.rtt_us))
        .or(request.ping_rtt_us);
    let available_bps = estimate.map(|e| e.b0_hat_bps.max(0.0));
    // A line may lead beyond what the path can carry.
    let told = |bps: f64| capacity_bps.map_or(bps, |most| bps.min(most)).max(0.0).round() as u64;
    let swing_bps = estimate.map(|e| settings.z * e.b0_sigma_bps);
    let tau_s = estimate.map(|e| {
        let (least, most) = (f64::from(settings.next_min_s), f64::from(settings.next_max_s));
        e.tau_s.unwrap_or(most).clamp(least, most)
    });
    let next_us = request.t0_us + (tau_s.unwrap_or(RETRY_S) * SECOND_US as f64) as i64;
    let holds_until_us = match reason {
        // Off is only as good as the newest record: it ends when that is no longer fresh.
        Reason::Free => oldest_newest(hops)
            .map_or(next_us, |t_us| t_us + i64::from(settings.freshness_s) * SECOND_US),
        Reason::Congested => next_us,
        _ => request.t0_us + (RETRY_S * SECOND_US as f64) as i64,
    };
    let newest = deciding.and_then(|h| h.newest);

    Ok(Advice {
        dst: request.dst.into(),
        at: request.t0_us,
        verdict: reason.verdict(),
        reason,
        because: because(request, reason, settings, deciding),
        congestion_control: if on { Switch::On } else { Switch::Off },
        mode: if on { Mode::Bg } else { Mode::Measure },
        buffer_bytes: rtt_us
            .zip(capacity_bps.or(available_bps))
            .map(|(rtt, bps)| (rtt as f64 * bps / 8e6).ceil() as u64),
        rtt_us,
        available_bps: available_bps.map(told),
        available_low_bps: available_bps.zip(swing_bps).map(|(b, s)| told(b - s)),
        available_high_bps: available_bps.zip(swing_bps).map(|(b, s)| told(b + s)),
        age_s: oldest_newest(hops).map(|t| (request.t0_us - t) as f64 / 1e6),
        sample_count: shown.map_or(0, |f| f.hop.days.iter().map(|d| u64::from(d.samples)).sum()),
        method: METHOD.into(),
        valid_until: holds_until_us.min(next_us).min(last_us()),
        next_advice_at: next_us.min(last_us()),
        computed_from: Basis {
            hop: shown.map(|f| f.hop.name.clone()),
            hops: hops.len() as u32,
            deciding_hop: deciding.map(|h| h.name.clone()),
            history: settings.history,
            zone: settings.zone.clone(),
            local_time: local_time(request.t0_us, settings)?,
            horizon_s: settings.horizon_s,
            days_used: shown.map_or(0, |f| f.hop.days.len() as u32),
            b0_hat_bps: estimate.map(|e| e.b0_hat_bps),
            b0_sigma_bps: estimate.map(|e| e.b0_sigma_bps),
            b1_mean_bps_per_s: estimate.map(|e| e.b1_mean_bps_per_s),
            sigma_bps_per_s: estimate.map(|e| e.b1_sigma_bps_per_s),
            z: settings.z,
            s_bps_per_s: estimate.map(|e| e.s_bps_per_s),
            epsilon_bps: estimate.map(|e| e.epsilon_bps),
            tau_s: estimate.and_then(|e| e.tau_s),
            threshold_bps: deciding.and_then(|h| settings.threshold.bps(capacity(h, settings))),
            capacity_bps,
            capacity_records: told_capacity.map(|c| c.records),
            capacity_from: told_capacity.map(|c| format(c.from_us)),
            capacity_to: told_capacity.map(|c| format(c.to_us)),
            newest_bps: newest.map(|n| n.available_bps.round() as u64),
            newest_at: newest.map(|n| format(n.t_us)),
            days: shown.map(|f| f.hop.days.clone()).unwrap_or_default(),
        },
    })
}

/// The lines of past days, each through (time, available bandwidth) in its window.
pub fn fit_days<'a>(
    days: impl IntoIterator<Item = (Window, &'a [(i64, f64)])>,
    settings: &Settings,
) -> Days {
    let line =
        |(window, samples): (Window, _)| Some((window, day_line(&window, samples, settings)?));
    days_of(days.into_iter().filter_map(line))
}

/// A day whose window is not covered has none, and does not count.
pub fn day_line(window: &Window, samples: &[(i64, f64)], settings: &Settings) -> Option<DayLine> {
    window.is_covered(samples, settings).then(|| DayLine::through(samples)).flatten()
}

/// Lines, each in its window.
pub fn days_of(lines: impl IntoIterator<Item = (Window, DayLine)>) -> Days {
    let day = |(window, line): (Window, DayLine)| {
        let fit = line.in_window(window.start_us);
        Day {
            date: window.day,
            from: window.start_us,
            samples: fit.samples as u32,
            b0_bps: fit.b0_bps,
            b1_bps_per_s: fit.b1_bps_per_s,
            r2: fit.r2,
        }
    };
    lines.into_iter().map(day).collect::<Vec<_>>().into()
}

fn estimate_hop<'a>(hop: &'a Hop, settings: &Settings) -> Estimated<'a> {
    let line = |d: &Day| Line { b0_bps: d.b0_bps, b1_bps_per_s: d.b1_bps_per_s };
    let lines: Vec<_> = hop.days.iter().map(line).collect();
    let enough = lines.len() >= settings.min_days as usize;
    let estimate = enough.then(|| estimate(&lines, settings.z, settings.epsilon)).flatten();
    Estimated { hop, estimate }
}

/// Whether congestion control may be off: step 5 of the algorithm, the safe answer first.
fn reason(t0_us: i64, settings: &Settings, hops: &[Hop], enough_days: bool) -> Reason {
    let gravest = hops.iter().map(|hop| gravity(hop, t0_us, settings)).max();
    match gravest {
        None | Some(Gravity::Nothing) => Reason::NoHistory,
        Some(Gravity::Stale) => Reason::Stale,
        Some(_) if !enough_days => Reason::TooFewDays,
        Some(Gravity::Congested) => Reason::Congested,
        Some(Gravity::NoCapacity) => Reason::NoCapacity,
        Some(Gravity::Free) => Reason::Free,
    }
}

/// How much speaks against switching off at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gravity {
    Free,
    NoCapacity,
    Congested,
    Stale,
    Nothing,
}

fn gravity(hop: &Hop, t0_us: i64, settings: &Settings) -> Gravity {
    let Some(newest) = hop.newest.filter(|n| n.t_us <= t0_us) else {
        return Gravity::Nothing;
    };
    if t0_us - newest.t_us > i64::from(settings.freshness_s) * SECOND_US {
        return Gravity::Stale;
    }
    let threshold_bps = settings.threshold.bps(capacity(hop, settings));
    match (newest.congested, threshold_bps) {
        (Some(true), _) => Gravity::Congested,
        (Some(false), _) => Gravity::Free,
        (None, None) => Gravity::NoCapacity,
        (None, Some(threshold)) if newest.available_bps < threshold => Gravity::Congested,
        (None, Some(_)) => Gravity::Free,
    }
}

fn capacity(hop: &Hop, settings: &Settings) -> Option<f64> {
    settings.capacity_bps.or(hop.capacity.map(|c| c.bps))
}

fn oldest_newest(hops: &[Hop]) -> Option<i64> {
    hops.iter().filter_map(|h| h.newest).map(|n| n.t_us).min()
}

fn because(
    request: &Request,
    reason: Reason,
    settings: &Settings,
    deciding: Option<&Hop>,
) -> String {
    let hop = deciding.map(|h| h.name.as_str()).filter(|n| !n.is_empty());
    let of = hop.map_or_else(|| "the path".to_string(), |name| format!("hop {name}"));
    match reason {
        Reason::Free => "every newest measurement is fresh and not congested".into(),
        Reason::Congested if deciding.and_then(|h| h.newest?.congested).is_some() => {
            format!("{of} is congested by its source's own word")
        }
        Reason::Congested => format!("{of} has less available bandwidth than the threshold"),
        Reason::NoHistory if request.has_tests => {
            "there is no history of available bandwidth of this destination, only active tests, \
             which tell none"
                .into()
        }
        Reason::NoHistory if request.dst.parse::<IpAddr>().is_err() => {
            "there is no history of this name; agents report addresses: ask for its address".into()
        }
        Reason::NoHistory => "there is no history of this destination".into(),
        Reason::Stale => format!(
            "the newest measurement of {of} is too old to go by, more than {} s",
            settings.freshness_s
        ),
        Reason::TooFewDays => {
            format!(
                "fewer than {} past days have enough history at this time of day \
                 (settings min_samples and min_span_pct)",
                settings.min_days
            )
        }
        Reason::NoCapacity => format!(
            "the threshold is a share of the capacity, and that of {of} is not known: \
             set a threshold in bit/s, or the capacity"
        ),
    }
}

fn local_time(t_us: i64, settings: &Settings) -> Result<String> {
    let zone = settings.time_zone()?;
    let time = Timestamp::from_microsecond(t_us)
        .map_err(|_| crate::error::Error::Input("that time is out of range".into()))?;
    Ok(time.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
}
