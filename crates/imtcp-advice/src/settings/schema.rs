// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Settings as the interface describes them. [`crate::settings`] checks them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::settings::HistorySet;

/// A setting for each that changes, or null to take it back.
///
/// `min_days` must not exceed `max_days`, nor `next_min_s` `next_max_s`: as they are set here, for
/// all paths, or by default.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettingsChange {
    /// A name of the IANA time zone database, as Europe/Berlin.
    zone: Option<String>,
    history: Option<HistorySet>,
    #[schema(minimum = 0, maximum = 10)]
    z: Option<f64>,
    epsilon: Option<Epsilon>,
    threshold: Option<Threshold>,
    #[schema(exclusive_minimum = 0, maximum = 10_000_000_000_000i64)]
    capacity_bps: Option<f64>,
    #[schema(minimum = 1, maximum = 4_294_967_295i64)]
    freshness_s: Option<u32>,
    #[schema(minimum = 60, maximum = 43_200)]
    horizon_s: Option<u32>,
    #[schema(minimum = 2, maximum = 366)]
    min_days: Option<u32>,
    #[schema(minimum = 2, maximum = 10_000)]
    min_samples: Option<u32>,
    #[schema(minimum = 0, maximum = 100)]
    min_span_pct: Option<u8>,
    #[schema(minimum = 2, maximum = 3660)]
    max_days: Option<u32>,
    #[schema(minimum = 0, maximum = 100)]
    min_validity_pct: Option<u8>,
    #[schema(minimum = 1, maximum = 4_294_967_295i64)]
    next_min_s: Option<u32>,
    #[schema(minimum = 1, maximum = 4_294_967_295i64)]
    next_max_s: Option<u32>,
}

/// A bandwidth, or a share of the predicted one.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum Epsilon {
    Bandwidth(Bandwidth),
    Share(ShareOfPrediction),
}

/// A bandwidth, or a share of the path's capacity.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum Threshold {
    Bandwidth(Bandwidth),
    Share(ShareOfCapacity),
}

#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    #[schema(exclusive_minimum = 0, maximum = 10_000_000_000_000i64)]
    bps: f64,
}

#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShareOfPrediction {
    #[schema(exclusive_minimum = 0, maximum = 10)]
    share: f64,
}

#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShareOfCapacity {
    #[schema(exclusive_minimum = 0, maximum = 1)]
    share: f64,
}
