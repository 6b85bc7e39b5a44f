// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::time::{Duration, Instant};

/// Tells on standard error how far a long work is, every few seconds.
pub struct Said {
    at: Instant,
}

const SAYING_EVERY: Duration = Duration::from_secs(2);

impl Said {
    pub fn new() -> Self {
        Said { at: Instant::now() }
    }

    pub fn progress(&mut self, text: impl FnOnce() -> String) {
        if self.at.elapsed() >= SAYING_EVERY {
            self.at = Instant::now();
            eprintln!("imtcp-advice: {}", text());
        }
    }
}
