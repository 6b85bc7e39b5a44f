// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What a connection did at the last looks, for its sparkline and chart.

use std::collections::VecDeque;

use crate::view::Connection;

/// Moments that are kept of each connection.
pub const HISTORY: usize = 120;
pub const SPARK_WIDTH: usize = 24;

/// Own rate and available bandwidth at one look.
#[derive(Clone, Copy, Default)]
pub struct Moment {
    pub rate_bps: u64,
    pub avail_bps: Option<u64>,
}

#[derive(Default)]
pub struct History {
    pub moments: VecDeque<Moment>,
}

impl History {
    pub fn note(&mut self, c: &Connection) {
        if let Some(rate_bps) = c.main_bps() {
            let avail_bps = c.avail_smoothed_bps.or(c.avail_last_bps);
            self.moments.push_back(Moment { rate_bps, avail_bps });
            if self.moments.len() > HISTORY {
                self.moments.pop_front();
            }
        }
    }

    /// The greatest value in it, for the scale.
    pub fn top(&self) -> u64 {
        let all = self.moments.iter().flat_map(|m| [m.rate_bps, m.avail_bps.unwrap_or(0)]);
        all.max().unwrap_or(0).max(1)
    }

    /// Own rate as blocks, full height at the available bandwidth's top.
    pub fn spark(&self) -> String {
        const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let skip = self.moments.len().saturating_sub(SPARK_WIDTH);
        let top = self.top();
        let block = |m: &Moment| BLOCKS[(m.rate_bps * 7 / top).min(7) as usize];
        self.moments.iter().skip(skip).map(block).collect()
    }
}
