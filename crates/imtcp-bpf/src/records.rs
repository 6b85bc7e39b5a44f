// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The records of all connections, from the pinned iterator. It works across network
//! namespaces and disturbs no connection.
//!
//! Where the kernel accepts only the iterator over one namespace, each namespace that can be entered is
//! walked in turn; without the privilege to enter them, the caller's alone. That iterator waits for the lock of
//! each socket (walk.rs).

use std::fs::File;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{bail, Context, Error, Result};

use crate::netns::{self, NetNs};
use crate::raw::{self, Plain};
use crate::{paths, shared, walk, Record, Unseen};

/// A handle on the iterator that goes on working when the pins are removed.
pub struct Records {
    link: OwnedFd,
    /// The iterator sees one network namespace at a time.
    of_one_namespace: bool,
}

impl Records {
    pub fn open() -> Result<Self> {
        let path = paths::pin(paths::CONNECTIONS);
        let all = raw::obj_get(&path);
        match (all, raw::obj_get(&paths::pin(paths::CONNECTIONS_HERE))) {
            (Ok(link), _) => Ok(Records { link, of_one_namespace: false }),
            (Err(_), Ok(link)) => Ok(Records { link, of_one_namespace: true }),
            (Err(e), Err(_)) => {
                Err(e).with_context(|| format!("cannot open {}: run `imtcp up`", path.display()))
            }
        }
    }

    /// Does reading ask for the privilege to enter other namespaces?
    pub fn enters_namespaces(&self) -> bool {
        self.of_one_namespace
    }

    /// One record per connection on a control of ours, of those that could be looked at.
    pub fn read(&self) -> Result<Vec<Record>> {
        Ok(self.read_seen()?.0)
    }

    /// The same, and what could not be looked at.
    pub fn read_seen(&self) -> Result<(Vec<Record>, Unseen)> {
        let mut found = Vec::new();
        let unseen = self.each(|record| found.push(*record))?;
        Ok((found, unseen))
    }

    /// The same one by one, without memory for all.
    pub fn each(&self, mut take: impl FnMut(&Record)) -> Result<Unseen> {
        if !self.of_one_namespace {
            // This iterator waits for no socket.
            let mut taker = Taker::new(take);
            let iter = raw::iter_create(self.link.as_fd()).context("cannot start the iterator")?;
            walk::read(File::from(iter), |bytes| taker.add(bytes))
                .context("cannot read the connections")?;
            taker.end()?;
            return Ok(Unseen::default());
        }
        let here = netns::of_caller().context("cannot tell this network namespace")?;
        let mut other_version = None;
        let mut unseen = Unseen::default();
        let mut look = |ns: &NetNs| {
            let mut taker = Taker::new(&mut take);
            let walked = walk::sockets(ns, self.link.as_fd(), |bytes| taker.add(bytes));
            if let Err(e) = taker.end() {
                other_version = Some(e);
            }
            walked
        };
        // First of all, and without the privilege to enter it.
        look(&here).unwrap_or_else(|e| unseen.note(here.ino, &e));
        unseen.add(netns::each(Some(here.ino), look));
        other_version.map_or(Ok(unseen), Err)
    }
}

/// Makes records of what an iterator prints.
struct Taker<T> {
    take: T,
    /// The beginning of a record.
    rest: Vec<u8>,
    fault: Option<Error>,
}

impl<T: FnMut(&Record)> Taker<T> {
    fn new(take: T) -> Self {
        Taker { take, rest: Vec::new(), fault: None }
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.fault.is_some() {
            return;
        }
        self.rest.extend_from_slice(bytes);
        match take_whole(&self.rest, &mut self.take) {
            Ok(taken) => drop(self.rest.drain(..taken)),
            Err(e) => self.fault = Some(e),
        }
    }

    fn end(self) -> Result<()> {
        self.fault.map_or(Ok(()), Err)
    }
}

/// Hands over the whole records and tells how many bytes they are. The rest is the beginning of another.
fn take_whole(bytes: &[u8], take: &mut impl FnMut(&Record)) -> Result<usize> {
    let Some(first) = bytes.first_chunk::<4>() else { return Ok(0) };
    let abi = u32::from_ne_bytes(*first);
    if abi != shared::IMTCP_ABI_VERSION {
        bail!(
            "the loaded programs speak version {abi} of the records and this command {}: \
             run `imtcp up` to upgrade them",
            shared::IMTCP_ABI_VERSION
        );
    }
    let whole = bytes.chunks_exact(size_of::<Record>());
    let taken = bytes.len() - whole.remainder().len();
    whole.filter_map(Record::from_bytes).for_each(|record| take(&record));
    Ok(taken)
}

impl Record {
    /// This end of the connection.
    pub fn src(&self) -> SocketAddr {
        address(self.family, &self.saddr, self.sport)
    }

    /// The peer's end.
    pub fn dst(&self) -> SocketAddr {
        address(self.family, &self.daddr, self.dport)
    }
}

pub(crate) fn address(family: u16, bytes: &[u8; 16], port: u16) -> SocketAddr {
    let ip = if i32::from(family) == libc::AF_INET6 {
        IpAddr::V6(Ipv6Addr::from(*bytes)).to_canonical()
    } else {
        IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
    };
    SocketAddr::new(ip, port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were_written() {
        let mut one = Record { abi: shared::IMTCP_ABI_VERSION, cookie: 7, ..Default::default() };
        let mut bytes = one.bytes().to_vec();
        one.cookie = 8;
        bytes.extend_from_slice(one.bytes());
        let whole = bytes.len();
        bytes.extend_from_slice(&one.bytes()[..100]);
        let mut read = Vec::new();
        assert_eq!(take_whole(&bytes, &mut |r| read.push(r.cookie)).unwrap(), whole);
        assert_eq!(read, [7, 8]);
    }

    #[test]
    fn ipv4_in_ipv6_is_shown_as_ipv4() {
        let daddr = Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped().octets();
        let record = Record { family: libc::AF_INET6 as _, daddr, dport: 80, ..Default::default() };
        assert_eq!(record.dst().to_string(), "192.0.2.7:80");
    }

    #[test]
    fn another_version_of_the_records_is_refused() {
        let other = Record { abi: shared::IMTCP_ABI_VERSION + 1, ..Default::default() };
        let refused = take_whole(other.bytes(), &mut |_| {}).unwrap_err();
        assert!(refused.to_string().contains("imtcp up"));
    }
}
