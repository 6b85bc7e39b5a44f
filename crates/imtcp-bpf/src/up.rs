// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Loading and pinning, and upgrading what is loaded in place.
//!
//! Everything is first loaded and pinned under names ending in `_new`; then the congestion
//! controls are registered (or replaced behind their links); then the pins get their real
//! names. A failure on the way undoes the steps before it.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use anyhow::{anyhow, Result};
use imtcp_common::procfs;
use libbpf_rs::{Link, MapCore, MapHandle, MapType, Object, OpenObject};

use crate::meta::{self, Meta};
use crate::registrations::Registrations;
use crate::staged::{Staged, STAGED};
use crate::{down, netns, objects, paths, probe, raw, usual_controls, NOCC};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was not loaded before.
    Loaded,
    /// The same programs were loaded already.
    Already,
    /// Other programs were loaded. `kept` says whether open connections stay visible:
    /// the records of another layout cannot be read by the new programs.
    Upgraded { from: String, kept: bool },
}

/// Whether the control without congestion control is to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nocc {
    Allow,
    TakeAway,
    /// As it is.
    Keep,
}

/// Loads and pins. With `force` the programs are replaced even by the same ones.
pub fn up(force: bool, nocc: Nocc) -> Result<Outcome> {
    probe::require_privileges("imtcp up")?;
    probe::require_kernel()?;
    meta::require_in_sight()?;
    paths::ensure_bpffs()?;

    let _held = paths::make_and_hold()?;
    let fresh = fs::read_dir(paths::dir())?.next().is_none();
    let done = up_in_dir(force, nocc);
    if done.is_err() && fresh {
        let _ = paths::remove_all();
    }
    done
}

fn up_in_dir(force: bool, nocc: Nocc) -> Result<Outcome> {
    sweep_half_done()?;

    let old = Meta::read()?;
    let linked = probe::has_struct_ops_links();
    let new = Meta::own(old.map(|m| m.since_unix_s), linked)?;
    let complete = is_complete(linked);
    let had_nocc = paths::ops_pin(NOCC).exists();
    if had_nocc && nocc == Nocc::TakeAway {
        down::take_away(NOCC)?;
    }
    let nocc = nocc == Nocc::Allow || (had_nocc && nocc == Nocc::Keep);
    if let Some(old) = old {
        if !force && complete && old.object_id == new.object_id {
            if nocc && !is_registered_by_us(NOCC, linked) {
                paths::require_writable()?;
                add_nocc(linked)?;
            }
            return Ok(Outcome::Already);
        }
    }
    paths::require_writable()?;
    let kept = complete && old.is_some_and(|o| o.layout_id == new.layout_id);

    let mut objects = load_controls(linked, kept, nocc)?;
    let (iterator, iterator_name) = load_iterator(&objects[0])?;

    let mut pins = Staged::default();
    for name in paths::SHARED_MAPS {
        pins.pin(shared_map(&objects[0], name)?.as_fd(), paths::pin(name))?;
    }
    pins.pin(iterator.as_fd(), paths::pin(iterator_name))?;
    new.pin(&pins.stage(paths::pin(paths::META)))?;

    let mut registered = Registrations::default();
    for control in usual_controls().chain(nocc.then_some(NOCC)) {
        registered.register_from(&mut objects, control, linked, &mut pins)?;
    }
    pins.commit()?;
    registered.commit();
    // Not staged: two of them at once would count each packet twice.
    let _ = fs::remove_file(paths::pin(paths::FRONT));
    if let Some(front) = load_front(&objects[0]) {
        let _ = raw::obj_pin(front.as_fd(), &paths::pin(paths::FRONT));
    }

    Ok(match old {
        Some(old) if complete => Outcome::Upgraded { from: old.version(), kept },
        _ => Outcome::Loaded,
    })
}

/// Is everything there that each `up` pins, and registered?
pub fn is_complete(linked: bool) -> bool {
    usual_controls().all(|c| is_registered_by_us(c, linked))
        && paths::SHARED_MAPS.iter().all(|m| paths::pin(m).exists())
        && [paths::CONNECTIONS, paths::CONNECTIONS_HERE].iter().any(|i| paths::pin(i).exists())
}

fn is_registered_by_us(control: &str, linked: bool) -> bool {
    paths::ops_pin(control).exists()
        && (!linked || paths::link_pin(control).exists())
        && netns::is_registered(control)
}

fn pinned(name: &str) -> Result<MapHandle> {
    Ok(MapHandle::from_pinned_path(paths::pin(name))?)
}

/// The object with the shared maps, and those that use them.
fn load_controls(linked: bool, reuse: bool, nocc: bool) -> Result<Vec<Object>> {
    let measuring =
        load(objects::open_imtcp()?, linked, |name| reuse.then(|| pinned(name)).transpose())?;
    let mut all = vec![measuring];
    let others = [objects::open_modes()?, objects::open_paper()?];
    for open in others.into_iter().chain(nocc.then(objects::open_nocc).transpose()?) {
        let other =
            load(open, linked, |name| Ok(Some(MapHandle::try_from(&shared_map(&all[0], name)?)?)))?;
        all.push(other);
    }
    Ok(all)
}

/// Beside what is loaded already.
fn add_nocc(linked: bool) -> Result<()> {
    let object = load(objects::open_nocc()?, linked, |name| pinned(name).map(Some))?;
    let mut pins = Staged::default();
    let mut registered = Registrations::default();
    registered.register_from(&mut [object], NOCC, linked, &mut pins)?;
    pins.commit()?;
    registered.commit();
    Ok(())
}

/// `map_of` says which map, if any, to use in the place of a shared one of the object.
fn load(
    mut object: OpenObject,
    linked: bool,
    map_of: impl Fn(&str) -> Result<Option<MapHandle>>,
) -> Result<Object> {
    for mut map in object.maps_mut() {
        if map.map_type() == MapType::StructOps && linked {
            map.set_map_flags(libbpf_sys::BPF_F_LINK)?;
        } else if let Some(name) = paths::SHARED_MAPS.into_iter().find(|n| map.name() == *n) {
            if let Some(other) = map_of(name)? {
                map.reuse_fd(other.as_fd())?;
            }
        }
    }
    objects::load(object, "the congestion controls")
}

/// The iterator over connections, and the name of its pin. Kernels with a policy of their own refuse the
/// iterator over a map's elements, whose value a program could change; they are asked for the other.
fn load_iterator(controls: &Object) -> Result<(Link, &'static str)> {
    match load_iterator_named(controls, objects::CONNECTIONS) {
        Ok(link) => Ok((link, paths::CONNECTIONS)),
        Err(refused) => match load_iterator_named(controls, objects::CONNECTIONS_HERE) {
            Ok(link) => Ok((link, paths::CONNECTIONS_HERE)),
            Err(_) => Err(refused),
        },
    }
}

fn load_iterator_named(controls: &Object, program: &str) -> Result<Link> {
    let object = load_ctl(controls, program, "the iterator over connections")?;
    let conns = shared_map(controls, "imtcp_conns")?;
    let prog = object
        .progs_mut()
        .find(|p| p.name() == program)
        .ok_or_else(|| anyhow!("the control object has no program {program}"))?;
    if program == objects::CONNECTIONS {
        Ok(prog.attach_iter(conns.as_fd())?)
    } else {
        Ok(prog.attach()?)
    }
}

/// One program of the control object, with the maps of the congestion controls.
fn load_ctl(controls: &Object, program: &str, what: &str) -> Result<Object> {
    let mut object = objects::open_ctl(program)?;
    for mut map in object.maps_mut() {
        if let Some(name) = paths::SHARED_MAPS.into_iter().find(|n| map.name() == *n) {
            map.reuse_fd(shared_map(controls, name)?.as_fd())?;
        }
    }
    objects::load(object, what)
}

/// The program that counts this host's own foreground, on the root of the cgroups. `None` where it cannot be: without it
/// the background hears of the foreground by its queue alone.
fn load_front(controls: &Object) -> Option<Link> {
    let root = fs::File::open(procfs::cgroup2_mount()?).ok()?;
    let object = load_ctl(controls, objects::FRONT, "the counter of the own foreground").ok()?;
    let prog = object.progs_mut().find(|p| p.name() == objects::FRONT)?;
    prog.attach_cgroup(root.as_raw_fd()).ok()
}

fn shared_map<'o>(object: &'o Object, name: &str) -> Result<libbpf_rs::Map<'o>> {
    object
        .maps()
        .find(|m| m.name() == name)
        .ok_or_else(|| anyhow!("the BPF object has no map {name}"))
}

/// Removes what an `up` that was killed had staged.
fn sweep_half_done() -> Result<()> {
    for entry in fs::read_dir(paths::dir())?.flatten() {
        if entry.file_name().to_string_lossy().ends_with(STAGED) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
