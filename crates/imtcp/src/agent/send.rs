// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Sending what the spool holds. A batch leaves the spool when the service has said that it
//! is on disk there; what was sent and not acknowledged is sent again under the same id.

use std::fs;
use std::time::Duration;

use anyhow::Result;

use super::spool::Spool;
use crate::http::{Client, Failure};

/// What became of a round.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub batches: usize,
    pub records: u64,
    /// Batches that the service would never take; they are put aside as `.refused`.
    pub refused: usize,
    /// Why the rest still waits.
    pub waits: Option<String>,
}

/// Sends all that waits, the oldest first, until the service stops taking.
pub fn send_all(spool: &Spool, client: &Client) -> Result<Sent> {
    let mut sent = Sent::default();
    for path in spool.waiting()? {
        // It may have had to make room in the meantime.
        let Ok(body) = fs::read(&path) else { continue };
        match client.post("/v1/reports", &body) {
            Ok(receipt) => {
                sent.batches += 1;
                sent.records += receipt["stored"].as_u64().unwrap_or(0);
                fs::remove_file(&path)?;
            }
            // The batch itself is wrong: no use in sending it for ever.
            Err(Failure::Refused { status: 400 | 413, detail }) => {
                eprintln!("imtcp: the service refuses a batch: {detail}");
                sent.refused += 1;
                fs::rename(&path, path.with_extension("refused"))?;
            }
            Err(failure) => {
                sent.waits = Some(failure.to_string());
                break;
            }
        }
    }
    Ok(sent)
}

/// How long to leave the service alone after so many failures in a row.
pub fn pause(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.min(6))
}
