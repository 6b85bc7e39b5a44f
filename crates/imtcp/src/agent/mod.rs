// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The parts of `imtcp agent`: whose results are wanted, who a result belongs to, active tests, the
//! spool, the sending.

pub mod active;
pub mod clock;
pub mod follow_log;
pub mod from_service;
pub mod listed;
mod log_tail;
mod lookups;
pub mod messages;
pub mod named;
pub mod peers;
pub mod results;
pub mod send;
pub mod spool;
pub mod thin;
pub mod writer;
