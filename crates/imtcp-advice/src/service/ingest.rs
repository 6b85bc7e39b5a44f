// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Reports on their way to disk. One task writes: whatever has come in while the last
//! transaction was under way makes the next one, so that thousands of small batches cost few
//! commits. A batch is acknowledged when its transaction is on disk, never before.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, OwnedSemaphorePermit, Semaphore};

use super::book::Book;
use super::metrics::Metrics;
use crate::store::write::{Batch, Written};
use crate::time::now_us;

/// Records waiting at most, about 200 bytes each; with more, senders are asked to wait.
pub const MOST_WAITING: usize = 200_000;
/// Records in one transaction, about.
const GROUP: usize = 50_000;
/// How soon writes of other processes are noticed.
const NOTICE: Duration = Duration::from_millis(500);

pub struct Ingest {
    queue: mpsc::Sender<Item>,
    room: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

struct Item {
    batch: Batch,
    done: oneshot::Sender<Option<Written>>,
    _room: OwnedSemaphorePermit,
}

/// Why a batch was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too much is waiting: try again soon.
    Busy,
    /// The database failed; what it said is in the log.
    Failed,
}

impl Ingest {
    /// Starts the writing task. It ends when this is dropped.
    pub fn start(book: Arc<Book>, metrics: Arc<Metrics>) -> Self {
        let (queue, receiver) = mpsc::channel(10_000);
        tokio::spawn(write_all(receiver, book, Arc::clone(&metrics)));
        Ingest { queue, room: Arc::new(Semaphore::new(MOST_WAITING)), metrics }
    }

    /// Records that wait.
    pub fn waiting(&self) -> usize {
        MOST_WAITING - self.room.available_permits()
    }

    fn busy(&self) -> Refused {
        self.metrics.batches.with_label_values(&["busy"]).inc();
        Refused::Busy
    }

    /// Returns when the batch is safe.
    pub async fn put(&self, batch: Batch) -> Result<Written, Refused> {
        let count = batch.records.len().clamp(1, MOST_WAITING) as u32;
        let room = Arc::clone(&self.room).try_acquire_many_owned(count);
        let _room = room.map_err(|_| self.busy())?;
        let (done, wait) = oneshot::channel();
        self.queue.try_send(Item { batch, done, _room }).map_err(|_| self.busy())?;
        wait.await.ok().flatten().ok_or(Refused::Failed)
    }
}

async fn write_all(mut queue: mpsc::Receiver<Item>, book: Arc<Book>, metrics: Arc<Metrics>) {
    let mut seen = book.store().generation().await.unwrap_or(0);
    let mut notice = tokio::time::interval(NOTICE);
    notice.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            item = queue.recv() => {
                let Some(item) = item else { return };
                let group = gather(item, &mut queue);
                write_group(group, &book, &metrics, &mut seen).await;
            }
            _ = notice.tick() => {
                if let Ok(now) = book.store().generation().await {
                    if now != std::mem::replace(&mut seen, now) {
                        book.forget_all();
                    }
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

async fn write_group(group: Vec<Item>, book: &Book, metrics: &Metrics, seen: &mut i64) {
    let (batches, waiting): (Vec<_>, Vec<_>) =
        group.into_iter().map(|i| (i.batch, (i.done, i._room))).unzip();
    match book.store().write(&batches, now_us()).await {
        Ok((written, generation)) => {
            if generation != *seen + 1 {
                book.forget_all();
            }
            *seen = generation;
            book.wrote(&batches, &written, now_us()).await;
            for (written, (done, _)) in written.into_iter().zip(waiting) {
                metrics.records.inc_by(written.stored);
                let outcome = if written.duplicate { "duplicate" } else { "stored" };
                metrics.batches.with_label_values(&[outcome]).inc();
                let _ = done.send(Some(written));
            }
        }
        Err(e) => {
            tracing::error!("cannot write reports: {e}");
            metrics.batches.with_label_values(&["failed"]).inc_by(waiting.len() as u64);
            for (done, _) in waiting {
                let _ = done.send(None);
            }
        }
    }
}
