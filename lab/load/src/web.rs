// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The web-like foreground: open-loop arrivals of objects, a connection each.
//!
//! A client asks with eight bytes (the size, little endian) and the server
//! pushes that many bytes and closes. Arrivals (of objects, or of pages of several)
//! are Poisson and do not wait for earlier ones; times, sizes and client addresses
//! depend on the seed alone, so runs with the same seed can be compared object by
//! object.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use crate::random::{BoundedPareto, Random};
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
    /// The server
    #[arg(long)]
    to: SocketAddrV4,
    /// Own addresses, one per class of clients; each object draws one
    #[arg(long, value_delimiter = ',', required = true)]
    from: Vec<Ipv4Addr>,
    /// Mean load in bit/s of object bytes
    #[arg(long = "load", value_parser = parse_bps, value_name = "LOAD")]
    load_bps: u64,
    /// Mean object size in bytes
    #[arg(long = "mean-size", value_parser = parse_bytes, default_value = "60KB", value_name = "MEAN")]
    mean_bytes: u64,
    /// Largest object in bytes
    #[arg(long = "max-size", value_parser = parse_bytes, default_value = "2MB", value_name = "MAX")]
    max_bytes: u64,
    /// Shape of the Pareto distribution
    #[arg(long, default_value_t = 1.2)]
    shape: f64,
    /// Objects of a page: one client asks for them one after another, without waiting
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    page_objects: u32,
    /// Mean time between a page's objects, exponential
    #[arg(long = "page-gap", value_parser = parse_us, default_value = "1ms", value_name = "GAP")]
    page_gap_us: u64,
    #[arg(long)]
    seed: u64,
    #[command(flatten)]
    span: Span,
    /// Wait so long for unfinished objects after the last arrival
    #[arg(long = "drain", value_parser = parse_us, default_value = "3s", value_name = "DRAIN")]
    drain_us: u64,
    /// Result file (CSV: object, start_us, size_bytes, class, duration_us, finished)
    #[arg(long)]
    out: PathBuf,
}

/// One object of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Since the start of the load.
    start_us: u64,
    size_bytes: u64,
    class: usize,
}

/// How objects arrive.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals {
    load_bps: u64,
    sizes: BoundedPareto,
    classes: usize,
    page_objects: u32,
    page_gap_us: u64,
}

/// The objects that arrive in `duration_us`, in order of time; the same seed gives the same ones,
/// and a longer duration only adds to them.
pub fn arrivals(seed: u64, how: &Arrivals, duration_us: u64) -> Vec<Object> {
    let mut gaps = Random::new(seed, 1);
    let mut draws = Random::new(seed, 2);
    let mut choices = Random::new(seed, 3);
    let mut within = Random::new(seed, 5);
    let mut objects = Vec::new();
    if how.load_bps == 0 {
        return objects;
    }
    let page_bits = how.sizes.mean() * 8.0 * f64::from(how.page_objects);
    let mean_gap_us = page_bits * 1e6 / how.load_bps as f64;
    let mut page_us = gaps.exponential(mean_gap_us);
    while page_us < duration_us as f64 {
        let class = choices.below(how.classes);
        let mut t_us = page_us;
        for _ in 0..how.page_objects {
            objects.push(Object {
                start_us: t_us as u64,
                size_bytes: how.sizes.sample(&mut draws).round().max(1.0) as u64,
                class,
            });
            t_us += within.exponential(how.page_gap_us as f64);
        }
        page_us += gaps.exponential(mean_gap_us);
    }
    objects.retain(|object| object.start_us < duration_us);
    objects.sort_by_key(|object| object.start_us);
    objects
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
    /// Goes on; Ok(true) when the object is sent (or the client left).
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
            // A client that gave up (reset) is no error of the server's.
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

/// One object under way at the client.
struct Fetch {
    socket: Socket,
    asked: bool,
    left_bytes: u64,
}

impl Fetch {
    fn open(args: &ClientArgs, object: &Object) -> io::Result<Self> {
        let socket = Socket::tcp()?;
        // The port is chosen at connect, so that thousands of objects fit.
        socket.option(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        socket.bind(SocketAddrV4::new(args.from[object.class], 0))?;
        socket.connect(args.to)?;
        Ok(Fetch { socket, asked: false, left_bytes: object.size_bytes })
    }

    /// Goes on; Ok(true) when the last byte is here.
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

pub fn client(args: &ClientArgs) -> io::Result<()> {
    let sizes = BoundedPareto::with_mean(args.mean_bytes as f64, args.shape, args.max_bytes as f64)
        .map_err(io::Error::other)?;
    let how = Arrivals {
        load_bps: args.load_bps,
        sizes,
        classes: args.from.len(),
        page_objects: args.page_objects,
        page_gap_us: args.page_gap_us,
    };
    let objects = arrivals(args.seed, &how, args.span.duration_us);
    let start_us = args.span.start_us();
    let deadline_us = start_us + args.span.duration_us + args.drain_us;
    let poller = Poller::new()?;
    let mut under_way: HashMap<u64, Fetch> = HashMap::new();
    let mut ended_us: Vec<Option<u64>> = vec![None; objects.len()];
    let mut failed = 0u64;
    let mut next = 0usize;
    let mut events = Vec::new();
    while (next < objects.len() || !under_way.is_empty()) && !stopped() {
        let wake_us = objects.get(next).map_or(deadline_us, |o| start_us + o.start_us);
        poller.wait(wake_us, &mut events)?;
        for event in &events {
            let object = &objects[event.token as usize];
            let Some(fetch) = under_way.get_mut(&event.token) else {
                continue;
            };
            let had_asked = fetch.asked;
            match fetch.advance(object) {
                Ok(true) => {
                    ended_us[event.token as usize] = Some(now_us());
                    under_way.remove(&event.token);
                }
                Ok(false) if fetch.asked && !had_asked => {
                    poller.change(&fetch.socket, event.token, false)?;
                }
                Ok(false) => {}
                Err(_) => {
                    failed += 1;
                    under_way.remove(&event.token);
                }
            }
        }
        let t_us = now_us();
        while next < objects.len() && start_us + objects[next].start_us <= t_us {
            let fetch = Fetch::open(args, &objects[next])?;
            poller.watch_write(&fetch.socket, next as u64)?;
            under_way.insert(next as u64, fetch);
            next += 1;
        }
        if t_us >= deadline_us {
            break;
        }
    }
    if failed > 0 {
        eprintln!("imtcp-load: {failed} objects failed");
    }
    write_objects(args, &objects, &ended_us, start_us)
}

/// Unfinished objects are written with the time they have had so far.
fn write_objects(
    args: &ClientArgs,
    objects: &[Object],
    ended_us: &[Option<u64>],
    start_us: u64,
) -> io::Result<()> {
    let header = "object,start_us,size_bytes,class,duration_us,finished";
    let mut csv = Csv::create(&args.out, header)?;
    let t_us = now_us();
    for (index, (object, ended)) in objects.iter().zip(ended_us).enumerate() {
        let duration_us = ended.unwrap_or(t_us).saturating_sub(start_us + object.start_us);
        csv.row(format_args!(
            "{index},{},{},{},{duration_us},{}",
            object.start_us,
            object.size_bytes,
            object.class,
            u8::from(ended.is_some()),
        ))?;
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_pages(page_objects: u32) -> Arrivals {
        let sizes = BoundedPareto::with_mean(60e3, 1.2, 2e6).unwrap();
        Arrivals { load_bps: 20_000_000, sizes, classes: 4, page_objects, page_gap_us: 1000 }
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals() {
        let one = arrivals(5, &of_pages(1), 2_000_000);
        assert_eq!(one, arrivals(5, &of_pages(1), 2_000_000));
        assert_ne!(one, arrivals(6, &of_pages(1), 2_000_000));
    }

    #[test]
    fn a_longer_run_only_adds_arrivals() {
        let short = arrivals(5, &of_pages(1), 2_000_000);
        let long = arrivals(5, &of_pages(1), 4_000_000);
        assert_eq!(short[..], long[..short.len()]);
        assert!(long.len() > short.len());
    }

    #[test]
    fn a_longer_run_only_adds_pages_and_all_are_in_order() {
        let short = arrivals(5, &of_pages(10), 2_000_000);
        let long = arrivals(5, &of_pages(10), 4_000_000);
        assert_eq!(short[..], long[..short.len()]);
        assert!(long.is_sorted_by_key(|o| o.start_us));
    }

    #[test]
    fn the_arrivals_carry_the_load_that_was_asked_for() {
        let seconds = 4000;
        for page_objects in [1, 10] {
            let objects = arrivals(1, &of_pages(page_objects), seconds * 1_000_000);
            let bits: f64 = objects.iter().map(|o| o.size_bytes as f64 * 8.0).sum();
            let load_bps = bits / seconds as f64;
            assert!((load_bps / 20e6 - 1.0).abs() < 0.03, "{load_bps}");
            let mut classes = [0usize; 4];
            objects.iter().for_each(|o| classes[o.class] += 1);
            let fair = objects.len() / 4;
            assert!(classes.iter().all(|n| n.abs_diff(fair) < fair / 20), "{classes:?}");
        }
    }

    #[test]
    fn the_objects_of_a_page_are_one_clients_and_come_together() {
        let mut how = of_pages(10);
        // Pages seldom enough not to overlap: one in 24 s, 83 in all.
        how.load_bps = 200_000;
        let objects = arrivals(1, &how, 2_000_000_000);
        let pages: Vec<_> = objects.chunks(10).filter(|page| page.len() == 10).collect();
        assert!(pages.len() > 50, "{}", pages.len());
        for page in pages {
            assert!(page.iter().all(|o| o.class == page[0].class));
            assert!(page[9].start_us - page[0].start_us < 50_000);
        }
    }

    #[test]
    fn no_load_means_no_arrivals() {
        let how = Arrivals { load_bps: 0, ..of_pages(1) };
        assert!(arrivals(1, &how, 1_000_000).is_empty());
    }
}
