// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What programs are given: docs/reference/json.md explains every key of it.

use std::collections::BTreeSet;

use imtcp_test_support::*;
use serde_json::Value;

const EXPLAINED: &str = include_str!("../../../docs/reference/json.md");

/// All keys of a value, but for those of parameters, which docs/reference/parameters.md has.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                found.insert(key.clone());
                if key != "params" {
                    keys(value, found);
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn every_key_is_explained() {
    let Some(_alone) = alone() else { return };
    let net = Net::new();
    let Some(client) = static_client() else { return };
    let (host, port) = net.peer();
    let client = client.to_str().unwrap();

    let mut said = vec![imtcp_ok(&["version", "--json"]), imtcp_ok(&["up", "--json"])];
    let ended = net.run(&["--json", "--", client, &host, &port, "50000"]);
    said.push(summary(&ended).to_string());
    let running = net.run_spawn(&["-q", "--", client, &host, &port, "50000", "30"]);
    eventually("the connection is seen", || !connections(&net.server.to_string()).is_empty());
    let pid = running.pid().to_string();
    said.push(connections(&net.server.to_string())[0].to_string());
    said.push(imtcp_ok(&["attach", "--json", "--pid", &pid]));
    said.push(imtcp_ok(&["status", "--json"]));
    said.push(imtcp_ok(&["detach", "--json", "--pid", &pid]));
    said.push(imtcp_ok(&["down", "--json"]));
    said.push(text(&imtcp(&["doctor", "--json"]).stdout));
    running.signal(libc::SIGTERM);
    running.finish();

    let mut found = BTreeSet::new();
    said.iter().for_each(|line| keys(&json(line), &mut found));
    for key in ["avail_results", "meas_invalid", "attachments", "in_force", "apart", "verdict"] {
        assert!(found.contains(key), "{key} was not asked for: {found:?}");
    }
    found.retain(|key| !EXPLAINED.contains(&format!("`{key}`")));
    assert_eq!(found, BTreeSet::new(), "not in docs/reference/json.md");
}
