// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The mode without congestion control: only where the administrator allows it, and whoever uses it
//! is in the system's log.

use std::ffi::CString;
use std::fs;

use anyhow::{bail, Result};
use imtcp_bpf::{down, NOCC};
use nix::unistd::{getuid, Uid, User};

use crate::policy::Mode;

pub fn is_allowed() -> bool {
    down::is_registered(NOCC)
}

/// Can connections be in that mode at present? Only nocc is ever taken away from under them.
pub fn may_be(mode: Mode) -> bool {
    mode != Mode::Nocc || is_allowed()
}

/// Refuses the mode in one sentence where it is not allowed. Who wanted it for what is in the
/// system's log.
pub fn require_allowed(mode: Mode, what: impl FnOnce() -> String) -> Result<()> {
    if !may_be(mode) {
        log(&format!("no congestion control (nocc) refused for {}, by {}", what(), who()));
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
        let text = format!("no congestion control (nocc) for {what}, by {}", who());
        eprintln!("imtcp: {text}");
        log(&text);
    }
}

/// The administrator's switch, in the system's log alone: `imtcp up` says it itself.
pub fn log_change(allowed: bool) {
    let is = if allowed { "is allowed from now on" } else { "is not allowed any more" };
    log(&format!("no congestion control (nocc) {is}, by {}", who()));
}

fn log(text: &str) {
    // Arguments of a command have no NUL inside; what has is not worth failing for.
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: all are NUL-terminated and live through the calls; the name is static, as it must be.
    unsafe {
        libc::openlog(c"imtcp".as_ptr(), libc::LOG_PID, libc::LOG_DAEMON);
        libc::syslog(libc::LOG_NOTICE, c"%s".as_ptr(), text.as_ptr());
    }
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
