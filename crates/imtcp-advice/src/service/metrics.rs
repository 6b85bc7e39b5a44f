// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What Prometheus scrapes: docs/how-to/advice-monitoring.md has a line for each metric.
//!
//! Every label that is known beforehand is there from the start, at 0: `rate()` does not see a
//! counter's first step if the step is also its first value. No label comes from a request's text,
//! so that no client can make new series.

use std::time::Duration;

use imtcp_client::time::{now_us, SECOND_US};
use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Encoder, Gauge, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
    TextEncoder,
};

use crate::advice::answer::{Advice, Reason};
use crate::store::maintain::Maintained;
use crate::store::size::Size;

/// Why a connection is refused before it has a request. [`Refusal`] is for requests.
const REFUSED_CONNECTIONS: [&str; 2] = ["connections", "tls"];
/// Outcomes of a batch of reports.
const BATCH_OUTCOMES: [&str; 4] = ["stored", "duplicate", "busy", "failed"];
/// A roll-up changes records in these ways.
const ROLL_UP_CHANGES: [&str; 2] = ["rolled_up", "removed"];
/// Seconds; the bounds lie around a median of 0.1 ms and a worst case of 1 s.
const ADVICE_BUCKETS_S: [f64; 10] = [1e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.25, 1.0];

/// Why the gate refuses a request by its head: the label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Host,
    Origin,
    Rate,
    NoToken,
    WrongToken,
    Type,
    Length,
}

impl Refusal {
    pub const ALL: [Refusal; 7] = [
        Refusal::Host,
        Refusal::Origin,
        Refusal::Rate,
        Refusal::NoToken,
        Refusal::WrongToken,
        Refusal::Type,
        Refusal::Length,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Refusal::Host => "host",
            Refusal::Origin => "origin",
            Refusal::Rate => "rate",
            Refusal::NoToken => "no_token",
            Refusal::WrongToken => "wrong_token",
            Refusal::Type => "type",
            Refusal::Length => "length",
        }
    }
}

pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    failed_requests: IntCounter,
    pub advice_seconds: Histogram,
    answers: IntCounterVec,
    pub records: IntCounter,
    pub batches: IntCounterVec,
    pub refused: IntCounterVec,
    pub refused_records: IntCounter,
    pub connections: IntGauge,
    pub queue_records: IntGauge,
    pub queue_limit_records: IntGauge,
    history_up: IntGauge,
    history_bytes: IntGauge,
    history_paths: IntGauge,
    history_series: IntGauge,
    roll_up_end: Gauge,
    roll_up_duration: Gauge,
    roll_up_failed: IntGauge,
    roll_up_records: IntCounterVec,
    certificate_expiry: IntGauge,
}

impl Metrics {
    /// `routes` are the patterns that requests can have.
    pub fn new(routes: &[String]) -> prometheus::Result<Self> {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, label: &str, values: &[&str]| {
            let all = IntCounterVec::new(opts(name, help), &[label])?;
            for value in values {
                all.with_label_values(&[value]);
            }
            register(&registry, all)
        };
        let counter =
            |name: &str, help: &str| register(&registry, IntCounter::with_opts(opts(name, help))?);
        let gauge =
            |name: &str, help: &str| register(&registry, IntGauge::with_opts(opts(name, help))?);
        let real =
            |name: &str, help: &str| register(&registry, Gauge::with_opts(opts(name, help))?);
        let requests = IntCounterVec::new(
            opts("requests_total", "Requests answered, by route pattern and status"),
            &["route", "status"],
        )?;
        for route in routes {
            requests.with_label_values(&[route.as_str(), "200"]);
        }
        let seconds = HistogramOpts::new("imtcp_advice_seconds", "Time to an advice, in seconds");
        let seconds = Histogram::with_opts(seconds.buckets(ADVICE_BUCKETS_S.to_vec()))?;
        let refusals: Vec<_> =
            Refusal::ALL.map(Refusal::label).into_iter().chain(REFUSED_CONNECTIONS).collect();
        let reasons = Reason::ALL.map(reason_name);
        let reasons: Vec<_> = reasons.iter().map(String::as_str).collect();
        let version = opts("build_info", "1, with the version as a label")
            .const_label("version", env!("CARGO_PKG_VERSION"));
        register(&registry, IntGauge::with_opts(version)?)?.set(1);
        registry.register(Box::new(ProcessCollector::for_self()))?;
        Ok(Metrics {
            requests: register(&registry, requests)?,
            failed_requests: counter(
                "failed_requests_total",
                "Requests answered with a status of 500 or more",
            )?,
            advice_seconds: register(&registry, seconds)?,
            answers: counters("answers_total", "Advice given, by reason", "reason", &reasons)?,
            records: counter("records_total", "Records stored")?,
            batches: counters(
                "batches_total",
                "Batches of reports, by outcome",
                "outcome",
                &BATCH_OUTCOMES,
            )?,
            refused: counters(
                "refused_total",
                "Requests refused by their head, and connections without a request, by reason",
                "why",
                &refusals,
            )?,
            refused_records: counter(
                "refused_records_total",
                "Records left out: their path or series would be one more than the service keeps",
            )?,
            connections: gauge("connections", "Open connections")?,
            queue_records: gauge("queue_records", "Records that wait for the disk")?,
            queue_limit_records: gauge(
                "queue_limit_records",
                "Records that may wait for the disk at most",
            )?,
            history_up: gauge("history_up", "1 if the last look at the history succeeded")?,
            history_bytes: gauge("history_bytes", "Size of the history on disk")?,
            history_paths: gauge("history_paths", "Paths with history")?,
            history_series: gauge("history_series", "Series: a path, a hop and a source each")?,
            roll_up_end: real(
                "roll_up_end_timestamp_seconds",
                "Unix time at which the last roll-up ended, 0 before the first",
            )?,
            roll_up_duration: real("roll_up_duration_seconds", "How long the last roll-up took")?,
            roll_up_failed: gauge("roll_up_failed", "1 if the last roll-up failed")?,
            roll_up_records: counters(
                "roll_up_records_total",
                "Records that roll-ups made into means or removed",
                "change",
                &ROLL_UP_CHANGES,
            )?,
            certificate_expiry: IntGauge::with_opts(opts(
                "certificate_expiry_timestamp_seconds",
                "Unix time at which the first certificate of the chain expires",
            ))?,
            registry,
        })
    }

    /// A request was answered; its route is the pattern, never the URL.
    pub fn count_request(&self, route: Option<&str>, status: axum::http::StatusCode) {
        self.requests.with_label_values(&[route.unwrap_or("-"), status.as_str()]).inc();
        self.failed_requests.inc_by(status.is_server_error().into());
    }

    /// An advice was given, by whatever way it was asked for.
    pub fn count_advice(&self, advice: &Advice) {
        self.answers.with_label_values(&[reason_name(advice.reason)]).inc();
    }

    pub fn count_roll_up(&self, done: Option<&Maintained>, took: Duration) {
        self.roll_up_end.set(now_us() as f64 / SECOND_US as f64);
        self.roll_up_duration.set(took.as_secs_f64());
        self.roll_up_failed.set(done.is_none().into());
        if let Some(done) = done {
            self.roll_up_records.with_label_values(&["rolled_up"]).inc_by(done.rolled_up);
            self.roll_up_records.with_label_values(&["removed"]).inc_by(done.removed);
        }
    }

    /// How the last look at the history went.
    pub fn set_history_up(&self, up: bool) {
        self.history_up.set(up.into());
    }

    /// The size of the history; `None`: it could not be read, and the last size stays.
    pub fn set_history(&self, size: Option<&Size>) {
        self.set_history_up(size.is_some());
        if let Some(size) = size {
            self.history_bytes.set(size.bytes);
            self.history_paths.set(size.paths);
            self.history_series.set(size.series);
        }
    }

    /// Shows a certificate's end; without TLS there is no such metric.
    pub fn set_certificate_expiry(&self, expires_s: i64) {
        self.certificate_expiry.set(expires_s);
        // From the second time on it is registered, and that is as well.
        let _ = self.registry.register(Box::new(self.certificate_expiry.clone()));
    }

    pub fn text(&self) -> String {
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(format!("imtcp_advice_{name}"), help)
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, one: C) -> prometheus::Result<C> {
    registry.register(Box::new(one.clone()))?;
    Ok(one)
}

fn reason_name(reason: Reason) -> String {
    let name = serde_json::to_value(reason).unwrap_or_default();
    name.as_str().unwrap_or("-").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use utoipa::openapi::schema::Schema;
    use utoipa::openapi::RefOr;
    use utoipa::PartialSchema;

    #[test]
    fn a_metric_has_each_reason_that_the_interface_describes() {
        let RefOr::T(Schema::Object(described)) = Reason::schema() else { panic!() };
        let mut described: Vec<_> = described.enum_values.unwrap();
        let mut counted: Vec<_> = Reason::ALL.map(|r| reason_name(r).into()).to_vec();
        let key = |v: &serde_json::Value| v.as_str().unwrap().to_string();
        described.sort_by_key(key);
        counted.sort_by_key(key);
        assert_eq!(counted, described);
    }

    #[test]
    fn a_roll_up_that_fails_and_one_that_succeeds_can_be_told_apart() {
        let metrics = Metrics::new(&[]).unwrap();
        let has = |line: &str| metrics.text().lines().any(|l| l == line);
        assert!(has("imtcp_advice_roll_up_end_timestamp_seconds 0"));
        metrics.count_roll_up(None, Duration::from_secs(2));
        assert!(has("imtcp_advice_roll_up_failed 1"));
        assert!(has("imtcp_advice_roll_up_duration_seconds 2"));
        let done = Maintained { rolled_up: 5, removed: 3, ..Maintained::default() };
        metrics.count_roll_up(Some(&done), Duration::from_secs(1));
        assert!(has("imtcp_advice_roll_up_failed 0"));
        assert!(has("imtcp_advice_roll_up_records_total{change=\"rolled_up\"} 5"));
        assert!(has("imtcp_advice_roll_up_records_total{change=\"removed\"} 3"));
    }

    #[test]
    fn a_history_that_cannot_be_read_keeps_its_last_size_and_is_down() {
        let metrics = Metrics::new(&[]).unwrap();
        metrics.set_history(Some(&Size { bytes: 4096, paths: 2, series: 3 }));
        metrics.set_history(None);
        let text = metrics.text();
        assert!(text.contains("\nimtcp_advice_history_up 0\n"), "{text}");
        assert!(text.contains("\nimtcp_advice_history_bytes 4096\n"), "{text}");
    }
}
