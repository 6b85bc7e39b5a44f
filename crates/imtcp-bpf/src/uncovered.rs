// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What a run does that no congestion control holds back (bpf/imtcp_uncovered.bpf.c). A program that this
//! kernel refuses is done without: what it would have seen is not known.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::raw::c_char;

use anyhow::{anyhow, Result};
use libbpf_rs::{Link, MapCore, MapFlags, Object};

use crate::objects;
use crate::raw::Plain;
use crate::shared::{imtcp_uncovered, imtcp_unix_peer};

/// Watches a cgroup for as long as it lives.
pub struct Uncovered {
    udp: Option<Attached>,
    unix: Option<Attached>,
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

impl Uncovered {
    pub fn watch(cgroup: BorrowedFd) -> Self {
        let attach = |program| Attached::new(program, cgroup).ok();
        Uncovered { udp: attach("imtcp_udp"), unix: attach("imtcp_unix_connect") }
    }

    /// Sent by UDP so far, with headers; `None` where that is not counted.
    pub fn udp_bytes(&self) -> Option<u64> {
        let value = self.udp.as_ref()?.map(".data.uncovered").ok()?;
        let value = value.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        imtcp_uncovered::from_bytes(&value).map(|u| u.udp_bytes)
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

impl Attached {
    fn new(program: &str, cgroup: BorrowedFd) -> Result<Self> {
        let object = objects::load(objects::open_uncovered(program)?, "a program that counts")?;
        let prog = object.progs_mut().find(|p| p.name() == program);
        let prog = prog.ok_or_else(|| anyhow!("the object has no program {program}"))?;
        let link = prog.attach_cgroup(cgroup.as_raw_fd())?;
        Ok(Attached { object, _link: link })
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>> {
        self.object
            .maps()
            .find(|m| m.name().to_string_lossy().ends_with(name))
            .ok_or_else(|| anyhow!("the object has no map {name}"))
    }
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
