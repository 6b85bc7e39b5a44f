// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use anyhow::Result;
use imtcp_advice::advice::backtest::{backtest, Score};
use imtcp_advice::settings::{Changes, Settings};
use imtcp_advice::store::read::{PathInfo, ALL_PATHS};
use imtcp_advice::store::Store;
use imtcp_common::out::print_json;
use imtcp_common::{exit, format};
use serde::Serialize;

use crate::cli::BacktestArgs;
use crate::histories::{open_existing, paths, wait};

#[derive(Serialize)]
struct OfPath {
    dst: String,
    hop: String,
    horizon_s: u32,
    scores: Vec<Score>,
}

pub fn main(args: BacktestArgs) -> Result<u8> {
    let all = wait(async {
        let store = open_existing(&args.db).await?;
        let defaults = store.path(ALL_PATHS).await?.map(|p| p.settings).unwrap_or_default();
        let mut all = Vec::new();
        for path in paths(&store, args.path.as_deref()).await? {
            match of_path(&args, &store, &defaults, &path).await {
                // One path with wrong settings does not keep the others from their scores.
                Err(e) if args.path.is_none() && is_of_input(&e) => {
                    eprintln!("imtcp-advice: {} is left out: {e}", path.dst);
                }
                scores => all.extend(scores?),
            }
        }
        store.close().await;
        Ok(all)
    })?;
    for path in &all {
        if args.json {
            print_json(path)?;
        } else {
            let hop =
                if path.hop.is_empty() { String::new() } else { format!(", hop {}", path.hop) };
            outln!("{}{hop}, mean of the next {} s", path.dst, path.horizon_s);
            out!("{}", table(&path.scores));
        }
    }
    Ok(exit::OK)
}

/// Wrong settings, and not a database that fails.
fn is_of_input(e: &anyhow::Error) -> bool {
    matches!(e.downcast_ref(), Some(imtcp_advice::Error::Input(_)))
}

async fn of_path(
    args: &BacktestArgs,
    store: &Store,
    defaults: &Changes,
    path: &PathInfo,
) -> Result<Vec<OfPath>> {
    let mut changes = path.settings.clone();
    if let Some(horizon_s) = args.horizon {
        changes.insert("horizon_s".into(), horizon_s.into());
    }
    let settings = Settings::layered(&[defaults, &changes])?;
    let horizon_s = settings.horizon_s;
    let mut hops: Vec<_> = path.series.iter().map(|s| s.hop.clone()).collect();
    hops.dedup();
    let mut all = Vec::new();
    for hop in hops {
        let ids: Vec<_> = path.series.iter().filter(|s| s.hop == hop).map(|s| s.id).collect();
        let samples = store.all_samples(&ids, settings.min_validity_pct).await?;
        let scores = backtest(&samples, &settings, args.days, args.steps)?;
        all.push(OfPath { dst: path.dst.clone(), hop, horizon_s, scores });
    }
    Ok(all)
}

fn table(scores: &[Score]) -> String {
    let head = ["PREDICTOR", "PREDICTED", "ERROR MEDIAN", "P90", "MEAN", "BIAS", "COVERED"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for s in scores {
        let mut row = vec![s.predictor.into(), format!("{} of {}", s.predictions, s.possible)];
        let or_dash = |text: Option<String>| text.unwrap_or("-".into());
        let signed = |bps: f64| {
            let sign = if bps < 0.0 { '−' } else { '+' };
            format!("{sign}{}", format::rate(bps.abs() as u64))
        };
        row.extend([
            or_dash(s.error_median_pct.map(|pct| format!("{pct:.1} %"))),
            or_dash(s.error_p90_pct.map(|pct| format!("{pct:.1} %"))),
            or_dash(s.error_mean_bps.map(|bps| format::rate(bps as u64))),
            or_dash(s.bias_bps.map(signed)),
            or_dash(s.covered_pct.map(|pct| format!("{pct:.0} %"))),
        ]);
        rows.push(row);
    }
    format::table(&rows)
}
