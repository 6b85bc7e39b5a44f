// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use anyhow::{anyhow, Result};
use imtcp_advice::settings::{Changes, Settings};
use imtcp_advice::store::read::ALL_PATHS;
use imtcp_advice::store::Place;
use imtcp_advice::Error;
use imtcp_client::destination::destination;
use imtcp_common::out::print_json;
use imtcp_common::rate::Rate;
use imtcp_common::{exit, format};
use serde_json::{json, Value};

use crate::cli::SetArgs;
use crate::histories::{open, open_existing, wait};

pub fn main(args: SetArgs) -> Result<u8> {
    let changes: Result<Changes> = args.settings.iter().map(|s| parse(s)).collect();
    let changes = changes.map_err(exit::usage)?;
    let dst = args.path.as_deref().map(destination).transpose()?;
    let settings = wait(async {
        let place = Place::new(&args.db.db)?;
        let is_new = place.is_missing();
        let store = if changes.is_empty() {
            open_existing(&args.db).await?
        } else {
            open(&args.db).await?
        };
        let name = dst.as_deref().unwrap_or(ALL_PATHS);
        if !changes.is_empty() {
            let changed = store.change_settings(name, &changes).await;
            if changed.is_err() && is_new {
                store.close().await;
                place.remove();
            }
            changed.map_err(|e| match e {
                Error::Input(_) => exit::usage(e),
                e => e.into(),
            })?;
        }
        let mut layers = Vec::new();
        let mut is_empty = true;
        for name in [ALL_PATHS, name] {
            let path = store.path(name).await?;
            is_empty = path.as_ref().is_none_or(|p| p.series.is_empty());
            layers.extend(path.map(|p| p.settings));
        }
        // The names may be right: settings may come before records.
        if is_new && !changes.is_empty() {
            eprintln!("imtcp-advice: {place} is a new history");
        } else if is_empty && name != ALL_PATHS {
            eprintln!("imtcp-advice: there are no records of {name} yet");
        }
        store.close().await;
        Ok(Settings::layered(&layers.iter().collect::<Vec<_>>())?)
    })?;
    if args.json {
        print_json(&settings)?;
    } else {
        let Value::Object(all) = serde_json::to_value(&settings)? else { return Ok(exit::OK) };
        let row = |(key, value): (&String, &Value)| vec![key.clone(), shown(key, value)];
        out!("{}", format::table(&all.iter().map(row).collect::<Vec<_>>()));
    }
    Ok(exit::OK)
}

/// `KEY=VALUE` as the settings have it; `KEY=` takes back.
fn parse(text: &str) -> Result<(String, Value)> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        let known = is_setting(text).then(|| format!("{text}=VALUE"));
        let write = known.unwrap_or("KEY=VALUE, as threshold=42M".into());
        anyhow!("'{text}' has no value: write {write}; `set` without a setting shows all")
    })?;
    let wrong = |why: String| anyhow!("{key}: {why}");
    // NaN and infinity are no JSON: they would take the setting back.
    let number = |text: &str| match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(wrong(format!("'{value}' is no number: write digits and a point, as 42.5"))),
    };
    let value = match key {
        _ if value.is_empty() => Value::Null,
        "zone" | "history" => json!(value),
        "threshold" | "epsilon" => match value.strip_suffix('%') {
            Some(pct) => json!({ "share": number(pct)? / 100.0 }),
            None => {
                let say = |why| wrong(format!("{why}; write 42M for 42 Mbit/s, 42% for a share"));
                json!({ "bps": value.parse::<Rate>().map_err(say)?.0 })
            }
        },
        "capacity_bps" => json!(value.parse::<Rate>().map_err(wrong)?.0),
        "z" => json!(number(value)?),
        _ => match value.parse::<u64>() {
            Ok(number) => json!(number),
            Err(_) if is_setting(key) => {
                return Err(wrong(format!(
                    "'{value}' is no whole number: write digits alone, as 3600"
                )))
            }
            // The history names those that there are.
            Err(_) => json!(value),
        },
    };
    Ok((key.into(), value))
}

fn is_setting(key: &str) -> bool {
    serde_json::to_value(Settings::default()).is_ok_and(|all| all.get(key).is_some())
}

fn shown(key: &str, value: &Value) -> String {
    match value {
        Value::Number(bps) if key.ends_with("_bps") => {
            format::rate(bps.as_f64().unwrap_or(0.0) as u64)
        }
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Object(bound) => match (bound.get("bps"), bound.get("share")) {
            (Some(bps), _) => format::rate(bps.as_f64().unwrap_or(0.0) as u64),
            (_, Some(share)) => format!("{} %", share.as_f64().unwrap_or(0.0) * 100.0),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_as_people_write_them() {
        let of = |text| parse(text).unwrap().1;
        assert_eq!(of("threshold=42M"), json!({"bps": 42_000_000}));
        assert_eq!(of("epsilon=5%"), json!({"share": 0.05}));
        assert_eq!(of("zone=Europe/Berlin"), json!("Europe/Berlin"));
        assert_eq!(of("min_days=5"), json!(5));
        assert_eq!(of("z="), Value::Null);
        assert!(parse("z").is_err() && parse("threshold=fast").is_err());
        for no_number in ["z=nan", "z=inf", "epsilon=nan%", "threshold=inf%", "z=x"] {
            let e = parse(no_number).unwrap_err().to_string();
            assert!(e.contains("is no number: write digits"), "{e}");
        }
    }
}
