// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The wire of the advice service: what is said on it, in which form, and who asks. The service speaks it too, so that
//! both mean the same.

pub mod answers;
pub mod destination;
pub mod hosts;
pub mod http;
pub mod peer;
pub mod ping;
mod proxy;
pub mod record;
pub mod secret_file;
pub mod service;
pub mod time;
pub mod token_file;
pub mod verdict;
pub mod whole;
pub mod wrong;

pub use wrong::Wrong;
