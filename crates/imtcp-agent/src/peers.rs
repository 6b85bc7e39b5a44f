// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Whom a result belongs to: an event names its connection by a cookie, the connections'
//! records have the addresses.

use std::collections::HashMap;
use std::net::IpAddr;

use imtcp_bpf::{shared, Event};
use imtcp_client::record::Record;

use super::clock::Clock;

/// Connections remembered after their end, so that their last results find them.
const MOST_PEERS: usize = 100_000;

/// `None`: a connection whose results are not wanted.
#[derive(Default)]
pub struct Peers(HashMap<u64, Option<IpAddr>>);

impl Peers {
    pub fn knows(&self, cookie: u64) -> bool {
        self.0.contains_key(&cookie)
    }

    pub fn learn(
        &mut self,
        connections: &[imtcp_bpf::Record],
        wanted: impl Fn(&imtcp_bpf::Record) -> bool,
    ) {
        if self.0.len() > MOST_PEERS {
            self.0.clear();
        }
        for record in connections {
            if record.cookie != 0 {
                self.0.insert(record.cookie, wanted(record).then(|| record.dst().ip()));
            }
        }
    }

    /// The record of a valid result; `None` for others, and for whom nobody knows or wants.
    pub fn record(&self, event: &Event, source: &str, clock: Clock) -> Option<Record> {
        let dst = self.0.get(&event.cookie)?.as_ref()?;
        let valid = u32::from(event.outcome) == shared::IMTCP_VALID && event.avail_bps > 0;
        if !valid || dst.is_loopback() {
            return None;
        }
        let age_us = monotonic_us().saturating_sub(event.at_ns / 1000);
        let known = |value: u64| (value != 0).then_some(value);
        Some(Record {
            dst: dst.to_string(),
            source: source.into(),
            time: clock.now_us() - age_us as i64,
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
        let (far, loopback) = (IpAddr::from([192, 0, 2, 7]), IpAddr::from([127, 0, 0, 1]));
        Peers(HashMap::from([(7, Some(far)), (8, Some(loopback)), (10, None)]))
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

    /// Anybody can make a network namespace with any address in it.
    #[test]
    fn connections_of_other_network_namespaces_are_known_and_their_results_are_not_wanted() {
        let mut peers = Peers::default();
        let of = |cookie, netns_ino| imtcp_bpf::Record {
            cookie,
            netns_ino,
            family: libc::AF_INET as u16,
            daddr: [192, 0, 2, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ..Default::default()
        };
        peers.learn(&[of(7, 1), of(8, 2)], |record| record.netns_ino == 1);
        let record = |cookie| peers.record(&Event { cookie, ..event() }, "here", Clock::start());
        assert!(record(7).is_some_and(|r| r.dst == "192.0.2.7"));
        assert!(peers.knows(8) && record(8).is_none());
    }

    #[test]
    fn a_valid_result_becomes_a_record_of_its_peer() {
        let clock = Clock::start();
        let record = peers().record(&event(), "here", clock).unwrap();
        assert_eq!((record.dst.as_str(), record.available_bps), ("192.0.2.7", Some(42_000_000)));
        assert_eq!((record.rtt_us, record.capacity_bps), (Some(30_000), None));
        assert!((clock.now_us() - record.time).abs() < 1_000_000);
    }

    #[test]
    fn invalid_results_loopback_strangers_and_unwanted_ones_are_left_out() {
        let invalid = Event { outcome: shared::IMTCP_VALID as u8 + 1, ..event() };
        let others = [8, 9, 10].map(|cookie| Event { cookie, ..event() });
        let clock = Clock::start();
        for wrong in others.iter().chain([&invalid]) {
            assert_eq!(peers().record(wrong, "here", clock), None, "{}", wrong.cookie);
        }
    }
}
