// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Unresponsive UDP traffic with exact rates, and a sink that counts packets and their delays.
//!
//! A datagram begins with the time of its departure, CLOCK_MONOTONIC µs: both ends are processes on
//! one machine.

use std::io;
use std::net::SocketAddrV4;
use std::path::PathBuf;

use crate::random::Random;
use crate::run::{stopped, Csv, Span};
use crate::schedule::Schedule;
use crate::sys::{now_us, precise_timers, sleep_until_ns, Socket};
use crate::units::parse_us;

/// Length of the time at a datagram's beginning.
const STAMP_BYTES: usize = 8;

#[derive(clap::Args)]
pub struct Args {
    /// Receiver
    #[arg(long)]
    to: SocketAddrV4,
    /// Rates over time: 30M, or 0:0,10:70M,20:30M, or square:LOW:HIGH:PERIOD
    #[arg(long)]
    schedule: String,
    /// Frame sizes in bytes, each drawn with the same probability (repeat one for more weight)
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
    /// Interval over which bytes are counted
    #[arg(long = "interval", value_parser = parse_us, default_value = "100ms", value_name = "INTERVAL")]
    interval_us: u64,
    /// Interval between looks for datagrams: the resolution of their delays
    #[arg(long = "wake", value_parser = parse_us, default_value = "5ms", value_name = "INTERVAL")]
    wake_us: u64,
    /// Result file (CSV: t_us of the interval's end, packets, payload bytes, sum and greatest of
    /// their delays in µs)
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    span: Span,
}

/// Sends frames at the schedule's rate, which counts whole frames like the bottleneck's shaper. A
/// late packet does not delay the next ones.
pub fn send(args: &Args) -> io::Result<()> {
    let text = if args.schedule.contains(':') {
        args.schedule.clone()
    } else {
        format!("0:{}", args.schedule)
    };
    let schedule = Schedule::parse(&text, args.span.duration_us).map_err(io::Error::other)?;
    let smallest = args.frames.iter().min().copied().unwrap_or(0);
    if smallest < args.overhead_bytes + STAMP_BYTES {
        return Err(io::Error::other("a frame is smaller than its headers and a time"));
    }
    precise_timers();
    let socket = Socket::udp()?;
    socket.connect(args.to)?;
    let largest = args.frames.iter().max().copied().unwrap_or(0);
    let mut payload = vec![0u8; largest];
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
        payload[..STAMP_BYTES].copy_from_slice(&now_us().to_le_bytes());
        // A full socket buffer or an unreachable peer is a loss, as on a wire.
        let _ = socket.send(&payload[..frame - args.overhead_bytes]);
        let mean_gap_ns = frame as f64 * 8e9 / rate_bps as f64;
        let gap_ns = if args.poisson { random.exponential(mean_gap_ns) } else { mean_gap_ns };
        due_ns = (due_ns + gap_ns as u64).min(change_ns.max(due_ns + 1));
    }
    Ok(())
}

/// Arrivals in an interval.
#[derive(Default)]
struct Arrived {
    packets: u64,
    bytes: u64,
    delay_sum_us: u64,
    delay_most_us: u64,
}

impl Arrived {
    fn add(&mut self, bytes: usize, delay_us: u64) {
        self.packets += 1;
        self.bytes += bytes as u64;
        self.delay_sum_us += delay_us;
        self.delay_most_us = self.delay_most_us.max(delay_us);
    }
}

/// Counts datagrams. It wakes at intervals, not per packet, to leave the guest's processor to the
/// traffic.
pub fn sink(args: &SinkArgs) -> io::Result<()> {
    let socket = Socket::udp()?;
    socket.option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 16 << 20)?;
    socket.bind(args.listen)?;
    let mut csv = match &args.out {
        Some(path) => Some(Csv::create(path, "t_us,packets,bytes,delay_sum_us,delay_most_us")?),
        None => None,
    };
    let start_us = args.span.start_us();
    let end_us = args.span.end_us(start_us);
    let mut tick_us = start_us + args.interval_us;
    let mut arrived = Arrived::default();
    let mut stamp = [0u8; STAMP_BYTES];
    while !stopped() && tick_us <= end_us {
        let wake_us = (now_us() + args.wake_us).min(tick_us);
        sleep_until_ns(wake_us * 1000);
        while let Some(bytes) = socket.receive_head(&mut stamp)? {
            arrived.add(bytes, now_us().saturating_sub(u64::from_le_bytes(stamp)));
        }
        if now_us() >= tick_us {
            let Arrived { packets, bytes, delay_sum_us, delay_most_us } = arrived;
            if let Some(csv) = &mut csv {
                csv.row(format_args!(
                    "{tick_us},{packets},{bytes},{delay_sum_us},{delay_most_us}"
                ))?;
            }
            arrived = Arrived::default();
            tick_us += args.interval_us;
        }
    }
    csv.map_or(Ok(()), Csv::finish)
}
