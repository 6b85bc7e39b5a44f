// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Samples TCP connections of this namespace over sock_diag, without forking ss.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use crate::netlink::{attributes, read_u32, read_u64, Netlink};
use crate::run::{stopped, Csv, Span};
use crate::sys::{now_us, precise_timers, sleep_until_ns};
use crate::units::parse_us;

#[derive(clap::Args)]
pub struct Args {
    /// Only connections whose far end has this address
    #[arg(long)]
    peer: Option<Ipv4Addr>,
    /// Time between two samples
    #[arg(long = "every", value_parser = parse_us, default_value = "100ms", value_name = "EVERY")]
    every_us: u64,
    /// Result file (CSV, a row per connection and sample)
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    span: Span,
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
/// Established and closing states, without TIME_WAIT and listeners.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9;
const MESSAGE: usize = 72;
// Offsets in struct tcp_info (stable: the kernel only ever appends fields).
const TCPI_RTT: usize = 68;
const TCPI_SND_CWND: usize = 80;
const TCPI_TOTAL_RETRANS: usize = 100;
const TCPI_BYTES_ACKED: usize = 120;
const TCPI_BYTES_RECEIVED: usize = 128;
const TCPI_DATA_SEGS_IN: usize = 152;

/// One connection at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    local_port: u16,
    peer: u32,
    peer_port: u16,
    cookie: u64,
    srtt_us: u32,
    cwnd_segs: u32,
    retrans_segs: u32,
    bytes_acked: u64,
    bytes_received: u64,
    data_segs_in: u32,
}

fn request() -> Vec<u8> {
    // struct inet_diag_req_v2: family, protocol, extensions, pad, states, id.
    let mut body = vec![libc::AF_INET as u8, libc::IPPROTO_TCP as u8, 1 << (INET_DIAG_INFO - 1), 0];
    body.extend_from_slice(&STATES.to_ne_bytes());
    body.resize(body.len() + 48, 0);
    body
}

fn read_sample(message: &[u8]) -> Option<Sample> {
    if message.len() < MESSAGE {
        return None;
    }
    let big_u16 = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let mut sample = Sample {
        local_port: big_u16(4),
        peer_port: big_u16(6),
        peer: u32::from_be(read_u32(message, 24)),
        cookie: u64::from(read_u32(message, 44)) | u64::from(read_u32(message, 48)) << 32,
        ..Sample::default()
    };
    attributes(&message[MESSAGE..], |kind, value| {
        if kind == INET_DIAG_INFO {
            sample.srtt_us = read_u32(value, TCPI_RTT);
            sample.cwnd_segs = read_u32(value, TCPI_SND_CWND);
            sample.retrans_segs = read_u32(value, TCPI_TOTAL_RETRANS);
            sample.bytes_acked = read_u64(value, TCPI_BYTES_ACKED);
            sample.bytes_received = read_u64(value, TCPI_BYTES_RECEIVED);
            sample.data_segs_in = read_u32(value, TCPI_DATA_SEGS_IN);
        }
    });
    Some(sample)
}

pub fn run(args: &Args) -> io::Result<()> {
    let header = "t_us,cookie,local_port,peer,peer_port,srtt_us,cwnd_segs,retrans_segs,\
                  bytes_acked,bytes_received,data_segs_in";
    let mut csv = Csv::create(&args.out, header)?;
    let mut netlink = Netlink::open(libc::NETLINK_SOCK_DIAG)?;
    precise_timers();
    let wanted = args.peer.map(u32::from);
    let body = request();
    let start_us = args.span.start_us();
    let end_us = args.span.end_us(start_us);
    let mut due_us = start_us;
    while due_us <= end_us && !stopped() {
        sleep_until_ns(due_us * 1000);
        let t_us = now_us();
        netlink.dump(SOCK_DIAG_BY_FAMILY, &body, |_, message| {
            let Some(s) = read_sample(message) else {
                return Ok(());
            };
            if wanted.is_some_and(|peer| peer != s.peer) {
                return Ok(());
            }
            csv.row(format_args!(
                "{t_us},{},{},{},{},{},{},{},{},{},{}",
                s.cookie,
                s.local_port,
                Ipv4Addr::from(s.peer),
                s.peer_port,
                s.srtt_us,
                s.cwnd_segs,
                s.retrans_segs,
                s.bytes_acked,
                s.bytes_received,
                s.data_segs_in,
            ))
        })?;
        due_us += args.every_us;
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_and_the_bytes_it_received_are_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();
        let Ok(mut netlink) = Netlink::open(libc::NETLINK_SOCK_DIAG) else {
            return; // a kernel without sock_diag
        };
        let port = listener.local_addr().unwrap().port();
        let mut found = None;
        netlink
            .dump(SOCK_DIAG_BY_FAMILY, &request(), |_, message| {
                found = found.or(read_sample(message).filter(|s| s.local_port == port));
                Ok(())
            })
            .unwrap();
        let sample = found.expect("the server's end is listed");
        assert_eq!(sample.bytes_received, 5000);
        assert_eq!(sample.peer, u32::from(Ipv4Addr::LOCALHOST));
        assert!(sample.cwnd_segs >= 1);
    }
}
