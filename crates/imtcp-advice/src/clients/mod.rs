// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Whom this host serves: the clients in the access logs of its HTTP, FTP and rsync servers, that
//! is, the destinations whose paths matter to it.

mod formats;
mod lines;

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead};
use std::net::IpAddr;

use jiff::tz::TimeZone;
use serde::Serialize;

pub use formats::Format;
use formats::{parse, Line};

use crate::time::{rfc3339, DAY_US};

/// What was sent to one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Client {
    pub address: IpAddr,
    pub transfers: u64,
    pub bytes: u64,
    /// When servers wrote of its first and last transfer, which is at their ends.
    #[serde(rename = "first", with = "rfc3339")]
    pub first_us: i64,
    #[serde(rename = "last", with = "rfc3339")]
    pub last_us: i64,
}

/// What became of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub lines: u64,
    /// Counted, each for a client.
    pub transfers: u64,
    /// About nothing that this host sent to another one.
    pub other: u64,
    /// Transfers whose client is named by no address.
    pub named: u64,
    /// Not as a server writes them, or not possible.
    pub skipped: u64,
    /// Clients with the fewest bytes that had to go, so many there were.
    pub forgotten: u64,
}

pub struct Clients {
    format: Format,
    zone: TimeZone,
    now_us: i64,
    most: usize,
    found: HashMap<IpAddr, Client>,
    counts: Counts,
}

/// Clients in memory; beyond, the half with fewer bytes goes. About 100 MB, with the table of them.
const MOST_CLIENTS: usize = 200_000;
/// More than any line carries in a day; a sum of them does not overflow soon.
const MOST_BYTES: u64 = 1_000_000_000_000_000;

impl Clients {
    /// Times that tell no offset are of `zone`; those after `now_us` (and a day, for clocks and zones
    /// differ) cannot be.
    pub fn new(format: Format, zone: TimeZone, now_us: i64) -> Self {
        Clients {
            format,
            zone,
            now_us,
            most: MOST_CLIENTS,
            found: HashMap::new(),
            counts: Counts::default(),
        }
    }

    /// Reads a log to its end; may be called for several.
    pub fn read(&mut self, log: impl BufRead) -> io::Result<()> {
        lines::each(log, |line| self.take(line))
    }

    fn take(&mut self, line: Option<&[u8]>) {
        self.counts.lines += 1;
        let text = line.and_then(|line| std::str::from_utf8(line).ok());
        match text.and_then(|text| parse(self.format, text, &self.zone)) {
            None => self.counts.skipped += 1,
            Some(Line::Other) => self.counts.other += 1,
            Some(Line::Sent { host, bytes, t_us }) => {
                let possible = (1..=self.now_us.saturating_add(DAY_US)).contains(&t_us);
                if !possible || bytes > MOST_BYTES {
                    self.counts.skipped += 1;
                } else if let Ok(address) = host.parse::<IpAddr>() {
                    self.count(address.to_canonical(), bytes, t_us);
                } else {
                    // Names come from the client's own DNS: they say what it likes.
                    self.counts.named += 1;
                }
            }
        }
    }

    fn count(&mut self, address: IpAddr, bytes: u64, t_us: i64) {
        if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
            self.counts.other += 1;
            return;
        }
        self.counts.transfers += 1;
        let new = Client { address, transfers: 0, bytes: 0, first_us: t_us, last_us: t_us };
        let client = self.found.entry(address).or_insert(new);
        client.transfers += 1;
        client.bytes = client.bytes.saturating_add(bytes);
        client.first_us = client.first_us.min(t_us);
        client.last_us = client.last_us.max(t_us);
        if self.found.len() > self.most {
            self.forget_half();
        }
    }

    fn forget_half(&mut self) {
        let mut all: Vec<_> = self.found.values().map(|c| (c.bytes, c.address)).collect();
        let half = all.len() / 2;
        all.select_nth_unstable(half);
        let small: HashSet<_> = all[..half].iter().map(|(_, address)| *address).collect();
        self.found.retain(|address, _| !small.contains(address));
        self.counts.forgotten += small.len() as u64;
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Those that got so many bytes or more, the most first.
    pub fn by_bytes(self, least_bytes: u64) -> Vec<Client> {
        let mut all: Vec<_> = self.found.into_values().filter(|c| c.bytes >= least_bytes).collect();
        all.sort_by_key(|c| (std::cmp::Reverse(c.bytes), c.address));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_there_are_too_many_clients_those_with_the_most_bytes_stay() {
        let mut clients = Clients::new(Format::Auto, TimeZone::UTC, DAY_US);
        clients.most = 8;
        for i in 0..20u8 {
            // Equal ones too: something must go all the same.
            let bytes = if i == 3 { 1000 } else { u64::from(i.min(9)) + 1 };
            clients.count(IpAddr::from([192, 0, 2, i]), bytes, 1);
        }
        assert!(clients.found.len() <= 8);
        let counts = clients.counts();
        assert_eq!(counts.transfers, 20);
        let all = clients.by_bytes(0);
        assert_eq!(counts.forgotten, 20 - all.len() as u64);
        assert_eq!((all[0].address, all[0].bytes), (IpAddr::from([192, 0, 2, 3]), 1000));
    }
}
