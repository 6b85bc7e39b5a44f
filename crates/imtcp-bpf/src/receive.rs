// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Windows of open connections: they follow a policy, or are their program's again (bpf/imtcp_ctl_receive.h).

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::PathBuf;

use anyhow::Result;

use crate::control::{load_for, namespaces_of, program, Links};
use crate::shared::imtcp_ctl_cfg;
use crate::{netns, objects, paths, raw, walk};

/// Has the windows of a policy's open connections steered. Returns how many the kernel refuses that: all before Linux 6.12.
pub fn steer_open(policy: u64) -> Result<usize> {
    let mut refused = 0;
    each(policy, objects::ASK_OF_OPEN, |bytes| refused += bytes.len() / size_of::<u64>())?;
    Ok(refused)
}

/// Gives the connections of these policies the windows of their buffers again. A connection that cannot be reached
/// keeps its window until it ends.
pub fn give_back(policies: &BTreeSet<u64>) {
    for policy in policies {
        let _ = each(*policy, objects::LET_RECEIVE, |_| ());
    }
}

/// The pin of a run's program for downloads. If the run is killed, its open downloads go on yielding until the run is
/// swept. Without the pin their windows would stay as they are.
fn run_pin(policy: u64) -> PathBuf {
    paths::attach_dir().join(format!("{policy:016x}-run{}", objects::RECEIVE.suffix))
}

pub fn keep_for_run(links: &Links, policy: u64) -> Result<()> {
    let Some(link) = links.receive() else { return Ok(()) };
    std::fs::create_dir_all(paths::attach_dir())?;
    Ok(raw::obj_pin(link.as_fd(), &run_pin(policy))?)
}

/// Ends that, once the run's links are gone, and gives open downloads their windows back.
pub fn end_of_run(policy: u64) {
    if std::fs::remove_file(run_pin(policy)).is_ok() {
        give_back(&BTreeSet::from([policy]));
    }
}

/// Has a program look at a policy's connections, in each namespace that has some.
fn each(policy: u64, name: &str, mut take: impl FnMut(&[u8])) -> Result<()> {
    let only = namespaces_of(&BTreeSet::from([policy]));
    if only.as_ref().is_some_and(BTreeSet::is_empty) {
        return Ok(());
    }
    let cfg = imtcp_ctl_cfg { policy, ..Default::default() };
    let object = load_for(name, cfg, "the program for open downloads")?;
    let link = program(&object, name)?.attach()?;
    netns::each(None, |ns| match &only {
        Some(only) if !only.contains(&ns.ino) => Ok(()),
        _ => walk::sockets(ns, link.as_fd(), &mut take),
    });
    Ok(())
}
