// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Standard output, which may be a file on a full disk: `println!` would panic.

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

pub fn write(text: fmt::Arguments) {
    let mut out = io::stdout().lock();
    if let Err(e) = out.write_fmt(text).and_then(|()| out.flush()) {
        eprintln!("imtcp: cannot write to standard output: {e}");
        std::process::exit(exit::FAILURE.into());
    }
}
