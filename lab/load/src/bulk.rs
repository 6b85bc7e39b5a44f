// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Greedy TCP: a client that sends for a time, and a server that counts the arrived bytes. With a
//! rate, the kernel paces each flow.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use crate::run::{stopped, Csv, Span};
use crate::sys::{now_us, sleep_until_ns, Payload, Poller, Socket};
use crate::units::{parse_bps, parse_us};

#[derive(clap::Args)]
pub struct ServerArgs {
    /// Address and port to listen on
    #[arg(long)]
    listen: SocketAddrV4,
    /// Interval over which bytes are counted
    #[arg(long = "interval", value_parser = parse_us, default_value = "100ms", value_name = "INTERVAL")]
    interval_us: u64,
    /// Result file (CSV: t_us of the interval's end, flow, peer, bytes)
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    span: Span,
}

#[derive(clap::Args)]
pub struct ClientArgs {
    /// The server
    #[arg(long)]
    to: SocketAddrV4,
    /// Own address
    #[arg(long)]
    from: Option<Ipv4Addr>,
    /// Congestion control by its kernel name (default: the system's)
    #[arg(long)]
    cc: Option<String>,
    /// Flows at once
    #[arg(long, default_value_t = 1)]
    flows: u64,
    /// Delay between the starts of two flows
    #[arg(long = "stagger", value_parser = parse_us, default_value = "0", value_name = "STAGGER")]
    stagger_us: u64,
    /// Greatest rate of each flow, in bit/s of its payload
    #[arg(long = "max-rate", value_parser = parse_bps, value_name = "RATE")]
    max_bps: Option<u64>,
    #[command(flatten)]
    span: Span,
}

/// A connection at the server.
struct Inflow {
    socket: Socket,
    flow: u64,
    peer: SocketAddr,
    bytes: u64,
}

pub fn server(args: &ServerArgs) -> io::Result<()> {
    let listener = Socket::listener(args.listen)?;
    let poller = Poller::new()?;
    poller.watch_read(&listener, 0)?;
    let mut csv = Csv::create(&args.out, "t_us,flow,peer,bytes")?;
    let start_us = args.span.start_us();
    let end_us = args.span.end_us(start_us);
    let mut tick_us = start_us + args.interval_us;
    let mut flows: BTreeMap<u64, Inflow> = BTreeMap::new();
    let mut next = 1u64;
    let mut events = Vec::new();
    while !stopped() && tick_us <= end_us {
        poller.wait(tick_us, &mut events)?;
        for event in &events {
            if event.token == 0 {
                while let Some((socket, peer)) = listener.accept()? {
                    poller.watch_read(&socket, next)?;
                    flows.insert(next, Inflow { socket, flow: next - 1, peer, bytes: 0 });
                    next += 1;
                }
                continue;
            }
            let Some(inflow) = flows.get_mut(&event.token) else {
                continue;
            };
            match inflow.socket.discard(1 << 22) {
                Ok(None) => {}
                Ok(Some(0)) | Err(_) => {
                    if let Some(gone) = flows.remove(&event.token) {
                        write_row(&mut csv, now_us(), &gone)?;
                    }
                }
                Ok(Some(n)) => inflow.bytes += n as u64,
            }
        }
        if now_us() >= tick_us {
            for inflow in flows.values_mut() {
                write_row(&mut csv, tick_us, inflow)?;
                inflow.bytes = 0;
            }
            tick_us += args.interval_us;
        }
    }
    csv.finish()
}

fn write_row(csv: &mut Csv, t_us: u64, inflow: &Inflow) -> io::Result<()> {
    csv.row(format_args!("{t_us},{},{},{}", inflow.flow, inflow.peer, inflow.bytes))
}

pub fn client(args: &ClientArgs) -> io::Result<()> {
    let start_us = args.span.start_us();
    let end_us = args.span.end_us(start_us);
    let payload = Payload::new()?;
    let poller = Poller::new()?;
    sleep_until_ns(start_us * 1000);
    let mut sockets: Vec<Socket> = Vec::new();
    let mut events = Vec::new();
    while !stopped() {
        let opened = sockets.len() as u64;
        let open_us =
            if opened < args.flows { start_us + opened * args.stagger_us } else { u64::MAX };
        let t_us = now_us();
        if t_us >= end_us {
            break;
        }
        if t_us >= open_us {
            let socket = open_flow(args)?;
            poller.watch_write(&socket, opened)?;
            sockets.push(socket);
            continue;
        }
        poller.wait(end_us.min(open_us), &mut events)?;
        for event in events.iter().filter(|event| event.writable) {
            // One sendfile fills the socket; epoll reports when there is room again.
            payload.send(&sockets[event.token as usize], u64::MAX)?;
        }
    }
    Ok(())
}

fn open_flow(args: &ClientArgs) -> io::Result<Socket> {
    let socket = Socket::tcp()?;
    if let Some(name) = &args.cc {
        socket.congestion_control(name)?;
    }
    if let Some(address) = args.from {
        socket.bind(SocketAddrV4::new(address, 0))?;
    }
    if let Some(bps) = args.max_bps {
        socket.max_rate(bps)?;
    }
    // The flow ends with the run, so queued data must not be sent later.
    socket.abort_on_close()?;
    socket.connect(args.to)?;
    Ok(socket)
}
