// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Destinations as patterns, for the description of the interface: exactly what [`crate::record::destination`] accepts.

use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::RefOr;
use utoipa::{PartialSchema, ToSchema};

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
        schema("An address or a host's name", &destination(), &["192.0.2.7", "mirror.example.org"])
    }
}

impl PartialSchema for DestinationOrAll {
    fn schema() -> RefOr<Schema> {
        let pattern = format!("\\*|{}", destination());
        schema("An address or a host's name; `*` for all paths", &pattern, &["192.0.2.7", "*"])
    }
}

impl PartialSchema for DestinationOrNone {
    fn schema() -> RefOr<Schema> {
        let pattern = format!("|{}", destination());
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
fn destination() -> String {
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
