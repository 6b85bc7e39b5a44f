// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What is configurable, for all paths and for each. A path's settings are a JSON object with
//! the keys it sets; the others come from the defaults of the database (path `*`), then from
//! here.

pub mod schema;
use imtcp_client::whole::whole;
use jiff::tz::TimeZone;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The paper's history sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistorySet {
    /// Every past day.
    #[default]
    All,
    /// The seven days before.
    Week,
    /// The same weekday of past weeks.
    Weekday,
}

/// A bandwidth in itself, or a share of another one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    Bps(f64),
    Share(f64),
}

impl Bound {
    /// `whole` is what a share is of; `None` when a share's whole is not known.
    pub fn bps(self, whole_bps: Option<f64>) -> Option<f64> {
        match self {
            Bound::Bps(bps) => Some(bps),
            Bound::Share(share) => whole_bps.map(|whole| share * whole),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Zone whose clocks give the time of day, as Europe/Berlin.
    pub zone: String,
    pub history: HistorySet,
    /// Confidence: standard deviations [EN §3.3.1]; 2 for 95 %.
    pub z: f64,
    /// ε: the change of available bandwidth allowed before new advice; a share is of B̂0.
    #[serde(deserialize_with = "bound")]
    #[schema(value_type = schema::Epsilon)]
    pub epsilon: Bound,
    /// Below this the path counts as congested; a share is of its capacity. 42 % is that of
    /// [EN table 19].
    #[serde(deserialize_with = "bound")]
    #[schema(value_type = schema::Threshold)]
    pub threshold: Bound,
    /// The path's capacity where no record tells it.
    pub capacity_bps: Option<f64>,
    /// Older newest records are no base for switching congestion control off.
    #[serde(deserialize_with = "whole")]
    pub freshness_s: u32,
    /// t1 − t0: how much of each past day, from the request's time of day on, is fitted.
    #[serde(deserialize_with = "whole")]
    pub horizon_s: u32,
    /// Fewer days with history: "I don't know".
    #[serde(deserialize_with = "whole")]
    pub min_days: u32,
    /// Fewer observations in a day's window: the day does not count.
    #[serde(deserialize_with = "whole")]
    pub min_samples: u32,
    /// Observations that span less of a day's window: the day does not count. 0: as in the paper.
    #[serde(deserialize_with = "percent")]
    pub min_span_pct: u8,
    /// Days beyond are left out, the oldest first.
    #[serde(deserialize_with = "whole")]
    pub max_days: u32,
    /// Records below this validity are left out.
    #[serde(deserialize_with = "percent")]
    pub min_validity_pct: u8,
    /// The next advice comes no sooner and no later than this.
    #[serde(deserialize_with = "whole")]
    pub next_min_s: u32,
    #[serde(deserialize_with = "whole")]
    pub next_max_s: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            zone: "UTC".into(),
            history: HistorySet::All,
            z: 2.0,
            epsilon: Bound::Share(0.1),
            threshold: Bound::Share(0.42),
            capacity_bps: None,
            freshness_s: 600,
            horizon_s: 3600,
            min_days: 3,
            min_samples: 2,
            min_span_pct: 25,
            max_days: 366,
            min_validity_pct: 1,
            next_min_s: 1,
            next_max_s: 86_400,
        }
    }
}

/// The keys that somebody set.
pub type Changes = Map<String, Value>;

/// Says how both of its forms are written.
fn bound<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Bound, D::Error> {
    Bound::deserialize(Value::deserialize(from)?).map_err(|_| {
        D::Error::custom(
            r#"write {"bps": 42000000} for a bandwidth, or {"share": 0.42} for a share"#,
        )
    })
}

/// Of 100.
fn percent<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<u8, D::Error> {
    let number = f64::deserialize(from)?;
    if (0.0..=100.0).contains(&number) && number.fract() == 0.0 {
        Ok(number as u8)
    } else {
        Err(D::Error::custom("is a whole number from 0 to 100"))
    }
}

impl Settings {
    /// The layers over the defaults, the last one on top.
    pub fn layered(layers: &[&Changes]) -> Result<Self> {
        let mut all = Changes::new();
        for layer in layers {
            all.extend(layer.iter().map(|(k, v)| (k.clone(), v.clone())));
        }
        let settings: Settings = serde_path_to_error::deserialize(Value::Object(all))
            .map_err(|e| Error::Input(format!("wrong setting: {e}")))?;
        settings.check()?;
        Ok(settings)
    }

    pub fn time_zone(&self) -> Result<TimeZone> {
        TimeZone::get(&self.zone).map_err(|_| {
            Error::Input(format!("no time zone '{}': write one as Europe/Berlin or UTC", self.zone))
        })
    }

    fn check(&self) -> Result<()> {
        let bound = |b: Bound, most_share: f64| match b {
            Bound::Bps(bps) => bps > 0.0 && bps <= 1e13,
            Bound::Share(share) => share > 0.0 && share <= most_share,
        };
        let rules = [
            (self.z.is_finite() && (0.0..=10.0).contains(&self.z), "z is between 0 and 10"),
            (bound(self.epsilon, 10.0), "epsilon is above 0, and a share at most 10 (1000 %)"),
            (bound(self.threshold, 1.0), "threshold is above 0, and a share at most 1 (100 %)"),
            (self.capacity_bps.is_none_or(|c| c > 0.0 && c <= 1e13), "capacity_bps is over 0"),
            (self.freshness_s > 0, "freshness_s is over 0"),
            // Yesterday's window must be over when today's request comes, on a day of 23 hours too.
            ((60..=43_200).contains(&self.horizon_s), "horizon_s is between 60 and 43200"),
            ((2..=366).contains(&self.min_days), "min_days is between 2 and 366"),
            ((2..=10_000).contains(&self.min_samples), "min_samples is between 2 and 10000"),
            ((self.min_days..=3660).contains(&self.max_days), "max_days is min_days to 3660"),
            (
                self.history != HistorySet::Week || self.min_days <= 7,
                "min_days is at most 7 with the history of a week",
            ),
            (self.next_min_s >= 1, "next_min_s is at least 1"),
            (self.next_min_s <= self.next_max_s, "next_min_s must not exceed next_max_s"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(Error::Input(format!("wrong setting: {rule}"))),
            None => self.time_zone().map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn changes(value: Value) -> Changes {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_paths_settings_lie_over_the_defaults() {
        let all = changes(json!({"zone": "Europe/Berlin", "z": 3.0}));
        let path = changes(json!({"z": 1.0, "threshold": {"bps": 42e6}}));
        let s = Settings::layered(&[&all, &path]).unwrap();
        assert_eq!((s.zone.as_str(), s.z), ("Europe/Berlin", 1.0));
        assert_eq!(s.threshold, Bound::Bps(42e6));
        assert_eq!(s.horizon_s, Settings::default().horizon_s);
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_a_sentence() {
        for (wrong, says) in [
            (json!({"z": -1}), "z is"),
            (json!({"zone": "Mars/Olympus"}), "no time zone 'Mars/Olympus'"),
            (json!({"horizon_s": 90_000}), "horizon_s"),
            (json!({"min_days": 1}), "min_days"),
            (json!({"threshold": {"share": 2.0}}), "threshold"),
            (json!({"epsilonn": 1}), "unknown field"),
            (json!({"epsilon": {"bps": 0}}), "epsilon"),
            (json!({"min_span_pct": 300}), "min_span_pct: is a whole number from 0 to 100"),
            (json!({"history": "week", "min_days": 8}), "min_days is at most 7"),
            (json!({"threshold": "42M"}), r#"threshold: write {"bps": 42000000}"#),
            (json!({"threshold": 42_000_000}), r#"or {"share": 0.42}"#),
            (json!({"epsilon": {"bps": 1, "share": 1}}), r#"epsilon: write {"bps": 42000000}"#),
            (json!({"horizon_s": "long"}), "horizon_s: invalid type"),
        ] {
            let e = Settings::layered(&[&changes(wrong.clone())]).unwrap_err().to_string();
            assert!(e.contains(says), "{wrong}: {e}");
        }
    }
}
