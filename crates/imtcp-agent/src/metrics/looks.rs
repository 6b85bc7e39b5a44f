// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What connections did between two looks, added up over those that have the same mode on the same word. What one did
//! after the last look before its end is not in it.
//!
//! No label comes from a peer: modes, causes and outcomes are few, and rules are bounded (`whose.rs`).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;
use imtcp_bpf::{names, shared, Record, Totals, MODES};
use prometheus::{
    CounterVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry,
};

use super::whose::Policies;

const OF_MODE: [&str; 3] = ["mode", "by", "rule"];
/// bit/s, 100 kbit/s to 10 Gbit/s: three in a decade.
const AVAILABLE_BPS: [f64; 16] =
    [1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 1e10];
/// From a fifth of a LAN's queue to bufferbloat.
const QUEUEING_S: [f64; 11] = [1e-4, 3e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.3, 1.0];

pub struct Looks {
    pub registry: Registry,
    policies: Policies,
    /// By cookie.
    seen: HashMap<u64, Record>,
    /// When the last look was; nothing before the first is counted.
    looked_ns: u64,
    totals: Totals,
    /// Those with connections at the last look.
    shown: BTreeSet<[String; 3]>,
    loaded: IntGauge,
    connections: IntGaugeVec,
    started: IntCounter,
    ended: IntCounter,
    lost: IntCounter,
    acked: IntCounterVec,
    retransmitted: IntCounterVec,
    busy: CounterVec,
    held: CounterVec,
    reductions: IntCounterVec,
    measurements: IntCounterVec,
    available: HistogramVec,
    queueing: HistogramVec,
}

impl Looks {
    pub fn new() -> Result<Self> {
        let registry = Registry::new();
        let with = |more: &'static str| [&OF_MODE[..], &[more]].concat();
        macro_rules! metric {
            ($make:expr) => {{
                let metric = $make?;
                registry.register(Box::new(metric.clone()))?;
                metric
            }};
        }
        let opts = |name: &str, help: &str| Opts::new(name, help);
        let version = metric!(IntGaugeVec::new(
            opts("imtcp_agent_build_info", "The version of imtcp-agent; always 1."),
            &["version"]
        ));
        version.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        Ok(Looks {
            loaded: metric!(IntGauge::new(
                "imtcp_loaded",
                "Are the congestion controls loaded? 1 or 0."
            )),
            connections: metric!(IntGaugeVec::new(
                opts("imtcp_connections", "Open connections on a congestion control of imtcp."),
                &OF_MODE
            )),
            started: metric!(IntCounter::new(
                "imtcp_connections_started_total",
                "Connections that began on a congestion control of imtcp."
            )),
            ended: metric!(IntCounter::new(
                "imtcp_connections_ended_total",
                "Connections that ended, or chose another control."
            )),
            lost: metric!(IntCounter::new(
                "imtcp_results_lost_total",
                "Results of measurements that nobody read in time."
            )),
            acked: metric!(IntCounterVec::new(
                opts("imtcp_acked_bytes_total", "Bytes that receivers acknowledged."),
                &OF_MODE
            )),
            retransmitted: metric!(IntCounterVec::new(
                opts("imtcp_retransmitted_bytes_total", "Bytes sent again."),
                &OF_MODE
            )),
            busy: metric!(CounterVec::new(
                opts("imtcp_busy_seconds_total", "Time in which connections had data to send."),
                &OF_MODE
            )),
            held: metric!(CounterVec::new(
                opts(
                    "imtcp_held_seconds_total",
                    "Busy time in which the mode held connections to what was free."
                ),
                &OF_MODE
            )),
            reductions: metric!(IntCounterVec::new(
                opts("imtcp_reductions_total", "Reductions of a window, by cause."),
                &with("cause")
            )),
            measurements: metric!(IntCounterVec::new(
                opts("imtcp_measurements_total", "Measurements that ended, by outcome."),
                &with("outcome")
            )),
            available: metric!(HistogramVec::new(
                HistogramOpts::new(
                    "imtcp_available_bits_per_second",
                    "Available bandwidth of a connection's path, at each look with a new valid result."
                )
                .buckets(AVAILABLE_BPS.to_vec()),
                &OF_MODE
            )),
            queueing: metric!(HistogramVec::new(
                HistogramOpts::new(
                    "imtcp_queueing_delay_seconds",
                    "Round-trip time above its least, of connections that sent since the look before."
                )
                .buckets(QUEUEING_S.to_vec()),
                &OF_MODE
            )),
            registry,
            policies: Policies::default(),
            seen: HashMap::new(),
            looked_ns: 0,
            totals: Totals::default(),
            shown: BTreeSet::new(),
        })
    }

    pub fn nothing_is_loaded(&mut self) {
        self.loaded.set(0);
        self.seen.clear();
        self.looked_ns = 0;
        self.totals = Totals::default();
        self.show(&BTreeMap::new());
    }

    pub fn look(&mut self, records: &[Record], totals: &Totals) {
        self.loaded.set(1);
        self.add_totals(totals);
        let before = std::mem::take(&mut self.seen);
        let mut open: BTreeMap<[String; 3], i64> = BTreeMap::new();
        let mut used = BTreeSet::new();
        for record in records {
            used.insert(record.policy);
            let whose = self.policies.whose(record.policy);
            let labels = [names::mode(record.mode).into(), whose.by.into(), whose.rule];
            if !self.shown.contains(&labels) && !open.contains_key(&labels) {
                self.begin(&labels);
            }
            *open.entry(labels.clone()).or_default() += 1;
            // Traffic from before the first look of all belongs to nobody.
            let is_new = self.looked_ns > 0 && record.started_ns >= self.looked_ns;
            let nothing = Record { min_rtt_us: record.min_rtt_us, ..Record::default() };
            let earlier = before.get(&record.cookie).or(is_new.then_some(&nothing));
            if let Some(earlier) = earlier {
                self.add(&labels, record, earlier);
            }
        }
        // Without a cookie one cannot be told from others.
        self.seen.extend(records.iter().filter(|r| r.cookie != 0).map(|r| (r.cookie, *r)));
        self.looked_ns = records.iter().map(|r| r.now_ns).max().unwrap_or_else(monotonic_ns);
        self.policies.retain(&used);
        self.show(&open);
    }

    /// The kernel's own counters, which begin again with each `imtcp up`.
    fn add_totals(&mut self, now: &Totals) {
        let more = |now: u64, before: u64| if now < before { now } else { now - before };
        self.started.inc_by(more(now.connections_started, self.totals.connections_started));
        self.ended.inc_by(more(now.connections_ended, self.totals.connections_ended));
        self.lost.inc_by(more(now.events_dropped, self.totals.events_dropped));
        self.totals = *now;
    }

    /// `rate()` does not see a counter's first step if that is its first value: all begin at 0.
    fn begin(&self, labels: &[String; 3]) {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        for counter in [&self.acked, &self.retransmitted] {
            counter.with_label_values(&labels);
        }
        for counter in [&self.busy, &self.held] {
            counter.with_label_values(&labels);
        }
        for cause in 0..Record::default().reductions.len() {
            let labels = [&labels[..], &[names::reduction(cause as u8)]].concat();
            self.reductions.with_label_values(&labels);
        }
        for outcome in 0..Record::default().meas_invalid.len() {
            let labels = [&labels[..], &[names::outcome(outcome as u8)]].concat();
            self.measurements.with_label_values(&labels);
        }
        self.available.with_label_values(&labels);
        self.queueing.with_label_values(&labels);
    }

    fn add(&self, labels: &[String; 3], now: &Record, before: &Record) {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let with = |more| [&labels[..], &[more]].concat();
        let acked = now.bytes_acked.saturating_sub(before.bytes_acked);
        self.acked.with_label_values(&labels).inc_by(acked);
        self.retransmitted
            .with_label_values(&labels)
            .inc_by(now.bytes_retrans.saturating_sub(before.bytes_retrans));
        let seconds = |now: u64, before: u64| now.saturating_sub(before) as f64 / 1e6;
        self.busy.with_label_values(&labels).inc_by(seconds(now.busy_us, before.busy_us));
        self.held.with_label_values(&labels).inc_by(seconds(now.yielding_us, before.yielding_us));
        let count = |counter: &IntCounterVec, name, now: u64, before: u64| {
            if now > before {
                counter.with_label_values(&with(name)).inc_by(now - before);
            }
        };
        for (i, (now, before)) in now.reductions.iter().zip(&before.reductions).enumerate() {
            count(&self.reductions, names::reduction(i as u8), *now, *before);
        }
        for (i, (now, before)) in now.meas_invalid.iter().zip(&before.meas_invalid).enumerate() {
            count(&self.measurements, names::outcome(i as u8), *now, *before);
        }
        let valid = names::outcome(shared::IMTCP_VALID as u8);
        count(&self.measurements, valid, now.meas_completed, before.meas_completed);
        if now.meas_completed > before.meas_completed && now.avail_last_bps > 0 {
            self.available.with_label_values(&labels).observe(now.avail_last_bps as f64);
        }
        if acked > 0 && now.srtt_us > 0 && now.min_rtt_us < u32::MAX && now.min_rtt_us > 0 {
            let queueing_us = now.srtt_us.saturating_sub(now.min_rtt_us);
            self.queueing.with_label_values(&labels).observe(f64::from(queueing_us) / 1e6);
        }
    }

    /// Modes and rules without a connection are shown with 0, as long as this process lives.
    fn show(&mut self, open: &BTreeMap<[String; 3], i64>) {
        self.shown.extend(open.keys().cloned());
        for labels in &self.shown {
            let count = open.get(labels).copied().unwrap_or(0);
            self.connections.with_label_values(&labels.each_ref().map(String::as_str)).set(count);
        }
        debug_assert!(self.shown.len() <= (MODES.len() + 1) * 104);
    }
}

fn monotonic_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cookie: u64, started_ns: u64, now_ns: u64, bytes_acked: u64) -> Record {
        Record {
            cookie,
            started_ns,
            now_ns,
            bytes_acked,
            mode: shared::IMTCP_MODE_BG as u8,
            ..Record::default()
        }
    }

    fn value(looks: &Looks, line: &str) -> Option<f64> {
        let mut text = Vec::new();
        let encoder = prometheus::TextEncoder::new();
        prometheus::Encoder::encode(&encoder, &looks.registry.gather(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let found =
            text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' ')?.parse().ok());
        found
    }

    const ACKED: &str = r#"imtcp_acked_bytes_total{by="program",mode="bg",rule=""}"#;
    const OPEN: &str = r#"imtcp_connections{by="program",mode="bg",rule=""}"#;

    #[test]
    fn what_was_before_the_first_look_is_not_counted_and_what_began_later_is_from_its_start() {
        let mut looks = Looks::new().unwrap();
        let totals = Totals::default();
        looks.look(&[record(1, 5, 100, 1000)], &totals);
        assert_eq!((value(&looks, ACKED), value(&looks, OPEN)), (Some(0.0), Some(1.0)));
        looks.look(&[record(1, 5, 200, 1500), record(2, 150, 200, 40)], &totals);
        assert_eq!((value(&looks, ACKED), value(&looks, OPEN)), (Some(540.0), Some(2.0)));
        looks.look(&[record(1, 5, 300, 1500)], &totals);
        looks.look(&[], &totals);
        assert_eq!((value(&looks, ACKED), value(&looks, OPEN)), (Some(540.0), Some(0.0)));
    }

    #[test]
    fn counters_only_rise_when_imtcp_is_loaded_again() {
        let mut looks = Looks::new().unwrap();
        let started = |n| Totals { connections_started: n, ..Totals::default() };
        let name = "imtcp_connections_started_total";
        looks.look(&[], &started(7));
        looks.look(&[], &started(9));
        assert_eq!(value(&looks, name), Some(9.0));
        looks.nothing_is_loaded();
        assert_eq!((value(&looks, name), value(&looks, "imtcp_loaded")), (Some(9.0), Some(0.0)));
        looks.look(&[], &started(2));
        assert_eq!((value(&looks, name), value(&looks, "imtcp_loaded")), (Some(11.0), Some(1.0)));
    }

    #[test]
    fn a_valid_result_is_observed_once_and_the_delay_of_those_that_send_each_time() {
        let mut looks = Looks::new().unwrap();
        let mut one = Record { srtt_us: 30_000, min_rtt_us: 20_000, ..record(1, 5, 100, 0) };
        looks.look(&[one], &Totals::default());
        (one.meas_completed, one.avail_last_bps, one.bytes_acked) = (2, 40_000_000, 9);
        looks.look(&[one], &Totals::default());
        looks.look(&[one], &Totals::default());
        let of =
            |name: &str| value(&looks, &format!("{name}{{by=\"program\",mode=\"bg\",rule=\"\"}}"));
        assert_eq!(of("imtcp_available_bits_per_second_sum"), Some(40e6));
        assert_eq!(of("imtcp_available_bits_per_second_count"), Some(1.0));
        assert_eq!(of("imtcp_queueing_delay_seconds_sum"), Some(0.01));
    }
}
