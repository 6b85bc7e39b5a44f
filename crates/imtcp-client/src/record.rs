// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! One observation of a path, as it is reported, stored, imported and exported.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::destination::{destination, Destination, DestinationOrNone};
use crate::time::{length, rfc3339, SECOND_US};
use crate::whole::whole_or_none;
use crate::wrong::{Result, Wrong};

/// A record tells the available bandwidth, or the result of an active test. Neither a ping nor the throughput
/// of one transfer is an available bandwidth. They have tables of their own, so that nobody confuses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Bandwidth,
    Test,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::Bandwidth, Kind::Test];
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Address or name of the destination.
    #[schema(value_type = Destination)]
    pub dst: String,
    /// Address of a hop where it is known; absent for the path as a whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(value_type = DestinationOrNone)]
    pub hop: String,
    /// Who measured, as a host's name; without control characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 255, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    pub source: String,
    /// RFC 3339, with offset.
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub time: i64,
    /// Absent in the record of an active test, which then has `rtt_us`, `loss` or `throughput_bps`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole_or_none")]
    #[schema(minimum = 0, maximum = 10_000_000_000_000i64)]
    pub available_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole_or_none")]
    #[schema(minimum = 1, maximum = 10_000_000_000_000i64)]
    pub capacity_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole_or_none")]
    #[schema(minimum = 0, maximum = 3_600_000_000i64)]
    pub rtt_us: Option<u64>,
    /// Share of packets lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub loss: Option<f64>,
    /// The throughput of one TCP transfer, as iperf3 tests it. That is not the available bandwidth, and no record
    /// has both.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole_or_none")]
    #[schema(minimum = 0, maximum = 10_000_000_000_000i64)]
    pub throughput_bps: Option<u64>,
    /// The source's own word; absent: the path's threshold decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congested: Option<bool>,
    /// How far the source trusts its measurement.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "whole_or_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub validity_pct: Option<u8>,
}

/// As much as any link carries, and less than sums of products overflow with.
pub const MOST_BPS: u64 = 10_000_000_000_000;
const MOST_RTT_US: u64 = 3_600_000_000;
/// A record's time is at most ten seconds after the service's own. Clocks that NTP keeps differ by
/// less than a second; a clock that nobody keeps is soon further ahead.
pub const MOST_AHEAD_US: i64 = 10 * SECOND_US;

const SOURCE_RULE: &str = "source is at most 255 characters, without control characters";

fn source_is_fine(source: &str) -> bool {
    source.chars().count() <= 255 && !source.chars().any(char::is_control)
}

/// A name for who measured, as records may have it.
pub fn source(name: &str) -> Result<&str> {
    if source_is_fine(name) {
        return Ok(name);
    }
    Err(Wrong(SOURCE_RULE.into()))
}

impl Record {
    pub fn kind(&self) -> Kind {
        if self.available_bps.is_some() {
            Kind::Bandwidth
        } else {
            Kind::Test
        }
    }

    /// Refuses what cannot be, and brings names into their one form.
    pub fn checked(mut self, now_us: i64) -> Result<Self> {
        self.dst = destination(&self.dst)?;
        if !self.hop.is_empty() {
            self.hop = destination(&self.hop)?;
        }
        // As CSV reads it.
        self.source = self.source.trim().into();
        let most_bps = |bps: Option<u64>| bps.is_none_or(|b| b <= MOST_BPS);
        let of_bandwidth = self.kind() == Kind::Bandwidth;
        let tells = self.rtt_us.is_some() || self.loss.is_some() || self.throughput_bps.is_some();
        let rules = [
            (source_is_fine(&self.source), SOURCE_RULE),
            (self.time > 0, "time is after 1970"),
            (
                of_bandwidth || tells,
                "without available_bps it is a test's: give rtt_us, loss or throughput_bps",
            ),
            (
                of_bandwidth || (self.capacity_bps.is_none() && self.congested.is_none()),
                "capacity_bps and congested go with available_bps alone",
            ),
            (
                !of_bandwidth || self.throughput_bps.is_none(),
                "throughput_bps is a test's: leave available_bps out, or make two records",
            ),
            (most_bps(self.available_bps), "available_bps is at most 10^13"),
            (most_bps(self.capacity_bps), "capacity_bps is at most 10^13"),
            // A share of nothing would be a threshold that nothing is below.
            (
                self.capacity_bps != Some(0),
                "capacity_bps is over 0: leave it out where it is unknown",
            ),
            (most_bps(self.throughput_bps), "throughput_bps is at most 10^13"),
            (self.rtt_us.is_none_or(|r| r <= MOST_RTT_US), "rtt_us is at most an hour"),
            (self.loss.is_none_or(|l| (0.0..=1.0).contains(&l)), "loss is between 0 and 1"),
            (self.validity_pct.is_none_or(|v| v <= 100), "validity_pct is at most 100"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(Wrong(format!("wrong record: {rule}"))),
            None => self.is_not_ahead(now_us).map(|()| self),
        }
    }

    fn is_not_ahead(&self, now_us: i64) -> Result<()> {
        let ahead_us = self.time.saturating_sub(now_us);
        if ahead_us <= MOST_AHEAD_US {
            return Ok(());
        }
        Err(Wrong(format!(
            "wrong record: its time is {} ahead of this host's clock, and at most {} are accepted: \
             the sender's clock is probably ahead, set it right",
            length(ahead_us),
            length(MOST_AHEAD_US)
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        serde_json::from_str(
            r#"{"dst": "10.0.0.1", "time": "2026-03-20T14:25:00Z", "available_bps": 42000000}"#,
        )
        .unwrap()
    }

    #[test]
    fn a_test_needs_no_available_bandwidth() {
        let ping = Record { available_bps: None, rtt_us: Some(30_000), ..record() };
        let lost = Record { available_bps: None, loss: Some(1.0), ..record() };
        let iperf3 = Record { available_bps: None, throughput_bps: Some(5), ..record() };
        for test in [ping, lost, iperf3] {
            assert_eq!(test.clone().checked(record().time).unwrap(), test);
            assert_eq!(test.kind(), Kind::Test);
        }
        assert_eq!(record().kind(), Kind::Bandwidth);
    }

    #[test]
    fn a_record_from_the_future_is_refused_and_says_by_how_much_a_clock_is_ahead() {
        let now = record().time;
        let ahead = |us| Record { time: now + us, ..record() }.checked(now);
        assert!(ahead(MOST_AHEAD_US).is_ok());
        let says = |us| ahead(us).unwrap_err().to_string();
        assert_eq!(
            says(59 * 60 * SECOND_US),
            "wrong record: its time is 59 min ahead of this host's clock, and at most 10 s are \
             accepted: the sender's clock is probably ahead, set it right"
        );
        assert!(says(MOST_AHEAD_US + SECOND_US).contains("is 11 s ahead"));
        assert!(says(400 * 86_400 * SECOND_US).contains("is 400 days ahead"));
        assert!(Record { time: i64::MAX, ..record() }.checked(now).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let now = record().time;
        assert!(record().checked(now).is_ok());
        let wrong = [
            Record { available_bps: Some(MOST_BPS + 1), ..record() },
            Record { capacity_bps: Some(0), ..record() },
            Record { time: -5, ..record() },
            Record { loss: Some(1.5), ..record() },
            Record { loss: Some(f64::NAN), ..record() },
            Record { source: "a\nb".into(), ..record() },
            Record { validity_pct: Some(101), ..record() },
            Record { throughput_bps: Some(1), ..record() },
            Record { available_bps: None, ..record() },
            Record { available_bps: None, rtt_us: Some(1), capacity_bps: Some(1), ..record() },
            Record { available_bps: None, loss: Some(0.0), congested: Some(true), ..record() },
        ];
        for r in wrong {
            assert!(r.clone().checked(now).is_err(), "{r:?}");
        }
    }
}
