// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Standard output and standard error. Either may be a file on a full disk, a terminal that was closed or
//! a pipe that nobody reads: the standard library's macros would panic there.

use std::fmt;
use std::io::{self, Write};

use crate::exit;

/// As `print!`; ends the command where it cannot be written.
macro_rules! out {
    ($($arg:tt)*) => { $crate::out::write(format_args!($($arg)*)) };
}

/// As `println!`; ends the command where it cannot be written.
macro_rules! outln {
    ($($arg:tt)*) => { out!("{}\n", format_args!($($arg)*)) };
}

/// As the standard library's, whose place it takes: a message that cannot be written changes no exit code.
macro_rules! eprintln {
    ($($arg:tt)*) => { eprint!("{}\n", format_args!($($arg)*)) };
}

/// The same without an end of the line.
macro_rules! eprint {
    ($($arg:tt)*) => { $crate::out::say(format_args!($($arg)*)) };
}

/// In one piece, so that lines of several processes do not mix.
pub fn say(text: fmt::Arguments) {
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

pub fn write(text: fmt::Arguments) {
    let mut out = io::stdout().lock();
    if let Err(e) = out.write_fmt(text).and_then(|()| out.flush()) {
        eprintln!("imtcp: cannot write to standard output: {e}");
        std::process::exit(exit::FAILURE.into());
    }
}
