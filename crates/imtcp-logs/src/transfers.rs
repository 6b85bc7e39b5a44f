// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What became of each line of a log: a transfer to a client, or one of the reasons why it is none.

use std::net::IpAddr;

use imtcp_client::peer::is_peer;
use imtcp_client::time::DAY_US;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::formats::{parse, Format, Line};
use super::proxies::{Behind, Forwarded};

/// More than any line carries in a day; a sum of them does not overflow soon.
const MOST_BYTES: u64 = 1_000_000_000_000_000;
/// Characters of a line that are shown as an example.
const SHOWN: usize = 120;

/// A transfer from this host to one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub address: IpAddr,
    pub bytes: u64,
    pub t_us: i64,
}

/// What became of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub lines: u64,
    /// Counted, each for a client.
    pub transfers: u64,
    /// About nothing that this host sent.
    pub other: u64,
    /// Sent to this host itself, or to what is no peer.
    pub local: u64,
    /// Sent to a trusted proxy that names no client.
    pub proxies: u64,
    /// Sent to a trusted proxy, and the field of X-Forwarded-For holds no address.
    pub wrong_field: u64,
    /// Transfers whose client is named by no address.
    pub named: u64,
    /// Not as a server writes them, or not possible.
    pub skipped: u64,
    /// Clients with the fewest bytes that had to go, so many there were.
    pub forgotten: u64,
}

pub struct Transfers {
    format: Format,
    zone: TimeZone,
    forwarded: Forwarded,
    pub counts: Counts,
    /// The first line that was skipped, its beginning.
    pub skipped: Option<String>,
}

impl Transfers {
    /// Times that tell no offset are of `zone`.
    pub fn new(format: Format, zone: TimeZone, forwarded: Forwarded) -> Self {
        Transfers { format, zone, forwarded, counts: Counts::default(), skipped: None }
    }

    /// `None` in place of a line that is too long. Times after `now_us` (and a day, for clocks and zones
    /// differ) cannot be.
    pub fn take(&mut self, line: Option<&[u8]>, now_us: i64) -> Option<Transfer> {
        self.counts.lines += 1;
        let text = line.and_then(|line| std::str::from_utf8(line).ok());
        let parsed = text.and_then(|text| parse(self.format, text, &self.zone));
        let possible = |bytes: u64, t_us: i64| {
            bytes <= MOST_BYTES && (1..=now_us.saturating_add(DAY_US)).contains(&t_us)
        };
        let (host, bytes, t_us, more) = match parsed {
            Some(Line::Sent { host, bytes, t_us, more }) if possible(bytes, t_us) => {
                (host, bytes, t_us, more)
            }
            Some(Line::Other) => {
                self.counts.other += 1;
                return None;
            }
            _ => {
                self.counts.skipped += 1;
                self.skipped.get_or_insert_with(|| example(line.unwrap_or(b"a very long line")));
                return None;
            }
        };
        let Ok(host) = host.parse::<IpAddr>() else {
            // Names come from the client's own DNS: they say what it likes.
            self.counts.named += 1;
            return None;
        };
        let address = match self.forwarded.behind(host.to_canonical(), more) {
            Behind::Client(address) => address,
            Behind::Proxies => {
                self.counts.proxies += 1;
                return None;
            }
            Behind::NoAddress => {
                self.counts.wrong_field += 1;
                return None;
            }
        };
        if !is_peer(address) {
            self.counts.local += 1;
            return None;
        }
        self.counts.transfers += 1;
        Some(Transfer { address, bytes, t_us })
    }
}

fn example(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.chars().take(SHOWN).map(|c| if c.is_control() { '?' } else { c }).collect()
}
