// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The control programs of bpf/imtcp_ctl.bpf.c, loaded onto the pinned maps.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, Context, Result};
pub use libbpf_rs::Link;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, OpenObject, ProgramMut};

use imtcp_common::shell;

use crate::raw::{self, Plain};
use crate::shared::{imtcp_ctl_cfg, imtcp_ctl_switch, imtcp_filter};
use crate::{meta, netns, objects, paths, Obstacle};

/// Lets the control object use the maps that are pinned.
pub(crate) fn reuse_pinned_maps(object: &mut OpenObject) -> Result<()> {
    for mut map in object.maps_mut() {
        let Some(name) = paths::SHARED_MAPS.into_iter().find(|n| map.name() == *n) else {
            continue;
        };
        let pinned = MapHandle::from_pinned_path(paths::pin(name))
            .with_context(|| format!("cannot open the pinned map {name}: run `imtcp up`"))?;
        map.reuse_fd(pinned.as_fd())?;
    }
    Ok(())
}

/// Loads one of the control programs that serve a run or attachment.
fn load_for(name: &str, cfg: imtcp_ctl_cfg, what: &str) -> Result<Object> {
    let mut object = objects::open_ctl(name)?;
    objects::open_map(&mut object, ".rodata.cfg")?.set_initial_value(cfg.bytes())?;
    reuse_pinned_maps(&mut object)?;
    objects::load(object, what)
}

/// Loads the program that writes orders onto this map of policies, which may have lost its pin.
pub(crate) fn load_writer(policies: &MapHandle) -> Result<Object> {
    let mut object = objects::open_ctl(objects::SET_ORDERS)?;
    for mut map in object.maps_mut() {
        let Some(name) = paths::SHARED_MAPS.into_iter().find(|n| map.name() == *n) else {
            continue;
        };
        if name == "imtcp_policies" {
            map.reuse_fd(policies.as_fd())?;
        } else {
            // The program does not touch it.
            map.set_autocreate(false)?;
        }
    }
    objects::load(object, "the program that writes orders")
}

pub(crate) fn program<'o>(object: &'o Object, name: &str) -> Result<ProgramMut<'o>> {
    object
        .progs_mut()
        .find(|p| p.name() == name)
        .ok_or_else(|| anyhow!("the control object has no program {name}"))
}

/// Gives the new connections and listeners of a cgroup that pass a filter to a policy, for as long as the link
/// lives. The default filter lets all pass. Of several programs on a cgroup the one that was attached first runs
/// first.
pub fn attach_to_cgroup(cgroup: BorrowedFd, policy: u64, filter: imtcp_filter) -> Result<Link> {
    meta::require_same_layout()?;
    let cfg = imtcp_ctl_cfg { policy, filter, ..Default::default() };
    let object = load_for(objects::SOCKOPS, cfg, "the cgroup program")?;
    let prog = program(&object, objects::SOCKOPS)?;
    prog.attach_cgroup(cgroup.as_raw_fd()).map_err(|e| refused(cgroup, e.into()))
}

/// Why a cgroup does not take the program: mostly because another's, on it or above it, is to be alone.
fn refused(cgroup: BorrowedFd, error: anyhow::Error) -> anyhow::Error {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", cgroup.as_raw_fd()));
    let path = path.unwrap_or_default();
    let reason = error.root_cause();
    let refused = format!("cannot attach to the cgroup {}: {reason}", path.display());
    let Some((dir, id)) = path.ancestors().find_map(|dir| Some((dir, lone_program(dir)?))) else {
        return anyhow!(refused);
    };
    let detach = match shell::quoted_path(dir) {
        Some(dir) => format!("`bpftool cgroup detach {dir} sock_ops id {id}`"),
        None => "`bpftool cgroup detach`".into(),
    };
    Obstacle::new(
        format!(
            "{refused}: the sock_ops program {id} on {} lets no other be below it",
            dir.display()
        ),
        format!("{detach} removes it; or who attaches it does so with `multi`"),
    )
    .into()
}

/// The id of a cgroup's own sock_ops program, where it was attached to be the only one.
fn lone_program(dir: &Path) -> Option<u32> {
    let dir = std::fs::File::open(dir).ok()?;
    let (flags, ids) = raw::sock_ops_of_cgroup(dir.as_fd()).ok()?;
    ids.first().copied().filter(|_| flags & libbpf_sys::BPF_F_ALLOW_MULTI == 0)
}

/// Where the links of an attachment are pinned.
pub fn attachment_pin(id: u64, index: usize) -> PathBuf {
    paths::attach_dir().join(format!("{id:016x}-{index}"))
}

/// The kernel's numbers of the cgroups that the first so many links of an attachment are on. A link may be
/// missing, or its cgroup may have been removed.
pub fn linked_cgroups(id: u64, links: usize) -> BTreeSet<u64> {
    let pinned = (0..links).filter_map(|index| raw::obj_get(&attachment_pin(id, index)).ok());
    pinned.filter_map(|link| raw::cgroup_of_link(link.as_fd()).ok()?).collect()
}

/// Ends these links.
pub fn remove_links(id: u64, links: usize) {
    for index in 0..links {
        let _ = std::fs::remove_file(attachment_pin(id, index));
    }
}

/// Keeps a link alive after this process.
pub fn pin_link(link: &Link, path: &Path) -> Result<()> {
    std::fs::create_dir_all(paths::attach_dir())?;
    raw::obj_pin(link.as_fd(), path).with_context(|| format!("cannot pin {}", path.display()))
}

/// The result of switching sockets.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Switched {
    pub connections: u32,
    pub listeners: u32,
    pub failed: u32,
}

impl std::ops::AddAssign for Switched {
    fn add_assign(&mut self, other: Self) {
        self.connections += other.connections;
        self.listeners += other.listeners;
        self.failed += other.failed;
    }
}

/// Those on our congestion controls that are to be moved.
#[derive(Debug, Clone, Copy)]
pub enum Which {
    All,
    OfPolicy(u64),
    /// On this one of ours.
    On(&'static str),
}

fn put(to: &mut [std::os::raw::c_char; 16], name: &str) {
    for (to, from) in to.iter_mut().zip(name.bytes()).take(15) {
        *to = from as _;
    }
}

/// Gives the subflows of a multipath connection to a policy: they have no descriptors, its master has one.
pub fn tag_subflows(ns: &netns::NetNs, master_cookie: u64, policy: u64) -> Result<()> {
    let cfg = imtcp_ctl_cfg { policy, master_cookie, ..Default::default() };
    let object = load_for(objects::TAG_SUBFLOWS, cfg, "the program for multipath connections")?;
    let link = program(&object, objects::TAG_SUBFLOWS)?.attach()?;
    walk(ns, link.as_fd()).map(drop)
}

/// Has an iterator go through the TCP sockets of a namespace, that of the thread that makes it. Returns what it
/// prints.
pub(crate) fn walk(ns: &netns::NetNs, link: BorrowedFd) -> Result<Vec<u8>> {
    ns.run(move || -> Result<Vec<u8>> {
        let mut printed = Vec::new();
        std::fs::File::from(raw::iter_create(link)?).read_to_end(&mut printed)?;
        Ok(printed)
    })?
    .context("cannot walk the sockets of a network namespace")
}

/// The program that takes sockets off our congestion controls.
pub struct Switcher {
    object: Object,
    link: Link,
}

impl Switcher {
    pub fn load() -> Result<Self> {
        let mut object = objects::open_ctl("imtcp_switch")?;
        reuse_pinned_maps(&mut object)?;
        let object = objects::load(object, "the program that switches sockets")?;
        let link = program(&object, "imtcp_switch")?.attach()?;
        Ok(Switcher { object, link })
    }

    /// Moves sockets of one namespace to its default control.
    pub fn run(&self, ns: &netns::NetNs, which: Which) -> Result<Switched> {
        let cc = ns.run(netns::fallback_cc).context("cannot enter a network namespace")?;
        let mut order = imtcp_ctl_switch::default();
        put(&mut order.cc, &cc);
        match which {
            Which::All => {}
            Which::OfPolicy(policy) => order.policy = policy,
            Which::On(control) => put(&mut order.only, control),
        }
        let data = self
            .object
            .maps()
            .find(|m| m.name().to_string_lossy().ends_with(".data.switch"))
            .ok_or_else(|| anyhow!("the control object has no map .data.switch"))?;
        let key = 0u32.to_ne_bytes();
        data.update(&key, order.bytes(), MapFlags::ANY)?;
        walk(ns, self.link.as_fd())?;
        let value = data.lookup(&key, MapFlags::ANY)?.unwrap_or_default();
        let done = imtcp_ctl_switch::from_bytes(&value).unwrap_or_default();
        Ok(Switched {
            connections: done.moved_connections,
            listeners: done.moved_listeners,
            failed: done.failed,
        })
    }

    /// The same in every namespace of the machine that can be entered.
    pub fn run_everywhere(&self, which: Which) -> Switched {
        let mut sum = Switched::default();
        for ns in netns::all() {
            if let Ok(done) = self.run(&ns, which) {
                sum += done;
            }
        }
        sum
    }
}
