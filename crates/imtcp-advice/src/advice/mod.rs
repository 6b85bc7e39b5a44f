// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Network advice [EN §3.3]: pure functions from history to advice. No clock, no database.
//!
//! ```text
//!  request at t0                       [`days`]    past days that count, their [t0, t1]
//!       │
//!       ├─ each past day i, each hop   [`fit`]     b = B0(i) + B1(i)·t, R²
//!       │
//!       ├─ each hop                    [`model`]   B̂0, B̄1, σ, S, ε → τ
//!       │
//!       ├─ each hop                    [`capacity`] upper quartile of what records told
//!       │
//!       └─ the path                    [`decide`]  least hop; newest records → on or off
//! ```
//!
//! Differences from the paper
//! 1. A least number of days: with fewer the answer is "I don't know", congestion control on.
//! 2. The standard deviation of B1(i) is that of a sample (divisor N − 1), as its values are
//!    estimates from few days.
//! 3. τ is kept within a least and a greatest time: 0 would be asked for for ever, and S = 0
//!    gives infinity.
//! 4. Windows follow the wall clock of a zone, so that a daily shape stays in its place when
//!    clocks change.
//! 5. A day counts only where what was measured spans a share of its window: a line through a
//!    sliver leads anywhere.
//! 6. What is told to be available lies within 0 and the capacity; ε, S and τ are as the lines say.

pub mod answer;
pub mod backtest;
pub mod capacity;
pub mod days;
pub mod decide;
pub mod fit;
pub mod model;
