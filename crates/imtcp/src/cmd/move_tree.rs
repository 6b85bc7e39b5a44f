// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Moves what an attachment is of into cgroups of its own, within those that its processes are in.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{bail, Result};
use imtcp_bpf::control::{self, Links};
use imtcp_common::procfs;

use crate::attachment::{self, Attachment, Moved, Target};
use crate::cgroup::{self, Own};
use crate::filter::Filter;
use crate::nested::{self, Nest};

pub(super) fn link(attachment: &mut Attachment, dir: BorrowedFd) -> Result<()> {
    let links = new_links(attachment, dir)?;
    for told in &links.told {
        eprintln!("imtcp: {told}");
    }
    let pin = control::attachment_pin(attachment.policy, attachment.links);
    attachment.links += 1;
    attachment.save()?;
    control::pin_links(&links, &pin)
}

fn new_links(attachment: &Attachment, dir: BorrowedFd) -> Result<Links> {
    let filter = attachment.filter.as_ref().map(Filter::program).unwrap_or_default();
    control::attach_to_cgroup(dir, attachment.policy, filter, attachment.handling.programs())
}

/// The kernel asks the programs of one cgroup in the order in which they were attached. Gives this attachment's
/// cgroup new links from this one on, by rank. Each former link holds until there is the new one.
pub(super) fn link_in_order(attachment: &Attachment) -> Result<()> {
    let Target::Cgroup(dir) = &attachment.target else { return Ok(()) };
    let mut all = attachment::all();
    all.retain(|a| a.target == attachment.target && !a.has_ended() && a.links > 0);
    all.sort_by(|a, b| a.rank().cmp(&b.rank()));
    if all.len() < 2 {
        return Ok(());
    }
    for a in all.iter().skip_while(|a| a.policy != attachment.policy) {
        let links = new_links(a, fs::File::open(dir)?.as_fd())?;
        control::remove_links(a.policy, a.links);
        control::pin_links(&links, &control::attachment_pin(a.policy, 0))?;
    }
    Ok(())
}

/// Links each of its cgroups again if one has no link, or if the links are not right. Wrong links have other marks, or
/// programs whose maps nobody reads. A killed `attach` or `detach` leaves such links.
pub(super) fn mend_links(attachment: &mut Attachment, are_right: bool) -> Result<()> {
    if are_right && attachment.unlinked().is_empty() {
        return Ok(());
    }
    control::remove_links(attachment.policy, attachment.links);
    attachment.links = 0;
    for dir in attachment.cgroups() {
        match attachment.target {
            Target::Pid(_) => link(attachment, Own::require(&dir)?.as_fd())?,
            Target::Cgroup(_) => link(attachment, fs::File::open(&dir)?.as_fd())?,
        }
    }
    Ok(())
}

/// Moves a process and its descendants into new cgroups, one for each that they are in, but for those
/// that have a run or attachment of their own.
pub(super) fn move_tree(attachment: &mut Attachment, root: i32) -> Result<()> {
    let name = format!("{}{:016x}", cgroup::ATTACHMENT, attachment.policy);
    attachment.moved.retain(|m| Own::is_at(&m.dir));
    if procfs::is_alive(root) {
        // One that is too deep is said to be.
        cgroup::of_pid(root)?;
    }
    // Asked before anything moves: afterwards what is around the process would not be any more.
    let inner = Nest::now().within(attachment);
    // Children born while the others are moved show up in the next round.
    for _ in 0..16 {
        let mut taken = nested::processes(&inner);
        taken.extend(attachment.moved.iter().flat_map(|m| cgroup::procs(&m.dir)));
        let outside: Vec<i32> =
            attachment.tree().into_iter().filter(|pid| !taken.contains(pid)).collect();
        if outside.is_empty() {
            break;
        }
        for pid in outside {
            let home = match cgroup::of_pid(pid) {
                Err(_) if pid != root && !procfs::exists(pid) => continue,
                home => home?,
            };
            require_one_cgroup(pid)?;
            let dir = match attachment.moved.iter().find(|m| m.home == home) {
                Some(moved) => moved.dir.clone(),
                None => nested::beside_all(&home).join(&name),
            };
            // Two that they are in may have the same place beside them.
            let own = match attachment.moved.iter().any(|m| m.dir == dir) {
                true => Own::require(&dir)?,
                false => {
                    attachment.moved.push(Moved { dir: dir.clone(), home });
                    attachment.save()?;
                    let own = Own::create(&dir)?;
                    link(attachment, own.as_fd())?;
                    own
                }
            };
            match own.take(pid) {
                // It has ended, or is a kernel thread.
                Err(e) if pid == root && procfs::exists(root) => {
                    bail!("cannot move process {root} to {}: {e}", dir.display())
                }
                _ => {}
            }
        }
    }
    if attachment.moved.is_empty() {
        bail!("process {root} has ended");
    }
    Ok(())
}

/// Moved together, threads would leave what limits each of them.
fn require_one_cgroup(pid: i32) -> Result<()> {
    let cgroups = procfs::cgroups_of_threads(pid);
    if cgroups.len() > 1 {
        let list: Vec<_> = cgroups.into_iter().collect();
        bail!(
            "the threads of process {pid} are in several cgroups ({}), whose limits would no longer \
             hold in one: take the cgroup around them, with `imtcp attach --cgroup`",
            list.join(", ")
        );
    }
    Ok(())
}
