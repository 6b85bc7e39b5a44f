// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The mode without congestion control. The administrator has to allow it. The system's log names who uses it, or the
//! kernel's where no such service runs.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};

use anyhow::{bail, Result};
use imtcp_bpf::{netns, NOCC};
use imtcp_common::format;
use nix::unistd::{getuid, Uid, User};

use crate::mode::Mode;

/// syslog(3)'s socket.
const SYSLOG: &str = "/dev/log";
const KERNEL_LOG: &str = "/dev/kmsg";
/// A record of the kernel's log has 1024 bytes at most, prefix included. A longer one keeps its beginning (the mode,
/// the command) and its end (the user).
const RECORD_MOST_BYTES: usize = 960;
const RECORD_HEAD_CHARS: usize = 150;
const RECORD_TAIL_CHARS: usize = 80;

pub fn is_allowed() -> bool {
    netns::is_registered(NOCC)
}

/// Can connections be in that mode at present? Only nocc is ever taken away from under them.
pub fn may_be(mode: Mode) -> bool {
    mode != Mode::Nocc || is_allowed()
}

/// Refuses the mode in one sentence where it is not allowed. Who wanted it for what is in the
/// system's log.
pub fn require_allowed(mode: Mode, what: impl FnOnce() -> String) -> Result<()> {
    if !may_be(mode) {
        log(&told("refused for", &what()));
        bail!(
            "mode nocc is not allowed on this machine, for it sends whatever the receiver takes and \
             harms everybody on the path: the administrator allows it with `imtcp up --allow-nocc`, \
             until the next `imtcp up` without"
        );
    }
    Ok(())
}

/// Who uses it for what, on standard error and in the system's log.
pub fn log_use(mode: Mode, what: &str) {
    if mode == Mode::Nocc {
        let text = told("for", what);
        eprintln!("imtcp: {text}");
        log(&text);
    }
}

/// The administrator's switch, in the system's log alone: `imtcp up` says it itself.
pub fn log_change(allowed: bool) {
    let is = if allowed { "is allowed from now on" } else { "is not allowed any more" };
    log(&format!("no congestion control (nocc) {is}, by {}", who()));
}

/// However long a command is, the user stays in the line.
fn told(done: &str, what: &str) -> String {
    format!("no congestion control (nocc) {done} {}, by {}", format::others_text(what), who())
}

fn log(text: &str) {
    if syslog_listens() {
        return to_syslog(text);
    }
    if let Err(e) = to_kernel_log(text) {
        eprintln!(
            "imtcp: in no log, for nothing listens on {SYSLOG} and {KERNEL_LOG} takes nothing ({e}): \
             {text}"
        );
    }
}

/// syslog(3) does not say whether anybody heard it.
fn syslog_listens() -> bool {
    let datagram = UnixDatagram::unbound().and_then(|socket| socket.connect(SYSLOG));
    datagram.is_ok() || UnixStream::connect(SYSLOG).is_ok()
}

fn to_syslog(text: &str) {
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: all are NUL-terminated and live through the calls; the name is static, as it must be.
    unsafe {
        libc::openlog(c"imtcp".as_ptr(), libc::LOG_PID, libc::LOG_DAEMON);
        libc::syslog(libc::LOG_NOTICE, c"%s".as_ptr(), text.as_ptr());
    }
}

fn to_kernel_log(text: &str) -> io::Result<()> {
    let priority = libc::LOG_DAEMON | libc::LOG_NOTICE;
    let record = format!("<{priority}>imtcp[{}]: {}\n", std::process::id(), fitting(text));
    OpenOptions::new().write(true).open(KERNEL_LOG)?.write_all(record.as_bytes())
}

/// Without its middle where it is too long for a record of the kernel's log.
fn fitting(text: &str) -> String {
    if text.len() <= RECORD_MOST_BYTES {
        return text.into();
    }
    let length = text.chars().count();
    let head: String = text.chars().take(RECORD_HEAD_CHARS).collect();
    let tail: String = text.chars().skip(length.saturating_sub(RECORD_TAIL_CHARS)).collect();
    format!("{head} … {tail}")
}

/// Who logged in, also behind sudo, where the kernel keeps it; else who we run as.
fn who() -> String {
    let login = fs::read_to_string("/proc/self/loginuid").ok();
    let uid = login.and_then(|text| text.trim().parse().ok()).filter(|uid| *uid != u32::MAX);
    let uid = uid.map_or_else(getuid, Uid::from_raw);
    match User::from_uid(uid) {
        Ok(Some(user)) => format!("{} (uid {uid})", user.name),
        _ => format!("uid {uid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_ends_with_the_user_whatever_the_command_is() {
        let line = told("refused for", &"a\nb ".repeat(9999));
        assert!(line.ends_with(&format!("…, by {}", who())), "{line}");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn a_long_command_leaves_its_beginning_and_the_user_in_a_record_of_the_kernels_log() {
        let short = "x".repeat(RECORD_MOST_BYTES);
        assert_eq!(fitting(&short), short);
        let long = format!(
            "no congestion control (nocc) for run 7 ({}), by joe (uid 7)",
            "ä€😀".repeat(999)
        );
        let kept = fitting(&long);
        assert!(kept.len() <= RECORD_MOST_BYTES, "{}", kept.len());
        assert!(kept.starts_with("no congestion control (nocc) for run 7 ("), "{kept}");
        assert!(kept.ends_with("), by joe (uid 7)"), "{kept}");
    }
}
