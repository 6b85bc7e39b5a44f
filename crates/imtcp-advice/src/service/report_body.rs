// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The body of a report. It takes room in memory as it comes, and not as it promises: whoever stalls
//! holds what has arrived, and not for long.

use std::net::IpAddr;
use std::time::Duration;

use super::problem::Problem;
use super::shares::{Share, Shares};
use axum::body::Body;
use axum::http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError};

/// Bytes of all reports in memory at once: sixteen of the largest, of one client four.
pub const MOST_BYTES: usize = 64 << 20;
/// Between two pieces of a body: a sender that is slower than this waits for nothing.
const STALLED: Duration = Duration::from_secs(3);

/// The whole body, and the room that it takes until it is dropped.
pub async fn read(
    mut body: Body,
    client: IpAddr,
    room: &Shares,
) -> Result<(Vec<u8>, Share), Problem> {
    let mut whole = Vec::new();
    let mut taken = room.take(client, 0).ok_or_else(busy)?;
    loop {
        let frame = tokio::time::timeout(STALLED, body.frame()).await.map_err(|_| stalled())?;
        let Some(frame) = frame else { return Ok((whole, taken)) };
        let Ok(piece) = frame.map_err(|e| wrong(&e))?.into_data() else { continue };
        let more = u32::try_from(piece.len()).map_err(|_| Problem::too_large())?;
        taken.merge(room.take(client, more).ok_or_else(busy)?);
        whole.extend_from_slice(&piece);
    }
}

fn busy() -> Problem {
    let detail = "too many reports are on their way: send the batch again in a second";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
}

fn stalled() -> Problem {
    let detail = "nothing more of the body came for three seconds: send the batch again";
    Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
}

fn wrong(e: &axum::Error) -> Problem {
    let mut cause = Some(e as &(dyn std::error::Error + 'static));
    while let Some(one) = cause {
        if one.is::<LengthLimitError>() {
            return Problem::too_large();
        }
        cause = one.source();
    }
    Problem::bad_request("the body cannot be read to its end: send the batch again")
}
