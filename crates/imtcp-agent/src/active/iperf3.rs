// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Throughput by the real client of iperf3, towards a server that runs at the peer.

use std::fs::File;
use std::net::IpAddr;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use imtcp_client::record::{Record, MOST_BPS};
use nix::sys::memfd::{memfd_create, MFdFlags};
use serde_json::Value;

use super::child::{run, Failure, Said};

/// Data of a segment on Ethernet with IPv6 and timestamps, and the headers of it and of an
/// acknowledgement of its own: an upper limit for IPv4 and delayed acknowledgements too.
const SEGMENT_BYTES: u64 = 1428;
const HEADERS_BYTES: u64 = 2 * 72;
/// The control connection, and the ends of both.
const CONTROL_BYTES: u64 = 20_000;
/// Its server may be filtered.
const CONNECT_MS: u64 = 5_000;
/// At the end of its time, iperf3 waits for data that still lies in queues.
const DRAIN: Duration = Duration::from_secs(15);

pub struct Iperf3 {
    port: u16,
    seconds: u64,
    most_bytes: u64,
    /// The zeros that it sends, as many as the test may take. They take no memory. iperf3 cannot limit seconds and
    /// bytes at once, but it ends with the file that it sends (-F).
    zeros: File,
}

impl Iperf3 {
    /// Tests that end after `seconds`, or sooner when `most_bytes` of data are sent.
    pub fn new(port: u16, seconds: u64, most_bytes: u64) -> Result<Self> {
        let zeros = memfd_create("imtcp-iperf3", MFdFlags::MFD_CLOEXEC);
        let zeros = File::from(zeros.context("no memory for what iperf3 is to send")?);
        zeros.set_len(most_bytes).context("cannot set the length of what iperf3 is to send")?;
        Ok(Iperf3 { port, seconds, most_bytes, zeros })
    }

    /// All data sent, with headers and acknowledgements; without retransmissions.
    pub fn cost_bytes(&self) -> u64 {
        let segments = self.most_bytes.div_ceil(SEGMENT_BYTES);
        self.most_bytes + segments * HEADERS_BYTES + CONTROL_BYTES
    }

    /// The record of one test, without its source.
    pub fn test(&self, peer: IpAddr, stop: &AtomicBool) -> Result<Record, Failure> {
        let zeros = self.zeros.try_clone();
        let zeros = zeros.map_err(|e| Failure::Other(format!("cannot be started: {e}")))?;
        let mut iperf3 = Command::new("iperf3");
        // One interval (-i 0): the means are what counts.
        iperf3.args(["--json", "-i", "0", "--client", &peer.to_string()]);
        iperf3.args(["--port", &self.port.to_string(), "--time", &self.seconds.to_string()]);
        iperf3.args(["--connect-timeout", &CONNECT_MS.to_string()]);
        iperf3.args(["--file", "/proc/self/fd/0"]).stdin(zeros);
        let connect = Duration::from_millis(CONNECT_MS);
        let patience = connect + Duration::from_secs(self.seconds) + DRAIN;
        let said = run(&mut iperf3, patience, stop)?;
        throughput_bps(&said).map(record).map_err(|why| self.failure(&why))
    }

    fn failure(&self, why: &str) -> Failure {
        let port = self.port;
        Failure::Other(format!("told nothing: {why} (does `iperf3 -s -p {port}` run there?)"))
    }
}

fn record(throughput_bps: u64) -> Record {
    Record { throughput_bps: Some(throughput_bps), ..Record::default() }
}

/// The bytes that arrived, by the server's clock. The bytes sent also hold those in queues at the end: after a
/// second on a slow line these are most.
fn throughput_bps(said: &Said) -> Result<u64, String> {
    let Ok(result) = serde_json::from_str::<Value>(&said.stdout) else {
        let why = said.stderr.trim().lines().last().unwrap_or("it wrote no JSON");
        return Err(why.chars().take(200).collect());
    };
    if let Some(error) = result["error"].as_str() {
        return Err(error.chars().take(200).collect());
    }
    let received = &result["end"]["sum_received"];
    let bytes = received["bytes"].as_f64().filter(|bytes| *bytes > 0.0);
    let bps = received["bits_per_second"].as_f64().zip(bytes).map(|(bps, _)| bps.round());
    bps.filter(|bps| (1.0..=MOST_BPS as f64).contains(bps))
        .map(|bps| bps as u64)
        .ok_or_else(|| "its JSON tells of nothing that arrived".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(stdout: &str) -> Said {
        Said { stdout: stdout.into(), stderr: String::new() }
    }

    /// Recorded with iperf3 3.12 of Debian 12, in namespaces of one machine.
    const FAST: &str = include_str!("iperf3-fast.json");
    const SLOW: &str = include_str!("iperf3-slow.json");
    const REFUSED: &str = include_str!("iperf3-refused.json");
    const INTERRUPTED: &str = include_str!("iperf3-interrupted.json");

    #[test]
    fn what_arrived_counts_and_not_what_was_sent() {
        assert_eq!(throughput_bps(&said(FAST)), Ok(952_096_852));
        // A line of 1 Mbit/s, on which 3.5 Mbit/s were sent.
        assert_eq!(throughput_bps(&said(SLOW)), Ok(957_855));
    }

    #[test]
    fn an_error_is_told_in_iperf3s_words() {
        for (text, says) in [
            (REFUSED, "unable to connect to server: Connection refused"),
            (INTERRUPTED, "interrupt - the client has terminated"),
            ("", "it wrote no JSON"),
            ("{\"start\": ", "it wrote no JSON"),
            ("{}", "nothing that arrived"),
            (r#"{"end": {"sum_received": {"bytes": 0, "bits_per_second": 0}}}"#, "nothing"),
            (r#"{"end": {"sum_received": {"bytes": 5, "bits_per_second": 1e300}}}"#, "nothing"),
            (r#"{"end": {"sum_received": {"bytes": 5, "bits_per_second": "x"}}}"#, "nothing"),
            ("[]", "nothing"),
        ] {
            let why = throughput_bps(&said(text)).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
        let usage = Said { stdout: String::new(), stderr: "iperf3: parameter error\n".into() };
        assert_eq!(throughput_bps(&usage), Err("iperf3: parameter error".into()));
    }

    /// 10 MB are 7003 segments.
    #[test]
    fn it_costs_its_data_with_headers_and_acknowledgements() {
        let cost = Iperf3::new(5201, 5, 10_000_000).unwrap().cost_bytes();
        assert_eq!(cost, 10_000_000 + 7003 * 144 + 20_000);
    }
}
