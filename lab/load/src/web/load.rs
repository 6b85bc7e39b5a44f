// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The web's objects: their times, sizes, clients and servers.
//!
//! There are two models:
//!
//! * *Arrivals* are Poisson and wait for nothing.
//! * *Sessions* wait for a page, think, and ask for the next. So a slower network gets fewer
//!   requests: the web yields bytes, not only time.
//!
//! In both, a page has one object or several, and the client asks for them one after another.
//! Sizes, clients and servers depend only on the seed; in a session also on its number of objects
//! so far. So runs of one seed can be compared object by object.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::random::{BoundedPareto, Random};

/// Uses of a seed that arrivals and sessions share.
const GAPS: u64 = 1;
const SIZES: u64 = 2;
const CLASSES: u64 = 3;
const WITHIN_PAGE: u64 = 5;
const SERVERS: u64 = 6;
/// From here on each session has three streams of its own.
const FIRST_SESSION: u64 = 1000;
/// A session numbers its objects from this times its own number.
const SESSION_STRIDE: u64 = 1_000_000;

/// One object of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// The same in every run of the seed.
    pub id: u64,
    /// Time since the start of the load.
    pub start_us: u64,
    pub size_bytes: u64,
    /// The index of the client's address.
    pub class: usize,
    /// The index of the server.
    pub server: usize,
}

/// The pages of both models.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    pub sizes: BoundedPareto,
    pub objects: u32,
    /// Mean time from one object of a page to the next, exponential.
    pub mean_gap_us: u64,
    pub classes: usize,
    pub servers: usize,
}

/// Pages that arrive at their own times.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals {
    pub load_bps: u64,
    pub pages: Pages,
}

/// The objects that arrive in `duration_us`, in order of time. An equal seed gives equal objects,
/// and a longer duration only adds to them.
fn arrivals(seed: u64, how: &Arrivals, duration_us: u64) -> Vec<Object> {
    let [mut gaps, mut draws, mut choices, mut within, mut asked] =
        [GAPS, SIZES, CLASSES, WITHIN_PAGE, SERVERS].map(|stream| Random::new(seed, stream));
    let mut objects = Vec::new();
    if how.load_bps == 0 {
        return objects;
    }
    let pages = &how.pages;
    let page_bits = pages.sizes.mean() * 8.0 * f64::from(pages.objects);
    let mean_gap_us = page_bits * 1e6 / how.load_bps as f64;
    let mut page_us = gaps.exponential(mean_gap_us);
    while page_us < duration_us as f64 {
        let class = choices.below(pages.classes);
        let server = asked.below(pages.servers);
        let mut t_us = page_us;
        for _ in 0..pages.objects {
            objects.push(Object {
                id: 0,
                start_us: t_us as u64,
                size_bytes: whole_bytes(pages.sizes.sample(&mut draws)),
                class,
                server,
            });
            t_us += within.exponential(pages.mean_gap_us as f64);
        }
        page_us += gaps.exponential(mean_gap_us);
    }
    objects.retain(|object| object.start_us < duration_us);
    objects.sort_by_key(|object| object.start_us);
    objects.iter_mut().zip(0..).for_each(|(object, id)| object.id = id);
    objects
}

fn whole_bytes(size: f64) -> u64 {
    size.round().max(1.0) as u64
}

/// Readers who wait for each page.
#[derive(Clone, Copy, Debug)]
pub struct Sessions {
    pub of_each_server: usize,
    /// Exponential; such a time also precedes the first page.
    pub mean_think_us: u64,
    pub pages: Pages,
}

struct Session {
    thinks: Random,
    draws: Random,
    choices: Random,
    /// Number of objects of all its pages so far.
    asked: u64,
    /// The state of its page: its client, the objects still to request, and the objects on their
    /// way.
    class: usize,
    to_ask: u32,
    awaited: u32,
}

/// The source of the next object.
pub enum Load {
    Arriving(VecDeque<Object>),
    Read(Readers),
}

/// Sessions and the times of their requests.
pub struct Readers {
    how: Sessions,
    sessions: Vec<Session>,
    /// (time of request, session), the earliest first; at most one per session.
    asking: BinaryHeap<Reverse<(u64, usize)>>,
    duration_us: u64,
}

impl Load {
    pub fn of_arrivals(seed: u64, how: &Arrivals, duration_us: u64) -> Self {
        Load::Arriving(arrivals(seed, how, duration_us).into())
    }

    pub fn of_sessions(seed: u64, how: &Sessions, duration_us: u64) -> Self {
        Load::Read(Readers::new(seed, how, duration_us))
    }

    /// The time of the next request, if known; never at or after the end.
    pub fn next_us(&self) -> Option<u64> {
        match self {
            Load::Arriving(objects) => objects.front().map(|object| object.start_us),
            Load::Read(readers) => readers.asking.peek().map(|Reverse((t_us, _))| *t_us),
        }
    }

    /// The next object, if its time has come at `t_us`.
    pub fn due(&mut self, t_us: u64) -> Option<Object> {
        if self.next_us()? > t_us {
            return None;
        }
        match self {
            Load::Arriving(objects) => objects.pop_front(),
            Load::Read(readers) => readers.next(),
        }
    }

    /// Reports at `t_us` that an object is complete, or never will be. After a page's last object
    /// its session goes on.
    pub fn ended(&mut self, object: &Object, t_us: u64) {
        if let Load::Read(readers) = self {
            readers.ended(object, t_us);
        }
    }
}

impl Readers {
    fn new(seed: u64, how: &Sessions, duration_us: u64) -> Self {
        let sessions: Vec<_> = (0..how.of_each_server * how.pages.servers)
            .map(|number| {
                let [thinks, draws, choices] = [0, 1, 2]
                    .map(|use_| Random::new(seed, FIRST_SESSION + 3 * number as u64 + use_));
                Session { thinks, draws, choices, asked: 0, class: 0, to_ask: 0, awaited: 0 }
            })
            .collect();
        let all = 0..sessions.len();
        let mut readers = Readers { how: *how, sessions, asking: BinaryHeap::new(), duration_us };
        all.for_each(|number| readers.think(number, 0));
        readers
    }

    fn next(&mut self) -> Option<Object> {
        let pages = &self.how.pages;
        let Reverse((start_us, number)) = self.asking.pop()?;
        let session = &mut self.sessions[number];
        if session.to_ask == 0 {
            session.class = session.choices.below(pages.classes);
            session.to_ask = pages.objects;
        }
        let object = Object {
            id: number as u64 * SESSION_STRIDE + session.asked,
            start_us,
            size_bytes: whole_bytes(pages.sizes.sample(&mut session.draws)),
            class: session.class,
            server: number % pages.servers,
        };
        session.asked += 1;
        session.awaited += 1;
        session.to_ask -= 1;
        if session.to_ask > 0 {
            let gap_us = session.thinks.exponential(pages.mean_gap_us as f64) as u64;
            self.ask(number, start_us + gap_us);
        }
        Some(object)
    }

    fn ended(&mut self, object: &Object, t_us: u64) {
        let number = (object.id / SESSION_STRIDE) as usize;
        let session = &mut self.sessions[number];
        session.awaited -= 1;
        if session.awaited == 0 && session.to_ask == 0 {
            self.think(number, t_us);
        }
    }

    fn think(&mut self, number: usize, from_us: u64) {
        let mean_us = self.how.mean_think_us as f64;
        let think_us = self.sessions[number].thinks.exponential(mean_us) as u64;
        self.ask(number, from_us + think_us);
    }

    fn ask(&mut self, number: usize, t_us: u64) {
        if t_us < self.duration_us {
            self.asking.push(Reverse((t_us, number)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(objects: u32, servers: usize) -> Pages {
        let sizes = BoundedPareto::with_mean(60e3, 1.2, 2e6).unwrap();
        Pages { sizes, objects, mean_gap_us: 1000, classes: 4, servers }
    }

    fn of_pages(objects: u32) -> Arrivals {
        Arrivals { load_bps: 20_000_000, pages: pages(objects, 1) }
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
        // The pages must not overlap, so they are rare: one in 24 s, 83 in all.
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

    #[test]
    fn arrivals_at_several_servers_are_those_at_one() {
        let one = arrivals(1, &of_pages(1), 20_000_000);
        let three = arrivals(1, &Arrivals { pages: pages(1, 3), ..of_pages(1) }, 20_000_000);
        assert!((0..3).all(|server| three.iter().any(|o| o.server == server)));
        let at_one: Vec<_> = three.iter().map(|o| Object { server: 0, ..*o }).collect();
        assert_eq!(one, at_one);
    }

    const MS: u64 = 1000;

    fn of_sessions(mean_think_us: u64, objects: u32) -> Load {
        let how = Sessions { of_each_server: 2, mean_think_us, pages: pages(objects, 3) };
        Load::of_sessions(1, &how, 100_000 * MS)
    }

    /// All objects in order of time, if each takes this time.
    fn asked(mut load: Load, each_takes_us: u64) -> Vec<Object> {
        let mut under_way: Vec<Object> = Vec::new();
        let mut all = Vec::new();
        for t_us in (0..200_000 * MS).step_by(MS as usize) {
            while let Some(object) = load.due(t_us) {
                under_way.push(object);
                all.push(object);
            }
            under_way.retain(|object| {
                let ends = t_us >= object.start_us + each_takes_us;
                if ends {
                    load.ended(object, t_us);
                }
                !ends
            });
        }
        all
    }

    #[test]
    fn a_session_asks_for_nothing_while_it_waits() {
        let mut load = of_sessions(10 * MS, 1);
        let mut seen = 0;
        while load.due(u64::MAX).is_some() {
            seen += 1;
        }
        assert_eq!((seen, load.next_us()), (6, None));
        load.ended(&first_of(0), 50 * MS);
        assert!(load.next_us().unwrap() >= 50 * MS);
        assert_eq!(load.due(40 * MS), None);
        assert_eq!(load.due(u64::MAX).unwrap().id, 1);
    }

    /// The first object of a session.
    fn first_of(session: u64) -> Object {
        let id = session * SESSION_STRIDE;
        Object { id, start_us: 0, size_bytes: 1, class: 0, server: 0 }
    }

    #[test]
    fn a_session_goes_on_when_all_of_its_page_is_there() {
        let mut load = of_sessions(10 * MS, 3);
        let mut of_one = Vec::new();
        while let Some(object) = load.due(u64::MAX) {
            if object.id < SESSION_STRIDE {
                of_one.push(object);
            }
        }
        assert_eq!(of_one.iter().map(|o| o.id).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(of_one.iter().all(|o| o.class == of_one[0].class));
        assert!(of_one.is_sorted_by_key(|o| o.start_us));
        // Objects may end in any order.
        load.ended(&of_one[2], 500 * MS);
        load.ended(&of_one[0], 600 * MS);
        assert_eq!(load.next_us(), None);
        load.ended(&of_one[1], 700 * MS);
        assert!(load.next_us().unwrap() >= 700 * MS);
        assert_eq!(load.due(u64::MAX).unwrap().id, 3);
    }

    #[test]
    fn a_slower_network_is_asked_for_less_of_the_same() {
        let quick = asked(of_sessions(100 * MS, 1), 100 * MS);
        let slow = asked(of_sessions(100 * MS, 1), 300 * MS);
        // Six sessions run for 100 s. An object and the thinking before it take 0.2 s or 0.4 s.
        assert!(quick.len().abs_diff(3000) < 200, "{}", quick.len());
        assert!(slow.len().abs_diff(1500) < 100, "{}", slow.len());
        for object in &slow {
            let same = quick.iter().find(|other| other.id == object.id).unwrap();
            let told = |o: &Object| (o.size_bytes, o.class, o.server);
            assert_eq!(told(object), told(same));
        }
        assert!(slow.iter().chain(&quick).all(|o| o.start_us < 100_000 * MS));
    }
}
