// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The control programs of bpf/imtcp_ctl.bpf.c, loaded onto the pinned maps.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Context, Result};
pub use libbpf_rs::Link;
use libbpf_rs::{Map, MapCore, MapFlags, MapHandle, Object, OpenObject, ProgramMut};
use libbpf_sys as sys;

use imtcp_common::shell;

use crate::netns::{self, NetNs};
use crate::objects::Mark;
use crate::raw::{self, Plain};
use crate::shared::{imtcp_ctl_cfg, imtcp_ctl_switch, imtcp_filter, imtcp_tag, imtcp_tagged};
use crate::{meta, objects, paths, walk, Obstacle, Unseen};

/// Lets the control object use the maps that are pinned.
fn reuse_pinned_maps(object: &mut OpenObject) -> Result<()> {
    for mut map in object.maps_mut() {
        let Some(name) = paths::SHARED_MAPS.into_iter().find(|n| map.name() == *n) else {
            continue;
        };
        // The programs of an older imtcp do without these: then there is nothing in them.
        if [paths::RECEIVERS, paths::FRONTS].contains(&name) && !paths::pin(name).exists() {
            continue;
        }
        let pinned = MapHandle::from_pinned_path(paths::pin(name))
            .with_context(|| format!("cannot open the pinned map {name}: run `imtcp up`"))?;
        map.reuse_fd(pinned.as_fd())?;
    }
    Ok(())
}

/// The programs that are loaded may be of an older imtcp, which `down` has to end, too.
fn tags_have_dscp() -> bool {
    let tags = MapHandle::from_pinned_path(paths::pin("imtcp_tags"));
    tags.is_ok_and(|tags| tags.value_size() as usize >= size_of::<imtcp_tag>())
}

/// Loads one of the control programs that serve a run or attachment.
pub(crate) fn load_for(name: &str, mut cfg: imtcp_ctl_cfg, what: &str) -> Result<Object> {
    let mut object = objects::open_ctl(name)?;
    cfg.tags_have_dscp = tags_have_dscp().into();
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

/// The programs of one policy on a cgroup. They stay as long as this value lives.
pub struct Links {
    gives: Link,
    /// Each with the suffix of its pin.
    others: Vec<(&'static str, Link)>,
    /// Sentences for the user: marks that are missing, and other programs that do not run any more.
    pub told: Vec<String>,
}

impl Links {
    /// The link of the program for downloads, if there is one.
    pub(crate) fn receive(&self) -> Option<&Link> {
        let mut others = self.others.iter();
        others.find(|(suffix, _)| *suffix == objects::RECEIVE.suffix).map(|(_, link)| link)
    }
}

/// Programs that a policy may need beside the one that gives connections to it.
#[derive(Clone, Copy, Debug)]
pub struct Programs {
    pub keep_dscp: bool,
    pub set_priority: bool,
    pub receive: bool,
}

/// Gives the new connections and listeners of a cgroup that pass a filter to a policy, and marks what they send. The
/// default filter lets all pass. If a cgroup has several programs, they run in the order in which they were attached.
pub fn attach_to_cgroup(
    cgroup: BorrowedFd,
    policy: u64,
    filter: imtcp_filter,
    programs: Programs,
) -> Result<Links> {
    meta::require_same_layout()?;
    let cfg = imtcp_ctl_cfg { policy, filter, ..Default::default() };
    let object = load_for(objects::SOCKOPS, cfg, "the cgroup program")?;
    let prog = program(&object, objects::SOCKOPS)?;
    let gives = prog.attach_cgroup(cgroup.as_raw_fd()).map_err(|e| refused(cgroup, e.into()))?;
    let mut links = Links { gives, others: Vec::new(), told: Vec::new() };
    if let Some((dir, id)) = hidden_by_ours(cgroup, sys::BPF_CGROUP_SOCK_OPS) {
        let dir = dir.display();
        links
            .told
            .push(format!("the sock_ops program {id} on {dir} does not run for these processes"));
    }
    if programs.receive {
        match attach_receive(cfg, cgroup) {
            Ok(link) => links.others.push((objects::RECEIVE.suffix, link)),
            Err(e) => links.told.push(format!("downloads are not held back: {e:#}")),
        }
    }
    let dscp = programs.keep_dscp.then_some(objects::KEEP_DSCP);
    let priority = programs.set_priority.then_some(objects::SET_PRIORITY);
    for mark in dscp.into_iter().chain(priority) {
        match attach_beside_others(&mark, cfg, cgroup) {
            Ok(link) => links.others.push((mark.suffix, link)),
            Err(e) => links.told.push(format!("packets are not marked in full: {e:#}")),
        }
    }
    Ok(links)
}

/// After the program that gives connections to the policy, since the kernel runs them in the order in which they came.
fn attach_receive(cfg: imtcp_ctl_cfg, cgroup: BorrowedFd) -> Result<Link> {
    let object = load_for(objects::RECEIVE.program, cfg, "the program for downloads")?;
    Ok(program(&object, objects::RECEIVE.program)?.attach_cgroup(cgroup.as_raw_fd())?)
}

fn attach_beside_others(mark: &Mark, cfg: imtcp_ctl_cfg, cgroup: BorrowedFd) -> Result<Link> {
    if let Some((dir, id)) = hidden_by_ours(cgroup, mark.kind) {
        bail!("the program {id} on {} would not run any more below it", dir.display());
    }
    let object = load_for(mark.program, cfg, "the cgroup program")?;
    Ok(program(&object, mark.program)?.attach_cgroup(cgroup.as_raw_fd())?)
}

/// A program of a cgroup around this one that allows others in its place (BPF_F_ALLOW_OVERRIDE). Ours would take its
/// place, and it may be a firewall.
pub(crate) fn hidden_by_ours(
    cgroup: BorrowedFd,
    kind: sys::bpf_attach_type,
) -> Option<(PathBuf, u32)> {
    let path = path_of(cgroup);
    let mut around = path.ancestors().skip(1);
    let (dir, first) = around.find_map(|dir| Some((dir, first_program(dir, kind)?)))?;
    first.is_alone.then(|| (dir.to_path_buf(), first.id))
}

fn path_of(cgroup: BorrowedFd) -> PathBuf {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", cgroup.as_raw_fd()));
    path.unwrap_or_default()
}

/// Why a cgroup does not take the program: mostly because another's, on it or above it, is to be alone.
fn refused(cgroup: BorrowedFd, error: anyhow::Error) -> anyhow::Error {
    let path = path_of(cgroup);
    let reason = error.root_cause();
    let refused = format!("cannot attach to the cgroup {}: {reason}", path.display());
    let lone = |dir| first_program(dir, sys::BPF_CGROUP_SOCK_OPS).filter(|first| first.is_alone);
    let Some((dir, id)) = path.ancestors().find_map(|dir| Some((dir, lone(dir)?.id))) else {
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

/// The first program of a kind that was attached to this very cgroup.
struct FirstProgram {
    id: u32,
    /// It was attached to be the only one.
    is_alone: bool,
}

fn first_program(dir: &Path, kind: sys::bpf_attach_type) -> Option<FirstProgram> {
    let dir = std::fs::File::open(dir).ok()?;
    let (flags, ids) = raw::programs_of_cgroup(dir.as_fd(), kind).ok()?;
    Some(FirstProgram { id: *ids.first()?, is_alone: flags & sys::BPF_F_ALLOW_MULTI == 0 })
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
    for pin in (0..links).map(|index| attachment_pin(id, index)) {
        for mark in [objects::KEEP_DSCP, objects::SET_PRIORITY, objects::RECEIVE] {
            let _ = std::fs::remove_file(beside(&pin, mark.suffix));
        }
        let _ = std::fs::remove_file(pin);
    }
}

fn beside(pin: &Path, suffix: &str) -> PathBuf {
    let mut name = pin.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Keeps the links of one cgroup alive after this process.
pub fn pin_links(links: &Links, path: &Path) -> Result<()> {
    std::fs::create_dir_all(paths::attach_dir())?;
    let pin = |link: &Link, path: &Path| {
        raw::obj_pin(link.as_fd(), path).with_context(|| format!("cannot pin {}", path.display()))
    };
    for (suffix, link) in &links.others {
        pin(link, &beside(path, suffix))?;
    }
    pin(&links.gives, path)
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
pub enum Which<'p> {
    All,
    OfPolicies(&'p BTreeSet<u64>),
    /// On this one of ours.
    On(&'static str),
}

fn put(to: &mut [std::os::raw::c_char; 16], name: &str) {
    for (to, from) in to.iter_mut().zip(name.bytes()).take(15) {
        *to = from as _;
    }
}

/// Gives the subflows of a multipath connection to a policy: they have no descriptors, its master has one.
pub fn tag_subflows(ns: &NetNs, master_cookie: u64, policy: u64) -> Result<()> {
    let cfg = imtcp_ctl_cfg { policy, master_cookie, ..Default::default() };
    let object = load_for(objects::TAG_SUBFLOWS, cfg, "the program for multipath connections")?;
    let link = program(&object, objects::TAG_SUBFLOWS)?.attach()?;
    walk::sockets(ns, link.as_fd(), |_| ())
}

/// The numbers of the namespaces that have sockets of these policies; nothing where this kernel does not tell.
/// This iterator waits for no socket.
pub(crate) fn namespaces_of(policies: &BTreeSet<u64>) -> Option<BTreeSet<u64>> {
    let object = load_for(objects::TAGGED, Default::default(), "the iterator over tags").ok()?;
    let tags = MapHandle::from_pinned_path(paths::pin("imtcp_tags")).ok()?;
    let link = program(&object, objects::TAGGED).ok()?.attach_iter(tags.as_fd()).ok()?;
    let tagged = walk::items::<imtcp_tagged>(link.as_fd()).ok()?.into_iter();
    Some(tagged.filter(|t| policies.contains(&t.policy)).map(|t| t.netns_ino).collect())
}

/// The program that takes sockets off our congestion controls.
pub struct Switcher {
    object: Object,
    link: Link,
}

impl Switcher {
    pub fn load() -> Result<Self> {
        let what = "the program that switches sockets";
        let object = load_for(objects::SWITCH, Default::default(), what)?;
        let link = program(&object, objects::SWITCH)?.attach()?;
        Ok(Switcher { object, link })
    }

    /// Moves sockets to the default control of their namespace, in every namespace of the machine that can be
    /// looked at.
    pub fn run_everywhere(&mut self, which: Which) -> (Switched, Unseen) {
        let only = match which {
            Which::OfPolicies(policies) => namespaces_of(policies),
            Which::All | Which::On(_) => None,
        };
        let mut sum = Switched::default();
        if only.as_ref().is_some_and(BTreeSet::is_empty) {
            return (sum, Unseen::default());
        }
        let unseen = netns::each(None, |ns| {
            if only.as_ref().is_some_and(|only| !only.contains(&ns.ino)) {
                return Ok(());
            }
            self.run(ns, which, &mut sum)
        });
        (sum, unseen)
    }

    /// How many sockets of each policy were moved.
    pub fn moved_of_policies(&self) -> BTreeMap<u64, u64> {
        let Ok(map) = self.map(objects::GIVEN_UP) else { return BTreeMap::new() };
        let number = |bytes: Vec<u8>| bytes.try_into().ok().map(u64::from_ne_bytes);
        let moved = |key: &[u8]| number(map.lookup(key, MapFlags::ANY).ok()??);
        map.keys().filter_map(|key| Some((number(key.clone())?, moved(&key)?))).collect()
    }

    fn run(&mut self, ns: &NetNs, which: Which, sum: &mut Switched) -> Result<()> {
        let cc = ns.run(netns::fallback_cc).context("cannot enter a network namespace")?;
        let mut order = imtcp_ctl_switch { armed: 1, ..Default::default() };
        put(&mut order.cc, &cc);
        match which {
            Which::All => {}
            Which::OfPolicies(policies) => {
                order.given_up = 1;
                self.give_up(policies)?;
            }
            Which::On(control) => put(&mut order.only, control),
        }
        self.order(&order)?;
        let walked = walk::sockets(ns, self.link.as_fd(), |_| ());
        let done = self.done()?;
        *sum += Switched {
            connections: done.moved_connections,
            listeners: done.moved_listeners,
            failed: done.failed,
        };
        if walked.is_err() {
            self.replace()?;
        }
        walked
    }

    /// A walk that is held up may go on later. It then finds no order; other walks have other programs.
    fn replace(&mut self) -> Result<()> {
        self.order(&imtcp_ctl_switch::default())?;
        let moved = self.moved_of_policies();
        let new = Switcher::load()?;
        for (policy, count) in moved {
            let map = new.map(objects::GIVEN_UP)?;
            map.update(&policy.to_ne_bytes(), &count.to_ne_bytes(), MapFlags::ANY)?;
        }
        *self = new;
        Ok(())
    }

    fn give_up(&self, policies: &BTreeSet<u64>) -> Result<()> {
        let map = self.map(objects::GIVEN_UP)?;
        for policy in policies {
            let key = policy.to_ne_bytes();
            if map.lookup(&key, MapFlags::ANY)?.is_none() {
                map.update(&key, &0u64.to_ne_bytes(), MapFlags::ANY)?;
            }
        }
        Ok(())
    }

    fn order(&self, order: &imtcp_ctl_switch) -> Result<()> {
        Ok(self.map(ORDER)?.update(&0u32.to_ne_bytes(), order.bytes(), MapFlags::ANY)?)
    }

    fn done(&self) -> Result<imtcp_ctl_switch> {
        let value = self.map(ORDER)?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        Ok(imtcp_ctl_switch::from_bytes(&value.unwrap_or_default()).unwrap_or_default())
    }

    fn map(&self, name: &str) -> Result<Map<'_>> {
        let map = self.object.maps().find(|m| m.name().to_string_lossy().ends_with(name));
        map.ok_or_else(|| anyhow!("the control object has no map {name}"))
    }
}

const ORDER: &str = ".data.switch";
