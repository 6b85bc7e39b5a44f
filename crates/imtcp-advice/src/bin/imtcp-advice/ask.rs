// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::net::{IpAddr, ToSocketAddrs};

use anyhow::{bail, Context, Result};
use imtcp_client::answers::{Advice, Path};
use imtcp_client::http::Client;
use imtcp_client::time::{self, SECOND_US};
use imtcp_client::verdict::{Mode, Switch};
use imtcp_common::{exit, format};

use crate::cli::AskArgs;

pub fn main(args: AskArgs) -> Result<u8> {
    args.at.as_deref().map(time::parse).transpose().map_err(exit::usage)?;
    let client = Client::new(&args.service)?;
    let answer = ask(&args, &client)?;
    if args.json {
        outln!("{}", format::json_for_terminal(&answer.json));
    } else {
        out!("{}", text(&answer));
    }
    Ok(exit::OK)
}

/// History is kept by address as a rule, and may be kept by name: the name is tried first.
fn ask(args: &AskArgs, client: &Client) -> Result<Advice> {
    let no_advice = || format!("no advice from {}", client.url());
    let of = |dst: &str| {
        let mut query = vec![("dst", dst.to_string())];
        query.extend(args.bytes.map(|n| ("bytes", n.to_string())));
        query.extend(args.at.clone().map(|at| ("at", at)));
        client.advice(&query).with_context(no_advice)
    };
    let first = of(&args.host)?;
    if first.reason != "no_history" || args.host.parse::<IpAddr>().is_ok() {
        return Ok(first);
    }
    let addresses = match (args.host.as_str(), 0).to_socket_addrs() {
        Ok(addresses) => addresses,
        // As of a time before its history begins.
        Err(_) if client.get::<Path>(&format!("/v1/paths/{}", args.host)).is_ok() => {
            return Ok(first)
        }
        Err(e) => bail!("{} has no history by this name, and no address: {e}", args.host),
    };
    for address in addresses {
        let found = of(&address.ip().to_canonical().to_string())?;
        if found.reason != "no_history" {
            return Ok(found);
        }
    }
    Ok(first)
}

fn text(answer: &Advice) -> String {
    let dash = || "-".to_string();
    let ask_again_us = answer.next_advice_at.min(answer.valid_until).max(0);
    let mut available = match (answer.available_bps, answer.available_low_bps) {
        (Some(bps), Some(low)) => format!(
            "{} ({}–{})",
            format::rate(bps),
            format::rate_short(low),
            format::rate_short(answer.available_high_bps.unwrap_or(bps))
        ),
        _ => "not known".into(),
    };
    if answer.reason == "stale" && answer.available_bps.is_some() {
        available += " at this time of past days";
    }
    let control = match answer.congestion_control {
        Switch::On => "on",
        Switch::Off => "off",
    };
    let mode = match answer.mode {
        Mode::Bg => "bg",
        Mode::Measure => "measure",
    };
    let mut rows = vec![
        ("congestion control", format!("{control}: {}", answer.because)),
        ("mode", mode.to_string()),
        ("available", available),
        ("RTT", answer.rtt_us.map_or_else(dash, format::micros)),
        ("buffer", answer.buffer_bytes.map_or_else(dash, format::bytes)),
        ("ask again at", format::unix_time((ask_again_us / SECOND_US) as u64)),
    ];
    if let Some(seconds) = answer.transfer_s {
        rows.insert(3, ("transfer takes", format::duration(seconds.ceil() as u64)));
    }
    if let Some(age_s) = answer.age_s {
        rows.push(("newest measurement", format!("{} before", format::duration(age_s as u64))));
    }
    let from = &answer.computed_from;
    let decided = matches!(answer.reason.as_str(), "free" | "congested");
    if let (true, Some(newest_bps), Some(threshold_bps)) =
        (decided, from.newest_bps, from.threshold_bps)
    {
        let (newest, threshold) = (format::rate(newest_bps), format::rate(threshold_bps as u64));
        rows.push(("decided by", format!("{newest} measured, the threshold is {threshold}")));
    }
    if answer.sample_count > 0 {
        let days = format::count(from.days_used, "day");
        rows.push(("from", format!("{days}, {}", format::count(answer.sample_count, "sample"))));
    }
    let rows: Vec<_> = rows.into_iter().map(|(k, v)| vec![k.to_string(), v]).collect();
    format::table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    /// An answer with these fields too.
    fn advice(more: Value) -> Advice {
        let mut all = json!({
            "at": "2026-03-20T14:25:00Z", "verdict": "advice", "congestion_control": "on", "mode": "bg",
            "next_advice_at": "2026-03-20T14:26:00Z", "valid_until": "2026-03-20T14:26:00Z",
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn i_dont_know_is_told_in_words() {
        let text = text(&advice(json!({
            "congestion_control": "on", "because": "there is no history of this destination",
            "available_bps": null, "sample_count": 0,
            "next_advice_at": "2026-03-20T14:26:00Z", "computed_from": {"days_used": 0},
        })));
        assert!(text.contains("congestion control  on: there is no history"), "{text}");
        assert!(text.contains("available           not known"), "{text}");
        assert!(text.contains("ask again at        2026-03-20 14:26:00 UTC"), "{text}");
        assert!(!text.contains("samples"), "{text}");
    }

    #[test]
    fn the_newest_value_and_the_threshold_that_decided_are_told() {
        let mut answer = json!({
            "congestion_control": "on", "reason": "congested",
            "because": "less is available than the threshold",
            "available_bps": 73_000_000, "sample_count": 2520,
            "computed_from": {
                "days_used": 42, "newest_bps": 38_200_000, "threshold_bps": 40_000_000.0,
            },
        });
        let told = text(&advice(answer.clone()));
        let row = "decided by          38.2 Mbit/s measured, the threshold is 40.0 Mbit/s\n";
        assert!(told.contains(row), "{told}");
        // A newest measurement that is too old decides nothing.
        answer["reason"] = json!("stale");
        assert!(!text(&advice(answer.clone())).contains("decided by"));
        answer["reason"] = json!("congested");
        answer["computed_from"]["newest_bps"] = json!(null);
        assert!(!text(&advice(answer.clone())).contains("decided by"));
    }

    #[test]
    fn what_is_stale_is_told_with_its_age_and_whole_seconds() {
        let text = text(&advice(json!({
            "congestion_control": "on", "reason": "stale",
            "because": "the newest measurement of the path is too old to go by, more than 600 s",
            "available_bps": 73_000_000, "available_low_bps": 64_300_000,
            "available_high_bps": 81_700_000, "sample_count": 2520, "age_s": 273_720.25,
            "next_advice_at": "2026-03-20T16:30:00Z",
            "valid_until": "2026-03-20T14:26:00.490574Z", "computed_from": {"days_used": 42},
        })));
        let stands = "available           73.0 Mbit/s (64.3M–81.7M) at this time of past days\n";
        assert!(text.contains(stands), "{text}");
        assert!(text.contains("newest measurement  3d 4h before\n"), "{text}");
        assert!(text.contains("ask again at        2026-03-20 14:26:00 UTC\n"), "{text}");
    }
}
