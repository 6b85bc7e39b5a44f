// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Addresses of hosts' names. History is kept by address as a rule, and the paper's interface is
//! asked by name. A lookup holds a thread that nothing can end, so that few run at once.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// Lookups at once, each with a thread.
const MOST_AT_ONCE: usize = 4;
/// An answer waits no longer than this.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a result is used, also that there was none.
const KEEP: Duration = Duration::from_secs(60);
const MOST_KEPT: usize = 10_000;
const MOST_ADDRESSES: usize = 8;

type Found = (Instant, Arc<[String]>);

pub struct Names {
    turns: Arc<Semaphore>,
    kept: Arc<Mutex<HashMap<String, Found>>>,
}

impl Default for Names {
    fn default() -> Self {
        Names { turns: Arc::new(Semaphore::new(MOST_AT_ONCE)), kept: Arc::default() }
    }
}

impl Names {
    /// None where the name has none, or too many others are looked up.
    pub async fn addresses(&self, name: &str) -> Arc<[String]> {
        if let Some(found) = self.kept(name) {
            return found;
        }
        let Ok(turn) = Arc::clone(&self.turns).try_acquire_owned() else { return Arc::default() };
        let (kept, name) = (Arc::clone(&self.kept), name.to_string());
        // The lookup keeps its turn until it is over, waited for or not.
        let lookup = tokio::spawn(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found = found.into_iter().flatten().take(MOST_ADDRESSES);
            let found: Arc<[String]> =
                found.map(|a: SocketAddr| a.ip().to_canonical().to_string()).collect();
            let mut kept = kept.lock().unwrap_or_else(|e| e.into_inner());
            if kept.len() >= MOST_KEPT {
                kept.clear();
            }
            kept.insert(name, (Instant::now(), Arc::clone(&found)));
            drop(turn);
            found
        });
        let found = tokio::time::timeout(PATIENCE, lookup).await;
        found.ok().and_then(Result::ok).unwrap_or_default()
    }

    fn kept(&self, name: &str) -> Option<Arc<[String]>> {
        let kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        kept.get(name).filter(|(at, _)| at.elapsed() < KEEP).map(|(_, found)| Arc::clone(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_looked_up_once_a_minute() {
        let names = Names::default();
        assert!(names.addresses("localhost").await.iter().any(|a| a == "127.0.0.1"));
        let other: Arc<[String]> = ["192.0.2.7".to_string()].into();
        names.kept.lock().unwrap().insert("localhost".into(), (Instant::now(), other));
        assert_eq!(&*names.addresses("localhost").await, ["192.0.2.7"]);
    }

    #[tokio::test]
    async fn while_as_many_as_may_are_looked_up_others_are_not_known() {
        let names = Names::default();
        let turns: Vec<_> =
            (0..MOST_AT_ONCE).map(|_| Arc::clone(&names.turns).try_acquire_owned()).collect();
        assert!(names.addresses("localhost").await.is_empty());
        drop(turns);
        assert!(!names.addresses("localhost").await.is_empty());
    }
}
