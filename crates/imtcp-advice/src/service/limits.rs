// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! How often one client may ask and be wrong: requests a second, wrong tokens a minute.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Instant;

use imtcp_client::peer::network;

/// Clients remembered at most, in each of the tables here: some 5 MB.
const MOST_CLIENTS: usize = 65_536;

/// A token bucket for each client.
pub struct Buckets {
    per_second: f64,
    most: f64,
    /// This machine's own programs are not limited.
    spares_loopback: bool,
    left: Mutex<HashMap<IpAddr, (f64, Instant)>>,
}

impl Buckets {
    /// `most` at once and `per_second` from then on. 0 at once: no limit.
    pub fn new(most: u32, per_second: f64, spares_loopback: bool) -> Self {
        Buckets { per_second, most: most.into(), spares_loopback, left: Mutex::default() }
    }

    /// Takes one from the client's bucket, where there is one.
    pub fn take(&self, client: IpAddr, now: Instant) -> bool {
        if self.most == 0.0 || (self.spares_loopback && client.to_canonical().is_loopback()) {
            return true;
        }
        let mut all = self.left.lock().unwrap_or_else(|e| e.into_inner());
        if all.len() >= MOST_CLIENTS {
            // A bucket that is full again is as good as a new one.
            let full_after_s = self.most / self.per_second;
            all.retain(|_, (_, at)| now.duration_since(*at).as_secs_f64() < full_after_s);
            if all.len() >= MOST_CLIENTS {
                all.clear();
            }
        }
        let (left, at) = all.entry(network(client)).or_insert((self.most, now));
        let earned = now.saturating_duration_since(*at).as_secs_f64() * self.per_second;
        *left = (*left + earned).min(self.most);
        *at = now;
        let allowed = *left >= 1.0;
        if allowed {
            *left -= 1.0;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_gets_its_rate_and_no_other_suffers() {
        let limit = Buckets::new(10, 10.0, true);
        let start = Instant::now();
        let (a, b) = (ip("192.0.2.1"), ip("192.0.2.2"));
        assert_eq!((0..30).filter(|_| limit.take(a, start)).count(), 10);
        assert!(limit.take(b, start));
        let later = start + Duration::from_millis(500);
        assert_eq!((0..30).filter(|_| limit.take(a, later)).count(), 5);
        assert!((0..1000).all(|_| Buckets::new(0, 0.0, false).take(a, start)));
        let local = ip("127.0.0.1");
        assert!((0..1000).all(|_| limit.take(local, start)));
        let strict = Buckets::new(10, 10.0, false);
        assert_eq!((0..30).filter(|_| strict.take(local, start)).count(), 10);
    }

    #[test]
    fn many_clients_do_not_fill_the_memory() {
        let limit = Buckets::new(10, 10.0, false);
        let now = Instant::now();
        for n in 0..(MOST_CLIENTS as u32 + 10) {
            limit.take(IpAddr::V4(n.into()), now);
        }
        assert!(limit.left.lock().unwrap().len() <= MOST_CLIENTS);
    }

    #[test]
    fn an_ipv6_network_is_one_client_and_a_mapped_address_is_ipv4() {
        assert_eq!(network(ip("2001:db8::1")), network(ip("2001:db8::2:3")));
        assert_ne!(network(ip("2001:db8:0:1::1")), network(ip("2001:db8:0:2::1")));
        assert_eq!(network(ip("::ffff:192.0.2.1")), ip("192.0.2.1"));
        assert_eq!(network(ip("::1")), network(ip("127.9.9.9")));
    }
}
