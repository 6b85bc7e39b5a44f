// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The addresses of names. A name that does not resolve takes seconds, so that threads of their own ask the resolver,
//! beside the agent's work. They ask again: a name may get an address later, or another one.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use imtcp_client::peer;

/// Names that are looked up at the same time.
const AT_ONCE: usize = 8;
/// A name is looked up again so long after it was found.
const FRESH: Duration = Duration::from_secs(600);
/// After the first failure; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// Between looks whether a name is due.
const LOOK: Duration = Duration::from_secs(5);

/// The names that are wanted now, and their addresses.
pub struct Lookups(Arc<Shared>);

struct Shared {
    may: fn(IpAddr) -> bool,
    state: Mutex<State>,
    wanted: Condvar,
    learnt: Condvar,
}

#[derive(Default)]
struct State {
    names: HashMap<String, Entry>,
    ended: bool,
}

struct Entry {
    /// The last ones: a resolver may be away for a while.
    addresses: Vec<String>,
    /// In a row.
    failures: u32,
    /// `None`: an address has itself for good.
    due: Option<Instant>,
    is_asked_for: bool,
    /// Why it never had an address, until somebody is told.
    news: Option<String>,
}

impl Lookups {
    /// Takes those addresses alone that `may` be peers.
    pub fn start(
        may: fn(IpAddr) -> bool,
        look_up: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        let (wanted, learnt) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { may, state: Mutex::default(), wanted, learnt });
        let look_up = Arc::new(look_up);
        for _ in 0..AT_ONCE {
            let (shared, look_up) = (Arc::clone(&shared), Arc::clone(&look_up));
            thread::spawn(move || {
                while let Some(name) = shared.next() {
                    let found = look_up(&name);
                    shared.learn(&name, found);
                }
            });
        }
        Lookups(shared)
    }

    /// From now on these are wanted, and all others are forgotten.
    pub fn want(&self, names: &[String]) {
        let wanted: HashSet<_> = names.iter().collect();
        let mut state = self.0.lock();
        state.names.retain(|name, _| wanted.contains(name));
        for name in names {
            state.names.entry(name.clone()).or_insert_with(|| Entry::new(name, self.0.may));
        }
        drop(state);
        self.0.wanted.notify_all();
    }

    /// Waits until each name was looked up, or for so long.
    pub fn wait(&self, most: Duration) {
        let is_unknown = |state: &mut State| state.names.values().any(Entry::is_untried);
        let waited = self.0.learnt.wait_timeout_while(self.0.lock(), most, is_unknown);
        drop(waited);
    }

    pub fn addresses(&self) -> HashSet<String> {
        let state = self.0.lock();
        state.names.values().flat_map(|entry| entry.addresses.iter().cloned()).collect()
    }

    /// One line of all names that turned out to have no address since the last call.
    pub fn news(&self) -> Option<String> {
        let mut state = self.0.lock();
        let mut all = state.names.iter_mut().filter_map(|(name, e)| Some((name, e.news.take()?)));
        let (name, why) = all.next()?;
        let first = format!("no address of {name}: {why}");
        Some(match all.count() {
            0 => format!("{first}; it is left out until there is one"),
            1 => format!("{first}; nor of another name; they are left out until there is one"),
            more => format!("{first}; nor of {more} others; they are left out until there is one"),
        })
    }
}

impl Drop for Lookups {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.wanted.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits for a name that is due. Those that failed most wait for the others, as they take longest.
    fn next(&self) -> Option<String> {
        let mut state = self.lock();
        while !state.ended {
            let now = Instant::now();
            let is_due =
                |entry: &Entry| entry.due.is_some_and(|due| due <= now) && !entry.is_asked_for;
            let due = state.names.iter_mut().filter(|(_, entry)| is_due(entry));
            if let Some((name, entry)) = due.min_by_key(|(_, entry)| (entry.failures, entry.due)) {
                entry.is_asked_for = true;
                return Some(name.clone());
            }
            state = self.wanted.wait_timeout(state, LOOK).unwrap_or_else(|e| e.into_inner()).0;
        }
        None
    }

    fn learn(&self, name: &str, found: io::Result<Vec<IpAddr>>) {
        let found = found.and_then(|all| peers(all, self.may));
        // It may be wanted no more.
        if let Some(entry) = self.lock().names.get_mut(name) {
            entry.learn(found);
        }
        self.learnt.notify_all();
    }
}

impl Entry {
    fn new(name: &str, may: fn(IpAddr) -> bool) -> Self {
        let due = Some(Instant::now());
        let (addresses, failures) = (Vec::new(), 0);
        let mut entry = Entry { addresses, failures, due, is_asked_for: false, news: None };
        if let Ok(address) = name.parse() {
            entry.learn(peers(vec![address], may));
            entry.due = None;
        }
        entry
    }

    fn is_untried(&self) -> bool {
        self.addresses.is_empty() && self.failures == 0
    }

    fn learn(&mut self, found: io::Result<Vec<String>>) {
        self.is_asked_for = false;
        let wait = match found {
            Ok(addresses) => {
                self.addresses = addresses;
                self.failures = 0;
                self.news = None;
                FRESH
            }
            Err(e) => {
                if self.is_untried() {
                    self.news = Some(e.to_string());
                }
                self.failures += 1;
                FRESH.min(FIRST_PAUSE * (1 << (self.failures - 1).min(10)))
            }
        };
        self.due = Some(Instant::now() + wait);
    }
}

/// As records have them.
fn peers(found: Vec<IpAddr>, may: fn(IpAddr) -> bool) -> io::Result<Vec<String>> {
    let all = found.into_iter().map(|address| address.to_canonical());
    let peers: Vec<_> = all.filter(|address| may(*address)).map(|a| a.to_string()).collect();
    match peers.is_empty() {
        true => Err(io::Error::other(peer::RULE)),
        false => Ok(peers),
    }
}

/// By the system's resolver.
pub fn by_system(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const SOON: Duration = Duration::from_secs(20);

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn set(addresses: &[&str]) -> HashSet<String> {
        addresses.iter().map(|a| a.to_string()).collect()
    }

    /// `dead` has no address, after a while; all others have one.
    fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
        if name.starts_with("dead") {
            thread::sleep(Duration::from_millis(300));
            return Err(io::Error::other("no such name"));
        }
        Ok(vec!["192.0.2.1".parse().unwrap(), "127.0.0.1".parse().unwrap()])
    }

    #[test]
    fn addresses_are_known_at_once_and_dead_names_hold_up_no_other_for_long() {
        let lookups = Lookups::start(peer::is_peer, look_up);
        let dead: Vec<_> = (0..2 * AT_ONCE).map(|i| format!("dead{i}")).collect();
        let begun = Instant::now();
        lookups.want(&[names(&["192.0.2.9", "127.0.0.2", "live"]), dead.clone()].concat());
        // A name may be known by then, too.
        assert!(lookups.addresses().contains("192.0.2.9"));
        assert!(begun.elapsed() < Duration::from_millis(300), "{:?}", begun.elapsed());
        lookups.wait(SOON);
        assert!(begun.elapsed() < Duration::from_millis(300 * dead.len() as u64 / 2));
        assert_eq!(lookups.addresses(), set(&["192.0.2.9", "192.0.2.1"]), "and no loopback");
        // One line for all of them, once.
        let line = lookups.news().unwrap();
        assert!(
            line.contains(&format!("; nor of {} others; they are left out", dead.len())),
            "{line}"
        );
        assert_eq!(lookups.news(), None);
    }

    #[test]
    fn a_name_that_fails_again_keeps_its_addresses_and_is_asked_for_less_and_less() {
        let found = || Ok(vec!["192.0.2.1".to_string()]);
        let failed = || Err(io::Error::other("away"));
        let mut entry = Entry::new("name", peer::is_peer);
        let mut wait = |learnt: io::Result<Vec<String>>| {
            entry.learn(learnt);
            let wait = entry.due.unwrap() - Instant::now();
            (entry.addresses.len(), entry.news.is_some(), wait.as_secs_f64().round())
        };
        assert_eq!(wait(failed()), (0, true, 5.0));
        assert_eq!(wait(failed()), (0, true, 10.0));
        assert_eq!(wait(found()), (1, false, 600.0));
        assert_eq!(wait(failed()), (1, false, 5.0));
        assert_eq!((0..100).map(|_| wait(failed())).last(), Some((1, false, 600.0)));
    }

    #[test]
    fn names_that_are_not_wanted_any_more_are_forgotten() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let lookups = Lookups::start(peer::is_peer, |name| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            look_up(name)
        });
        for round in 0..50 {
            lookups.want(&(0..20).map(|i| format!("live{round}-{i}")).collect::<Vec<_>>());
        }
        lookups.want(&names(&["live"]));
        lookups.wait(SOON);
        assert_eq!(lookups.0.lock().names.len(), 1);
        assert_eq!(lookups.addresses().len(), 1);
        let asked = ASKED.load(Ordering::Relaxed);
        lookups.want(&names(&["live"]));
        lookups.wait(SOON);
        assert_eq!(ASKED.load(Ordering::Relaxed), asked, "it is fresh");
    }
}
