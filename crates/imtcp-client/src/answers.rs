// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The answers of the advice service, in the fields that commands want. Whoever answers in its place may send
//! anything: other fields are skipped as they are read, and cost no memory.

use crate::time::rfc3339;
use crate::verdict::{Mode, Switch, Verdict};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::Deserialize;

/// An answer's name and length.
pub trait Answer: DeserializeOwned {
    const NAME: &'static str;
    /// The slowest line has the time for so many.
    const USUAL_BYTES: u64 = 64_000;
    /// Nobody reads more than these.
    const MOST_BYTES: u64 = 100_000;
}

#[derive(Clone, Debug, Deserialize)]
pub struct Advice {
    #[serde(with = "rfc3339")]
    pub at: i64,
    pub verdict: Verdict,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub because: String,
    pub congestion_control: Switch,
    pub mode: Mode,
    pub buffer_bytes: Option<u64>,
    pub rtt_us: Option<u64>,
    pub available_bps: Option<u64>,
    pub available_low_bps: Option<u64>,
    pub available_high_bps: Option<u64>,
    pub age_s: Option<f64>,
    pub transfer_s: Option<f64>,
    #[serde(default)]
    pub sample_count: u64,
    #[serde(with = "rfc3339")]
    pub valid_until: i64,
    #[serde(with = "rfc3339")]
    pub next_advice_at: i64,
    #[serde(default)]
    pub computed_from: Basis,
    /// The whole answer, for programs.
    #[serde(skip)]
    pub json: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Basis {
    #[serde(default)]
    pub days_used: u64,
    pub newest_bps: Option<u64>,
    pub threshold_bps: Option<f64>,
}

impl Answer for Advice {
    const NAME: &'static str = "advice";
    /// A day has 160 bytes, and `max_days` is at most 3660.
    const MOST_BYTES: u64 = 1_000_000;
}

#[derive(Debug, Deserialize)]
pub struct Health {
    pub status: String,
}

impl Answer for Health {
    const NAME: &'static str = "state of health";
}

/// For a report that the service has on disk.
#[derive(Debug, Deserialize)]
pub struct Receipt {
    pub batch: String,
    pub stored: u64,
    /// Records that it left out.
    pub refused: Option<u64>,
    pub because: Option<String>,
}

impl Answer for Receipt {
    const NAME: &'static str = "receipt";
}

#[derive(Debug, Deserialize)]
pub struct Clients {
    pub clients: Vec<ListedClient>,
}

#[derive(Debug, Deserialize)]
pub struct ListedClient {
    pub dst: String,
}

impl Answer for Clients {
    const NAME: &'static str = "list of clients";
    /// 10 000 names of usual length.
    const USUAL_BYTES: u64 = 1_000_000;
    /// 10 000 of the longest names.
    const MOST_BYTES: u64 = 4_000_000;
}

/// A path that the service knows, whatever it knows of it.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Path(#[allow(dead_code)] IgnoredAny);

impl Answer for Path {
    const NAME: &'static str = "path";
    const MOST_BYTES: u64 = 4_000_000;
}

/// A refusal (RFC 9457).
#[derive(Debug, Deserialize)]
pub struct Problem {
    pub detail: Option<String>,
    #[serde(default)]
    pub refused: Vec<WrongRecord>,
}

impl Problem {
    /// A report of 64 kB has some 900 records, and each may be wrong, with a sentence.
    pub const MOST_BYTES: u64 = 500_000;
}

#[derive(Debug, Deserialize)]
pub struct WrongRecord {
    /// Its place in the batch, from 0.
    pub record: usize,
    pub why: String,
}
