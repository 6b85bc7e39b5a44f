// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Sending what the spool holds. A batch leaves the spool when the service has said that it
//! is on disk there; what was sent and not acknowledged is sent again under the same id.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use imtcp_client::answers::{Health, Receipt, WrongRecord};
use imtcp_client::http::{Client, Failure};
use imtcp_common::fault::Fault;
use imtcp_common::format::others_text;

use super::clock::ServiceClock;
use super::messages::say;
use super::spool::{unless_gone, Batch, Content, Spool};

/// Between looks whether the service may be asked again.
const LOOK: Duration = Duration::from_secs(1);
/// A batch is sent so often at once: whole, by the service's clock, without wrong records, and once
/// more for a service that is replaced meanwhile.
const MOST_ATTEMPTS: u32 = 4;
/// Different reasons that are said at most: some have a part of the record in them.
const MOST_REASONS: usize = 100;

/// What became of a round.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub batches: usize,
    pub records: u64,
    /// Records that the service refused; the others of their batches were sent.
    pub refused_records: usize,
    /// Batches that the service would never take; they are put aside as `.refused`.
    pub refused_batches: usize,
    /// Why the rest still waits.
    pub waits: Option<String>,
    /// Why some cannot be read here.
    pub unreadable: Option<String>,
}

pub struct Sender {
    spool: Spool,
    client: Client,
    clock: ServiceClock,
    /// The service is asked for its time first.
    clock_is_due: bool,
    /// A batch of which so many parts are stored, and the rest waits.
    begun: Option<(PathBuf, usize)>,
    /// Batches that are done with and that the disk does not let go.
    done: HashSet<PathBuf>,
    disk: Fault,
    refused: Refused,
}

/// The outcome of a batch, or of a part of it.
enum Outcome {
    Delivered,
    /// The service refuses all of its records.
    NothingLeft,
    Refused,
    /// It is in the spool no more.
    Gone,
    Unreadable(String),
    Waits(String),
}

impl Sender {
    pub fn new(spool: Spool, client: Client) -> Self {
        Sender {
            spool,
            client,
            clock: ServiceClock::default(),
            clock_is_due: true,
            begun: None,
            done: HashSet::new(),
            disk: Fault::default(),
            refused: Refused::default(),
        }
    }

    /// Sends all that waits, the oldest first, until the service stops taking.
    pub fn send_all(&mut self) -> Sent {
        let mut sent = Sent::default();
        let waiting = self.spool.waiting().unwrap_or_else(|e| {
            sent.unreadable = Some(format!("{e:#}"));
            Vec::new()
        });
        self.done.retain(|path| waiting.binary_search(path).is_ok());
        for path in waiting {
            if self.done.contains(&path) {
                self.let_go(&path, fs::remove_file(&path));
                continue;
            }
            match self.send(&path, &mut sent) {
                Outcome::Delivered => {
                    sent.batches += 1;
                    self.let_go(&path, fs::remove_file(&path));
                }
                Outcome::NothingLeft => self.let_go(&path, fs::remove_file(&path)),
                Outcome::Refused => {
                    sent.refused_batches += 1;
                    self.let_go(&path, self.spool.put_aside(&path));
                }
                Outcome::Gone => {}
                Outcome::Unreadable(why) => sent.unreadable = Some(why),
                Outcome::Waits(why) => {
                    sent.waits = Some(why);
                    break;
                }
            }
        }
        if self.done.is_empty() {
            self.disk.end();
        }
        sent
    }

    fn send(&mut self, path: &Path, sent: &mut Sent) -> Outcome {
        let batch = match self.spool.read(path) {
            Ok(Content::Gone) => return Outcome::Gone,
            Ok(Content::Batch(batch)) => batch,
            Ok(Content::NoBatch(why)) => {
                return self.refuse(format!("a batch in the spool is of another imtcp: {why}"));
            }
            Err(e) => return Outcome::Unreadable(format!("{e:#}")),
        };
        if self.clock_is_due {
            if let Err(why) = self.ask_for_time() {
                return Outcome::Waits(why);
            }
        }
        let begun = self.begun.take().filter(|(of, _)| of == path);
        let stored = begun.map_or(0, |(_, parts)| parts);
        let mut is_any_stored = stored > 0;
        for (place, part) in batch.parts().into_iter().enumerate().skip(stored) {
            match self.send_part(part, sent) {
                Outcome::Delivered => is_any_stored = true,
                Outcome::NothingLeft => {}
                ended => {
                    self.begun = Some((path.into(), place));
                    return ended;
                }
            }
        }
        if is_any_stored {
            Outcome::Delivered
        } else {
            Outcome::NothingLeft
        }
    }

    fn send_part(&mut self, mut batch: Batch, sent: &mut Sent) -> Outcome {
        for _ in 0..MOST_ATTEMPTS {
            let shift_us = match self.clock.shift_us(batch.clock.as_ref()) {
                Ok(shift_us) => shift_us,
                Err(why) => return self.wait(why),
            };
            let answer = self.client.report(&batch.report(shift_us));
            let is_of_service = match &answer {
                Ok(receipt) => receipt.batch == batch.id(),
                Err(failure) => failure.is_of_service(),
            };
            if is_of_service {
                self.learn_clock();
            }
            match answer {
                Ok(receipt) if is_of_service => {
                    sent.records = sent.records.saturating_add(receipt.stored);
                    let refused = self.refused_records(&receipt);
                    sent.refused_records = sent.refused_records.saturating_add(refused);
                    return Outcome::Delivered;
                }
                Ok(_) => {
                    let why =
                        "what it answers is no receipt of the batch: is this an advice service?";
                    return self.wait(why.into());
                }
                // The refusal told of another clock: these times may be right by it.
                Err(Failure::WrongRecords(_))
                    if self.clock.is_another(shift_us, batch.clock.as_ref()) => {}
                Err(Failure::WrongRecords(wrong)) => {
                    sent.refused_records += wrong.len();
                    self.say_wrong(&wrong);
                    batch = batch.without(&wrong.iter().map(|w| w.record).collect());
                    if batch.records.is_empty() {
                        return Outcome::NothingLeft;
                    }
                }
                // The batch itself is wrong: no use in sending it for ever.
                Err(Failure::Refused { status: 400 | 413, detail }) => {
                    return self
                        .refuse(format!("{}: it refuses a batch: {detail}", self.client.url()));
                }
                Err(failure) => return self.wait(failure.to_string()),
            }
        }
        let url = self.client.url();
        self.refuse(format!("{url}: it names wrong records of a batch again and again"))
    }

    fn say_wrong(&mut self, wrong: &[WrongRecord]) {
        for WrongRecord { why, .. } in wrong {
            let why = format!("{}: it refuses a record: {}", self.client.url(), others_text(why));
            if self.refused.is_new(&why) {
                say!("{why}; the others of its batch are sent");
            }
        }
    }

    /// How many records the service left out of a batch that it took, as it keeps so many paths at most.
    fn refused_records(&mut self, receipt: &Receipt) -> usize {
        let count = receipt.refused.unwrap_or(0);
        if count > 0 {
            let because = receipt.because.as_deref().unwrap_or("it does not say why");
            let because = others_text(because);
            let why = format!("{}: it leaves records out: {because}", self.client.url());
            if self.refused.is_new(&why) {
                say!("{why}; the others of their batch are stored");
            }
        }
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    fn refuse(&mut self, why: String) -> Outcome {
        if self.refused.is_new(&why) {
            say!("{why}; the batch is put aside in the spool");
        }
        Outcome::Refused
    }

    /// Meanwhile the service's clock may be set, or the service replaced.
    fn wait(&mut self, why: String) -> Outcome {
        self.clock_is_due = true;
        Outcome::Waits(why)
    }

    /// Asks the service itself: another program that answers at its address has a clock of its own.
    fn ask_for_time(&mut self) -> Result<(), String> {
        match self.client.get::<Health>("/healthz") {
            Ok(health) if health.status == "ok" => {}
            Ok(_) => return Err("what it answers at /healthz is of no advice service".into()),
            Err(failure) if failure.is_of_service() => {}
            Err(failure) => return Err(failure.to_string()),
        }
        self.learn_clock();
        Ok(())
    }

    fn learn_clock(&mut self) {
        self.clock_is_due = false;
        if let Some(dated) = self.client.take_date() {
            self.clock.learn(dated);
        }
        if let Some(news) = self.clock.news() {
            say!("{}: {news}", self.client.url());
        }
    }

    /// A batch that is done with and that the disk does not let go is not sent again.
    fn let_go(&mut self, path: &Path, removed: io::Result<()>) {
        match unless_gone(removed) {
            Ok(()) => drop(self.done.remove(path)),
            Err(e) => {
                if self.disk.is_new(&e.to_string()) {
                    say!("cannot remove {}: {e}; it is not sent again", path.display());
                }
                self.done.insert(path.into());
            }
        }
    }
}

/// How often which batches and records were refused.
#[derive(Default)]
struct Refused(BTreeMap<String, u64>);

impl Refused {
    /// Counts it. Is this reason to be said?
    fn is_new(&mut self, why: &str) -> bool {
        if let Some(count) = self.0.get_mut(why) {
            *count += 1;
            return false;
        }
        let few = self.0.len() < MOST_REASONS;
        if few {
            self.0.insert(why.into(), 1);
        }
        few
    }
}

impl Drop for Sender {
    /// The last words of an agent that ends.
    fn drop(&mut self) {
        for (why, count) in self.refused.0.iter().filter(|(_, count)| **count > 1) {
            say!("in all {count} times: {why}");
        }
    }
}

/// How long to leave the service alone after so many failures in a row.
fn pause(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.min(6))
}

/// A thread that sends whenever it is told that there is more, and by itself after failures.
pub fn start(mut sender: Sender) -> (mpsc::Sender<()>, thread::JoinHandle<()>) {
    let (more, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        let mut failures = 0;
        let mut not_before = Instant::now();
        let (mut service, mut spool) = (Fault::default(), Fault::default());
        loop {
            let over = told.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected);
            if !over && Instant::now() < not_before {
                continue;
            }
            let sent = sender.send_all();
            if sent.records > 0 {
                // It does take some, as a proxy with a rate does.
                failures = 0;
            }
            if sent.waits.is_some() || sent.unreadable.is_some() {
                not_before = Instant::now() + pause(failures);
                failures += 1;
            } else {
                failures = 0;
            }
            match sent.waits {
                Some(why) if service.is_new(&why) => {
                    say!("{}: {why}; batches wait", sender.client.url());
                }
                Some(_) => {}
                None => drop(service.end()),
            }
            match sent.unreadable {
                Some(why) if spool.is_new(&why) => say!("{why}; it is tried again"),
                Some(_) => {}
                None => drop(spool.end()),
            }
            if over {
                return;
            }
        }
    });
    (more, thread)
}
