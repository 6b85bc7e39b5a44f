// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Turns of requests that read the history: of those that read much at once, and of advice that is not kept in
//! memory. They must not keep what is short waiting, nor each other, so there are few of either at a time; nor
//! one client all others, so each has one of them.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::gate::REQUEST_TIME;
use super::per_client::PerClient;
use super::problem::Problem;
use crate::error::Error;

/// Of each kind. With two connections for what is short, the store has as many as that needs (store::connect).
pub const AT_ONCE: usize = 2;

pub struct Turns {
    at_once: Arc<Semaphore>,
    /// Requests of one client that wait for its turn. Those of this machine may be of all clients of a proxy: only
    /// the time that a request may take bounds them.
    most_waiting: usize,
    of_client: PerClient<OfClient>,
}

struct OfClient {
    turn: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Turns {
    pub fn new(most_waiting: usize) -> Self {
        let at_once = Arc::new(Semaphore::new(AT_ONCE));
        Turns { at_once, most_waiting, of_client: PerClient::default() }
    }

    fn of(&self, client: IpAddr) -> Arc<OfClient> {
        let is_local = client.to_canonical().is_loopback();
        let most = if is_local { Semaphore::MAX_PERMITS } else { self.most_waiting };
        self.of_client.of(client, || OfClient {
            turn: Arc::new(Semaphore::new(1)),
            waiting: Arc::new(Semaphore::new(most)),
        })
    }

    /// Runs something when it is this client's turn. It runs to its end, also if the client hangs up: the
    /// database goes on with the query, and the client would have two at a time. After the time of a request
    /// nobody waits for it any more.
    pub async fn run<T: Send + 'static>(
        &self,
        client: IpAddr,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        let own = self.of(client);
        let waiting = Arc::clone(&own.waiting).try_acquire_owned().map_err(|_| too_many())?;
        // The client's own turn first: in the queue of all it stands once. Nobody closes these.
        let of_client = Arc::clone(&own.turn).acquire_owned().await;
        let of_all = Arc::clone(&self.at_once).acquire_owned().await;
        drop(waiting);
        let done = tokio::spawn(async move {
            let _turn = (of_client, of_all, own);
            tokio::time::timeout(REQUEST_TIME, work).await.unwrap_or_else(|_| Err(Problem::busy()))
        });
        done.await.unwrap_or_else(|e| Err(Error::from(std::io::Error::other(e)).into()))
    }

    /// Waits until nobody has a turn, and keeps all of them until the result is dropped.
    pub async fn hold_all(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.at_once).acquire_many_owned(AT_ONCE as u32).await.ok()
    }
}

fn too_many() -> Problem {
    let detail = "too many requests from your address wait for the history: ask again in a moment";
    Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).retry_after_s(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use tokio::sync::oneshot;

    const MOST: usize = 32;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// A request of a client, and what ends it.
    fn begin(
        turns: &Arc<Turns>,
        client: &str,
    ) -> (tokio::task::JoinHandle<bool>, oneshot::Sender<()>) {
        let (end, ended) = oneshot::channel();
        let (turns, client) = (Arc::clone(turns), ip(client));
        let work = async {
            let _ = ended.await;
            Ok(())
        };
        (tokio::spawn(async move { turns.run(client, work).await.is_ok() }), end)
    }

    /// Whether a request of a client is done at once.
    async fn is_free(turns: &Turns, client: &str) -> bool {
        let run = turns.run(ip(client), async { Ok(()) });
        tokio::time::timeout(Duration::from_millis(20), run).await.is_ok_and(|done| done.is_ok())
    }

    async fn settle() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    #[tokio::test]
    async fn a_client_with_many_requests_keeps_no_other_waiting() {
        let turns = Arc::new(Turns::new(MOST));
        let many: Vec<_> = (0..20).map(|_| begin(&turns, "192.0.2.1")).collect();
        settle().await;
        assert!(!is_free(&turns, "192.0.2.1").await);
        // The other place is free, and whoever waits for it stands behind one of theirs at most.
        assert!(is_free(&turns, "192.0.2.2").await);
        let (_other, end) = begin(&turns, "192.0.2.2");
        settle().await;
        assert!(!is_free(&turns, "192.0.2.3").await);
        end.send(()).unwrap();
        settle().await;
        assert!(is_free(&turns, "192.0.2.3").await);
        drop(many);
    }

    #[tokio::test]
    async fn more_than_may_wait_are_refused_at_once() {
        let turns = Arc::new(Turns::new(MOST));
        let all: Vec<_> = (0..MOST + 50).map(|_| begin(&turns, "192.0.2.1")).collect();
        settle().await;
        let refused = all.iter().filter(|(one, _)| one.is_finished()).count();
        // One has the turn.
        assert_eq!(refused, 49);
        // All clients of a proxy are one.
        let local: Vec<_> = (0..MOST + 50).map(|_| begin(&turns, "127.0.0.1")).collect();
        settle().await;
        assert!(local.iter().all(|(one, _)| !one.is_finished()));
    }

    #[tokio::test]
    async fn who_holds_all_waits_for_those_under_way_and_others_wait() {
        let turns = Arc::new(Turns::new(MOST));
        let (_one, end) = begin(&turns, "192.0.2.1");
        settle().await;
        let held = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move { turns.hold_all().await }
        });
        settle().await;
        assert!(!held.is_finished());
        end.send(()).unwrap();
        let held = held.await.unwrap();
        assert!(held.is_some() && !is_free(&turns, "192.0.2.2").await);
        drop(held);
        assert!(is_free(&turns, "192.0.2.2").await);
    }

    #[tokio::test]
    async fn who_hangs_up_has_the_turn_until_the_work_is_done() {
        let turns = Arc::new(Turns::new(MOST));
        let (asked, end) = begin(&turns, "192.0.2.1");
        settle().await;
        asked.abort();
        settle().await;
        assert!(!is_free(&turns, "192.0.2.1").await);
        end.send(()).unwrap();
        settle().await;
        assert!(is_free(&turns, "192.0.2.1").await);
    }

    #[tokio::test]
    async fn who_left_the_queue_is_forgotten() {
        let turns = Turns::new(MOST);
        for n in 0..100 {
            let client = IpAddr::from([198, 51, 100, n]);
            turns.run(client, async { Ok(()) }).await.unwrap();
        }
        assert!(turns.of_client.count() <= 1);
    }
}
