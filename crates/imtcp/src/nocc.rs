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

/// Refuses the mode in one sentence where it is not allowed.
pub fn require_allowed(mode: Mode) -> Result<()> {
    if mode == Mode::Nocc && !is_allowed() {
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
        log(&format!("no congestion control (nocc) for {what}, by {}", who()));
    }
}

pub fn log_allowed() {
    log(&format!("no congestion control (nocc) is allowed from now on, by {}", who()));
}

fn log(text: &str) {
    eprintln!("imtcp: {text}");
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
