// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the agent says. It outlives whoever reads it: a line that cannot be written is left out.

use std::fmt;
use std::io::{self, Write};

use imtcp_common::format::short_line;

/// A line on standard error.
macro_rules! say {
    ($($arg:tt)*) => { $crate::messages::to_stderr(format_args!($($arg)*)) };
}
pub(crate) use say;

pub fn to_stderr(text: fmt::Arguments) {
    eprintln!("imtcp-agent: {}", short_line(&text.to_string()));
}

pub fn to_stdout(line: &str) {
    write_line(io::stdout(), line);
}

fn write_line(mut to: impl Write, line: &str) {
    let _ = to.write_all(format!("{line}\n").as_bytes()).and_then(|()| to.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_cannot_be_written_is_left_out() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        write_line(full, "nobody reads this");
    }
}
