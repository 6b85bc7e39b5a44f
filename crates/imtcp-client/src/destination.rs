// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Destinations: the one form of each, and patterns of them for the description of the interface. A pattern
//! matches exactly what [`destination`] accepts.

use std::net::IpAddr;

use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::RefOr;
use utoipa::{PartialSchema, ToSchema};

use crate::wrong::{Result, Wrong};

/// The one form of an address or a host's name.
pub fn destination(text: &str) -> Result<String> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = inner.parse::<IpAddr>() {
        return Ok(ip.to_canonical().to_string());
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if name.len() > 253 || !is_host_name(&name) {
        let shown: String = text.chars().take(60).collect();
        return Err(Wrong(format!("'{shown}' is neither an address nor a host's name")));
    }
    Ok(name)
}

/// Labels as in RFC 1123, and with the underscore that many have. A name whose last label is a
/// number would be a mistyped address.
fn is_host_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(fine)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_number = |label: &str| label.bytes().all(|b| b.is_ascii_digit());
    name.split('.').all(is_label) && !name.rsplit('.').next().is_some_and(is_number)
}

/// An address or a host's name.
pub struct Destination;

/// The same, or `*` for what is set for all paths.
pub struct DestinationOrAll;

/// The same, or the empty text.
pub struct DestinationOrNone;

impl ToSchema for Destination {}
impl ToSchema for DestinationOrAll {}
impl ToSchema for DestinationOrNone {}

impl PartialSchema for Destination {
    fn schema() -> RefOr<Schema> {
        schema("An address or a host's name", &pattern(), &["192.0.2.7", "mirror.example.org"])
    }
}

impl PartialSchema for DestinationOrAll {
    fn schema() -> RefOr<Schema> {
        let pattern = format!("\\*|{}", pattern());
        schema("An address or a host's name; `*` for all paths", &pattern, &["192.0.2.7", "*"])
    }
}

impl PartialSchema for DestinationOrNone {
    fn schema() -> RefOr<Schema> {
        let pattern = format!("|{}", pattern());
        schema("An address or a host's name, or empty", &pattern, &["", "198.51.100.1"])
    }
}

fn schema(description: &str, pattern: &str, examples: &[&str]) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .pattern(Some(format!("^(?:{pattern})$")))
        .examples(examples.iter().map(|example| serde_json::json!(example)))
        .into()
}

/// In the regular expressions of ECMA 262, which JSON Schema uses; without anchors.
fn pattern() -> String {
    let name = host_name();
    let address = format!("{}|{}", ipv4(), ipv6());
    format!("{name}|{address}|\\[(?:{address})\\]")
}

/// At most 253 characters before a last dot, and the last label is not a number alone.
fn host_name() -> String {
    let label = "[0-9A-Za-z_](?:[0-9A-Za-z_-]{0,61}[0-9A-Za-z_])?";
    format!("(?!.{{253}}[^.]|.{{255}})(?:{label}\\.)*(?![0-9]+\\.?$){label}\\.?")
}

fn ipv4() -> String {
    let number = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
    format!("(?:{number}\\.){{3}}{number}")
}

/// IPv6address of RFC 3986, appendix A.
fn ipv6() -> String {
    let group = "[0-9A-Fa-f]{1,4}";
    let last_two = format!("(?:{group}:{group}|{})", ipv4());
    let mut forms = vec![format!("(?:{group}:){{6}}{last_two}")];
    // `::` stands for at least one group: before it are up to `most`, after it `7 - most`.
    for most in 0..=7 {
        let before = match most {
            0 => String::new(),
            _ => format!("(?:(?:{group}:){{0,{}}}{group})?", most - 1),
        };
        let after = match 7 - most {
            0 => String::new(),
            1 => group.to_string(),
            groups => format!("(?:{group}:){{{}}}{last_two}", groups - 2),
        };
        forms.push(format!("{before}::{after}"));
    }
    forms.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_have_one_form() {
        assert_eq!(destination("::FFFF:10.0.0.1").unwrap(), "10.0.0.1");
        assert_eq!(destination("[2001:DB8::0:1]").unwrap(), "2001:db8::1");
        assert_eq!(destination("Mirror.Example.ORG.").unwrap(), "mirror.example.org");
        for wrong in ["", ".", "a..", "a b", "*", "x/../y", "ü", &"a".repeat(254)] {
            assert!(destination(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_can_be_neither_an_address_nor_a_name_is_refused() {
        for wrong in ["300.1.2.3", "10.0.0", "42", "a..b", ".a", "-a.b", "a-.b", &"a".repeat(64)] {
            let e = destination(wrong).unwrap_err().to_string();
            assert!(e.contains("is neither an address nor a host's name"), "{wrong}: {e}");
        }
        for fine in ["a", "_x.example", "3com.example", "xn--bcher-kva.example", "host-1"] {
            assert_eq!(destination(fine).unwrap(), fine);
        }
    }
}
