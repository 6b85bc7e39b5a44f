// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Reports on their way to disk. One task writes: whatever has come in while the last
//! transaction was under way makes the next one, so that thousands of small batches cost few
//! commits. A batch is acknowledged when its transaction is on disk, never before.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use imtcp_client::time::now_us;
use tokio::sync::{mpsc, oneshot};

use super::advice_cache::AdviceCache;
use super::health::Health;
use super::metrics::Metrics;
use super::problem::Problem;
use super::shares::{Share, Shares};
use crate::error::Error;
use crate::store::write::{Batch, Written};

/// Records waiting at most, about 200 bytes each, of one client a quarter; with more, senders are asked to
/// wait.
const MOST_WAITING: usize = 200_000;
/// Records in one transaction, about.
const GROUP: usize = 50_000;
/// How soon writes of other processes are noticed.
const NOTICE: Duration = Duration::from_millis(500);
/// How often the service itself tries to write while reports cannot be stored.
const PROBE: Duration = Duration::from_secs(2);

pub struct Ingest {
    queue: mpsc::Sender<Item>,
    room: Shares,
    metrics: Arc<Metrics>,
}

struct Item {
    batch: Batch,
    done: oneshot::Sender<Result<Written, Refused>>,
    _room: Share,
}

/// Why a batch was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too much is waiting: try again soon.
    Busy,
    /// The database failed; what it said is in the log.
    Failed,
    /// The disk is full.
    Full,
    /// The history was removed or replaced.
    Replaced,
}

impl From<&Error> for Refused {
    fn from(e: &Error) -> Self {
        match e {
            Error::Full => Refused::Full,
            Error::Replaced(_) => Refused::Replaced,
            _ => Refused::Failed,
        }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            match refused {
                Refused::Busy => "too many reports are waiting: send the batch again in a second",
                Refused::Failed => {
                    "the batch was not stored: send it again later; the service's log says why"
                }
                Refused::Full => "the batch was not stored, the disk is full: send it again later",
                Refused::Replaced => {
                    "the batch was not stored, the history was removed or replaced: send it again \
                     later; the service's log says more"
                }
            },
        )
    }
}

impl Ingest {
    /// Starts the writing task. It ends when this is dropped.
    pub fn start(cache: Arc<AdviceCache>, metrics: Arc<Metrics>, health: Arc<Health>) -> Self {
        metrics.queue_limit_records.set(MOST_WAITING as i64);
        let (queue, receiver) = mpsc::channel(10_000);
        let writer = Writer {
            cache,
            metrics: Arc::clone(&metrics),
            health,
            seen: 0,
            probed: Instant::now(),
            rescued: false,
        };
        tokio::spawn(writer.write_all(receiver));
        Ingest { queue, room: Shares::new(MOST_WAITING), metrics }
    }

    /// Records that wait.
    pub fn waiting(&self) -> usize {
        self.room.taken()
    }

    fn busy(&self) -> Refused {
        self.metrics.batches.with_label_values(&["busy"]).inc();
        Refused::Busy
    }

    /// Returns when the batch is safe.
    pub async fn put(&self, client: IpAddr, batch: Batch) -> Result<Written, Refused> {
        let count = batch.records.len().clamp(1, self.room.most_of_one()) as u32;
        let _room = self.room.take(client, count).ok_or_else(|| self.busy())?;
        let (done, wait) = oneshot::channel();
        self.queue.try_send(Item { batch, done, _room }).map_err(|_| self.busy())?;
        wait.await.unwrap_or(Err(Refused::Failed))
    }
}

/// What the writing task knows.
struct Writer {
    cache: Arc<AdviceCache>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    /// The history's generation, as this last saw or made it.
    seen: i64,
    /// When this last tried to write, without a report.
    probed: Instant,
    /// SQLite's log is in its file, since the history was removed or replaced.
    rescued: bool,
}

impl Writer {
    async fn write_all(mut self, mut queue: mpsc::Receiver<Item>) {
        // The first probe is at once: a history that is read-only is told before the first report.
        self.probe().await;
        self.seen = self.cache.store().generation().await.unwrap_or(0);
        let mut notice = tokio::time::interval(NOTICE);
        notice.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                item = queue.recv() => {
                    let Some(item) = item else { return };
                    self.write_group(gather(item, &mut queue)).await;
                }
                _ = notice.tick() => self.look().await,
            }
        }
    }

    /// Is the history there, has somebody else written, can it be written again?
    async fn look(&mut self) {
        self.health.begin_read();
        let now = self.cache.store().generation().await;
        if matches!(now, Err(Error::Db(sqlx::Error::PoolClosed))) {
            // The service ends.
            return;
        }
        self.health.read(now.as_ref().map(|_| ()));
        self.metrics.set_history_up(now.is_ok());
        match now {
            Ok(now) => {
                self.rescued = false;
                if now != std::mem::replace(&mut self.seen, now) {
                    self.cache.forget_all();
                }
            }
            Err(Error::Replaced(_)) if !std::mem::replace(&mut self.rescued, true) => {
                self.cache.store().rescue_log().await;
            }
            Err(_) => {}
        }
        if self.health.cannot_write() && self.probed.elapsed() >= PROBE {
            self.probe().await;
        }
    }

    async fn probe(&mut self) {
        self.probed = Instant::now();
        self.health.wrote(self.cache.store().probe_write(now_us()).await.as_ref().map(|_| ()));
    }

    async fn write_group(&mut self, group: Vec<Item>) {
        let (batches, waiting): (Vec<_>, Vec<_>) =
            group.into_iter().map(|i| (i.batch, (i.done, i._room))).unzip();
        self.health.begin_write();
        let written = match self.health.is_damaged() {
            false => self.cache.store().write(&batches, now_us()).await,
            true => Err(Error::Corrupt(self.cache.store().place().to_string())),
        };
        self.health.wrote(written.as_ref().map(|_| ()));
        match written {
            Ok((written, generation)) => {
                if generation != self.seen + 1 {
                    self.cache.forget_all();
                }
                self.seen = generation;
                self.cache.wrote(&batches, &written, now_us());
                for (written, (done, _)) in written.into_iter().zip(waiting) {
                    self.metrics.records.inc_by(written.stored);
                    let outcome = if written.duplicate { "duplicate" } else { "stored" };
                    self.metrics.batches.with_label_values(&[outcome]).inc();
                    self.metrics.refused_records.inc_by(written.refused);
                    let _ = done.send(Ok(written));
                }
            }
            Err(e) => {
                // The next probe comes after a while, not at once.
                self.probed = Instant::now();
                let failed = self.metrics.batches.with_label_values(&["failed"]);
                failed.inc_by(waiting.len() as u64);
                for (done, _) in waiting {
                    let _ = done.send(Err(Refused::from(&e)));
                }
            }
        }
    }
}

fn gather(first: Item, queue: &mut mpsc::Receiver<Item>) -> Vec<Item> {
    let mut count = first.batch.records.len();
    let mut group = vec![first];
    while count < GROUP {
        let Ok(next) = queue.try_recv() else { break };
        count += next.batch.records.len();
        group.push(next);
    }
    group
}
