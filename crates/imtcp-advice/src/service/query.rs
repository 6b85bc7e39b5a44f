// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Parameters of requests: of the part of the URL after the question mark.

use axum::extract::rejection::QueryRejection;
use axum::extract::Query;
use imtcp_client::time::{self, now_us, DAY_US};

use super::problem::Problem;

/// A query as axum reads it.
pub type QueryOf<T> = Result<Query<T>, QueryRejection>;

/// A query's parameters, or what is wrong with them.
pub fn params<T>(query: QueryOf<T>) -> Result<T, Problem> {
    let what_to_do = |e: QueryRejection| {
        let text = e.body_text();
        if text.contains("missing field `dst`") {
            return "dst is missing: give the destination, as ?dst=192.0.2.7".into();
        }
        let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
        text.replace("invalid digit found in string", "this is no whole number of 0 or more")
    };
    query.map(|Query(params)| params).map_err(|e| Problem::bad_request(what_to_do(e)))
}

/// From when to when: until now by default, and for a day.
pub fn period(from: Option<&str>, to: Option<&str>) -> Result<(i64, i64), Problem> {
    let to_us = to.map(time::parse).transpose()?.unwrap_or_else(now_us);
    let from_us = from.map(time::parse).transpose()?.unwrap_or(to_us.saturating_sub(DAY_US));
    if from_us >= to_us {
        return Err(Problem::bad_request("from is not before to: give the earlier time as from"));
    }
    Ok((from_us, to_us))
}
