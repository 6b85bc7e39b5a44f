// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Whom a result belongs to: an event names its connection by a cookie, the connections'
//! records have the addresses.

use std::collections::HashMap;
use std::net::IpAddr;

use imtcp_advice::record::Record;
use imtcp_advice::time::now_us;
use imtcp_bpf::{shared, Event};

use crate::view::Connection;

/// Connections remembered after their end, so that their last results find them.
const MOST_PEERS: usize = 100_000;

#[derive(Default)]
pub struct Peers(HashMap<u64, IpAddr>);

impl Peers {
    pub fn knows(&self, cookie: u64) -> bool {
        self.0.contains_key(&cookie)
    }

    pub fn learn(&mut self, connections: &[imtcp_bpf::Record]) {
        if self.0.len() > MOST_PEERS {
            self.0.clear();
        }
        for record in connections {
            let connection = Connection::new(record, None);
            if let Some(cookie) = connection.cookie {
                self.0.insert(cookie, connection.dst.ip());
            }
        }
    }

    /// The record of a valid result; `None` for others, and for whom nobody knows.
    pub fn record(&self, event: &Event, source: &str) -> Option<Record> {
        let dst = self.0.get(&event.cookie)?;
        let valid = u32::from(event.outcome) == shared::IMTCP_VALID && event.avail_bps > 0;
        if !valid || dst.is_loopback() {
            return None;
        }
        let age_us = monotonic_us().saturating_sub(event.at_ns / 1000);
        let known = |value: u64| (value != 0).then_some(value);
        Some(Record {
            dst: dst.to_string(),
            source: source.into(),
            time: now_us() - age_us as i64,
            available_bps: Some(event.avail_bps),
            capacity_bps: known(event.capacity_bps),
            rtt_us: known(event.srtt_us.into()),
            validity_pct: Some(event.validity_pct.clamp(1, 100) as u8),
            ..Record::default()
        })
    }
}

/// The kernel's clock of events.
fn monotonic_us() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |t| t.tv_sec() as u64 * 1_000_000 + t.tv_nsec() as u64 / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers() -> Peers {
        Peers(HashMap::from([(7, IpAddr::from([192, 0, 2, 7])), (8, IpAddr::from([127, 0, 0, 1]))]))
    }

    fn event() -> Event {
        Event {
            at_ns: monotonic_us() * 1000,
            cookie: 7,
            avail_bps: 42_000_000,
            srtt_us: 30_000,
            validity_pct: 93,
            outcome: shared::IMTCP_VALID as u8,
            ..Event::default()
        }
    }

    #[test]
    fn a_valid_result_becomes_a_record_of_its_peer() {
        let record = peers().record(&event(), "here").unwrap();
        assert_eq!((record.dst.as_str(), record.available_bps), ("192.0.2.7", Some(42_000_000)));
        assert_eq!((record.rtt_us, record.capacity_bps), (Some(30_000), None));
        assert!((now_us() - record.time).abs() < 1_000_000);
    }

    #[test]
    fn invalid_results_loopback_and_strangers_are_left_out() {
        let invalid = Event { outcome: shared::IMTCP_VALID as u8 + 1, ..event() };
        let wrong = [invalid, Event { cookie: 8, ..event() }, Event { cookie: 9, ..event() }];
        assert!(wrong.iter().all(|e| peers().record(e, "here").is_none()));
    }
}
