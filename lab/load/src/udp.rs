// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Unresponsive UDP traffic with exact rates, and a sink that counts it.

use std::io;
use std::net::SocketAddrV4;
use std::path::PathBuf;

use crate::random::Random;
use crate::run::{stopped, Csv, Span};
use crate::schedule::Schedule;
use crate::sys::{now_us, precise_timers, sleep_until_ns, Socket};
use crate::units::parse_us;

#[derive(clap::Args)]
pub struct Args {
    /// Receiver
    #[arg(long)]
    to: SocketAddrV4,
    /// Rates over time: 30M, or 0:0,10:70M,20:30M, or square:LOW:HIGH:PERIOD
    #[arg(long)]
    schedule: String,
    /// Frame sizes in bytes, drawn evenly from this list (repeat one for weight)
    #[arg(long, value_delimiter = ',', default_value = "1514")]
    frames: Vec<usize>,
    /// Bytes of a frame that are not payload (Ethernet 14, IPv4 20, UDP 8)
    #[arg(long, default_value_t = 42)]
    overhead_bytes: usize,
    /// Draw the gaps from an exponential distribution, not constant
    #[arg(long)]
    poisson: bool,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    span: Span,
}

#[derive(clap::Args)]
pub struct SinkArgs {
    /// Address and port to receive on
    #[arg(long)]
    listen: SocketAddrV4,
    /// Bytes are counted over so long
    #[arg(long = "interval", value_parser = parse_us, default_value = "100ms", value_name = "INTERVAL")]
    interval_us: u64,
    /// Result file (CSV: t_us of the interval's end, packets, payload bytes)
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    span: Span,
}

/// Sends frames at the schedule's rate; the rate counts whole frames, as the
/// bottleneck's shaper does. A late packet does not delay those after it.
pub fn send(args: &Args) -> io::Result<()> {
    let text = if args.schedule.contains(':') {
        args.schedule.clone()
    } else {
        format!("0:{}", args.schedule)
    };
    let schedule = Schedule::parse(&text, args.span.duration_us).map_err(io::Error::other)?;
    let smallest = args.frames.iter().min().copied().unwrap_or(0);
    if smallest <= args.overhead_bytes {
        return Err(io::Error::other("a frame is smaller than its headers"));
    }
    precise_timers();
    let socket = Socket::udp()?;
    socket.connect(args.to)?;
    let largest = args.frames.iter().max().copied().unwrap_or(0);
    let payload = vec![0u8; largest];
    let mut random = Random::new(args.seed, 4);
    let start_us = args.span.start_us();
    let start_ns = start_us * 1000;
    let end_ns = args.span.end_us(start_us).saturating_mul(1000);
    let mut due_ns = start_ns;
    while due_ns < end_ns && !stopped() {
        let (rate_bps, until_us) = schedule.at((due_ns - start_ns) / 1000);
        let change_ns = start_ns.saturating_add(until_us.saturating_mul(1000));
        if rate_bps == 0 {
            due_ns = change_ns;
            sleep_until_ns(due_ns.min(end_ns));
            continue;
        }
        let frame = args.frames[random.below(args.frames.len())];
        sleep_until_ns(due_ns);
        // A full socket buffer or an unreachable peer is loss, as on any wire.
        let _ = socket.send(&payload[..frame - args.overhead_bytes]);
        let mean_gap_ns = frame as f64 * 8e9 / rate_bps as f64;
        let gap_ns = if args.poisson { random.exponential(mean_gap_ns) } else { mean_gap_ns };
        due_ns = (due_ns + gap_ns as u64).min(change_ns.max(due_ns + 1));
    }
    Ok(())
}

/// Counts datagrams. It wakes every few milliseconds, not per packet, to leave
/// the guest's processor to the traffic.
pub fn sink(args: &SinkArgs) -> io::Result<()> {
    const WAKE_US: u64 = 5_000;
    let socket = Socket::udp()?;
    socket.option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 16 << 20)?;
    socket.bind(args.listen)?;
    let mut csv = match &args.out {
        Some(path) => Some(Csv::create(path, "t_us,packets,bytes")?),
        None => None,
    };
    let start_us = args.span.start_us();
    let end_us = args.span.end_us(start_us);
    let mut tick_us = start_us + args.interval_us;
    let (mut packets, mut bytes) = (0u64, 0u64);
    while !stopped() && tick_us <= end_us {
        let wake_us = (now_us() + WAKE_US).min(tick_us);
        sleep_until_ns(wake_us * 1000);
        while let Some(n) = socket.discard_datagram()? {
            packets += 1;
            bytes += n as u64;
        }
        if now_us() >= tick_us {
            if let Some(csv) = &mut csv {
                csv.row(format_args!("{tick_us},{packets},{bytes}"))?;
            }
            (packets, bytes) = (0, 0);
            tick_us += args.interval_us;
        }
    }
    csv.map_or(Ok(()), Csv::finish)
}
