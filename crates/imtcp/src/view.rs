// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Records as people and programs read them: names for numbers, null for what is not known.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use imtcp_bpf::names::{mode, outcome, reduction, tcp_state, unit_state};
use imtcp_bpf::{shared, Event, Record};
use imtcp_common::format;
use imtcp_common::procfs::{self, Owner};
use serde::Serialize;

use crate::cli::SortKey;
use crate::mode::Mode;
use crate::param::{self, InForce};

/// One connection at one moment. The keys of `imtcp watch --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Connection {
    /// CLOCK_MONOTONIC
    pub t_us: u64,
    pub cookie: Option<u64>,
    pub src: SocketAddr,
    pub dst: SocketAddr,
    pub pid: Option<i32>,
    pub command: Option<String>,
    pub mode: &'static str,
    pub state: &'static str,
    pub avail_last_bps: Option<u64>,
    pub avail_smoothed_bps: Option<u64>,
    /// Was the newest measurement valid?
    pub valid: bool,
    pub outcome: Option<&'static str>,
    pub validity_pct: Option<u32>,
    pub age_us: Option<u64>,
    pub range_low_bps: Option<u64>,
    pub range_high_bps: Option<u64>,
    pub capacity_bps: Option<u64>,
    /// Of its mode.
    pub params: InForce,
    pub cwnd_segs: u32,
    pub cap_segs: Option<u32>,
    pub ssthresh_segs: Option<u32>,
    pub srtt_us: Option<u32>,
    pub min_rtt_us: Option<u32>,
    /// The rate acknowledged since the look before; null at the first.
    pub rate_bps: Option<u64>,
    /// The kernel's estimate, of when it last had enough to send.
    pub delivery_bps: Option<u64>,
    pub pacing_bps: Option<u64>,
    pub bytes_acked: u64,
    pub bytes_retrans: u64,
    /// The rate received since the look before; null at the first.
    pub received_bps: Option<u64>,
    pub bytes_received: u64,
    /// The window is steered, and this is its bound.
    pub offered_bytes: Option<u32>,
    pub received_rtt_us: Option<u32>,
    /// Time in which what is received gave way.
    pub received_yielding_us: u64,
    pub unit_state: &'static str,
    pub meas_started: u64,
    pub meas_completed: u64,
    pub meas_invalid: BTreeMap<&'static str, u64>,
    pub reductions: BTreeMap<&'static str, u64>,
    pub busy_us: u64,
    pub yielding_us: u64,
    pub policy: Option<u64>,
    pub netns: u32,
}

/// The kernel's names for "no limit": TCP_INFINITE_SSTHRESH and an unset pacing rate.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
const UNLIMITED_PACING_BPS: u64 = (u32::MAX as u64) * 8;

fn known<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

impl Connection {
    pub fn new(r: &Record, owner: Option<&Owner>) -> Self {
        let ran = r.meas_completed + r.meas_invalid.iter().sum::<u64>() > 0;
        let has_result = r.avail_last_bps != 0;
        Connection {
            t_us: r.now_ns / 1000,
            cookie: known(r.cookie),
            src: r.src(),
            dst: r.dst(),
            pid: owner.map(|o| o.pid),
            command: owner.map(|o| o.command.clone()),
            mode: mode(r.mode),
            state: tcp_state(r.tcp_state),
            avail_last_bps: known(r.avail_last_bps),
            avail_smoothed_bps: known(r.avail_smoothed_bps),
            valid: ran && has_result && u32::from(r.last_outcome) == shared::IMTCP_VALID,
            outcome: ran.then(|| outcome(r.last_outcome)),
            validity_pct: has_result.then_some(r.validity_pct),
            age_us: has_result.then(|| r.now_ns.saturating_sub(r.avail_at_ns) / 1000),
            range_low_bps: known(r.range_low_bps),
            range_high_bps: known(r.range_high_bps),
            capacity_bps: known(r.capacity_bps),
            params: Mode::of_number(r.mode)
                .map_or_else(InForce::new, |mode| param::in_force(mode, &r.params)),
            cwnd_segs: r.cwnd_segs,
            cap_segs: known(r.cap_segs),
            ssthresh_segs: known(r.ssthresh_segs).filter(|s| *s < INFINITE_SSTHRESH),
            srtt_us: known(r.srtt_us),
            min_rtt_us: known(r.min_rtt_us).filter(|us| *us != u32::MAX),
            rate_bps: None,
            delivery_bps: known(r.delivery_bps),
            pacing_bps: known(r.pacing_bps).filter(|bps| *bps < UNLIMITED_PACING_BPS),
            bytes_acked: r.bytes_acked,
            bytes_retrans: r.bytes_retrans,
            received_bps: None,
            bytes_received: r.bytes_received,
            offered_bytes: known(r.offered_bytes),
            received_rtt_us: known(r.received_rtt_us),
            received_yielding_us: r.received_yielding_us,
            unit_state: unit_state(r.unit_state),
            meas_started: r.meas_started,
            meas_completed: r.meas_completed,
            meas_invalid: counts(&r.meas_invalid, outcome).filter(|(n, _)| *n != "valid").collect(),
            reductions: counts(&r.reductions, reduction).collect(),
            busy_us: r.busy_us,
            yielding_us: r.yielding_us,
            policy: known(r.policy),
            netns: r.netns_ino,
        }
    }

    /// A download is shown by what it receives, with an arrow.
    fn receives_most(&self) -> bool {
        self.bytes_received > self.bytes_acked
    }

    /// The rate of the way that carries more, as `format` writes it.
    pub fn rate_shown(&self, format: fn(u64) -> String) -> String {
        let (arrow, bps) = match self.receives_most() {
            true => ("↓", self.received_bps),
            false => ("", self.rate_bps),
        };
        bps.map_or_else(|| "-".into(), |bps| format!("{arrow}{}", format(bps)))
    }

    /// The same of its bytes.
    pub fn bytes_shown(&self) -> String {
        match self.receives_most() {
            true => format!("↓{}", format::bytes(self.bytes_received)),
            false => format::bytes(self.bytes_acked),
        }
    }

    fn bytes_carried(&self) -> u64 {
        self.bytes_acked.max(self.bytes_received)
    }

    /// For order and chart.
    pub fn main_bps(&self) -> Option<u64> {
        if self.receives_most() {
            self.received_bps
        } else {
            self.rate_bps
        }
    }

    /// Does one of the texts that identify it contain this?
    pub fn matches(&self, filter: &str) -> bool {
        let filter = filter.to_lowercase();
        filter.is_empty()
            || [self.src.to_string(), self.dst.to_string(), self.mode.to_string()]
                .into_iter()
                .chain(self.pid.map(|p| p.to_string()))
                .chain(self.command.clone())
                .any(|text| text.to_lowercase().contains(&filter))
    }
}

/// Why nothing is shown, where `all` connections use imtcp.
pub fn none_shown(all: usize, filter: &str) -> String {
    match all {
        0 => "no connection uses imtcp at present".into(),
        1 => format!("the one connection that uses imtcp does not match '{filter}'"),
        _ => format!("none of the {all} connections that use imtcp matches '{filter}'"),
    }
}

fn counts<'a>(
    values: &'a [u64],
    name: fn(u8) -> &'static str,
) -> impl Iterator<Item = (&'static str, u64)> + 'a {
    values.iter().enumerate().map(move |(i, n)| (name(i as u8), *n))
}

/// One measurement that ended. The keys of `imtcp watch --events --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Result {
    pub t_us: u64,
    pub cookie: Option<u64>,
    pub policy: Option<u64>,
    pub mode: &'static str,
    pub outcome: &'static str,
    pub avail_bps: Option<u64>,
    pub smoothed_bps: Option<u64>,
    pub range_low_bps: Option<u64>,
    pub range_high_bps: Option<u64>,
    pub capacity_bps: Option<u64>,
    pub delivery_bps: Option<u64>,
    pub validity_pct: u32,
    pub srtt_us: Option<u32>,
    pub min_rtt_us: Option<u32>,
    pub streams: u8,
    pub sub_range: u8,
    pub hold_us: u32,
}

impl From<&Event> for Result {
    fn from(e: &Event) -> Self {
        Result {
            t_us: e.at_ns / 1000,
            cookie: known(e.cookie),
            policy: known(e.policy),
            mode: mode(e.mode),
            outcome: outcome(e.outcome),
            avail_bps: known(e.avail_bps),
            smoothed_bps: known(e.smoothed_bps),
            range_low_bps: known(e.range_low_bps),
            range_high_bps: known(e.range_high_bps),
            capacity_bps: known(e.capacity_bps),
            delivery_bps: known(e.delivery_bps),
            validity_pct: e.validity_pct,
            srtt_us: known(e.srtt_us),
            min_rtt_us: known(e.min_rtt_us).filter(|us| *us != u32::MAX),
            streams: e.streams,
            sub_range: e.sub_range,
            hold_us: e.hold_us,
        }
    }
}

/// One look after another: remembers who holds which socket, so that /proc is searched only
/// for new ones, and what was acknowledged by then.
#[derive(Default)]
pub struct Looks {
    known: HashMap<u64, Owner>,
    searched: Option<(Instant, HashSet<u64>)>,
    before: HashMap<u64, Carried>,
}

/// The bytes of both ways at that time.
#[derive(Clone, Copy)]
struct Carried {
    t_us: u64,
    acked: u64,
    received: u64,
}

impl Carried {
    /// Bytes acknowledged and bytes received since then, per second.
    fn rates_bps(self, before: Self) -> (u64, u64) {
        let elapsed_us = self.t_us.saturating_sub(before.t_us).max(1);
        let rate_bps = |now: u64, before: u64| {
            let bits = u128::from(now.saturating_sub(before)) * 8;
            (bits * 1_000_000 / u128::from(elapsed_us)) as u64
        };
        (rate_bps(self.acked, before.acked), rate_bps(self.received, before.received))
    }
}

/// A search through every process costs; sockets without a process are not looked for again
/// sooner than this.
const SEARCH_AGAIN: Duration = Duration::from_secs(2);

impl Looks {
    pub fn look(&mut self, records: &[Record]) -> Vec<Connection> {
        self.search(records);
        let mut connections: Vec<_> =
            records.iter().map(|r| Connection::new(r, self.known.get(&r.socket_ino))).collect();
        let mut now = HashMap::new();
        for c in &mut connections {
            let Some(cookie) = c.cookie else { continue };
            let carried =
                Carried { t_us: c.t_us, acked: c.bytes_acked, received: c.bytes_received };
            let rates = self.before.get(&cookie).map(|before| carried.rates_bps(*before));
            (c.rate_bps, c.received_bps) = rates.unzip();
            now.insert(cookie, carried);
        }
        self.before = now;
        connections
    }

    fn search(&mut self, records: &[Record]) {
        let inodes: HashSet<u64> =
            records.iter().map(|r| r.socket_ino).filter(|i| *i != 0).collect();
        self.known.retain(|inode, owner| inodes.contains(inode) && procfs::exists(owner.pid));
        let missing: HashSet<u64> =
            inodes.into_iter().filter(|i| !self.known.contains_key(i)).collect();
        let lately = self.searched.as_ref().is_some_and(|(at, searched)| {
            at.elapsed() < SEARCH_AGAIN && missing.is_subset(searched)
        });
        if !missing.is_empty() && !lately {
            self.known.extend(procfs::owners(&missing));
            self.searched = Some((Instant::now(), missing));
        }
    }
}

/// Sorts by the key; equal ones by cookie, so that lines do not jump.
pub fn sort(connections: &mut [Connection], key: SortKey) {
    connections.sort_by(|a, b| {
        let order = match key {
            SortKey::Rate => b.main_bps().cmp(&a.main_bps()),
            SortKey::Avail => b.avail_smoothed_bps.cmp(&a.avail_smoothed_bps),
            SortKey::Bytes => b.bytes_carried().cmp(&a.bytes_carried()),
            SortKey::Rtt => b.srtt_us.cmp(&a.srtt_us),
            SortKey::Command => a.command.cmp(&b.command),
            SortKey::Peer => a.dst.cmp(&b.dst),
        };
        order.then(a.cookie.cmp(&b.cookie))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            family: libc::AF_INET as u16,
            saddr: [10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            sport: 4000,
            dport: 443,
            tcp_state: 1,
            mode: shared::IMTCP_MODE_BG as u8,
            now_ns: 5_000_000_000,
            ..Default::default()
        }
    }

    #[test]
    fn what_is_not_set_is_null_and_not_zero() {
        let json = serde_json::to_value(Connection::new(&record(), None)).unwrap();
        for key in [
            "avail_last_bps",
            "avail_smoothed_bps",
            "outcome",
            "validity_pct",
            "age_us",
            "range_low_bps",
            "capacity_bps",
            "cap_segs",
            "ssthresh_segs",
            "srtt_us",
            "min_rtt_us",
            "rate_bps",
            "delivery_bps",
            "received_bps",
            "offered_bytes",
            "received_rtt_us",
            "pacing_bps",
            "policy",
            "pid",
            "command",
            "cookie",
        ] {
            assert!(json[key].is_null(), "{key}: {}", json[key]);
        }
        assert_eq!(json["valid"], false);
        assert_eq!(json["src"], "10.0.0.1:4000");
        assert_eq!(json["state"], "established");
        assert_eq!(json["reductions"]["rtt"], 0);
        assert_eq!(json["meas_invalid"]["bunched"], 0);
        assert!(json["meas_invalid"].get("valid").is_none());
    }

    #[test]
    fn a_result_has_an_age() {
        let r = Record {
            avail_last_bps: 8_000_000,
            avail_at_ns: 4_000_000_000,
            meas_completed: 1,
            validity_pct: 90,
            ..record()
        };
        let c = Connection::new(&r, None);
        assert_eq!((c.age_us, c.valid, c.outcome), (Some(1_000_000), true, Some("valid")));
    }

    #[test]
    fn the_own_rate_is_what_was_acknowledged_since_the_look_before() {
        let at = |second: u64, bytes_acked| Record {
            cookie: 7,
            now_ns: second * 1_000_000_000,
            bytes_acked,
            delivery_bps: 99,
            ..record()
        };
        let mut looks = Looks::default();
        assert_eq!(looks.look(&[at(1, 0)])[0].rate_bps, None);
        assert_eq!(looks.look(&[at(3, 1_000_000)])[0].rate_bps, Some(4_000_000));
        assert_eq!(looks.look(&[at(4, 1_000_000)])[0].rate_bps, Some(0));
    }

    #[test]
    fn a_download_is_shown_by_what_it_receives() {
        let at = |second: u64, bytes_received| Record {
            cookie: 7,
            now_ns: second * 1_000_000_000,
            bytes_acked: 100,
            bytes_received,
            offered_bytes: 65_536,
            ..record()
        };
        let mut looks = Looks::default();
        assert_eq!(looks.look(&[at(1, 0)])[0].bytes_shown(), "100 bytes");
        let now = looks.look(&[at(3, 1_000_000)]).remove(0);
        assert_eq!((now.received_bps, now.rate_bps), (Some(4_000_000), Some(0)));
        assert_eq!(now.rate_shown(format::rate), "↓4.00 Mbit/s");
        assert_eq!((now.bytes_shown().as_str(), now.offered_bytes), ("↓1.00 MB", Some(65_536)));
    }

    #[test]
    fn filters_look_at_addresses_pid_command_and_mode() {
        let owner = Owner { pid: 4711, command: "rsync".into() };
        let c = Connection::new(&record(), Some(&owner));
        for text in ["", "RSYNC", "4711", "10.0.0.1", ":443", "bg"] {
            assert!(c.matches(text), "{text}");
        }
        assert!(!c.matches("curl"));
    }
}
