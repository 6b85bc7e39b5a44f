// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Whole numbers, however JSON writes them: 5, 5.0 and 5e0 are one number there.

use serde::{Deserialize, Deserializer};
use serde_json::Number;

/// Serde: a whole number that is always there.
pub fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(from: D) -> Result<T, D::Error> {
    read(Number::deserialize(from)?)
}

/// Serde: a whole number, or null.
pub fn whole_or_none<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    Option::<Number>::deserialize(from)?.map(read).transpose()
}

fn read<T: TryFrom<u64>, E: serde::de::Error>(number: Number) -> Result<T, E> {
    // Up to here a double holds each whole number.
    const MOST_EXACT: f64 = (1u64 << 53) as f64;
    let is_whole = |f: &f64| f.fract() == 0.0 && (0.0..=MOST_EXACT).contains(f);
    let whole = number.as_u64().or(number.as_f64().filter(is_whole).map(|f| f as u64));
    let fitting = whole.and_then(|whole| T::try_from(whole).ok());
    fitting.ok_or_else(|| {
        let what_to_do = match number.as_f64() {
            Some(f) if f < 0.0 => "is below 0: write 0 or more",
            Some(f) if f.fract() != 0.0 => "has a fraction: write a whole number",
            _ => "is too large",
        };
        E::custom(format!("{number} {what_to_do}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Counts {
        #[serde(deserialize_with = "whole")]
        a: u8,
        #[serde(default, deserialize_with = "whole_or_none")]
        b: Option<u64>,
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_point_or_an_exponent() {
        let read = |json| serde_json::from_str::<Counts>(json).unwrap();
        assert_eq!(read(r#"{"a": 5.0, "b": 42e6}"#), Counts { a: 5, b: Some(42_000_000) });
        assert_eq!(read(r#"{"a": 255}"#), Counts { a: 255, b: None });
        assert_eq!(read(r#"{"a": 0, "b": null}"#), Counts { a: 0, b: None });
        let most = read(r#"{"a": -0.0, "b": 18446744073709551615}"#);
        assert_eq!(most, Counts { a: 0, b: Some(u64::MAX) });
    }

    #[test]
    fn a_number_with_a_fraction_or_out_of_range_is_refused() {
        for wrong in ["1.5", "-1", "256", "256.0", "1e300", "\"5\"", "true", "null"] {
            let json = format!(r#"{{"a": {wrong}}}"#);
            assert!(serde_json::from_str::<Counts>(&json).is_err(), "{wrong}");
        }
        for (number, says) in [
            ("1.5", "1.5 has a fraction: write a whole number"),
            ("-1", "-1 is below 0: write 0 or more"),
            ("256", "256 is too large"),
        ] {
            let json = format!(r#"{{"a": {number}}}"#);
            let e = serde_json::from_str::<Counts>(&json).unwrap_err().to_string();
            assert!(e.starts_with(says), "{e}");
        }
    }
}
