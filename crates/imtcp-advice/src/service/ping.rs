// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The RTT at the request [EN §3.3.1], where no record tells it: one packet of ping(8), at most
//! once a minute for a path that is asked about. Strangers are not pinged: only paths that
//! have history are.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::process::Command;

use crate::ping;

/// An answer waits no longer than this; what comes later is not known.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a result is used, also that there was none.
const KEEP: Duration = Duration::from_secs(60);
const MOST_KEPT: usize = 10_000;

#[derive(Default)]
pub struct Pinger {
    enabled: bool,
    kept: Mutex<HashMap<String, (Instant, Option<u64>)>>,
}

impl Pinger {
    pub fn new(enabled: bool) -> Self {
        Pinger { enabled, ..Pinger::default() }
    }

    pub async fn rtt_us(&self, dst: &str) -> Option<u64> {
        if !self.enabled {
            return None;
        }
        {
            let kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
            if let Some((_, rtt_us)) = kept.get(dst).filter(|(at, _)| at.elapsed() < KEEP) {
                return *rtt_us;
            }
        }
        let rtt_us = least_rtt_us(dst).await;
        let mut kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(dst.into(), (Instant::now(), rtt_us));
        rtt_us
    }
}

async fn least_rtt_us(dst: &str) -> Option<u64> {
    let mut command = Command::new("ping");
    command.args(["-n", "-q", "-c", "1", "-W", "1", "--", dst]).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.ok()?.ok()?;
    let summary = ping::summary(&String::from_utf8_lossy(&output.stdout))?;
    summary.rtt.map(|rtt| rtt.least_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn switched_off_it_sends_nothing_and_a_result_is_kept() {
        assert_eq!(Pinger::new(false).rtt_us("127.0.0.1").await, None);
        let pinger = Pinger::new(true);
        pinger.kept.lock().unwrap().insert("x".into(), (Instant::now(), Some(7)));
        assert_eq!(pinger.rtt_us("x").await, Some(7));
    }
}
