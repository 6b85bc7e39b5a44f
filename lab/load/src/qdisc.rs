// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Samples a device's queueing disciplines over rtnetlink, without forking tc.

use std::ffi::CString;
use std::io;
use std::path::PathBuf;

use crate::netlink::{attributes, read_u32, read_u64, Netlink};
use crate::run::{stopped, Csv, Span};
use crate::sys::{now_us, precise_timers, sleep_until_ns};
use crate::units::parse_us;

#[derive(clap::Args)]
pub struct Args {
    /// Network device
    #[arg(long)]
    dev: String,
    /// Time between two samples
    #[arg(long = "every", value_parser = parse_us, default_value = "10ms", value_name = "EVERY")]
    every_us: u64,
    /// Result file (CSV, a row per qdisc and sample; counters since creation)
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    span: Span,
}

/// The report of one qdisc.
#[derive(Clone, Copy, Default)]
struct Sample {
    handle: u32,
    backlog_bytes: u32,
    backlog_pkts: u32,
    drops: u32,
    sent_bytes: u64,
    sent_pkts: u32,
}

const TCMSG: usize = 20;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;

fn read_sample(message: &[u8]) -> Sample {
    let mut sample = Sample { handle: read_u32(message, 8), ..Sample::default() };
    attributes(&message[TCMSG.min(message.len())..], |kind, value| {
        if kind != TCA_STATS2 {
            return;
        }
        attributes(value, |kind, value| match kind {
            TCA_STATS_BASIC => {
                sample.sent_bytes = read_u64(value, 0);
                sample.sent_pkts = read_u32(value, 8);
            }
            TCA_STATS_QUEUE => {
                sample.backlog_pkts = read_u32(value, 0);
                sample.backlog_bytes = read_u32(value, 4);
                sample.drops = read_u32(value, 8);
            }
            _ => {}
        });
    });
    sample
}

pub fn run(args: &Args) -> io::Result<()> {
    let name = CString::new(args.dev.as_str())?;
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::other(format!("no device {:?}", args.dev)));
    }
    let header = "t_us,handle,backlog_bytes,backlog_pkts,drops,sent_bytes,sent_pkts";
    let mut csv = Csv::create(&args.out, header)?;
    let mut netlink = Netlink::open(libc::NETLINK_ROUTE)?;
    precise_timers();
    let start_us = args.span.start_us();
    let end_us = args.span.end_us(start_us);
    let mut due_us = start_us;
    let mut request = [0u8; TCMSG];
    request[4..8].copy_from_slice(&index.to_ne_bytes());
    while due_us <= end_us && !stopped() {
        sleep_until_ns(due_us * 1000);
        let t_us = now_us();
        netlink.dump(libc::RTM_GETQDISC, &request, |_, message| {
            // Without strict checking the kernel reports every device.
            if read_u32(message, 4) != index {
                return Ok(());
            }
            let s = read_sample(message);
            csv.row(format_args!(
                "{t_us},{},{},{},{},{},{}",
                s.handle, s.backlog_bytes, s.backlog_pkts, s.drops, s.sent_bytes, s.sent_pkts,
            ))
        })?;
        due_us += args.every_us;
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
        out.extend_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    #[test]
    fn the_counters_are_found_in_a_kernel_message() {
        let mut basic = 123_456_789_012u64.to_ne_bytes().to_vec();
        basic.extend_from_slice(&77u32.to_ne_bytes());
        basic.extend_from_slice(&[0; 4]);
        let queue: Vec<u8> = [5u32, 7570, 2, 0, 9].iter().flat_map(|v| v.to_ne_bytes()).collect();
        let mut stats = attribute(TCA_STATS_BASIC, &basic);
        stats.extend(attribute(TCA_STATS_QUEUE, &queue));
        let mut message = vec![0u8; TCMSG];
        message[8..12].copy_from_slice(&0x0010_0000u32.to_ne_bytes());
        message.extend(attribute(1, b"pfifo\0"));
        message.extend(attribute(TCA_STATS2, &stats));
        let sample = read_sample(&message);
        assert_eq!(sample.handle, 0x0010_0000);
        assert_eq!(sample.sent_bytes, 123_456_789_012);
        assert_eq!(sample.sent_pkts, 77);
        assert_eq!(sample.backlog_pkts, 5);
        assert_eq!(sample.backlog_bytes, 7570);
        assert_eq!(sample.drops, 2);
    }
}
