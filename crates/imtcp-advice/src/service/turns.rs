// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Turns of requests that read much at once. They must not keep advice waiting, so there are few at a
//! time; nor one client all others, so each has one of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::limits::network;

/// On two processors, so many still leave one for what is short: a database's thread each.
const AT_ONCE: usize = 2;

pub struct Turns {
    at_once: Semaphore,
    /// Of each client that has a turn or waits for one: as many at most as there are connections.
    of_client: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

/// A turn, until this is dropped.
pub struct Turn<'a> {
    _of_all: Option<SemaphorePermit<'a>>,
    _of_client: Option<OwnedSemaphorePermit>,
}

impl Default for Turns {
    fn default() -> Self {
        Turns { at_once: Semaphore::new(AT_ONCE), of_client: Mutex::default() }
    }
}

impl Turns {
    /// Waits for the client's own turn first, so that in the queue of all it stands once.
    pub async fn take(&self, client: IpAddr) -> Turn<'_> {
        let own = self.of_client(client);
        Turn {
            // Nobody closes these: there is always a permit to wait for.
            _of_client: own.acquire_owned().await.ok(),
            _of_all: self.at_once.acquire().await.ok(),
        }
    }

    fn of_client(&self, client: IpAddr) -> Arc<Semaphore> {
        let mut all = self.of_client.lock().unwrap_or_else(|e| e.into_inner());
        all.retain(|_, own| own.strong_count() > 0);
        let client = network(client);
        if let Some(own) = all.get(&client).and_then(Weak::upgrade) {
            return own;
        }
        let own = Arc::new(Semaphore::new(1));
        all.insert(client, Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::time::Duration;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    async fn soon<T>(turn: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::from_millis(5), turn).await.ok()
    }

    #[tokio::test]
    async fn a_client_with_many_requests_keeps_no_other_waiting() {
        let turns = Turns::default();
        let (many, other, third) = (ip("192.0.2.1"), ip("192.0.2.2"), ip("192.0.2.3"));
        let first = soon(turns.take(many)).await.unwrap();
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(turns.take(many))).collect();
        for one in &mut waiting {
            assert!(soon(one.as_mut()).await.is_none());
        }
        // The other place is free, and whoever waits for it stands behind one of theirs at most.
        let of_other = soon(turns.take(other)).await.unwrap();
        let mut of_third = Box::pin(turns.take(third));
        assert!(soon(of_third.as_mut()).await.is_none());
        drop(first);
        assert!(soon(of_third).await.is_some());
        drop(of_other);
    }

    #[tokio::test]
    async fn who_left_the_queue_is_forgotten() {
        let turns = Turns::default();
        let held = turns.take(ip("192.0.2.1")).await;
        assert!(soon(turns.take(ip("192.0.2.1"))).await.is_none());
        drop(held);
        for n in 0..100 {
            drop(turns.take(IpAddr::from([198, 51, 100, n])).await);
        }
        assert_eq!(turns.of_client.lock().unwrap().len(), 1);
    }
}
