// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! RTT and loss by the real ping(8) of iputils.

use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use imtcp_client::ping::summary;
use imtcp_client::record::Record;

use super::child::{run, Failure};

/// Packets of a test: with one, a loss would be all or nothing.
const PACKETS: u64 = 5;
/// An echo request as ping sends it, without options: 56 bytes of data, 8 of ICMP, the IP header.
const PACKET_BYTES: u64 = 56 + 8;
const IPV4_HEADER_BYTES: u64 = 20;
const IPV6_HEADER_BYTES: u64 = 40;
/// Five packets are sent within a second, and the last one's answer is waited for two.
const PATIENCE: Duration = Duration::from_secs(8);

/// Requests and answers, IP headers included.
pub fn cost_bytes(peer: IpAddr) -> u64 {
    let header = if peer.is_ipv4() { IPV4_HEADER_BYTES } else { IPV6_HEADER_BYTES };
    2 * PACKETS * (PACKET_BYTES + header)
}

/// The record of one test, without its source; its RTT is the mean of the packets answered.
pub fn test(peer: IpAddr, stop: &AtomicBool) -> Result<Record, Failure> {
    let mut ping = Command::new("ping");
    // No deadline (-w): with one, ping goes on sending until so many were answered.
    ping.args(["-n", "-q", "-i", "0.2", "-W", "2", "-c", &PACKETS.to_string(), "--"]);
    let said = run(ping.arg(peer.to_string()).stdin(Stdio::null()), PATIENCE, stop)?;
    record(&said.stdout).ok_or_else(|| {
        let why = said.stderr.trim().lines().last().unwrap_or("it wrote no summary");
        Failure::Other(format!("told nothing: {why}"))
    })
}

/// `None` when it says nothing, or not of as many packets as it should have sent.
fn record(stdout: &str) -> Option<Record> {
    let summary = summary(stdout).filter(|s| u64::from(s.transmitted) == PACKETS)?;
    Some(Record {
        rtt_us: summary.rtt.map(|rtt| rtt.mean_us),
        loss: Some(summary.loss()),
        ..Record::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// iputils 20221126 of Debian 12.
    #[test]
    fn a_summary_becomes_the_rtt_and_the_share_of_packets_lost() {
        let some = "--- 10.98.0.2 ping statistics ---\n\
            5 packets transmitted, 3 received, 40% packet loss, time 830ms\n\
            rtt min/avg/max/mdev = 0.041/0.049/0.054/0.005 ms\n";
        let record = record(some).unwrap();
        assert_eq!((record.rtt_us, record.available_bps), (Some(49), None));
        assert!((record.loss.unwrap() - 0.4).abs() < 1e-12);
    }

    /// As it ends when it is interrupted.
    #[test]
    fn a_test_that_did_not_send_all_its_packets_is_none() {
        let begun = "--- 10.98.0.2 ping statistics ---\n\
            3 packets transmitted, 3 received, 0% packet loss, time 416ms\n\
            rtt min/avg/max/mdev = 0.039/0.054/0.075/0.015 ms\n";
        assert_eq!(record(begun), None);
        assert_eq!(record("PING 10.98.0.2 (10.98.0.2) 56(84) bytes of data.\n"), None);
    }

    #[test]
    fn it_costs_what_its_packets_weigh_both_ways() {
        assert_eq!(cost_bytes(IpAddr::from([192, 0, 2, 7])), 840);
        assert_eq!(cost_bytes("2001:db8::7".parse().unwrap()), 1040);
    }
}
