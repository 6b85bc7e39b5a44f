// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The parts of `imtcp agent`: who a result belongs to, the spool, the sending.

pub mod peers;
pub mod send;
pub mod spool;
pub mod thin;
