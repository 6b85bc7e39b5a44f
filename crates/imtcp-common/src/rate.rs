// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Rates as people write them. Always bits per second, with decimal prefixes.

use std::str::FromStr;

/// Bits per second, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

pub const HELP: &str =
    "bits per second: 500k, 10M, 1.5Gbit/s, 800000 (k = 1000; for bytes write 1.25MB/s)";

/// An ending that may mean bits or bytes, or an amount: 10MB, 10Mb.
const AMBIGUOUS: [char; 2] = ['b', 'B'];

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let wrong = || format!("'{text}' is not a rate; write it in {HELP}");
        if unit.ends_with(AMBIGUOUS) && unit_of(unit.trim()).is_some() {
            let (number, prefix) = (number.trim(), unit.trim().trim_end_matches(AMBIGUOUS));
            return Err(format!(
                "'{text}' may mean bits or bytes: write {number}{prefix}bit/s or {number}{prefix}B/s"
            ));
        }
        let (scale, bits) = unit_of(unit.trim()).ok_or_else(wrong)?;
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let bps = number * scale * bits;
        if bps > 1e13 {
            return Err(format!("'{text}' is more than 10 Tbit/s"));
        }
        // Below this, not even one packet leaves each second.
        if bps < 8_000.0 {
            return Err(format!("'{text}' is too low: the least is 8 kbit/s"));
        }
        Ok(Rate(bps.round() as u64))
    }
}

/// The factor of the prefix, and bits per unit.
fn unit_of(unit: &str) -> Option<(f64, f64)> {
    let unit = unit.strip_suffix("/s").or(unit.strip_suffix("ps")).unwrap_or(unit);
    let (prefix, bits) = match unit {
        u if u.ends_with("bit") => (&u[..u.len() - 3], 1.0),
        u if u.ends_with("byte") => (&u[..u.len() - 4], 8.0),
        u if u.ends_with('b') => (&u[..u.len() - 1], 1.0),
        u if u.ends_with('B') => (&u[..u.len() - 1], 8.0),
        u => (u, 1.0),
    };
    let scale = match prefix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((scale, bits))
}

/// The floor must not lie over the ceiling.
pub fn check_order(min: Option<Rate>, max: Option<Rate>) -> Result<(), String> {
    match (min, max) {
        (Some(min), Some(max)) if min > max => Err(format!(
            "--min-rate ({}) is over --max-rate ({})",
            crate::format::rate(min.0),
            crate::format::rate(max.0)
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bps(text: &str) -> u64 {
        text.parse::<Rate>().unwrap().0
    }

    #[test]
    fn rates_are_bits_per_second_with_decimal_prefixes() {
        assert_eq!(bps("10M"), 10_000_000);
        assert_eq!(bps("1.5Gbit/s"), 1_500_000_000);
        assert_eq!(bps("500k"), 500_000);
        assert_eq!(bps("800000"), 800_000);
        assert_eq!(bps("2Mbps"), 2_000_000);
        assert_eq!(bps("10 Mbit"), 10_000_000);
        assert_eq!(bps("3mbit"), 3_000_000);
    }

    #[test]
    fn bytes_must_be_said() {
        assert_eq!(bps("1.25MB/s"), 10_000_000);
        assert_eq!(bps("1MiB/s"), 8 * 1024 * 1024);
        assert_eq!(bps("2MBps"), 16_000_000);
    }

    #[test]
    fn what_may_be_bits_or_bytes_is_refused_with_both_forms() {
        let refused = |text: &str| text.parse::<Rate>().unwrap_err();
        let said = "'10MB' may mean bits or bytes: write 10Mbit/s or 10MB/s";
        assert_eq!(refused("10MB"), said);
        assert!(refused("10Mb").contains("write 10Mbit/s or 10MB/s"), "{}", refused("10Mb"));
        assert!(refused("5 KiB").contains("write 5Kibit/s or 5KiB/s"), "{}", refused("5 KiB"));
        assert!(refused("10fooB").contains("is not a rate"), "{}", refused("10fooB"));
    }

    #[test]
    fn what_is_no_rate_is_refused_with_the_form_to_write() {
        for text in ["", "fast", "10X", "-5M", "1.2.3M", "10Mfoo", "M", "Infinity", "nan"] {
            let e = text.parse::<Rate>().unwrap_err();
            assert!(e.contains("bits per second"), "{text}: {e}");
        }
        assert!("0".parse::<Rate>().unwrap_err().contains("too low"));
        assert!("99999G".parse::<Rate>().unwrap_err().contains("more than"));
    }

    #[test]
    fn a_floor_over_the_ceiling_is_refused() {
        assert!(check_order(Some(Rate(2_000_000)), Some(Rate(1_000_000))).is_err());
        assert!(check_order(Some(Rate(1_000_000)), Some(Rate(1_000_000))).is_ok());
        assert!(check_order(None, Some(Rate(1))).is_ok());
    }
}
