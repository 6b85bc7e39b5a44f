// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What Prometheus scrapes.

use prometheus::{
    Encoder, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
    TextEncoder,
};

use crate::advice::answer::Advice;

pub struct Metrics {
    registry: Registry,
    /// By path (the route, not the URL) and status.
    pub requests: IntCounterVec,
    pub advice_seconds: Histogram,
    advice: IntCounterVec,
    pub records: IntCounter,
    pub duplicate_batches: IntCounter,
    pub refused: IntCounterVec,
    pub connections: IntGauge,
}

impl Metrics {
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let counter =
            |name: &str, help: &str| IntCounter::new(format!("imtcp_advice_{name}"), help);
        let counters = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(format!("imtcp_advice_{name}"), help), labels)
        };
        let buckets = vec![1e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.25, 1.0];
        let seconds = HistogramOpts::new("imtcp_advice_seconds", "Time to an advice, in seconds");
        let metrics = Metrics {
            requests: counters("requests_total", "Requests answered", &["route", "status"])?,
            advice_seconds: Histogram::with_opts(seconds.buckets(buckets))?,
            advice: counters("answers_total", "Advice given, by reason", &["reason"])?,
            records: counter("records_total", "Records stored")?,
            duplicate_batches: counter("duplicate_batches_total", "Batches that came again")?,
            refused: counters("refused_total", "Requests refused before they were read", &["why"])?,
            connections: IntGauge::new("imtcp_advice_connections", "Open connections")?,
            registry,
        };
        let all: [Box<dyn prometheus::core::Collector>; 7] = [
            Box::new(metrics.requests.clone()),
            Box::new(metrics.advice_seconds.clone()),
            Box::new(metrics.advice.clone()),
            Box::new(metrics.records.clone()),
            Box::new(metrics.duplicate_batches.clone()),
            Box::new(metrics.refused.clone()),
            Box::new(metrics.connections.clone()),
        ];
        for collector in all {
            metrics.registry.register(collector)?;
        }
        Ok(metrics)
    }

    /// An advice was given, by whatever way it was asked for.
    pub fn count_advice(&self, advice: &Advice) {
        let reason = serde_json::to_value(advice.reason).unwrap_or_default();
        self.advice.with_label_values(&[reason.as_str().unwrap_or("-")]).inc();
    }

    pub fn text(&self) -> String {
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}
