// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Windows of open connections: they follow a policy, or are their program's again (bpf/imtcp_ctl_receive.h).

use std::collections::BTreeSet;

use anyhow::Result;

use crate::control::{load_for, namespaces_of, program};
use crate::netns;
use crate::objects;
use crate::shared::imtcp_ctl_cfg;
use crate::walk;

/// Has the windows of a policy's open connections steered. Returns how many the kernel refuses that: all before Linux 6.12.
pub fn steer_open(policy: u64) -> Result<usize> {
    let mut refused = 0;
    each(policy, objects::ASK_OF_OPEN, |bytes| refused += bytes.len() / size_of::<u64>())?;
    Ok(refused)
}

/// Gives the connections of these policies the windows of their buffers again. What cannot be reached keeps its
/// window until it ends.
pub fn give_back(policies: &BTreeSet<u64>) {
    for policy in policies {
        let _ = each(*policy, objects::LET_RECEIVE, |_| ());
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
    let link = std::os::fd::AsFd::as_fd(&link);
    netns::each(None, |ns| match &only {
        Some(only) if !only.contains(&ns.ino) => Ok(()),
        _ => walk::sockets(ns, link, &mut take),
    });
    Ok(())
}
