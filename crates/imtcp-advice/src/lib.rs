// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The advice service [EN ch. 3]: it keeps the history of paths and answers what a transfer
//! should do now, and until when. It knows neither BPF nor the command line.
//!
//! [`advice`] is the algorithm, pure; [`store`] the history; [`service`] answers over HTTP.

pub mod advice;
pub mod counters;
pub mod csv_text;
pub mod error;
pub mod exchange;
pub mod parquet;
pub mod service;
pub mod settings;
pub mod store;

pub use error::{Error, Result};
