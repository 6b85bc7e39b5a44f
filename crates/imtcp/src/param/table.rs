// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Every parameter: its modes, range, default and place.

use imtcp_bpf::{shared, Params};

use crate::mode::Mode;

/// A parameter that a user may choose. The programs have the same `least`, `most` and `default`.
pub struct Param {
    /// The name and `=`: what a shell completes.
    pub(super) key: &'static str,
    pub(super) modes: &'static [Mode],
    /// The programs count in this part of one.
    pub(super) scale: u32,
    pub(super) least: u32,
    pub(super) most: u32,
    /// 0: no number, it adapts.
    pub(super) default: u32,
    pub(super) field: fn(&mut Params) -> &mut u32,
    pub(super) what: &'static str,
}

const MEASURING: &[Mode] =
    &[Mode::Bg, Mode::Measure, Mode::Fs, Mode::Paper, Mode::PaperBg, Mode::PaperCap, Mode::PaperFs];
const OURS: &[Mode] = &[Mode::Bg, Mode::Measure, Mode::Fs];
const AS_PRINTED: &[Mode] = &[Mode::Paper, Mode::PaperBg, Mode::PaperCap, Mode::PaperFs];
/// Full speed measures without a pause [IM §4.5].
const MEASURING_BESIDE_OTHERS: &[Mode] =
    &[Mode::Bg, Mode::Measure, Mode::Paper, Mode::PaperBg, Mode::PaperCap, Mode::PaperFs];
const BY_DELAY_OR_MARK: &[Mode] = &[Mode::Lp, Mode::Lpecn, Mode::PaperLp];
/// The scale of times: people write milliseconds, the programs count microseconds.
pub(super) const MILLISECONDS: u32 = 1000;
/// No number: one of `ROUND_TRIPS`.
pub(super) const NAMED: u32 = 0;
/// A count that may be 0: the programs have one more, for 0 is not chosen.
pub(super) const PLUS1: u32 = u32::MAX;
/// Names of the values from 1 on.
pub(super) const ROUND_TRIPS: [&str; 3] = ["srtt", "srtt-ack", "newest"];

/// A name may stand here more than once, for other modes.
pub const PARAMS: [Param; 17] = [
    Param {
        key: "gamma=",
        modes: MEASURING,
        scale: 65536,
        least: shared::IMTCP_GAMMA_LEAST_Q16,
        most: shared::IMTCP_GAMMA_MOST_Q16,
        default: shared::IMTCP_GAMMA_Q16,
        field: |p| &mut p.gamma_q16,
        what: "weight of a new result in the smoothed available bandwidth",
    },
    Param {
        key: "N=",
        modes: OURS,
        scale: 1,
        least: shared::IMTCP_STREAM_PACKETS_LEAST,
        most: shared::IMTCP_STREAM_PACKETS_MOST,
        default: shared::IMTCP_STREAM_PACKETS,
        field: |p| &mut p.stream_packets,
        what: "packets of a stream",
    },
    Param {
        key: "N=",
        modes: AS_PRINTED,
        scale: 1,
        least: shared::IMTCP_PAPER_STREAM_PACKETS_LEAST,
        most: shared::IMTCP_PAPER_STREAM_PACKETS_MOST,
        default: shared::IMTCP_PAPER_STREAM_PACKETS,
        field: |p| &mut p.paper_stream_packets,
        what: "packets of a stream",
    },
    Param {
        key: "m=",
        modes: MEASURING,
        scale: 1,
        least: shared::IMTCP_STORE_PACKETS_LEAST,
        most: shared::IMTCP_STORE_PACKETS_MOST,
        default: 0,
        field: |p| &mut p.store_packets,
        what: "packets that are held before a stream leaves",
    },
    Param {
        key: "T=",
        modes: MEASURING,
        scale: MILLISECONDS,
        least: shared::IMTCP_T_LEAST_US,
        most: shared::IMTCP_T_MAX_US,
        default: 0,
        field: |p| &mut p.t_us,
        what: "longest time that a packet may be held for a stream",
    },
    Param {
        key: "pause=",
        modes: MEASURING_BESIDE_OTHERS,
        scale: PLUS1,
        least: shared::IMTCP_PAUSE_LEAST_PLUS1,
        most: shared::IMTCP_PAUSE_MOST_PLUS1,
        default: 0,
        field: |p| &mut p.pause_plus1,
        what: "round trips from one measurement to the next",
    },
    Param {
        key: "delta=",
        modes: &[Mode::Bg, Mode::PaperBg],
        scale: 256,
        least: shared::IMTCP_DELTA_LEAST_Q8,
        most: shared::IMTCP_DELTA_MOST_Q8,
        default: shared::IMTCP_DELTA_Q8,
        field: |p| &mut p.delta_q8,
        what: "round trip time over the least one that is congestion",
    },
    Param {
        key: "g=",
        modes: &[Mode::Bg, Mode::PaperCap],
        scale: 256,
        least: shared::IMTCP_G_LEAST_Q8,
        most: shared::IMTCP_G_MOST_Q8,
        default: shared::IMTCP_G_Q8,
        field: |p| &mut p.g_q8,
        what: "share of the available bandwidth to take at most",
    },
    Param {
        key: "rtt=",
        modes: &[Mode::PaperBg],
        scale: NAMED,
        least: shared::IMTCP_PAPER_RTT_SRTT,
        most: shared::IMTCP_PAPER_RTT_NEWEST,
        default: shared::IMTCP_PAPER_RTT_SRTT,
        field: |p| &mut p.paper_rtt,
        what: "round trip time that delta is held against, and when",
    },
    Param {
        key: "h=",
        modes: &[Mode::Fs, Mode::PaperFs],
        scale: 1,
        least: shared::IMTCP_H_LEAST_SEGS,
        most: shared::IMTCP_H_MOST_SEGS,
        default: shared::IMTCP_H_SEGS,
        field: |p| &mut p.h_segs,
        what: "segments that a round trip adds far below the available bandwidth",
    },
    Param {
        key: "delta=",
        modes: BY_DELAY_OR_MARK,
        scale: 100,
        least: shared::IMTCP_LP_DELTA_LEAST_PCT,
        most: shared::IMTCP_LP_DELTA_MOST_PCT,
        default: shared::IMTCP_LP_DELTA_PCT,
        field: |p| &mut p.lp_delta_pct,
        what: "share of the range of delays above which they are congestion",
    },
    Param {
        key: "itt=",
        modes: BY_DELAY_OR_MARK,
        scale: 1,
        least: shared::IMTCP_LP_ITT_LEAST_RTTS,
        most: shared::IMTCP_LP_ITT_MOST_RTTS,
        default: shared::IMTCP_LP_ITT_RTTS,
        field: |p| &mut p.lp_itt_rtts,
        what: "round trips in which a second indication leaves one packet",
    },
    Param {
        key: "t=",
        modes: &[Mode::Nice, Mode::PaperNice],
        scale: 100,
        least: shared::IMTCP_NICE_T_LEAST_PCT,
        most: shared::IMTCP_NICE_T_MOST_PCT,
        default: shared::IMTCP_NICE_T_PCT,
        field: |p| &mut p.nice_t_pct,
        what: "share of the range of round trip times above which a packet is late",
    },
    Param {
        key: "f=",
        modes: &[Mode::Nice, Mode::PaperNice],
        scale: 100,
        least: shared::IMTCP_NICE_F_LEAST_PCT,
        most: shared::IMTCP_NICE_F_MOST_PCT,
        default: shared::IMTCP_NICE_F_PCT,
        field: |p| &mut p.nice_f_pct,
        what: "share of the packets that may be late",
    },
    Param {
        key: "target=",
        modes: &[Mode::Ledbat],
        scale: MILLISECONDS,
        least: shared::IMTCP_LEDBAT_TARGET_LEAST_US,
        most: shared::IMTCP_LEDBAT_TARGET_MOST_US,
        default: shared::IMTCP_LEDBAT_TARGET_US,
        field: |p| &mut p.ledbat_target_us,
        what: "queue to keep",
    },
    Param {
        key: "gain=",
        modes: &[Mode::Ledbat],
        scale: 256,
        least: shared::IMTCP_LEDBAT_GAIN_LEAST_Q8,
        most: shared::IMTCP_LEDBAT_GAIN_MOST_Q8,
        default: shared::IMTCP_LEDBAT_GAIN_Q8,
        field: |p| &mut p.ledbat_gain_q8,
        what: "segments that a round trip adds at most",
    },
    Param {
        key: "target=",
        modes: &[Mode::Ledbatpp],
        scale: MILLISECONDS,
        least: shared::IMTCP_LEDBATPP_TARGET_LEAST_US,
        most: shared::IMTCP_LEDBATPP_TARGET_MOST_US,
        default: shared::IMTCP_LEDBATPP_TARGET_US,
        field: |p| &mut p.ledbatpp_target_us,
        what: "queue to keep at most",
    },
];
