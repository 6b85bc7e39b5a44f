// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Open connections, bounded for each client and for all. Where there is no room, a new connection
//! takes the place of the one that has been idle longest: who only holds connections open keeps
//! nobody out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use imtcp_client::peer::network;
use tokio::sync::Notify;

/// How many connections may be open, each with about 30 kB.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    pub of_all: usize,
    pub of_client: usize,
    /// Connections from this machine: a reverse proxy has those of all its clients.
    pub of_loopback: usize,
}

impl Default for Most {
    fn default() -> Self {
        Most { of_all: 4096, of_client: 128, of_loopback: 2048 }
    }
}

pub struct Connections {
    most: Most,
    open: Mutex<Open>,
    closed: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    slots: HashMap<u64, Arc<Slot>>,
    of_client: HashMap<IpAddr, usize>,
}

struct Slot {
    client: IpAddr,
    /// Since when no request is under way.
    idle_since: Mutex<Option<Instant>>,
    evicted: Notify,
}

/// An open connection, until this is dropped.
pub struct Admitted {
    connections: Arc<Connections>,
    id: u64,
    slot: Arc<Slot>,
}

/// A request under way, until this is dropped.
pub struct Busy(Arc<Slot>);

impl Connections {
    pub fn new(most: Most) -> Arc<Self> {
        Arc::new(Connections { most, open: Mutex::default(), closed: Notify::new() })
    }

    /// `None`: there is no room, and each connection that could make some has a request under way.
    pub fn admit(self: &Arc<Self>, client: IpAddr) -> Option<Admitted> {
        let client = network(client);
        let most_of_client =
            if client.is_loopback() { self.most.of_loopback } else { self.most.of_client };
        let mut open = self.open();
        if open.of_client.get(&client).is_some_and(|count| *count >= most_of_client) {
            open.evict(|slot| slot.client == client)?;
        }
        if open.slots.len() >= self.most.of_all {
            open.evict(|_| true)?;
        }
        let idle_since = Mutex::new(Some(Instant::now()));
        let slot = Arc::new(Slot { client, idle_since, evicted: Notify::new() });
        let id = open.next;
        open.next += 1;
        open.slots.insert(id, Arc::clone(&slot));
        *open.of_client.entry(client).or_default() += 1;
        Some(Admitted { connections: Arc::clone(self), id, slot })
    }

    pub fn count(&self) -> usize {
        self.open().slots.len()
    }

    /// Returns when none is open.
    pub async fn all_closed(&self) {
        loop {
            let closed = self.closed.notified();
            if self.count() == 0 {
                return;
            }
            closed.await;
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Open {
    /// Ends the connection among these that has been idle longest.
    fn evict(&mut self, among: impl Fn(&Slot) -> bool) -> Option<()> {
        let idle = self.slots.iter().filter(|(_, slot)| among(slot));
        let idle = idle.filter_map(|(id, slot)| Some((slot.idle_since()?, *id)));
        let (_, id) = idle.min()?;
        if let Some(slot) = self.remove(id) {
            slot.evicted.notify_one();
        }
        Some(())
    }

    fn remove(&mut self, id: u64) -> Option<Arc<Slot>> {
        let slot = self.slots.remove(&id)?;
        if let Some(count) = self.of_client.get_mut(&slot.client) {
            *count -= 1;
            if *count == 0 {
                self.of_client.remove(&slot.client);
            }
        }
        Some(slot)
    }
}

impl Slot {
    fn idle_since(&self) -> Option<Instant> {
        *self.idle_since.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn set_idle_since(&self, since: Option<Instant>) {
        *self.idle_since.lock().unwrap_or_else(|e| e.into_inner()) = since;
    }
}

impl Admitted {
    pub fn begin_request(&self) -> Busy {
        self.slot.set_idle_since(None);
        Busy(Arc::clone(&self.slot))
    }

    /// It is idle from now on, not from before.
    pub fn touch(&self) {
        self.slot.set_idle_since(Some(Instant::now()));
    }

    /// Returns when the connection has to make room.
    pub async fn evicted(&self) {
        self.slot.evicted.notified().await;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.connections.open().remove(self.id);
        self.connections.closed.notify_one();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set_idle_since(Some(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MOST: Most = Most { of_all: 4, of_client: 2, of_loopback: 3 };

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    async fn is_evicted(connection: &Admitted) -> bool {
        tokio::time::timeout(Duration::from_millis(1), connection.evicted()).await.is_ok()
    }

    #[tokio::test]
    async fn a_clients_newest_connection_takes_the_place_of_its_longest_idle_one() {
        let connections = Connections::new(MOST);
        let (a, b) = (ip("192.0.2.1"), ip("192.0.2.2"));
        let of_b = connections.admit(b).unwrap();
        let first = connections.admit(a).unwrap();
        let second = connections.admit(a).unwrap();
        // A request makes it the newer one.
        drop(first.begin_request());
        let third = connections.admit(a).unwrap();
        assert!(is_evicted(&second).await && !is_evicted(&first).await);
        assert!(!is_evicted(&third).await && !is_evicted(&of_b).await);
        assert_eq!(connections.count(), 3);
        drop((first, second, third, of_b));
        assert_eq!(connections.count(), 0);
        assert!(connections.open().of_client.is_empty());
    }

    #[tokio::test]
    async fn by_default_one_client_has_128_of_the_4096_connections() {
        let connections = Connections::new(Most::default());
        let open: Vec<_> = (0..200).filter_map(|_| connections.admit(ip("192.0.2.1"))).collect();
        assert_eq!(connections.open().of_client[&ip("192.0.2.1")], 128);
        let others = (0..5000_u32).map(|n| IpAddr::from(n.to_be_bytes()));
        let others: Vec<_> = others.filter_map(|other| connections.admit(other)).collect();
        assert_eq!(connections.count(), 4096);
        drop((open, others));
    }

    #[tokio::test]
    async fn a_connection_with_a_request_under_way_is_not_ended_for_another() {
        let connections = Connections::new(MOST);
        let a = ip("192.0.2.1");
        let open: Vec<_> = (0..2).map(|_| connections.admit(a).unwrap()).collect();
        let busy: Vec<_> = open.iter().map(Admitted::begin_request).collect();
        assert!(connections.admit(a).is_none());
        drop(busy);
        assert!(connections.admit(a).is_some());
    }

    #[tokio::test]
    async fn where_all_are_taken_the_longest_idle_of_all_makes_room() {
        let connections = Connections::new(MOST);
        let clients = ["192.0.2.1", "192.0.2.2", "::1", "127.0.0.9"];
        let open: Vec<_> = clients.map(|c| connections.admit(ip(c)).unwrap()).into();
        assert!(connections.admit(ip("192.0.2.3")).is_some());
        assert!(is_evicted(&open[0]).await && !is_evicted(&open[1]).await);
    }

    #[tokio::test]
    async fn all_are_waited_for() {
        let connections = Connections::new(MOST);
        let one = connections.admit(ip("::1")).unwrap();
        let waiting = connections.all_closed();
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut waiting).await.is_err());
        drop(one);
        tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap();
    }
}
