// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the annotations of single handlers do not say: refusals that many share, and which fields
//! requests and answers have.

use std::collections::BTreeSet;

use serde_json::{json, Map, Value};
use utoipa::OpenApi;

use super::super::problem::CONTENT;
use super::Api;

/// Refusals: status, name, when, and a header that comes with it.
const REFUSALS: [(&str, &str, &str, Option<&str>); 8] = [
    ("400", "BadRequest", "The request is wrong: `detail` says what", None),
    ("401", "Unauthorized", "It needs a token, or another one", Some("WWW-Authenticate")),
    ("403", "Forbidden", "Nobody may write here, or a page of another site asks", None),
    ("408", "RequestTimeout", "The request or its answer takes too long", None),
    ("413", "ContentTooLarge", "The body is larger than 64 KiB, or a report than 4 MiB", None),
    (
        "421",
        "MisdirectedRequest",
        "The service has another name than the header Host or the target",
        None,
    ),
    (
        "429",
        "TooManyRequests",
        "Too many requests, or wrong tokens, from this address",
        Some("Retry-After"),
    ),
    (
        "503",
        "ServiceUnavailable",
        "The history cannot be used now, or is busy: send it again later",
        Some("Retry-After"),
    ),
];

pub fn document(reading_needs_token: bool) -> String {
    let mut api = serde_json::to_value(Api::openapi()).unwrap_or_default();
    tidy(&mut api);
    let of_requests = schemas_in(&api, "requestBody");
    if let Some(schemas) = api["components"]["schemas"].as_object_mut() {
        for (_, schema) in schemas.iter_mut().filter(|(name, _)| !of_requests.contains(*name)) {
            require_all(schema);
        }
        if let Some(Value::Object(record)) = schemas.get_mut("Record") {
            record.extend(kinds_of_records());
        }
    }
    if let Some(paths) = api["paths"].as_object_mut() {
        for (path, operations) in paths {
            for operation in operations.as_object_mut().into_iter().flat_map(Map::values_mut) {
                add_refusals(path, operation, reading_needs_token);
            }
        }
    }
    api["components"]["responses"] =
        REFUSALS.iter().map(|(_, name, when, header)| (*name, refusal(when, *header))).collect();
    api.to_string()
}

fn refusal(when: &str, header: Option<&str>) -> Value {
    let problem = json!({"schema": {"$ref": "#/components/schemas/Problem"}});
    let mut response = json!({"description": when, "content": {(CONTENT): problem}});
    if let Some(name) = header {
        response["headers"] = json!({name: {"required": true, "schema": {"type": "string"}}});
    }
    response
}

fn add_refusals(path: &str, operation: &mut Value, reading_needs_token: bool) {
    let writes = operation["security"].is_array();
    // Whoever watches over the service needs no token.
    let is_open = path == "/healthz";
    if reading_needs_token && !writes && !is_open {
        operation["security"] = json!([{"read": []}]);
    }
    for (status, name, ..) in REFUSALS {
        let can_come = match status {
            "401" => !is_open,
            "503" => path != "/metrics",
            _ => true,
        };
        if can_come {
            let response = json!({"$ref": format!("#/components/responses/{name}")});
            operation["responses"][status] = response;
        }
    }
}

/// Which fields go together. Generators of clients pass over these keywords, and so keep one model.
fn kinds_of_records() -> Map<String, Value> {
    let with =
        |name: &str, kind: &str| json!({"required": [name], "properties": {name: {"type": kind}}});
    let without = |names: &[&str]| -> Map<String, Value> {
        names.iter().map(|name| (name.to_string(), json!({"type": "null"}))).collect()
    };
    let of_a_test = ["rtt_us", "loss", "throughput_bps"];
    let keywords = json!({
        "if": with("available_bps", "integer"),
        "then": {"properties": without(&["throughput_bps"])},
        "else": {
            "properties": without(&["capacity_bps", "congested"]),
            "anyOf": of_a_test.map(|name| with(name, "number")),
        },
    });
    keywords.as_object().cloned().unwrap_or_default()
}

/// The schemas of what operations have under this key, and the schemas within those.
fn schemas_in(api: &Value, key: &str) -> BTreeSet<String> {
    let operations = api["paths"].as_object().into_iter().flat_map(Map::values);
    let operations = operations.filter_map(Value::as_object).flat_map(Map::values);
    let mut next = Vec::new();
    operations.for_each(|operation| references(&operation[key], &mut next));
    let mut found = BTreeSet::new();
    while let Some(name) = next.pop() {
        if found.insert(name.clone()) {
            references(&api["components"]["schemas"][&name], &mut next);
        }
    }
    found
}

fn references(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|v| references(v, names)),
        Value::Object(map) => {
            let name = map.get("$ref").and_then(Value::as_str).and_then(|r| r.rsplit('/').next());
            names.extend(name.map(String::from));
            map.values().for_each(|v| references(v, names));
        }
        _ => {}
    }
}

/// A choice of one is no choice: generators of clients would make a type of it.
fn tidy(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(tidy),
        Value::Object(map) => {
            map.values_mut().for_each(tidy);
            let only = map.get("oneOf").and_then(Value::as_array).filter(|of| of.len() == 1);
            if let Some(Value::Object(only)) = only.map(|of| of[0].clone()) {
                map.remove("oneOf");
                map.extend(only);
            }
        }
        _ => {}
    }
}

/// An answer has all of its fields, null if unknown. A list may be left out where it is empty, if the
/// handler does so.
fn require_all(schema: &mut Value) {
    if let Some(Value::Array(parts)) = schema.get_mut("allOf") {
        parts.iter_mut().for_each(require_all);
    }
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    let mut optional = BTreeSet::new();
    for (name, property) in properties.iter_mut() {
        if let Some(property) = property.as_object_mut() {
            property.remove("default");
        }
        if property["type"] == "array" {
            optional.insert(name.clone());
        }
    }
    let names = properties.keys().cloned().collect::<BTreeSet<_>>();
    let told = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let required: BTreeSet<_> =
        told.map(String::from).chain(names.difference(&optional).cloned()).collect();
    schema["required"] = json!(required);
}
