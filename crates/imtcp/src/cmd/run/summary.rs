// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What is told at the end of a run, in numbers and as JSON; as a sentence by line.rs.

use imtcp_bpf::{Policy, Record};
use serde_json::json;

use super::uncovered::Uncovered;
use crate::mode::Mode;
use crate::param::{self, InForce};
use crate::policy::{Handling, Limits};
use crate::runs::LeftBehind;

/// Less is names that were looked up, and handshakes.
pub const WORTH_TELLING_BYTES: u64 = 10_000;

/// The end of a run's mode before the run's own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TakenAway {
    /// `imtcp down`.
    Down,
    /// `imtcp up` without `--allow-nocc`.
    Nocc,
}

pub struct Summary {
    pub mode: Mode,
    pub limits: Limits,
    pub handling: Handling,
    pub params: InForce,
    pub elapsed_us: u64,
    /// Its mode was ended from outside, at a time that is not known: the figures are up to then.
    pub taken_away: Option<TakenAway>,
    /// Processes of the command that go on.
    pub left_behind: Vec<LeftBehind>,
    pub connections: u64,
    /// Made by the command, and counted by an `imtcp run` or `attach` inside.
    pub inner_connections: u64,
    /// Among the connections: they chose a congestion control that is none of ours, or one that holds nothing
    /// back.
    pub left_connections: u64,
    /// Among these: on a control that is none of ours. Nobody knows how much they sent with it.
    pub uncounted_connections: u64,
    /// Beside the connections: their sockets had no room for our state (net.core.optmem_max).
    pub no_room_connections: u64,
    /// Beside the connections: the kernel refused them the mode's control.
    pub refused_connections: u64,
    /// The kernel refused to mark them with the run's DSCP.
    pub unmarked_connections: u64,
    /// The caller chose a DSCP: who did not is not told of packets without.
    pub dscp_is_chosen: bool,
    pub bytes_acked: u64,
    /// Written by the command and not acknowledged yet.
    pub queued_bytes: u64,
    pub bytes_received: u64,
    pub busy_us: u64,
    pub yielding_us: u64,
    /// The same of downloads whose windows are steered.
    pub received_busy_us: u64,
    pub received_yielding_us: u64,
    pub min_rtt_us: Option<u64>,
    pub available: Option<Available>,
    pub uncovered: Uncovered,
}

/// To all connections together, of their valid results (docs/adr/0022-what-a-run-could-have-had.md).
#[derive(Clone, Copy)]
pub struct Available {
    pub results: u64,
    pub mean_bps: u64,
    pub min_bps: u64,
    pub max_bps: u64,
}

impl Summary {
    pub fn new(mode: Mode, orders: &Policy, elapsed_us: u64) -> Self {
        Summary {
            mode,
            limits: Limits::of(orders),
            handling: Handling::of(orders),
            params: param::in_force(mode, &orders.params),
            elapsed_us,
            taken_away: None,
            left_behind: Vec::new(),
            connections: 0,
            inner_connections: 0,
            left_connections: 0,
            uncounted_connections: 0,
            no_room_connections: 0,
            refused_connections: 0,
            unmarked_connections: 0,
            dscp_is_chosen: false,
            bytes_acked: 0,
            queued_bytes: 0,
            bytes_received: 0,
            busy_us: 0,
            yielding_us: 0,
            received_busy_us: 0,
            received_yielding_us: 0,
            min_rtt_us: None,
            available: None,
            uncovered: Uncovered::default(),
        }
    }

    /// Adds the connections that have ended, and the results of all.
    pub fn add_ended(&mut self, p: &Policy) {
        self.connections += p.ended_conns;
        self.inner_connections += p.inner_conns;
        self.left_connections += p.left_conns;
        self.uncounted_connections += p.uncounted_conns;
        self.no_room_connections += p.no_room_conns;
        self.refused_connections += p.refused_conns;
        self.unmarked_connections += p.unmarked_conns;
        self.bytes_acked += p.ended_bytes_acked;
        self.bytes_received += p.ended_bytes_received;
        self.busy_us += p.ended_busy_us;
        self.yielding_us += p.ended_yielding_us;
        self.received_busy_us += p.received_busy_us;
        self.received_yielding_us += p.received_yielding_us;
        self.saw_rtt(p.ended_min_rtt_us);
        self.available = p.avail_sum_kbps.checked_div(p.avail_count).map(|mean_kbps| Available {
            results: p.avail_count,
            mean_bps: mean_kbps * 1000,
            min_bps: p.avail_min_bps,
            max_bps: p.avail_max_bps,
        });
    }

    pub fn add_open(&mut self, r: &Record) {
        self.connections += 1;
        if self.mode.is_left_on(r.mode) {
            self.left_connections += 1;
        }
        self.bytes_acked += r.bytes_acked.saturating_sub(r.bytes_acked_before);
        self.queued_bytes += u64::from(r.queued_bytes);
        self.bytes_received += r.bytes_received;
        self.busy_us += r.busy_us;
        self.yielding_us += r.yielding_us;
        self.saw_rtt(r.min_rtt_us.into());
    }

    /// Those of which imtcp does not know all that they sent. `taken_away` says the same of all.
    pub fn left_uncounted(&self) -> u64 {
        match self.taken_away {
            None => self.uncounted_connections,
            Some(_) => 0,
        }
    }

    /// Did the run's mode hold back all that was counted?
    pub fn held_all(&self) -> bool {
        self.left_connections == 0 || self.taken_away.is_some()
    }

    /// 0: it saw none.
    fn saw_rtt(&mut self, min_rtt_us: u64) {
        if min_rtt_us > 0 {
            self.min_rtt_us = Some(self.min_rtt_us.map_or(min_rtt_us, |us| us.min(min_rtt_us)));
        }
    }

    pub fn mean_bps(&self) -> Option<u64> {
        let bits = u128::from(self.bytes_acked) * 8;
        let mean = (bits * 1_000_000 / u128::from(self.elapsed_us.max(1))) as u64;
        (self.taken_away.is_none() && self.left_uncounted() == 0).then_some(mean)
    }

    /// Only `bg` says when it holds the window back; the other modes' yielding is not counted.
    pub fn yielding_us(&self) -> Option<u64> {
        (self.mode == Mode::Bg).then_some(self.yielding_us)
    }

    pub fn yielded_pct(&self) -> Option<u64> {
        let yielding_us = self.yielding_us()?;
        (self.busy_us > 0).then(|| (yielding_us * 100 / self.busy_us).min(100))
    }

    /// Nothing where no window was steered.
    pub fn received_yielded_pct(&self) -> Option<u64> {
        let pct = (self.received_yielding_us * 100).checked_div(self.received_busy_us)?;
        Some(pct.min(100))
    }

    pub fn json(&self) -> serde_json::Value {
        json!({
            "mode": self.mode,
            "min_bps": self.limits.min_bps,
            "max_bps": self.limits.max_bps,
            "elapsed_us": self.elapsed_us,
            "taken_down": self.taken_away == Some(TakenAway::Down),
            "taken_away": self.taken_away == Some(TakenAway::Nocc),
            "connections": self.connections,
            "inner_connections": self.inner_connections,
            "left_connections": self.left_connections,
            "no_room_connections": self.no_room_connections,
            "refused_connections": self.refused_connections,
            "unmarked_connections": self.unmarked_connections,
            "left_behind": self.left_behind,
            "bytes_acked": self.bytes_acked,
            "queued_bytes": self.queued_bytes,
            "bytes_received": self.bytes_received,
            "mean_bps": self.mean_bps(),
            "avail_results": self.available.map_or(0, |a| a.results),
            "avail_mean_bps": self.available.map(|a| a.mean_bps),
            "avail_min_bps": self.available.map(|a| a.min_bps),
            "avail_max_bps": self.available.map(|a| a.max_bps),
            "min_rtt_us": self.min_rtt_us,
            "busy_us": self.busy_us,
            "yielding_us": self.yielding_us(),
            "yielded_pct": self.yielded_pct(),
            "received_yielded_pct": self.received_yielded_pct(),
            "uncovered": self.uncovered,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Summary {
        Summary::new(Mode::Bg, &Policy::default(), 2_000_000)
    }

    #[test]
    fn a_mode_of_which_yielding_is_not_counted_has_null_there() {
        let lp = Summary { mode: Mode::Lp, busy_us: 1_000_000, ..nothing() };
        assert!(lp.json()["yielded_pct"].is_null() && lp.json()["yielding_us"].is_null());
        let bg = Summary { busy_us: 1_000_000, yielding_us: 250_000, ..nothing() };
        assert_eq!(bg.json()["yielded_pct"], 25);
    }

    #[test]
    fn bytes_from_before_the_present_control_are_counted_once() {
        let ended = Policy {
            ended_bytes_acked: 700,
            ended_bytes_received: 70,
            left_conns: 1,
            ..Default::default()
        };
        let open = Record {
            bytes_acked: 1000,
            bytes_acked_before: 700,
            bytes_received: 30,
            ..Default::default()
        };
        let mut s = nothing();
        s.add_ended(&ended);
        s.add_open(&open);
        assert_eq!((s.connections, s.bytes_acked, s.bytes_received), (1, 1000, 100));
    }

    #[test]
    fn a_run_that_imtcp_did_not_last_for_has_no_mean() {
        let s = Summary { taken_away: Some(TakenAway::Down), bytes_acked: 9, ..nothing() };
        assert!(s.json()["mean_bps"].is_null(), "when it ended is not known");
    }

    #[test]
    fn a_run_of_which_a_connection_was_not_counted_to_its_end_has_no_mean() {
        let left = |uncounted_conns| {
            let mut s = Summary { bytes_acked: 9, ..nothing() };
            let one = Policy { ended_conns: 1, left_conns: 1, ..Default::default() };
            s.add_ended(&Policy { uncounted_conns, ..one });
            s
        };
        assert!(left(1).json()["mean_bps"].is_null());
        assert_eq!(left(0).json()["mean_bps"], 36);
        assert_eq!(left(0).json()["left_connections"], 1);
    }

    #[test]
    fn what_is_not_known_is_null() {
        let json = nothing().json();
        assert!(json["avail_mean_bps"].is_null() && json["yielded_pct"].is_null(), "{json}");
        assert!(json["uncovered"]["udp_bytes"].is_null(), "{json}");
        assert!(json["uncovered"]["moved"].is_null(), "{json}");
    }
}
