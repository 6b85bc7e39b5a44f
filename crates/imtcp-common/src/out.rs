// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Standard output and standard error. Either may be a file on a full disk, a terminal that was closed or
//! a pipe that nobody reads: the standard library's macros would panic there.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{exit, format, name};

/// As `print!`; ends the command where it cannot be written.
#[macro_export]
macro_rules! out {
    ($($arg:tt)*) => { $crate::out::write(format_args!($($arg)*)) };
}

/// As `println!`; ends the command where it cannot be written.
#[macro_export]
macro_rules! outln {
    ($($arg:tt)*) => { $crate::out::write(format_args!("{}\n", format_args!($($arg)*))) };
}

/// As the standard library's, whose place it takes: a message that cannot be written changes no exit code.
#[macro_export]
macro_rules! eprintln {
    ($($arg:tt)*) => { $crate::out::say(format_args!("{}\n", format_args!($($arg)*))) };
}

/// The same without an end of the line.
#[macro_export]
macro_rules! eprint {
    ($($arg:tt)*) => { $crate::out::say(format_args!($($arg)*)) };
}

/// Texts that wait for those who hold them to let them go.
struct Held {
    holders: usize,
    texts: Vec<(To, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Output,
    Error,
}

static HELD: Mutex<Held> = Mutex::new(Held { holders: 0, texts: Vec::new() });

fn held() -> MutexGuard<'static, Held> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on nothing is written, and nobody waits for who reads it.
pub fn hold() {
    held().holders += 1;
}

/// Writes what has waited, once nobody holds it any more.
pub fn release() {
    let texts = {
        let mut held = held();
        held.holders -= 1;
        if held.holders > 0 {
            return;
        }
        std::mem::take(&mut held.texts)
    };
    for (to, text) in texts {
        write_now(to, &text);
    }
}

/// In one piece, so that lines of several processes do not mix.
pub fn say(text: fmt::Arguments) {
    write_or_hold(To::Error, text);
}

pub fn write(text: fmt::Arguments) {
    write_or_hold(To::Output, text);
}

fn write_or_hold(to: To, text: fmt::Arguments) {
    let text = format::lines_for_terminal(&text.to_string());
    let mut held = held();
    if held.holders > 0 {
        return held.texts.push((to, text));
    }
    drop(held);
    write_now(to, &text);
}

fn write_now(to: To, text: &str) {
    if to == To::Error {
        // A message that cannot be written changes no exit code.
        let _ = io::stderr().write_all(text.as_bytes());
        return;
    }
    let mut out = io::stdout().lock();
    if let Err(e) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        cannot_write(&e);
    }
}

/// A line of a daemon, which outlives whoever reads it: one that cannot be written is left out.
pub fn to_stdout(line: &str) {
    write_line(io::stdout(), line);
}

fn write_line(mut to: impl Write, line: &str) {
    let _ = to.write_all(format!("{line}\n").as_bytes()).and_then(|()| to.flush());
}

/// Ends this process, and says why.
pub fn cannot_write(error: &io::Error) -> ! {
    eprintln!("{}: cannot write to standard output: {error}", name::of_program());
    std::process::exit(exit::FAILURE.into())
}

/// Prints one JSON value on a line of its own. Others wrote some of its texts, and somebody may read it
/// on a terminal.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    outln!("{}", format::json_for_terminal(&serde_json::to_string(value)?));
    Ok(())
}

/// Has whoever reads standard output gone? Waits for that, for so long at most. A file or terminal has no
/// reader that goes.
pub fn reader_is_gone(at_most: Duration) -> bool {
    let deadline = Instant::now() + at_most;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up: the rest of a millisecond is not waited for in a loop.
        let left_ms = left.as_micros().div_ceil(1000).try_into().unwrap_or(i32::MAX);
        let mut look = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
        // SAFETY: one structure, which lives through the call.
        if unsafe { libc::poll(&mut look, 1, left_ms) } > 0 {
            return look.revents & (libc::POLLERR | libc::POLLHUP) != 0;
        }
        if Instant::now() >= deadline {
            return false;
        }
    }
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
