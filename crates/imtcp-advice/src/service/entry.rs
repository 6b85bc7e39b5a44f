// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A path's place in the cache: who may read it, and what was written meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use imtcp_client::record::Record;
use tokio::sync::{MutexGuard, Notify};

use super::cached_path::CachedPath;

/// Records of one path that lie beside it while it is read, some 200 bytes each.
pub const MOST_LATE: usize = 10_000;

/// Whoever has the lock waits for nothing but the store. A writer does not wait for the lock: its records lie beside
/// the path, and the next holder of the lock takes them in first.
#[derive(Default)]
pub struct Entry {
    place: tokio::sync::Mutex<Option<CachedPath>>,
    late: Mutex<Late>,
    /// Does somebody read it from the store? One does at a time.
    is_read: AtomicBool,
    has_been_read: Notify,
}

/// The one who reads a path, until this is dropped.
pub struct Reading<'a>(&'a Entry);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.is_read.store(false, Ordering::Release);
        self.0.has_been_read.notify_waiters();
    }
}

/// Records that were written while the path was read. The reader may have seen them or not: each record counts once.
#[derive(Default)]
struct Late {
    /// Each with its span, and the time at which it was written.
    records: Vec<(Record, u32, i64)>,
    /// It was too much, or not told what: read again.
    unknown: bool,
    /// When the records were that have become means meanwhile.
    rolled_up: Option<(i64, i64)>,
}

impl Entry {
    /// `None` while another reads.
    pub fn begin_reading(&self) -> Option<Reading<'_>> {
        let begun = self.is_read.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed);
        begun.is_ok().then_some(Reading(self))
    }

    /// Waits for the one who reads. All who wait go on at once: a lock would be handed from one to the next, and
    /// never be free for one of them to read.
    pub async fn until_read(&self) {
        let read = self.has_been_read.notified();
        if self.is_read.load(Ordering::Acquire) {
            read.await;
        }
    }

    fn late(&self) -> std::sync::MutexGuard<'_, Late> {
        self.late.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub async fn lock(&self) -> MutexGuard<'_, Option<CachedPath>> {
        let place = self.place.lock().await;
        self.up_to_date(place)
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, Option<CachedPath>>> {
        let place = self.place.try_lock().ok()?;
        Some(self.up_to_date(place))
    }

    fn up_to_date<'a>(
        &self,
        mut place: MutexGuard<'a, Option<CachedPath>>,
    ) -> MutexGuard<'a, Option<CachedPath>> {
        let late = std::mem::take(&mut *self.late());
        let take_in = |known: &mut CachedPath| {
            late.records
                .iter()
                .all(|(record, span_s, at_us)| known.take_in(record, *span_s, *at_us))
        };
        if late.unknown || !place.as_mut().is_some_and(take_in) && !late.records.is_empty() {
            *place = None;
        }
        if let (Some(known), Some((from_us, until_us))) = (place.as_mut(), late.rolled_up) {
            if !known.rolled_up(from_us, until_us) {
                *place = None;
            }
        }
        place
    }

    /// Records from then until then have become means.
    pub fn rolled_up(&self, from_us: i64, until_us: i64) {
        {
            let mut late = self.late();
            let (first_us, last_us) = late.rolled_up.unwrap_or((from_us, until_us));
            late.rolled_up = Some((first_us.min(from_us), last_us.max(until_us)));
        }
        drop(self.try_lock());
    }

    /// Takes in what was written, now or when the path has been read.
    pub fn wrote(&self, written: &WrittenOfPath, now_us: i64) {
        {
            let mut late = self.late();
            late.unknown |= written.some_known;
            late.unknown |= late.records.len() + written.records.len() > MOST_LATE;
            if late.unknown {
                late.records = Vec::new();
            } else {
                let records = written.records.iter();
                late.records.extend(records.map(|(r, span_s)| ((*r).clone(), *span_s, now_us)));
            }
        }
        drop(self.try_lock());
    }
}

/// Records of one path that were written, each with its span in seconds.
#[derive(Default)]
pub struct WrittenOfPath<'r> {
    pub records: Vec<(&'r Record, u32)>,
    /// Some of them, which is not told, were there before.
    pub some_known: bool,
}
