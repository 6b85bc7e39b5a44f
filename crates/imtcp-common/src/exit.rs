// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Exit codes: 0 done, 1 failed, 2 wrong usage; `run` adds those of env(1) and nohup(1), `status` that of
//! systemctl(1).

use std::fmt;

pub const OK: u8 = 0;
pub const FAILURE: u8 = 1;
pub const USAGE: u8 = 2;
/// `status` of what is not up, as systemctl(1) and init scripts say it.
pub const NOT_UP: u8 = 3;
/// `run` itself failed, its command never started.
pub const RUN_FAILED: u8 = 125;
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;

/// An error with an exit code of its own.
#[derive(Debug)]
pub struct Coded {
    pub code: u8,
    pub message: String,
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Coded {}

/// An error of the caller's command line.
pub fn usage(e: impl fmt::Display) -> anyhow::Error {
    Coded { code: USAGE, message: format!("{e:#}") }.into()
}

pub fn of_error(e: &anyhow::Error) -> u8 {
    e.downcast_ref::<Coded>().map_or(FAILURE, |c| c.code)
}

/// The code that a shell would give for an end by this signal.
pub fn of_signal(signal: i32) -> u8 {
    128 + signal as u8
}

/// The exit code for a failure of execve, as a shell has it.
pub fn of_exec_error(errno: i32) -> u8 {
    if errno == libc::ENOENT {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_env_and_the_shell() {
        assert_eq!(of_signal(libc::SIGKILL), 137);
        assert_eq!(of_exec_error(libc::ENOENT), 127);
        assert_eq!(of_exec_error(libc::EACCES), 126);
        let e = anyhow::Error::new(Coded { code: 125, message: "x".into() }).context("y");
        assert_eq!(of_error(&e), 125);
        assert_eq!(of_error(&anyhow::anyhow!("plain")), 1);
    }
}
