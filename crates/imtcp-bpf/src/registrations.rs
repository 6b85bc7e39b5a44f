// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Registering congestion controls with the kernel, or replacing them behind their links.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use anyhow::{anyhow, Context, Result};
use libbpf_rs::{Link, MapCore, MapMut, MapType, Object};

use crate::staged::Staged;
use crate::{down, netns, paths, raw, Obstacle};

/// Registrations so far; dropped before `commit`, they are undone.
#[derive(Default)]
pub struct Registrations(Vec<Undo>);

enum Undo {
    /// Put the old map back behind the link.
    PutBack { link: std::os::fd::OwnedFd, old: std::os::fd::OwnedFd },
    /// Dropping the link ends the registration (a real link, or one that deletes the element).
    Drop(Link),
}

impl Registrations {
    /// The control of that name, from whichever object has it.
    pub fn register_from(
        &mut self,
        objects: &mut [Object],
        control: &str,
        linked: bool,
        pins: &mut Staged,
    ) -> Result<()> {
        let mut map = objects
            .iter_mut()
            .flat_map(|o| o.maps_mut())
            .find(|m| m.name() == control && m.map_type() == MapType::StructOps)
            .ok_or_else(|| anyhow!("the BPF object has no congestion control {control}"))?;
        pins.pin(map.as_fd(), paths::ops_pin(control))?;
        self.register(&mut map, control, linked, pins)
    }

    fn register(
        &mut self,
        map: &mut MapMut,
        control: &str,
        linked: bool,
        pins: &mut Staged,
    ) -> Result<()> {
        let old_map = raw::obj_get(&paths::ops_pin(control)).ok();
        // A killed `down` leaves a link that registers nothing, and behind which the kernel puts nothing.
        let old_link = raw::obj_get(&paths::link_pin(control))
            .ok()
            .filter(|_| linked && netns::is_registered(control));
        if let (None, Some(old)) = (&old_link, &old_map) {
            // Without links there is no replacement in place: for a moment the name is absent.
            down::unregister_map(old.as_fd());
        }
        let attached = match old_link {
            Some(_) => without_descriptors(|| map.attach_struct_ops())?,
            None => map.attach_struct_ops(),
        };
        match attached {
            Ok(link) => {
                if linked {
                    pins.pin(link.as_fd(), paths::link_pin(control))?;
                }
                self.0.push(Undo::Drop(link));
            }
            // The attempt has only made the new map ready: now swap it in.
            Err(_) if old_link.is_some() => {
                let link = old_link.expect("just checked");
                raw::link_update(link.as_fd(), map.as_fd())
                    .with_context(|| format!("cannot replace the congestion control {control}"))?;
                if let Some(old) = old_map {
                    self.0.push(Undo::PutBack { link, old });
                }
            }
            Err(_) if netns::is_registered(control) => {
                return Err(Obstacle::new(
                    format!(
                        "a congestion control named {control} is registered already, and not by \
                         `imtcp up`"
                    ),
                    format!("remove it first: `bpftool struct_ops unregister name {control}`"),
                )
                .into())
            }
            Err(e) => {
                return Err(e).context(format!("cannot register the congestion control {control}"))
            }
        }
        Ok(())
    }

    pub fn commit(mut self) {
        for undo in self.0.drain(..) {
            if let Undo::Drop(mut link) = undo {
                keep(&mut link);
            }
        }
    }
}

/// Attaching a map whose name is registered makes it ready to replace the other, which libbpf does in no
/// other way, and fails. Without room for a descriptor it fails before the kernel looks at the name, and
/// complains of it in its log.
fn without_descriptors<T>(work: impl FnOnce() -> T) -> Result<T> {
    let before = getrlimit_nofile()?;
    setrlimit_nofile(libc::rlimit { rlim_cur: 0, ..before })?;
    let done = work();
    setrlimit_nofile(before)?;
    Ok(done)
}

fn getrlimit_nofile() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes the structure that it is given.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}

fn setrlimit_nofile(limit: libc::rlimit) -> io::Result<()> {
    // SAFETY: reads the structure that it is given.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The pin now owns the registration: dropping this must not end it.
fn keep(link: &mut Link) {
    link.disconnect();
    debug_assert!(link.as_fd().as_raw_fd() >= 0);
}

impl Drop for Registrations {
    fn drop(&mut self) {
        for undo in self.0.drain(..).rev() {
            if let Undo::PutBack { link, old } = undo {
                let _ = raw::link_update(link.as_fd(), old.as_fd());
            }
        }
    }
}
