// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What would have been advised, and will be: the page's band and timeline.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, State};
use axum::Json;
use imtcp_client::destination::{destination, Destination};
use imtcp_client::time::rfc3339;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::advice_cache::AdviceCache;
use super::gate::REQUEST_TIME;
use super::problem::Problem;
use super::query::{params, period, QueryOf};
use super::Shared;
use crate::advice::answer::{Reason, Switch};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TimelineParams {
    #[param(value_type = Destination)]
    dst: String,
    /// RFC 3339, before `to`; a day before it when absent.
    #[param(format = DateTime)]
    from: Option<String>,
    /// RFC 3339; now when absent. May lie ahead.
    #[param(format = DateTime)]
    to: Option<String>,
    #[serde(default = "steps")]
    #[param(minimum = 1, maximum = 96)]
    steps: u32,
}

fn steps() -> u32 {
    48
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Timeline {
    dst: String,
    steps: Vec<Step>,
}

/// The advice as of one moment, in short.
#[derive(Debug, Serialize, ToSchema)]
pub struct Step {
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    at: i64,
    congestion_control: Switch,
    reason: Reason,
    available_bps: Option<u64>,
    available_low_bps: Option<u64>,
    available_high_bps: Option<u64>,
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    next_advice_at: i64,
}

/// The advice at equal steps between two times
#[utoipa::path(get, path = "/v1/timeline", tag = "history", params(TimelineParams), responses(
    (status = 200, description = "The steps", body = Timeline),
))]
pub async fn timeline(
    State(service): State<Shared>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    query: QueryOf<TimelineParams>,
) -> Result<Json<Timeline>, Problem> {
    let params = params(query)?;
    if !(1..=96).contains(&params.steps) {
        return Err(Problem::bad_request("steps is between 1 and 96"));
    }
    let dst = destination(&params.dst)?;
    let (from_us, to_us) = period(params.from.as_deref(), params.to.as_deref())?;
    let cache = Arc::clone(&service.cache);
    let count = i64::from(params.steps);
    let read = async move {
        let begun = Instant::now();
        let mut steps = Vec::new();
        for i in 0..count {
            if begun.elapsed() > REQUEST_TIME {
                // Nobody waits any more.
                return Err(Problem::busy());
            }
            steps.push(step(&cache, &dst, from_us + (to_us - from_us) / count * i).await?);
        }
        Ok(Timeline { dst, steps })
    };
    Ok(Json(service.turns.run(client.ip(), read).await?))
}

async fn step(cache: &AdviceCache, dst: &str, t0_us: i64) -> Result<Step, Problem> {
    let advice = &cache.as_of(dst, t0_us).await?.advice;
    Ok(Step {
        at: t0_us,
        congestion_control: advice.congestion_control,
        reason: advice.reason,
        available_bps: advice.available_bps,
        available_low_bps: advice.available_low_bps,
        available_high_bps: advice.available_high_bps,
        next_advice_at: advice.next_advice_at,
    })
}
