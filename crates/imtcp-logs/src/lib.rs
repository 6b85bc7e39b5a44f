// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Whom this host serves: the clients in the access logs of its HTTP, FTP and rsync servers, that
//! is, the destinations whose paths matter to it.

pub mod args;
pub mod files;
mod formats;
mod lines;
pub mod no_client;
pub mod proxies;
mod transfers;

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead};
use std::net::IpAddr;

use jiff::tz::TimeZone;
use serde::Serialize;

pub use formats::Format;
pub use lines::{each as each_line, MOST_BYTES as MOST_LINE_BYTES};
pub use transfers::{Counts, Transfer, Transfers};

use imtcp_client::time::rfc3339;
use proxies::Forwarded;

/// The bytes sent to one client.
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

pub struct Clients {
    transfers: Transfers,
    now_us: i64,
    most: usize,
    found: HashMap<IpAddr, Client>,
}

/// Clients in memory; beyond, the half with fewer bytes goes. About 100 MB, with the table of them.
const MOST_CLIENTS: usize = 200_000;

impl Clients {
    /// Times that tell no offset are of `zone`; those after `now_us` (and a day, for clocks and zones
    /// differ) cannot be.
    pub fn new(format: Format, zone: TimeZone, now_us: i64) -> Self {
        Self::behind(Forwarded { proxies: Vec::new(), field: proxies::FIELD }, format, zone, now_us)
    }

    /// The same of a server behind trusted proxies.
    pub fn behind(forwarded: Forwarded, format: Format, zone: TimeZone, now_us: i64) -> Self {
        let transfers = Transfers::new(format, zone, forwarded);
        Clients { transfers, now_us, most: MOST_CLIENTS, found: HashMap::new() }
    }

    /// Reads a log to its end; may be called for several.
    pub fn read(&mut self, log: impl BufRead) -> io::Result<()> {
        lines::each(log, |line| {
            if let Some(transfer) = self.transfers.take(line, self.now_us) {
                self.count(transfer);
            }
        })
    }

    fn count(&mut self, Transfer { address, bytes, t_us }: Transfer) {
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
        self.transfers.counts.forgotten += small.len() as u64;
    }

    pub fn counts(&self) -> Counts {
        self.transfers.counts
    }

    /// The beginning of the first line that was skipped.
    pub fn skipped(&self) -> Option<&str> {
        self.transfers.skipped.as_deref()
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
    use imtcp_client::time::DAY_US;

    #[test]
    fn when_there_are_too_many_clients_those_with_the_most_bytes_stay() {
        let mut clients = Clients::new(Format::Auto, TimeZone::UTC, DAY_US);
        clients.most = 8;
        for i in 0..20u8 {
            // Equal ones too: something must go all the same.
            let bytes = if i == 3 { 1000 } else { u64::from(i.min(9)) + 1 };
            clients.count(Transfer { address: [192, 0, 2, i].into(), bytes, t_us: 1 });
        }
        assert!(clients.found.len() <= 8);
        let counts = clients.counts();
        let all = clients.by_bytes(0);
        assert_eq!(counts.forgotten, 20 - all.len() as u64);
        assert_eq!((all[0].address, all[0].bytes), (IpAddr::from([192, 0, 2, 3]), 1000));
    }
}
