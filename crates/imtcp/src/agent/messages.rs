// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the agent says. It outlives whoever reads it: a line that cannot be written is left out.

use std::fmt;
use std::io::{self, Write};

/// A line on standard error.
macro_rules! say {
    ($($arg:tt)*) => { $crate::agent::messages::to_stderr(format_args!($($arg)*)) };
}
pub(crate) use say;

/// Characters of a line: a service or a program may have a long answer.
const MOST_CHARS: usize = 1000;

pub fn to_stderr(text: fmt::Arguments) {
    eprintln!("imtcp: {}", printable(&text.to_string()));
}

/// One line that moves no terminal, whatever a service or a log has in it.
fn printable(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut line: String = shown.take(MOST_CHARS).collect();
    if text.chars().nth(MOST_CHARS).is_some() {
        line.push('…');
    }
    line
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
    fn a_line_is_one_line_moves_no_terminal_and_is_bounded() {
        assert_eq!(printable("a\nb\u{1b}[2Jc"), "a\u{fffd}b\u{fffd}[2Jc");
        assert_eq!(printable(&"ä".repeat(5000)).chars().count(), MOST_CHARS + 1);
        assert_eq!(printable("as it is"), "as it is");
    }

    #[test]
    fn a_line_that_cannot_be_written_is_left_out() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        write_line(full, "nobody reads this");
    }
}
