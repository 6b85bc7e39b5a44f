// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Records on their way into the spool. While the disk takes none (it is full, or read-only) they
//! wait in memory.

use imtcp_client::record::Record;
use imtcp_common::fault::Fault;
use imtcp_common::format;

use super::messages::say;
use super::spool::Spool;

/// Records in a batch at most: the service takes 10 000 and 4 MiB.
pub const BATCH: usize = 5_000;
/// Records in memory at most while the disk takes none: about 20 MB.
const MOST_IN_MEMORY: usize = 50_000;
/// Percent. A full spool is full no more when the service has taken so much that less is left.
const NOT_FULL_PCT: u64 = 90;

pub struct Writer {
    spool: Spool,
    waiting: Vec<Record>,
    disk: Fault,
    full: Fault,
}

impl Writer {
    pub fn new(spool: Spool) -> Self {
        Writer { spool, waiting: Vec::new(), disk: Fault::default(), full: Fault::default() }
    }

    /// Puts what waits and these into the spool, in batches of one kind: a service that knows no
    /// active tests refuses theirs alone.
    pub fn put(&mut self, records: Vec<Record>) {
        self.waiting.extend(records);
        while let Some(first) = self.waiting.first() {
            let kind = first.kind();
            let alike = self.waiting.iter().take(BATCH).take_while(|r| r.kind() == kind).count();
            let dropped_before = self.spool.dropped();
            let put = self.spool.put(&self.waiting[..alike]);
            let dropped = self.spool.dropped() - dropped_before;
            match put {
                Ok(used_bytes) => {
                    self.waiting.drain(..alike);
                    self.disk_is_well();
                    self.tell_of_room(dropped, used_bytes);
                }
                Err(e) => {
                    self.tell_of_room(dropped, self.spool.most_bytes());
                    return self.disk_fails(&format!("{e:#}"));
                }
            }
        }
    }

    fn disk_fails(&mut self, why: &str) {
        if self.disk.is_new(why) {
            say!("{why}; results wait in memory, the newest {MOST_IN_MEMORY}");
        }
        let over = self.waiting.len().saturating_sub(MOST_IN_MEMORY);
        self.waiting.drain(..over);
        self.disk.add_lost(over as u64);
    }

    fn disk_is_well(&mut self) {
        if let Some(lost) = self.disk.end() {
            say!("the spool can be written again; {} were lost", format::count(lost, "result"));
        }
    }

    fn tell_of_room(&mut self, dropped: u64, used_bytes: u64) {
        if dropped > 0 {
            if self.full.is_new("full") {
                let most = format::bytes(self.spool.most_bytes());
                say!(
                    "the spool is full ({most}, --spool-mb): the oldest batches are lost, what was put aside \
                     first"
                );
            }
            self.full.add_lost(dropped);
        } else if used_bytes < self.spool.most_bytes() / 100 * NOT_FULL_PCT {
            if let Some(lost) = self.full.end() {
                say!("the spool has room again; old batches that were lost: {lost}");
            }
        }
    }

    /// The last words of an agent that ends.
    pub fn end(self) {
        let lost = self.waiting.len() as u64 + self.disk.lost();
        if lost > 0 {
            say!("the spool cannot be written; lost: {}", format::count(lost, "result"));
        }
        if self.full.lost() > 0 {
            say!("the spool is full: old batches that were lost: {}", self.full.lost());
        }
    }
}
