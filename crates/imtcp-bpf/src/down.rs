// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Unloading. Connections in progress go on with the default control of their namespace.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};

use crate::control::{Switched, Switcher, Which};
use crate::netns::is_registered;
use crate::policy::Policies;
use crate::records::Records;
use crate::{controls, is_ours, netns, paths, probe, raw, Unseen};

#[derive(Debug, Default)]
pub struct Report {
    pub was_loaded: bool,
    pub switched: Switched,
    /// Connections that could not be moved: they keep the old program to their end.
    pub still_using: usize,
    /// Where sockets may have kept it, too.
    pub unseen: Unseen,
    /// Namespaces whose default control was imtcp*, with what it is now.
    pub defaults_changed: Vec<(u64, String)>,
}

pub fn down() -> Result<Report> {
    probe::require_privileges("imtcp down")?;
    paths::require_writable()?;
    let Some(_held) = paths::hold()? else { return Ok(Report::default()) };
    let mut report = Report { was_loaded: true, ..Default::default() };
    // Before anything is taken away: with this failing, everything stays as it was.
    let switcher = Switcher::load();
    let records = Records::open();
    let mut switcher = match (switcher, controls().any(is_registered)) {
        (Ok(s), _) => Some(s),
        // Half of the pins are missing and nothing is registered: only tidy up.
        (Err(_), false) => None,
        (Err(e), true) => {
            // The maps may be of another version; the switch without tags still works.
            return Err(e.context("nothing was unloaded"));
        }
    };

    report.unseen = netns::each(None, |ns| {
        if let Some(name) = ns.run(change_default)? {
            report.defaults_changed.push((ns.ino, name));
        }
        Ok(())
    });
    for control in controls() {
        unregister(control);
    }
    let gone = wait_until_gone();
    if let Some(switcher) = &mut switcher {
        // A second walk takes what was accepted from a listener during the first.
        for _ in 0..2 {
            let (switched, unseen) = switcher.run_everywhere(Which::All);
            report.switched += switched;
            report.unseen.add(unseen);
        }
    }
    if let Ok(records) = records {
        report.still_using = records.read().map_or(0, |r| r.len());
    }
    if let Ok(policies) = Policies::open() {
        policies.end_all();
    }
    paths::remove_all()?;
    // Last: what is not ours keeps nothing of ours here.
    gone?;
    Ok(report)
}

fn change_default() -> Option<String> {
    let default = netns::default_cc();
    if !is_ours(&default) {
        return None;
    }
    // Namespaces other than the first take only what every user may choose; reno always is.
    let candidates = [netns::fallback_cc(), "reno".to_string()];
    candidates.into_iter().find(|name| netns::set_default_cc(name).is_ok())
}

/// Takes one control away and moves what uses it to its namespace's default.
pub(crate) fn take_away(control: &'static str) -> Result<()> {
    paths::require_writable()?;
    let mut switcher = Switcher::load()?;
    unregister(control);
    let _ = fs::remove_file(paths::ops_pin(control));
    let mut unseen = Unseen::default();
    // A second walk takes what was accepted from a listener during the first.
    for _ in 0..2 {
        unseen.add(switcher.run_everywhere(Which::On(control)).1);
    }
    match unseen.text() {
        Some(text) => bail!("new connections have no {control} any more, open ones may: {text}"),
        None => Ok(()),
    }
}

/// Ends a registration by link (the pin is its last reference) or by deleting the element.
fn unregister(control: &str) {
    let pin = paths::link_pin(control);
    if let Ok(link) = raw::obj_get(&pin) {
        // Kernels before 6.11 cannot detach; there removing the pin does it.
        let _ = raw::link_detach(link.as_fd());
    }
    let _ = fs::remove_file(&pin);
    if let Ok(map) = raw::obj_get(&paths::ops_pin(control)) {
        unregister_map(map.as_fd());
    }
}

/// For maps without link; refused by the kernel for those with one.
pub(crate) fn unregister_map(map: BorrowedFd) {
    let key = 0u32;
    // SAFETY: the descriptor is open and the key as long as the map's.
    unsafe {
        libbpf_sys::bpf_map_delete_elem(map.as_raw_fd(), (&key as *const u32).cast());
    }
}

/// The kernel frees the last reference of a link on a worker.
fn wait_until_gone() -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(5);
    while controls().any(is_registered) {
        if Instant::now() > deadline {
            bail!(
                "a congestion control of imtcp is still registered, by someone else: \
                 `bpftool struct_ops list` and `bpftool link list` show by whom"
            );
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A struct_ops map, for those who want to keep looking at it while it goes.
pub fn ops_map(control: &str) -> Option<OwnedFd> {
    raw::obj_get(&paths::ops_pin(control)).ok()
}
