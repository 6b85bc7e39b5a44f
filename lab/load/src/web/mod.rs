// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The web-like foreground: objects with a connection each.
//!
//! A client asks with eight bytes (the size, little endian). The server sends as many bytes and
//! closes. `load.rs` decides the times of the requests.

mod load;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use self::load::{Arrivals, Load, Object, Pages, Sessions};
use crate::random::BoundedPareto;
use crate::run::{stopped, Csv, Span};
use crate::sys::{now_us, Payload, Poller, Socket};
use crate::units::{parse_bps, parse_bytes, parse_us};

#[derive(clap::Args)]
pub struct ServerArgs {
    /// Address and port to listen on
    #[arg(long)]
    listen: SocketAddrV4,
    /// Congestion control of the answers (default: the system's)
    #[arg(long)]
    cc: Option<String>,
}

#[derive(clap::Args)]
pub struct ClientArgs {
    /// The servers; each object draws one, but a reader keeps one
    #[arg(long, value_delimiter = ',', required = true)]
    to: Vec<SocketAddrV4>,
    /// Own addresses, one per class of clients; each object draws one
    #[arg(long, value_delimiter = ',', required = true)]
    from: Vec<Ipv4Addr>,
    /// Mean load in bit/s of object bytes, at Poisson times that wait for nothing
    #[arg(long = "load", value_parser = parse_bps, value_name = "LOAD", required_unless_present = "sessions", conflicts_with = "sessions")]
    load_bps: Option<u64>,
    /// Readers per server, in place of a load: they wait for a page, think, and ask for the next
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    sessions: Option<u16>,
    /// Mean time for which a reader thinks, exponential
    #[arg(long = "think", value_parser = parse_us, default_value = "1s", value_name = "THINK", requires = "sessions")]
    mean_think_us: u64,
    /// Mean object size in bytes
    #[arg(long = "mean-size", value_parser = parse_bytes, default_value = "60KB", value_name = "MEAN")]
    mean_bytes: u64,
    /// Largest object in bytes
    #[arg(long = "max-size", value_parser = parse_bytes, default_value = "2MB", value_name = "MAX")]
    max_bytes: u64,
    /// Shape of the Pareto distribution
    #[arg(long, default_value_t = 1.2)]
    shape: f64,
    /// Objects of a page: one client asks for them one after another, without waiting for them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    page_objects: u32,
    /// Mean time between a page's objects, exponential
    #[arg(long = "page-gap", value_parser = parse_us, default_value = "1ms", value_name = "GAP")]
    page_gap_us: u64,
    #[arg(long)]
    seed: u64,
    #[command(flatten)]
    span: Span,
    /// Time to wait for unfinished objects after the last arrival
    #[arg(long = "drain", value_parser = parse_us, default_value = "3s", value_name = "DRAIN")]
    drain_us: u64,
    /// Result file (CSV: object, start_us, size_bytes, class, duration_us, finished)
    #[arg(long)]
    out: PathBuf,
}

/// One connection at the server.
struct Answer {
    socket: Socket,
    request: [u8; 8],
    have: usize,
    left_bytes: u64,
    sending: bool,
}

impl Answer {
    /// Continues; Ok(true) when the object is sent or the client has left.
    fn advance(&mut self, payload: &Payload) -> io::Result<bool> {
        while self.have < 8 {
            match self.socket.receive(&mut self.request[self.have..])? {
                None => return Ok(false),
                Some(0) => return Ok(true),
                Some(n) => self.have += n,
            }
            if self.have == 8 {
                self.left_bytes = u64::from_le_bytes(self.request);
            }
        }
        while self.left_bytes > 0 {
            match payload.send(&self.socket, self.left_bytes)? {
                None => return Ok(false),
                Some(n) => self.left_bytes -= n as u64,
            }
        }
        Ok(true)
    }
}

pub fn server(args: &ServerArgs) -> io::Result<()> {
    let listener = Socket::listener(args.listen)?;
    if let Some(name) = &args.cc {
        listener.congestion_control(name)?;
    }
    let poller = Poller::new()?;
    let payload = Payload::new()?;
    poller.watch_read(&listener, 0)?;
    let mut answers: HashMap<u64, Answer> = HashMap::new();
    let mut next = 1u64;
    let mut events = Vec::new();
    while !stopped() {
        poller.wait(u64::MAX, &mut events)?;
        for event in &events {
            if event.token == 0 {
                while let Some((socket, _)) = listener.accept()? {
                    poller.watch_read(&socket, next)?;
                    let answer =
                        Answer { socket, request: [0; 8], have: 0, left_bytes: 0, sending: false };
                    answers.insert(next, answer);
                    next += 1;
                }
                continue;
            }
            let Some(answer) = answers.get_mut(&event.token) else {
                continue;
            };
            // If a client gives up (reset), that is no error of the server.
            if answer.advance(&payload).unwrap_or(true) {
                answers.remove(&event.token);
            } else if answer.have == 8 && !answer.sending {
                answer.sending = true;
                poller.change(&answer.socket, event.token, true)?;
            }
        }
    }
    Ok(())
}

/// One object on its way to the client.
struct Fetch {
    socket: Socket,
    asked: bool,
    left_bytes: u64,
}

impl Fetch {
    fn open(args: &ClientArgs, object: &Object) -> io::Result<Self> {
        let socket = Socket::tcp()?;
        // The kernel chooses the port at connect, so that thousands of connections are possible.
        socket.option(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        socket.bind(SocketAddrV4::new(args.from[object.class], 0))?;
        socket.connect(args.to[object.server])?;
        Ok(Fetch { socket, asked: false, left_bytes: object.size_bytes })
    }

    /// Continues; Ok(true) when the last byte has arrived.
    fn advance(&mut self, object: &Object) -> io::Result<bool> {
        if !self.asked {
            let request = object.size_bytes.to_le_bytes();
            self.asked = self.socket.send(&request)?.is_some();
            return Ok(false);
        }
        while self.left_bytes > 0 {
            match self.socket.discard(1 << 20)? {
                None => return Ok(false),
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(n) => self.left_bytes = self.left_bytes.saturating_sub(n as u64),
            }
        }
        Ok(true)
    }
}

impl ClientArgs {
    fn load(&self) -> Result<Load, String> {
        let (mean, largest) = (self.mean_bytes as f64, self.max_bytes as f64);
        let sizes = BoundedPareto::with_mean(mean, self.shape, largest)?;
        let pages = Pages {
            sizes,
            objects: self.page_objects,
            mean_gap_us: self.page_gap_us,
            classes: self.from.len(),
            servers: self.to.len(),
        };
        let duration_us = self.span.duration_us;
        Ok(match self.sessions.map(usize::from) {
            None => {
                let how = Arrivals { load_bps: self.load_bps.unwrap_or(0), pages };
                Load::of_arrivals(self.seed, &how, duration_us)
            }
            Some(of_each_server) => {
                let how = Sessions { of_each_server, mean_think_us: self.mean_think_us, pages };
                Load::of_sessions(self.seed, &how, duration_us)
            }
        })
    }
}

pub fn client(args: &ClientArgs) -> io::Result<()> {
    let mut load = args.load().map_err(io::Error::other)?;
    let start_us = args.span.start_us();
    let deadline_us = start_us + args.span.duration_us + args.drain_us;
    let poller = Poller::new()?;
    let mut under_way: HashMap<u64, Fetch> = HashMap::new();
    let mut asked: Vec<Asked> = Vec::new();
    let mut failed = 0u64;
    let mut events = Vec::new();
    while (load.next_us().is_some() || !under_way.is_empty()) && !stopped() {
        let wake_us = load.next_us().map_or(deadline_us, |next_us| start_us + next_us);
        poller.wait(wake_us, &mut events)?;
        for event in &events {
            let Some(fetch) = under_way.get_mut(&event.token) else {
                continue;
            };
            let Asked { object, ended_us } = &mut asked[event.token as usize];
            let had_asked = fetch.asked;
            match fetch.advance(object) {
                Ok(false) if fetch.asked && !had_asked => {
                    poller.change(&fetch.socket, event.token, false)?;
                    continue;
                }
                Ok(false) => continue,
                Ok(true) => *ended_us = Some(now_us()),
                Err(_) => failed += 1,
            }
            under_way.remove(&event.token);
            load.ended(object, now_us().saturating_sub(start_us));
        }
        let t_us = now_us();
        while let Some(object) = load.due(t_us.saturating_sub(start_us)) {
            let fetch = Fetch::open(args, &object)?;
            let token = asked.len() as u64;
            poller.watch_write(&fetch.socket, token)?;
            under_way.insert(token, fetch);
            asked.push(Asked { object, ended_us: None });
        }
        if t_us >= deadline_us {
            break;
        }
    }
    if failed > 0 {
        eprintln!("imtcp-load: {failed} objects failed");
    }
    write_objects(args, &asked, start_us)
}

/// An object, and the time at which its last byte arrived.
struct Asked {
    object: Object,
    ended_us: Option<u64>,
}

/// Writes all objects; an unfinished one has its time so far.
fn write_objects(args: &ClientArgs, asked: &[Asked], start_us: u64) -> io::Result<()> {
    let header = "object,start_us,size_bytes,class,duration_us,finished";
    let mut csv = Csv::create(&args.out, header)?;
    let t_us = now_us();
    for Asked { object, ended_us } in asked {
        let duration_us = ended_us.unwrap_or(t_us).saturating_sub(start_us + object.start_us);
        csv.row(format_args!(
            "{},{},{},{},{duration_us},{}",
            object.id,
            object.start_us,
            object.size_bytes,
            object.class,
            u8::from(ended_us.is_some()),
        ))?;
    }
    csv.finish()
}
