// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Parts that all subcommands share: start, end, and output file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys;

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// SIGTERM and SIGINT end a run in order, and it still writes its results.
pub fn catch_signals() {
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
    for signal in [libc::SIGTERM, libc::SIGINT] {
        unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    }
}

pub fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// The time span of a run on the common clock.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Span {
    /// Start at this CLOCK_MONOTONIC time in µs (see `now`); 0: at once
    #[arg(long, default_value_t = 0)]
    pub at_us: u64,
    /// Length of the run (s, or with unit ms, us); 0: until SIGTERM
    #[arg(long = "duration", value_parser = crate::units::parse_us, default_value = "0", value_name = "DURATION")]
    pub duration_us: u64,
}

impl Span {
    /// The start, at the latest now.
    pub fn start_us(&self) -> u64 {
        if self.at_us == 0 {
            sys::now_us()
        } else {
            self.at_us
        }
    }

    pub fn end_us(&self, start_us: u64) -> u64 {
        if self.duration_us == 0 {
            u64::MAX
        } else {
            start_us + self.duration_us
        }
    }
}

/// A CSV file of results with a header line; complete only after `finish`.
pub struct Csv(BufWriter<File>);

impl Csv {
    pub fn create(path: &Path, header: &str) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 16, File::create(path)?);
        writeln!(file, "{header}")?;
        Ok(Csv(file))
    }

    pub fn row(&mut self, line: std::fmt::Arguments) -> io::Result<()> {
        self.0.write_fmt(line)?;
        self.0.write_all(b"\n")
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}
