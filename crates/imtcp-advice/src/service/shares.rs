// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Room that all clients share, and of which one client has a quarter at most: whoever fills its own
//! keeps nobody else out.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::per_client::PerClient;

pub struct Shares {
    all: Arc<Semaphore>,
    size: usize,
    of_client: PerClient<Semaphore>,
}

/// Given back when it is dropped.
pub struct Share {
    of_all: OwnedSemaphorePermit,
    of_client: OwnedSemaphorePermit,
}

impl Shares {
    pub fn new(size: usize) -> Self {
        Shares { all: Arc::new(Semaphore::new(size)), size, of_client: PerClient::default() }
    }

    /// `None` where the client has its quarter, or all of it is taken.
    pub fn take(&self, client: IpAddr, size: u32) -> Option<Share> {
        let own = self.of_client.of(client, || Semaphore::new(self.most_of_one()));
        let of_client = own.try_acquire_many_owned(size).ok()?;
        let of_all = Arc::clone(&self.all).try_acquire_many_owned(size).ok()?;
        Some(Share { of_all, of_client })
    }

    pub fn most_of_one(&self) -> usize {
        self.size / 4
    }

    pub fn taken(&self) -> usize {
        self.size - self.all.available_permits()
    }
}

impl Share {
    pub fn merge(&mut self, more: Share) {
        self.of_all.merge(more.of_all);
        self.of_client.merge(more.of_client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_has_a_quarter_at_most_and_leaves_the_rest_to_others() {
        let shares = Shares::new(100);
        let mut held = shares.take(ip("192.0.2.1"), 20).unwrap();
        held.merge(shares.take(ip("192.0.2.1"), 5).unwrap());
        assert!(shares.take(ip("192.0.2.1"), 1).is_none());
        assert_eq!(shares.taken(), 25, "what is refused takes nothing");
        let others: Vec<_> =
            (2..5).map(|n| shares.take(IpAddr::from([192, 0, 2, n]), 25)).collect();
        assert!(others.iter().all(Option::is_some));
        assert!(shares.take(ip("192.0.2.9"), 1).is_none(), "all of it is taken");
        drop(held);
        assert!(shares.take(ip("192.0.2.1"), 25).is_some());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client_and_who_gave_all_back_is_forgotten() {
        let shares = Shares::new(100);
        let held = shares.take(ip("2001:db8::1"), 25);
        assert!(held.is_some() && shares.take(ip("2001:db8::2"), 1).is_none());
        drop(held);
        for n in 0..100 {
            assert!(shares.take(IpAddr::from([198, 51, 100, n]), 25).is_some());
        }
        assert!(shares.of_client.count() <= 1);
    }
}
