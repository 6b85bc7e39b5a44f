// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Quantities as people write them on a command line: `20M`, `100ms`, `60KB`.

/// Parses a rate in bit/s; the suffixes k, M and G are decimal.
pub fn parse_bps(text: &str) -> Result<u64, String> {
    let value = scaled(text, &[("k", 1e3), ("M", 1e6), ("G", 1e9)])?;
    Ok(value.round() as u64)
}

/// Parses a size in bytes; k, M and G are decimal, a trailing `B` is allowed.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let bare = text.strip_suffix('B').unwrap_or(text);
    let value = scaled(bare, &[("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9)])?;
    Ok(value.round() as u64)
}

/// Parses a duration into µs; the unit is us, ms or s (the default).
pub fn parse_us(text: &str) -> Result<u64, String> {
    let value = scaled(text, &[("us", 1.0), ("ms", 1e3), ("s", 1e6), ("", 1e6)])?;
    Ok(value.round() as u64)
}

/// A non-negative number with one of `suffixes`, or without a suffix.
fn scaled(text: &str, suffixes: &[(&str, f64)]) -> Result<f64, String> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(split);
    let number: f64 = digits.parse().map_err(|_| format!("not a number: {text:?}"))?;
    if let Some((_, factor)) = suffixes.iter().find(|(name, _)| *name == suffix) {
        return Ok(number * factor);
    }
    if suffix.is_empty() {
        return Ok(number);
    }
    Err(format!("unknown unit {suffix:?} in {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_sizes_and_times_read_as_people_write_them() {
        assert_eq!(parse_bps("20M"), Ok(20_000_000));
        assert_eq!(parse_bps("1.5M"), Ok(1_500_000));
        assert_eq!(parse_bps("0"), Ok(0));
        assert_eq!(parse_bytes("60KB"), Ok(60_000));
        assert_eq!(parse_bytes("1472"), Ok(1472));
        assert_eq!(parse_us("100ms"), Ok(100_000));
        assert_eq!(parse_us("2.5"), Ok(2_500_000));
    }

    #[test]
    fn a_wrong_unit_is_refused() {
        assert!(parse_bps("20Q").is_err());
        assert!(parse_us("fast").is_err());
        assert!(parse_bytes("").is_err());
    }
}
