// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The advice as it is given, with everything that it was computed from.

use std::ops::Deref;
use std::sync::Arc;

use imtcp_client::time::rfc3339;
use jiff::civil::Date;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::settings::HistorySet;

pub use imtcp_client::verdict::{Mode, Switch, Verdict};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Every hop's newest record is fresh and not congested.
    Free,
    /// The newest record of a hop is below the threshold, or its source says that it is congested.
    Congested,
    /// No available bandwidth is known of this destination, nor of any of its hops.
    NoHistory,
    /// The newest record of a hop is too old.
    Stale,
    /// Too few past days have enough history at this time of day.
    TooFewDays,
    /// The bandwidth is known, the threshold is not: it is a share of an unknown capacity.
    NoCapacity,
}

impl Reason {
    pub const ALL: [Reason; 6] = [
        Reason::Free,
        Reason::Congested,
        Reason::NoHistory,
        Reason::Stale,
        Reason::TooFewDays,
        Reason::NoCapacity,
    ];

    pub fn verdict(self) -> Verdict {
        match self {
            Reason::Free | Reason::Congested | Reason::NoCapacity => Verdict::Advice,
            _ => Verdict::Unknown,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Advice {
    pub dst: String,
    /// The moment the advice is for.
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub at: i64,
    pub verdict: Verdict,
    pub reason: Reason,
    /// The reason in a sentence.
    pub because: String,
    /// May the transfer leave the congestion window out of account? Off is the paper's NOCC.
    pub congestion_control: Switch,
    pub mode: Mode,
    /// RTT times bottleneck bandwidth (the capacity where known, else the available bandwidth).
    pub buffer_bytes: Option<u64>,
    pub rtt_us: Option<u64>,
    /// B̂0, at least 0 and at most the capacity where that is known.
    pub available_bps: Option<u64>,
    /// B̂0 ± z standard deviations of B0(i), within the same bounds: where a day like the past ones lies.
    pub available_low_bps: Option<u64>,
    pub available_high_bps: Option<u64>,
    /// Age of the newest record; of the hop whose newest is oldest.
    pub age_s: Option<f64>,
    /// Records of past days that were fitted.
    pub sample_count: u64,
    /// How past days were made into a prediction.
    pub method: String,
    /// Not to be relied upon after this: ask again at the sooner of this and `next_advice_at`. At most
    /// a minute after `at` where the verdict is unknown, or the capacity is.
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub valid_until: i64,
    /// t0 + τ: ask again then, or at `valid_until` where that is sooner.
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub next_advice_at: i64,
    pub computed_from: Basis,
}

/// Advice for a transfer of a known length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Answer {
    /// The bytes that remain to be sent, as the request said.
    pub bytes: Option<u64>,
    /// How long that takes at the available bandwidth.
    pub transfer_s: Option<f64>,
    #[serde(flatten)]
    pub advice: Advice,
}

impl Answer {
    pub fn new(bytes: Option<u64>, advice: Advice) -> Self {
        Answer { bytes, transfer_s: advice.transfer_s(bytes), advice }
    }
}

impl Advice {
    pub fn transfer_s(&self, bytes: Option<u64>) -> Option<f64> {
        let bps = self.available_bps.filter(|bps| *bps > 0)?;
        bytes.map(|n| n as f64 * 8.0 / bps as f64)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Basis {
    /// The hop with the least bandwidth; empty for the path as a whole. All values are this hop's, unless they
    /// say otherwise.
    pub hop: Option<String>,
    /// How many hops have records.
    pub hops: u32,
    /// The hop whose newest record decided the switch; empty for the path as a whole. `threshold_bps`,
    /// `newest_bps` and `newest_at` are this hop's.
    pub deciding_hop: Option<String>,
    pub history: HistorySet,
    pub zone: String,
    /// The request's moment on the zone's clocks.
    pub local_time: String,
    /// t1 − t0 of the fits.
    pub horizon_s: u32,
    /// Past days with enough records at this time of day.
    pub days_used: u32,
    /// B̂0, the mean of the days' B0(i): what the lines say of now, without bounds.
    pub b0_hat_bps: Option<f64>,
    /// Standard deviation of the days' B0(i).
    pub b0_sigma_bps: Option<f64>,
    /// Mean of the days' B1(i): how fast the bandwidth changes.
    pub b1_mean_bps_per_s: Option<f64>,
    /// σ, the standard deviation of the days' B1(i).
    pub sigma_bps_per_s: Option<f64>,
    /// How many σ the uncertainty S and the range of `available_bps` have.
    pub z: f64,
    /// S, how fast the bandwidth may change.
    pub s_bps_per_s: Option<f64>,
    /// ε, the change after which the next advice is due.
    pub epsilon_bps: Option<f64>,
    /// ε/S before it is kept within its limits; null when S = 0.
    pub tau_s: Option<f64>,
    /// `deciding_hop` is congested below this bandwidth, unless its source says otherwise. Null if the threshold
    /// is a share of a capacity that is not known.
    pub threshold_bps: Option<f64>,
    /// The capacity of `hop` as set, else the upper quartile of the capacities in records from
    /// `capacity_from` to `capacity_to`.
    pub capacity_bps: Option<f64>,
    /// How many records told it; null where it is set or not known.
    pub capacity_records: Option<u32>,
    /// The time of the first of them.
    pub capacity_from: Option<String>,
    /// The time of the last of them.
    pub capacity_to: Option<String>,
    /// Of `deciding_hop`: its newest record.
    pub newest_bps: Option<u64>,
    /// When `newest_bps` of `deciding_hop` was measured.
    #[schema(format = DateTime)]
    pub newest_at: Option<String>,
    /// The newest 31 of the days used, the newest first.
    #[schema(value_type = Vec<Day>, max_items = 31)]
    pub days: Days,
}

/// The lines of past days, the newest first. An answer tells some of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Days(Arc<Vec<Day>>);

/// Days in an answer, a month: a year of them is 58 kB.
const MOST_TOLD: usize = 31;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Day {
    #[schema(value_type = String, format = Date)]
    pub date: Date,
    /// When the window begins.
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub from: i64,
    /// Records in it.
    pub samples: u32,
    /// B0(i), the line's value when the window begins.
    pub b0_bps: f64,
    /// B1(i), its slope.
    pub b1_bps_per_s: f64,
    /// Goodness of the fit. Null when the day's values are all the same.
    pub r2: Option<f64>,
}

impl From<Vec<Day>> for Days {
    fn from(days: Vec<Day>) -> Self {
        Days(Arc::new(days))
    }
}

impl Deref for Days {
    type Target = [Day];

    fn deref(&self) -> &[Day] {
        &self.0
    }
}

impl Serialize for Days {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.iter().take(MOST_TOLD))
    }
}

impl<'de> Deserialize<'de> for Days {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Vec::<Day>::deserialize(d).map(Days::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(from: i64) -> Day {
        let (b0_bps, b1_bps_per_s) = (5e7, -1e3);
        Day {
            date: jiff::civil::date(2026, 3, 19),
            from,
            samples: 60,
            b0_bps,
            b1_bps_per_s,
            r2: None,
        }
    }

    #[test]
    fn an_answer_tells_the_newest_days_of_a_year_and_counts_all() {
        let days = Days::from((0..365).map(|i| day(1_773_930_300_000_000 - i)).collect::<Vec<_>>());
        assert_eq!(days.len(), 365);
        let told: Days = serde_json::from_str(&serde_json::to_string(&days).unwrap()).unwrap();
        assert_eq!(told[..], days[..31]);
    }
}
