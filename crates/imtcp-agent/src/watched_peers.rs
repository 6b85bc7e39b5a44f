// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The peers as of now, and each change of them, from wherever names come.

use std::collections::HashSet;
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::Duration;

use super::lookups::Lookups;
use super::messages::say;

/// Between changes of the peers: each is told, and begins the tests' round anew.
pub const CHANGE: Duration = Duration::from_secs(10);
/// The agent starts with what the resolver knows by then.
const FIRST_LOOKUPS: Duration = Duration::from_secs(1);

pub struct WatchedPeers {
    pub peers: HashSet<String>,
    /// Comes when they are others.
    pub changes: mpsc::Receiver<HashSet<String>>,
}

impl WatchedPeers {
    /// The addresses of the names that are wanted, for as long as somebody wants to know.
    pub fn by(lookups: Arc<Lookups>, every: Duration) -> Self {
        lookups.wait(FIRST_LOOKUPS);
        let peers = lookups.addresses();
        let (changed, changes) = mpsc::channel();
        let mut before = peers.clone();
        thread::spawn(move || loop {
            if let Some(line) = lookups.news() {
                say!("{line}");
            }
            thread::sleep(every);
            let peers = lookups.addresses();
            if peers != before {
                before = peers.clone();
                if changed.send(peers).is_err() {
                    return;
                }
            }
        });
        WatchedPeers { peers, changes }
    }
}
