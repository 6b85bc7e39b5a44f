// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Something for each client that has any of it at present, so for no more than there are connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};

use imtcp_client::peer::network;

pub struct PerClient<T>(Mutex<HashMap<IpAddr, Weak<T>>>);

impl<T> Default for PerClient<T> {
    fn default() -> Self {
        PerClient(Mutex::default())
    }
}

impl<T> PerClient<T> {
    /// That of a client, a new one if nobody holds it any more.
    pub fn of(&self, client: IpAddr, new: impl FnOnce() -> T) -> Arc<T> {
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        all.retain(|_, own| own.strong_count() > 0);
        let client = network(client);
        if let Some(own) = all.get(&client).and_then(Weak::upgrade) {
            return own;
        }
        let own = Arc::new(new());
        all.insert(client, Arc::downgrade(&own));
        own
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).len()
    }
}
