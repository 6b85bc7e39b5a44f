// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the agent says. It outlives whoever reads it: a line that cannot be written is left out.

use std::fmt;

use imtcp_common::format::short_line;
pub use imtcp_common::out::to_stdout;

/// A line on standard error.
macro_rules! say {
    ($($arg:tt)*) => { $crate::messages::to_stderr(format_args!($($arg)*)) };
}
pub(crate) use say;

pub fn to_stderr(text: fmt::Arguments) {
    eprintln!("imtcp-agent: {}", short_line(&text.to_string()));
}
