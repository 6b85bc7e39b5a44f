// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Names of the numbers that records and events have.

use crate::shared;

pub fn mode(number: u8) -> &'static str {
    crate::mode_of(number.into()).map_or("none", |m| m.name)
}

pub fn tcp_state(number: u8) -> &'static str {
    const NAMES: [&str; 13] = [
        "none",
        "established",
        "syn_sent",
        "syn_recv",
        "fin_wait1",
        "fin_wait2",
        "time_wait",
        "close",
        "close_wait",
        "last_ack",
        "listen",
        "closing",
        "new_syn_recv",
    ];
    NAMES.get(usize::from(number)).copied().unwrap_or("unknown")
}

pub fn outcome(number: u8) -> &'static str {
    match u32::from(number) {
        shared::IMTCP_VALID => "valid",
        shared::IMTCP_INVALID_NOT_FILLED => "not_filled",
        shared::IMTCP_INVALID_RETRANSMIT => "retransmit",
        shared::IMTCP_INVALID_BUNCHED => "bunched",
        shared::IMTCP_INVALID_NO_STRAIN => "no_strain",
        shared::IMTCP_INVALID_FEW_ACKS => "few_acks",
        shared::IMTCP_INVALID_POOR_FIT => "poor_fit",
        shared::IMTCP_INVALID_OUT_OF_RANGE => "out_of_range",
        shared::IMTCP_INVALID_TIMEOUT => "timeout",
        _ => "unknown",
    }
}

pub fn unit_state(number: u8) -> &'static str {
    match u32::from(number) {
        shared::IMTCP_UNIT_OFF => "off",
        shared::IMTCP_UNIT_STORE => "store",
        shared::IMTCP_UNIT_SEND => "send",
        shared::IMTCP_UNIT_EMPTY => "empty",
        shared::IMTCP_UNIT_PASS => "pass",
        _ => "unknown",
    }
}

pub fn reduction(number: u8) -> &'static str {
    match u32::from(number) {
        shared::IMTCP_RED_LOSS => "loss",
        shared::IMTCP_RED_RTO => "rto",
        shared::IMTCP_RED_RTT => "rtt",
        shared::IMTCP_RED_CAP => "cap",
        _ => "unknown",
    }
}
