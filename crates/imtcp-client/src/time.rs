// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Times are microseconds since 1970, UTC; people read and write RFC 3339.

use jiff::fmt::temporal::Pieces;
use jiff::Timestamp;

use crate::wrong::{Result, Wrong};

pub const SECOND_US: i64 = 1_000_000;
pub const MINUTE_US: i64 = 60 * SECOND_US;
pub const HOUR_US: i64 = 60 * MINUTE_US;
pub const DAY_US: i64 = 24 * HOUR_US;

/// The last second that can be written: 9999-12-30T21:59:59Z.
pub fn last_us() -> i64 {
    (Timestamp::MAX.as_second() - 1) * SECOND_US
}

pub fn now_us() -> i64 {
    Timestamp::now().as_microsecond()
}

/// RFC 3339, with its offset: a time without one is no moment.
pub fn parse(text: &str) -> Result<i64> {
    let text = text.trim();
    // An unescaped '+' of a query string arrives as a space.
    let mended = text.replacen(
        ' ',
        if text.matches(' ').count() == 1 && text.contains('T') { "+" } else { " " },
        1,
    );
    let t: Timestamp = mended.parse().map_err(|_| {
        let shown: String = text.chars().take(60).collect();
        let is_time =
            Pieces::parse(&mended).is_ok_and(|p| p.time().is_some() && p.offset().is_some());
        Wrong(match is_time {
            true => format!("'{shown}' is out of range: a time is before 9999-12-30T22:00:00Z"),
            false => format!(
                "'{shown}' is not a time: write RFC 3339 with an offset, as 2026-03-20T14:25:00Z"
            ),
        })
    })?;
    Ok(t.as_microsecond())
}

pub fn format(t_us: i64) -> String {
    Timestamp::from_microsecond(t_us).map_or_else(|_| t_us.to_string(), |t| t.to_string())
}

/// A length of time in one unit, as people say it: "59 min", "400 days".
pub fn length(us: i64) -> String {
    let units = [(DAY_US, "days"), (HOUR_US, "h"), (MINUTE_US, "min")];
    match units.iter().find(|(unit_us, _)| us >= 2 * unit_us) {
        Some((unit_us, name)) => format!("{} {name}", us / unit_us),
        None => format!("{} s", us / SECOND_US),
    }
}

/// Serde: RFC 3339 outside, microseconds inside.
pub mod rfc3339 {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(t_us: &i64, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&super::format(*t_us))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<i64, D::Error> {
        d.deserialize_str(Text)
    }

    struct Text;

    impl Visitor<'_> for Text {
        type Value = i64;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a time of RFC 3339 in quotes, as \"2026-03-20T14:25:00Z\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<i64, E> {
            super::parse(text).map_err(E::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_any_offset_and_written_in_utc() {
        assert_eq!(
            parse("2026-03-20T14:25:00+01:00").unwrap(),
            parse("2026-03-20T13:25:00Z").unwrap()
        );
        assert_eq!(
            parse("2026-03-20T14:25:00 01:00").unwrap(),
            parse("2026-03-20T13:25:00Z").unwrap()
        );
        assert_eq!(parse("1970-01-01 00:00:01Z").unwrap(), SECOND_US);
        assert_eq!(format(1_500_000), "1970-01-01T00:00:01.5Z");
    }

    #[test]
    fn a_time_beyond_what_is_counted_is_told_from_none() {
        for beyond in ["9999-12-31T23:59:59Z", "-009999-01-01T00:00:00+12:00"] {
            let e = parse(beyond).unwrap_err().to_string();
            assert!(e.contains("out of range"), "{e}");
        }
    }

    #[test]
    fn a_length_is_told_in_one_unit() {
        let told = |s: i64| length(s * SECOND_US);
        assert_eq!(
            (told(11), told(119), told(120)),
            ("11 s".into(), "119 s".into(), "2 min".into())
        );
        assert_eq!((told(59 * 60), told(3 * 3600)), ("59 min".into(), "3 h".into()));
        assert_eq!(told(400 * 86_400), "400 days");
    }

    #[test]
    fn a_time_without_offset_is_no_moment() {
        for wrong in ["2026-03-20T14:25:00", "yesterday", "", "2026-13-01T00:00:00Z"] {
            assert!(parse(wrong).unwrap_err().to_string().contains("RFC 3339"), "{wrong}");
        }
    }
}
