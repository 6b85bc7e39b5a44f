// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Amounts of data as people write them. Always bytes: 16000000000, 16G, 16 GB; 512MiB.

use std::ops::RangeInclusive;

use bytesize::ByteSize;

use crate::format;

/// Bytes of an amount, or how to write one.
pub fn bytes(text: &str) -> Result<u64, String> {
    let written = text.trim();
    let wrong =
        || format!("'{written}' is no amount of data: write bytes, as 16000000000, 16G or 512MiB");
    // The library takes what is too much for the most that it can hold.
    match written.parse::<ByteSize>() {
        Ok(amount) if amount.as_u64() < u64::MAX => Ok(amount.as_u64()),
        _ => Err(wrong()),
    }
}

/// Bytes of an amount within these.
pub fn bytes_within(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| match bytes(text)? {
        n if range.contains(&n) => Ok(n),
        n => {
            let n = format::count(n, "byte");
            Err(format!("outside of {}..={}: {n}", range.start(), range.end()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_bytes_with_decimal_or_binary_prefixes() {
        for (text, expected) in [
            ("0", 0),
            ("16000000000", 16_000_000_000),
            ("16G", 16_000_000_000),
            ("16 GB", 16_000_000_000),
            ("1.5M", 1_500_000),
            ("10k", 10_000),
            ("512MiB", 512 << 20),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused_with_the_form_to_write() {
        for text in ["", "much", "16X", "-5M", "G", "1.2.3M", "nan", "inf", "99999999999999999999"]
        {
            let e = bytes(text).unwrap_err();
            assert!(e.contains("write bytes, as"), "{text}: {e}");
        }
    }

    #[test]
    fn an_amount_out_of_range_is_told_with_the_range() {
        let within = bytes_within(100_000..=1_000_000);
        assert_eq!(within("1MB"), Ok(1_000_000));
        assert_eq!(within("99k").unwrap_err(), "outside of 100000..=1000000: 99000 bytes");
    }
}
