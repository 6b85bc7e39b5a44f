// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The line at the end of a run.

use imtcp_bpf::{Policy, Record};
use serde_json::json;

use crate::format;
use crate::policy::{Limits, Mode};

/// Round trips below this are too short to measure in: IMTCP_SHORT_RTT_US of
/// core/include/imtcp/meas_state.h (a test compares), here for the text alone.
const SHORT_RTT_US: u64 = 1000;

/// What ended a run's mode before the run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TakenAway {
    /// `imtcp down`.
    Down,
    /// `imtcp up` without `--allow-nocc`.
    Nocc,
}

pub struct Summary {
    mode: Mode,
    limits: Limits,
    elapsed_us: u64,
    /// Its mode was ended from outside, at a time that is not known: the figures are up to then.
    pub taken_away: Option<TakenAway>,
    connections: u64,
    /// Made by the command, and counted by an `imtcp run` or `attach` inside.
    inner_connections: u64,
    bytes_acked: u64,
    /// Written by the command and not acknowledged yet.
    queued_bytes: u64,
    busy_us: u64,
    yielding_us: u64,
    min_rtt_us: Option<u64>,
    available: Option<Available>,
}

/// Of the valid results of all connections.
#[derive(Clone, Copy)]
struct Available {
    results: u64,
    mean_bps: u64,
    min_bps: u64,
    max_bps: u64,
}

impl Summary {
    pub fn new(mode: Mode, orders: &Policy, elapsed_us: u64) -> Self {
        Summary {
            mode,
            limits: Limits::of(orders),
            elapsed_us,
            taken_away: None,
            connections: 0,
            inner_connections: 0,
            bytes_acked: 0,
            queued_bytes: 0,
            busy_us: 0,
            yielding_us: 0,
            min_rtt_us: None,
            available: None,
        }
    }

    /// Of connections that have ended, and results of all.
    pub fn add_ended(&mut self, p: &Policy) {
        self.connections += p.ended_conns;
        self.inner_connections += p.inner_conns;
        self.bytes_acked += p.ended_bytes_acked;
        self.busy_us += p.ended_busy_us;
        self.yielding_us += p.ended_yielding_us;
        self.saw_rtt(p.ended_min_rtt_us);
        self.available = p.avail_sum_kbps.checked_div(p.avail_count).map(|mean_kbps| Available {
            results: p.avail_count,
            mean_bps: mean_kbps * 1000,
            min_bps: p.avail_min_bps,
            max_bps: p.avail_max_bps,
        });
    }

    pub fn add_open(&mut self, r: &Record) {
        self.connections += 1;
        self.bytes_acked += r.bytes_acked.saturating_sub(r.bytes_acked_before);
        self.queued_bytes += u64::from(r.queued_bytes);
        self.busy_us += r.busy_us;
        self.yielding_us += r.yielding_us;
        self.saw_rtt(r.min_rtt_us.into());
    }

    /// 0: it saw none.
    fn saw_rtt(&mut self, min_rtt_us: u64) {
        if min_rtt_us > 0 {
            self.min_rtt_us = Some(self.min_rtt_us.map_or(min_rtt_us, |us| us.min(min_rtt_us)));
        }
    }

    fn mean_bps(&self) -> Option<u64> {
        let bits = u128::from(self.bytes_acked) * 8;
        let mean = (bits * 1_000_000 / u128::from(self.elapsed_us.max(1))) as u64;
        self.taken_away.is_none().then_some(mean)
    }

    /// Only `bg` says when it holds the window back; the other modes' yielding is not counted.
    fn yielding_us(&self) -> Option<u64> {
        (self.mode == Mode::Bg).then_some(self.yielding_us)
    }

    fn yielded_pct(&self) -> Option<u64> {
        let yielding_us = self.yielding_us()?;
        (self.busy_us > 0).then(|| (yielding_us * 100 / self.busy_us).min(100))
    }

    pub fn line(&self) -> String {
        let until = match self.taken_away {
            None => "",
            Some(TakenAway::Down) => "taken down during the run; until then ",
            Some(TakenAway::Nocc) => "mode nocc was taken away during the run; until then ",
        };
        if self.connections == 0 {
            let none = format!("imtcp: {until}the command had no TCP connections");
            return match self.inner() {
                Some(inner) => format!("{none} of its own; {inner}"),
                None => none,
            };
        }
        let sent = format::bytes(self.bytes_acked);
        let sent = match self.mean_bps() {
            Some(mean) => {
                let elapsed = format::micros(self.elapsed_us);
                format!("{sent} sent in {elapsed}, mean {}{}", format::rate(mean), self.limits())
            }
            None => format!("{sent} sent"),
        };
        let queued = (self.queued_bytes > 0)
            .then(|| format!("{} more still on their way", format::bytes(self.queued_bytes)));
        let yielded = self
            .yielding_us()
            .map(|_| format!("yielded {} % of the time", self.yielded_pct().unwrap_or(0)));
        let parts = [Some(sent), queued, Some(self.available()), yielded, self.inner()];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        format!("imtcp: {until}{}", parts.join("; "))
    }

    fn limits(&self) -> String {
        if self.limits == Limits::default() {
            return String::new();
        }
        format!(" ({})", self.limits)
    }

    fn available(&self) -> String {
        let Some(a) = self.available else {
            return format!("available bandwidth not measured{}", self.why_not_measured());
        };
        let seen = match a.results {
            1 => "one result".into(),
            _ => format!("{}–{}", format::rate_short(a.min_bps), format::rate_short(a.max_bps)),
        };
        format!("available {} ({seen})", format::rate(a.mean_bps))
    }

    /// In parentheses, where it is known.
    fn why_not_measured(&self) -> String {
        match self.min_rtt_us {
            _ if !self.mode.measures() => format!(" (mode {} does not)", self.mode.name()),
            Some(rtt_us) if rtt_us < SHORT_RTT_US => {
                format!(" (a round trip of {} is too short)", format::micros(rtt_us))
            }
            _ if self.limits.max_bps.is_some() => {
                " (what --max-rate lets by may be too little for it)".into()
            }
            _ => String::new(),
        }
    }

    fn inner(&self) -> Option<String> {
        (self.inner_connections > 0).then(|| {
            let inner = format::count(self.inner_connections, "connection");
            format!("{inner} counted by `imtcp run` or `attach` inside")
        })
    }

    pub fn json(&self) -> serde_json::Value {
        json!({
            "mode": self.mode,
            "min_bps": self.limits.min_bps,
            "max_bps": self.limits.max_bps,
            "elapsed_us": self.elapsed_us,
            "taken_down": self.taken_away == Some(TakenAway::Down),
            "taken_away": self.taken_away == Some(TakenAway::Nocc),
            "connections": self.connections,
            "inner_connections": self.inner_connections,
            "bytes_acked": self.bytes_acked,
            "queued_bytes": self.queued_bytes,
            "mean_bps": self.mean_bps(),
            "avail_results": self.available.map_or(0, |a| a.results),
            "avail_mean_bps": self.available.map(|a| a.mean_bps),
            "avail_min_bps": self.available.map(|a| a.min_bps),
            "avail_max_bps": self.available.map(|a| a.max_bps),
            "min_rtt_us": self.min_rtt_us,
            "busy_us": self.busy_us,
            "yielding_us": self.yielding_us(),
            "yielded_pct": self.yielded_pct(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Summary {
        Summary::new(Mode::Bg, &Policy::default(), 2_000_000)
    }

    fn measured() -> Summary {
        Summary {
            connections: 2,
            bytes_acked: 12_500_000,
            busy_us: 1_000_000,
            yielding_us: 250_000,
            available: Some(Available {
                results: 7,
                mean_bps: 60_000_000,
                min_bps: 10_000_000,
                max_bps: 90_000_000,
            }),
            ..nothing()
        }
    }

    #[test]
    fn the_line_tells_bytes_rate_available_and_yielding() {
        assert_eq!(
            measured().line(),
            "imtcp: 12.5 MB sent in 2.00 s, mean 50.0 Mbit/s; \
             available 60.0 Mbit/s (10.0M–90.0M); yielded 25 % of the time"
        );
        assert_eq!(measured().json()["yielded_pct"], 25);
    }

    #[test]
    fn a_single_result_is_not_told_as_a_range() {
        let mut s = measured();
        s.add_ended(&Policy {
            avail_count: 1,
            avail_sum_kbps: 9_090,
            avail_min_bps: 9_090_000,
            avail_max_bps: 9_090_000,
            ..Default::default()
        });
        assert!(s.line().contains("; available 9.09 Mbit/s (one result); "), "{}", s.line());
        assert_eq!(s.json()["avail_results"], 1);
    }

    #[test]
    fn a_mode_of_which_yielding_is_not_counted_does_not_say_that_it_never_yielded() {
        let lp = Summary { mode: Mode::Lp, yielding_us: 0, ..measured() };
        assert!(!lp.line().contains("yielded"), "{}", lp.line());
        assert!(lp.json()["yielded_pct"].is_null() && lp.json()["yielding_us"].is_null());
        let bg = Summary { yielding_us: 0, ..measured() };
        assert!(bg.line().ends_with("; yielded 0 % of the time"), "{}", bg.line());
    }

    #[test]
    fn limits_are_told_in_bits_per_second() {
        let s =
            Summary { limits: Limits { max_bps: Some(80_000_000), min_bps: None }, ..measured() };
        assert!(s.line().contains("mean 50.0 Mbit/s (at most 80.0 Mbit/s); "), "{}", s.line());
        assert_eq!(s.json()["max_bps"], 80_000_000);
    }

    #[test]
    fn what_is_still_on_its_way_is_told() {
        let mut s = measured();
        s.add_open(&Record { bytes_acked: 100, queued_bytes: 200_000, ..Default::default() });
        let line = s.line();
        assert!(line.contains("mean 50.0 Mbit/s; 200 kB more still on their way; "), "{line}");
        assert_eq!(s.json()["queued_bytes"], 200_000);
    }

    #[test]
    fn bytes_from_before_the_present_control_are_counted_once() {
        let ended = Policy { ended_bytes_acked: 700, ..Default::default() };
        let open = Record { bytes_acked: 1000, bytes_acked_before: 700, ..Default::default() };
        let mut s = nothing();
        s.add_ended(&ended);
        s.add_open(&open);
        assert_eq!((s.connections, s.bytes_acked), (1, 1000));
    }

    #[test]
    fn why_nothing_was_measured_is_told_where_it_is_known() {
        let mut lan = Summary { connections: 1, ..nothing() };
        assert!(lan.line().contains("available bandwidth not measured; "), "{}", lan.line());
        lan.saw_rtt(210);
        let told = "available bandwidth not measured (a round trip of 210 µs is too short)";
        assert!(lan.line().contains(told), "{}", lan.line());
        let capped = Summary {
            limits: Limits { max_bps: Some(5_000_000), min_bps: None },
            min_rtt_us: Some(20_000),
            connections: 1,
            ..nothing()
        };
        let told = "not measured (what --max-rate lets by may be too little for it)";
        assert!(capped.line().contains(told), "{}", capped.line());
        lan.mode = Mode::Lp;
        assert!(lan.line().contains("not measured (mode lp does not)"), "{}", lan.line());
        let measured = Summary { min_rtt_us: Some(210), ..measured() };
        assert!(measured.line().contains("available 60.0 Mbit/s"), "{}", measured.line());
    }

    #[test]
    fn a_round_trip_is_too_short_where_the_core_finds_it_so() {
        let core = include_str!("../../../../../core/include/imtcp/meas_state.h");
        let line = format!("#define IMTCP_SHORT_RTT_US {SHORT_RTT_US}U\n");
        assert!(core.contains(&line), "not in meas_state.h: {line}");
    }

    #[test]
    fn a_run_that_imtcp_did_not_last_for_has_no_mean() {
        let s = Summary {
            taken_away: Some(TakenAway::Down),
            connections: 1,
            bytes_acked: 9,
            ..nothing()
        };
        let line = s.line();
        assert!(line.starts_with("imtcp: taken down during the run; until then 9 bytes sent; "));
        assert!(s.json()["mean_bps"].is_null(), "when it ended is not known");
        let line = Summary { taken_away: Some(TakenAway::Nocc), ..s }.line();
        assert!(line.starts_with("imtcp: mode nocc was taken away during the run; until then 9 "));
    }

    #[test]
    fn nothing_sent_is_said_so() {
        assert_eq!(nothing().line(), "imtcp: the command had no TCP connections");
        assert!(nothing().json()["avail_mean_bps"].is_null());
    }

    #[test]
    fn connections_of_a_run_inside_are_told() {
        let s = Summary { inner_connections: 3, ..nothing() };
        assert_eq!(
            s.line(),
            "imtcp: the command had no TCP connections of its own; \
             3 connections counted by `imtcp run` or `attach` inside"
        );
        let s = Summary { inner_connections: 1, ..measured() };
        assert!(s.line().ends_with("; 1 connection counted by `imtcp run` or `attach` inside"));
    }
}
