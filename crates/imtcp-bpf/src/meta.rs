// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What is loaded: a pinned array of one, written by `up`.

use std::fs;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{anyhow, bail, Context, Result};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use crate::raw::{self, Plain};
use crate::{controls, layout, netns, objects, paths, shared, Obstacle};

/// The kernel's name for the map, which tells it from others.
const MAP_NAME: &str = "imtcp_meta";

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    pub abi: u32,
    /// 1: registered by BPF links.
    pub linked: u32,
    pub object_id: u64,
    pub layout_id: u64,
    /// When the programs were first loaded, and last replaced (Unix time).
    pub since_unix_s: u64,
    pub upgraded_unix_s: u64,
    version: [u8; 24],
}

// SAFETY: repr(C), integers only, no padding (2×4 + 4×8 + 24 bytes).
unsafe impl Plain for Meta {}

impl Meta {
    pub fn own(since: Option<u64>, linked: bool) -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let mut version = [0; 24];
        let text = objects::VERSION.as_bytes();
        let len = text.len().min(version.len() - 1);
        version[..len].copy_from_slice(&text[..len]);
        Ok(Meta {
            abi: shared::IMTCP_ABI_VERSION,
            linked: linked.into(),
            object_id: objects::id(),
            layout_id: layout::own()?,
            since_unix_s: since.unwrap_or(now),
            upgraded_unix_s: now,
            version,
        })
    }

    pub fn version(&self) -> String {
        let end = self.version.iter().position(|b| *b == 0).unwrap_or(self.version.len());
        String::from_utf8_lossy(&self.version[..end]).into_owned()
    }

    /// Are the loaded maps of the shape that this build knows?
    ///
    /// # Errors
    /// Where this process cannot open what it needs to tell.
    pub fn layout_matches(&self) -> Result<bool> {
        Ok(layout::own()? == self.layout_id)
    }

    /// Reads the pin; `None` if nothing is pinned, here or where this process cannot look.
    pub fn read() -> Result<Option<Self>> {
        let path = paths::pin(paths::META);
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => return require_in_sight().map(|()| None),
            Err(e) => bail!("cannot look into {}: {e}", paths::dir().display()),
        }
        let map = MapHandle::from_pinned_path(&path).or_else(|e| {
            // Mostly because of that, which has a remedy.
            paths::require_writable()?;
            Err(e).with_context(|| format!("cannot open {}", path.display()))
        })?;
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
        match Meta::from_bytes(&value) {
            Some(meta) => Ok(Some(meta)),
            None => bail!("{} is not of imtcp: remove {}", path.display(), paths::dir().display()),
        }
    }

    pub(crate) fn pin(&self, path: &std::path::Path) -> Result<()> {
        let opts = libbpf_sys::bpf_map_create_opts {
            sz: std::mem::size_of::<libbpf_sys::bpf_map_create_opts>() as _,
            ..Default::default()
        };
        let size = std::mem::size_of::<Meta>() as u32;
        let map = MapHandle::create(MapType::Array, Some(MAP_NAME), 4, size, 1, &opts)?;
        map.update(&0u32.to_ne_bytes(), self.bytes(), MapFlags::ANY)?;
        raw::obj_pin(map.as_fd(), path)?;
        Ok(())
    }
}

/// The kernel's number of the pinned map; `None` without one. Each `up` that loads programs pins another
/// map, after those that these programs write to.
pub fn pinned_id() -> Option<u32> {
    let map = MapHandle::from_pinned_path(paths::pin(paths::META)).ok()?;
    Some(map.info().ok()?.info.id)
}

/// Refuses to take what is pinned out of sight for nothing: in the BPF file system of another
/// mount namespace. The kernel numbers its maps for the whole machine, so that of `up` is found
/// wherever its pin is.
pub fn require_in_sight() -> Result<()> {
    // A directory without pins may be of another BPF file system than that of `up`.
    let is_pin = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| !kind.is_dir());
    let pins = fs::read_dir(paths::dir()).into_iter().flatten().flatten();
    let has_pins = { pins }.any(|entry| is_pin(&entry));
    if has_pins || !controls().any(netns::is_registered) {
        return Ok(());
    }
    let mut maps = MapInfoIter::default().peekable();
    // Registered controls are maps: where none is shown, this process may not look.
    let may_not_look = maps.peek().is_none();
    if may_not_look || maps.any(|map| map.name == MAP_NAME) {
        return Err(Obstacle::new(
            "imtcp's congestion controls are registered, but the BPF file system that `imtcp up` \
             has pinned them in cannot be seen from here (a container)",
            "call imtcp on the host, for a network namespace as \
             `nsenter --net=/run/netns/NAME imtcp …`",
        )
        .into());
    }
    Ok(())
}

/// One sentence where there is nothing to look at.
pub fn require_up() -> Result<Meta> {
    Meta::read()?.ok_or_else(|| anyhow!("imtcp is not up: `sudo imtcp up` loads it"))
}

/// Refuses to work with maps that other programs made in another shape.
pub fn require_same_layout() -> Result<Meta> {
    let meta = require_up()?;
    if meta.layout_id != layout::own()? {
        bail!(
            "the loaded programs are of imtcp {} and differ from this command's ({}): \
             run `imtcp up` to upgrade them",
            meta.version(),
            objects::VERSION
        );
    }
    Ok(meta)
}
