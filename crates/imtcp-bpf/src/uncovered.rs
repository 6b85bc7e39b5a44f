// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What a run does that no congestion control holds back (bpf/imtcp_uncovered.bpf.c). A program that this
//! kernel refuses is done without: what it would have seen is not known.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::raw::c_char;
use std::os::unix::fs::MetadataExt;

use anyhow::{anyhow, Result};
use libbpf_rs::{Link, Map, MapCore, MapFlags, Object, ProgramMut};

use libbpf_sys as sys;

use crate::control::hidden_by_ours;
use crate::objects;
use crate::raw::Plain;
use crate::shared::{imtcp_moved, imtcp_uncovered, imtcp_unix_peer};

/// Watches a cgroup for as long as it lives.
pub struct Uncovered {
    udp: Option<Attached>,
    unix: Option<Attached>,
    leaves: Option<Attached>,
}

struct Attached {
    object: Object,
    _link: Link,
}

/// A Unix socket that a command of the run turned to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixPeer {
    pub command: String,
    pub path: String,
}

/// A process that was moved out of the cgroup.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moved {
    pub command: String,
    /// Where it was moved, as the kernel has it.
    pub cgroup: String,
    /// Has root moved it, as imtcp does?
    pub by_root: bool,
}

impl Uncovered {
    pub fn watch(cgroup: BorrowedFd) -> Self {
        // None in the place of another's, which may be a firewall's.
        let attach = |program, kind| match hidden_by_ours(cgroup, kind) {
            Some(_) => None,
            None => Attached::to_cgroup(program, cgroup).ok(),
        };
        Uncovered {
            udp: attach("imtcp_udp", sys::BPF_CGROUP_INET_EGRESS),
            unix: attach("imtcp_unix_connect", sys::BPF_CGROUP_UNIX_CONNECT),
            leaves: Attached::to_moves(cgroup).ok(),
        }
    }

    /// None where that is not noted.
    pub fn moved(&self) -> BTreeSet<Moved> {
        let Some(movings) = self.leaves.as_ref().and_then(|a| a.map("imtcp_movings").ok()) else {
            return BTreeSet::new();
        };
        let movings = movings.keys().filter_map(|key| imtcp_moved::from_bytes(&key));
        let moved = |m: imtcp_moved| Moved {
            command: text(&m.command),
            cgroup: text(&m.cgroup),
            by_root: m.by_root != 0,
        };
        movings.map(moved).collect()
    }

    /// Sent by UDP so far, with headers; `None` where that is not counted.
    pub fn udp_bytes(&self) -> Option<u64> {
        self.counted().map(|u| u.udp_bytes)
    }

    /// The same by IP without TCP and UDP, and by raw sockets.
    pub fn other_bytes(&self) -> Option<u64> {
        self.counted().map(|u| u.other_bytes)
    }

    fn counted(&self) -> Option<imtcp_uncovered> {
        let value = self.udp.as_ref()?.map(COUNTERS).ok()?;
        let value = value.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        imtcp_uncovered::from_bytes(&value)
    }

    /// Those that have a name; none where that is not noted.
    pub fn unix_peers(&self) -> BTreeSet<UnixPeer> {
        let Some(peers) = self.unix.as_ref().and_then(|a| a.map("imtcp_peers").ok()) else {
            return BTreeSet::new();
        };
        let peers = peers.keys().filter_map(|key| imtcp_unix_peer::from_bytes(&key));
        peers
            .map(|p| UnixPeer { command: text(&p.command), path: text(&p.path) })
            .filter(|p| !p.path.is_empty())
            .collect()
    }
}

const COUNTERS: &str = ".data.uncovered";

impl Attached {
    fn to_cgroup(program: &str, cgroup: BorrowedFd) -> Result<Self> {
        let object = load(program)?;
        let link = find(&object, program)?.attach_cgroup(cgroup.as_raw_fd())?;
        Ok(Attached { object, _link: link })
    }

    /// To what moves any process of the machine: it has to know the cgroup.
    fn to_moves(cgroup: BorrowedFd) -> Result<Self> {
        let program = "imtcp_leaves";
        let object = load(program)?;
        let id = File::from(cgroup.try_clone_to_owned()?).metadata()?.ino();
        let counters = imtcp_uncovered { cgroup: id, ..Default::default() };
        let map = map_of(&object, COUNTERS)?;
        map.update(&0u32.to_ne_bytes(), counters.bytes(), MapFlags::ANY)?;
        let link = find(&object, program)?.attach()?;
        Ok(Attached { object, _link: link })
    }

    fn map(&self, name: &str) -> Result<Map<'_>> {
        map_of(&self.object, name)
    }
}

fn load(program: &str) -> Result<Object> {
    objects::load(objects::open_uncovered(program)?, "a program that counts")
}

fn find<'o>(object: &'o Object, program: &str) -> Result<ProgramMut<'o>> {
    let prog = object.progs_mut().find(|p| p.name() == program);
    prog.ok_or_else(|| anyhow!("the object has no program {program}"))
}

fn map_of<'o>(object: &'o Object, name: &str) -> Result<Map<'o>> {
    let map = object.maps().find(|m| m.name().to_string_lossy().ends_with(name));
    map.ok_or_else(|| anyhow!("the object has no map {name}"))
}

fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).chain([0]).collect();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_kernel_ends_at_its_nul_or_with_its_room() {
        let chars = |bytes: &[u8]| bytes.iter().map(|b| *b as c_char).collect::<Vec<_>>();
        assert_eq!(text(&chars(b"ssh\0rest")), "ssh");
        assert_eq!(text(&chars(b"full")), "full");
        assert_eq!(text(&[]), "");
    }
}
