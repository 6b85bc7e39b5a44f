// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Advice from the store, with what past days hold kept in memory: past days do not change,
//! so a request every few milliseconds need not read them again.
//!
//! Kept per path: the samples around the request's time of day ([`Block`], good for ten
//! minutes; the next one takes over what both hold), the lines fitted through them, each hop's newest
//! record and capacities, and the last answer, for a second ([`CachedPath`]). All of it is dropped when something is written that it rests upon: a new newest
//! record takes the answer with it, one in a past day's window the block and its lines as well.
//!
//! An answer is of the moment that it tells as `at`: its lines are of then, and records until then count. Asked for
//! again as of that moment, it is the same. A record that lies ahead is upcoming until its time has come.
//!
//! What is kept answers most requests. The others read the store, and wait for a turn first ([`Turns`]):
//! who asks for one path after another keeps neither other clients waiting nor reports.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use imtcp_client::time::{now_us, SECOND_US};

use super::block::{self, Block, Span, BLOCK_US};
use super::cached_path::{self, Answered, CachedHop, CachedPath};
use super::entry::{Entry, WrittenOfPath};
use super::ping::{Pinger, Rtt};
use super::problem::Problem;
use super::turns::Turns;
use super::upcoming::{self, Upcoming};
use crate::advice::answer::Days;
use crate::advice::capacity::HOLDS_US;
use crate::advice::days::Window;
use crate::advice::decide::{advise, day_line, days_of, fit_days, Request};
use crate::error::{Error, Result};
use crate::settings::{Changes, Settings};
use crate::store::read::{PathInfo, ALL_PATHS};
use crate::store::write::{Batch, Written};
use crate::store::Store;

pub struct AdviceCache {
    store: Arc<Store>,
    paths: Mutex<HashMap<String, Arc<Entry>>>,
    held: Arc<AtomicUsize>,
    pinger: Pinger,
    turns: Turns,
}

/// An advice, or what the client is told in its place.
pub type Advised = std::result::Result<Arc<Answered>, Problem>;

/// The next step on the way to advice.
enum Step {
    Answer(Arc<Answered>),
    /// The store has to be read.
    Read,
    /// No record tells the RTT.
    Ping,
}

/// Paths kept in memory; with a year of minutes, one takes half a megabyte at most.
const MOST_PATHS: usize = 512;
/// Samples of one path kept in memory. An answer from more counts as one that took five seconds to make: it holds for
/// ten, also beside new records.
const MOST_SAMPLES: usize = 200_000;
const UNKEPT_US: i64 = 5 * SECOND_US;
/// Samples in one window of a path with more: each takes some 140 bytes while it is read.
const MOST_SAMPLES_OF_DAY: usize = 500_000;
/// Samples of all paths; 16 bytes each, so 128 MB.
const MOST_SAMPLES_OF_ALL: usize = 8_000_000;
/// Requests of one client that wait for its turn to read: each is done in some ten milliseconds as a rule.
const MOST_WAITING: usize = 128;

impl AdviceCache {
    pub fn new(store: Arc<Store>, pinger: Pinger) -> Arc<Self> {
        Arc::new(AdviceCache {
            store,
            paths: Mutex::default(),
            held: Arc::default(),
            pinger,
            turns: Turns::new(MOST_WAITING),
        })
    }

    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Settings of a path, over those of all paths.
    pub async fn settings(&self, path: Option<&PathInfo>) -> Result<Settings> {
        let all = self.store.path(ALL_PATHS).await?.map(|p| p.settings).unwrap_or_default();
        let own = path.map_or_else(Changes::new, |p| p.settings.clone());
        let name = path.filter(|_| !own.is_empty()).map_or(ALL_PATHS, |p| &p.dst);
        Settings::layered(&[&all, &own]).map_err(|e| {
            Error::Input(format!("the settings of {name} are wrong and have to be changed: {e}"))
        })
    }

    /// Advice as of now, or of less than a second ago where no record has come since.
    pub async fn now(self: &Arc<Self>, client: IpAddr, dst: &str) -> Advised {
        match self.answered(dst) {
            Some(answer) => Ok(answer),
            // On the heap: each layer around a request would move what this needs.
            None => Box::pin(self.at(client, dst, now_us)).await,
        }
    }

    /// The answer, if it is made already and nobody is at the path: most requests end here.
    fn answered(&self, dst: &str) -> Option<Arc<Answered>> {
        let entry = self.kept(dst)?;
        let mut place = entry.try_lock()?;
        answer_in(&mut place, now_us())
    }

    /// Advice as of the clock's time, from what is kept where that will do. Nothing is held during a ping, nor a turn while another reads the path,
    /// nor a path's lock while a turn is waited for.
    async fn at(
        self: &Arc<Self>,
        client: IpAddr,
        dst: &str,
        clock: impl Fn() -> i64 + Clone + Send + 'static,
    ) -> Advised {
        let mut pinged = self.pinger.recent(dst);
        loop {
            // Anew each time: all may have been forgotten meanwhile.
            let Some(entry) = self.entry(dst).await? else {
                return Ok(self.unknown(dst, clock()).await?);
            };
            let mut step = step_in_memory(&entry, dst, &clock, pinged).await?;
            if let Step::Read = step {
                let (cache, entry, clock) = (Arc::clone(self), Arc::clone(&entry), clock.clone());
                let dst = dst.to_string();
                let read =
                    async move { Ok(cache.step_in_store(&entry, &dst, clock, pinged).await?) };
                step = self.turns.run(client, read).await?;
            }
            match step {
                Step::Answer(answer) => return Ok(answer),
                Step::Ping => pinged = Some(self.pinger.rtt_us(client, dst).await),
                // Another reads it. This one waits without a turn; then the memory has it.
                Step::Read => entry.until_read().await,
            }
        }
    }

    /// The next step to advice, with the store. [`Step::Read`] where another reads the path.
    async fn step_in_store(
        &self,
        entry: &Entry,
        dst: &str,
        clock: impl Fn() -> i64,
        pinged: Option<Rtt>,
    ) -> Result<Step> {
        let Some(_reading) = entry.begin_reading() else { return Ok(Step::Read) };
        let mut place = entry.lock().await;
        let t0_us = clock();
        if let Some(answer) = answer_in(&mut place, t0_us) {
            return Ok(Step::Answer(answer));
        }
        let known = match place.as_mut() {
            Some(known) => known,
            None => {
                let path = self.store.path(dst).await?.unwrap_or_default();
                place.insert(self.learn_for_long(&path, t0_us).await?)
            }
        };
        let begun = Instant::now();
        let lines = self.lines(dst, known, t0_us).await?;
        make(known, dst, t0_us, lines, pinged, begun)
    }

    /// Advice as of another time, from the store alone and without a ping: nothing that came after it counts.
    pub async fn as_of(&self, dst: &str, t0_us: i64) -> Result<Arc<Answered>> {
        let Some(path) = self.store.path(dst).await? else {
            return self.unknown(dst, t0_us).await;
        };
        let mut known = self.learn(&path, t0_us).await?;
        known.hops.retain(|hop| hop.oldest_us <= t0_us);
        let lines = self.read_lines(&known, t0_us).await?;
        let hops = known.with_lines(lines, t0_us);
        let request = known.request(dst, t0_us, known.fresh_tested_rtt_us(t0_us));
        Ok(Arc::new(Answered::new(advise(&request, &known.settings, &hops)?)?))
    }

    async fn unknown(&self, dst: &str, t0_us: i64) -> Result<Arc<Answered>> {
        let settings = self.settings(None).await?;
        let advice =
            advise(&Request { dst, t0_us, ping_rtt_us: None, has_tests: false }, &settings, &[])?;
        Ok(Arc::new(Answered::new(advice)?))
    }

    /// These batches are in the store now; of each, so much was new.
    pub fn wrote(&self, batches: &[Batch], written: &[Written], now_us: i64) {
        let mut by_path: BTreeMap<&str, WrittenOfPath> = BTreeMap::new();
        for (batch, written) in batches.iter().zip(written).filter(|(_, w)| w.stored > 0) {
            // The store does not say which of them it had.
            let all_new = written.stored == batch.records.len() as u64;
            for stored in &batch.records {
                let of_path = by_path.entry(&stored.record.dst).or_default();
                of_path.records.push((&stored.record, stored.span_s));
                of_path.some_known |= !all_new;
            }
        }
        for (dst, written) in by_path {
            if let Some(entry) = self.kept(dst) {
                entry.wrote(&written, now_us);
            }
        }
    }

    /// Records of a path have become means in the store.
    pub fn rolled_up(&self, dst: &str, from_us: i64, until_us: i64) {
        if let Some(entry) = self.kept(dst) {
            entry.rolled_up(from_us, until_us);
        }
    }

    /// Somebody else wrote: nothing that is kept may be relied upon.
    pub fn forget_all(&self) {
        self.paths().clear();
    }

    fn paths(&self) -> MutexGuard<'_, HashMap<String, Arc<Entry>>> {
        self.paths.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn kept(&self, dst: &str) -> Option<Arc<Entry>> {
        self.paths().get(dst).cloned()
    }

    /// The place of a path that there is; strangers take none.
    async fn entry(&self, dst: &str) -> Result<Option<Arc<Entry>>> {
        let known = self.kept(dst);
        if known.is_some() || !self.store.has_path(dst).await? {
            return Ok(known);
        }
        let mut paths = self.paths();
        if paths.len() >= MOST_PATHS {
            forget_another(&mut paths, dst);
        }
        Ok(Some(Arc::clone(paths.entry(dst.into()).or_default())))
    }

    /// Makes room for the samples of a path.
    fn make_room(&self, dst: &str, count: usize) {
        let mut paths = self.paths();
        while self.held.load(Ordering::Relaxed) + count > MOST_SAMPLES_OF_ALL {
            if !forget_another(&mut paths, dst) {
                return;
            }
        }
    }

    /// Reads from the store all that a request about a path needs, of records until a time.
    async fn learn(&self, path: &PathInfo, t0_us: i64) -> Result<CachedPath> {
        let settings = self.settings(Some(path)).await?;
        let least = settings.min_validity_pct;
        let mut hops = cached_path::hops(&path.series);
        for hop in &mut hops {
            self.learn_records(hop, t0_us, least).await?;
        }
        // Those of the path as a whole, and none that would not be fresh.
        let tests: Vec<_> = path.series.iter().filter(|s| s.hop.is_empty()).cloned().collect();
        let since_us = t0_us - i64::from(settings.freshness_s) * SECOND_US;
        let tested_rtt = self.store.newest_tested_rtt(&tests, (since_us, t0_us), least).await?;
        Ok(CachedPath {
            zone: settings.time_zone()?,
            settings,
            hops,
            tested_rtt,
            upcoming_rtts: Upcoming::new([]),
            oldest_test_us: path.series.iter().filter_map(|s| s.oldest_test_us).min(),
            series: path.series.clone(),
            block: None,
            answer: None,
            asked_us: t0_us,
        })
    }

    /// The same with the records that come later.
    async fn learn_for_long(&self, path: &PathInfo, t0_us: i64) -> Result<CachedPath> {
        let mut known = self.learn(path, t0_us).await?;
        let least = known.settings.min_validity_pct;
        let most = upcoming::MOST as u32;
        for hop in &mut known.hops {
            let mut later = Vec::new();
            for one in hop.series.iter().filter(|s| s.newest_us.is_some_and(|t| t > t0_us)) {
                later.extend(self.store.upcoming(one.id, t0_us, least, most).await?);
            }
            hop.upcoming = Upcoming::new(later);
        }
        let mut rtts = Vec::new();
        let of_path = path.series.iter().filter(|s| s.hop.is_empty());
        for one in of_path.filter(|s| s.newest_test_us.is_some_and(|t| t > t0_us)) {
            rtts.extend(self.store.upcoming_rtts(one.id, t0_us, least, most).await?);
        }
        known.upcoming_rtts = Upcoming::new(rtts);
        Ok(known)
    }

    /// A hop's newest record up to a time, and the capacities that were told before it.
    async fn learn_records(&self, hop: &mut CachedHop, until_us: i64, least: u8) -> Result<()> {
        for one in &hop.series {
            let at_best = one.newest_us.map(|t_us| t_us.min(until_us));
            if hop.newest.is_some_and(|(key, _)| at_best.is_none_or(|t_us| key.t_us > t_us)) {
                continue;
            }
            let found = self.store.newest(one.id, until_us, least).await?;
            hop.newest = hop.newest.into_iter().chain(found).max_by_key(|(key, _)| *key);
        }
        let Some((newest, _)) = hop.newest else { return Ok(()) };
        let between = (newest.t_us - HOLDS_US, newest.t_us);
        for one in hop.series.iter().filter(|s| s.newest_us.is_some_and(|t| t >= between.0)) {
            for (key, bps) in self.store.newest_capacities(one.id, between, least).await? {
                hop.told.add(key, bps);
            }
        }
        Ok(())
    }

    /// Each hop's lines for a request now, from the block. A new block is read when the old one is over, or when
    /// a day has begun in the path's time zone: other days count from then on.
    async fn lines(&self, dst: &str, known: &mut CachedPath, t0_us: i64) -> Result<Vec<Days>> {
        if let Some(lines) = known.lines_from_block(t0_us) {
            return Ok(lines);
        }
        let before = known.block.take();
        known.block = self.read_block(dst, known, t0_us, before).await?;
        match known.lines_from_block(t0_us) {
            Some(lines) => Ok(lines),
            None => self.read_lines(known, t0_us).await,
        }
    }

    async fn read_lines(&self, known: &CachedPath, t0_us: i64) -> Result<Vec<Days>> {
        let mut lines = Vec::new();
        for hop in &known.hops {
            let windows = known.windows(hop, t0_us, 0);
            lines.push(match self.samples(known, hop, &windows, MOST_SAMPLES).await? {
                Some(samples) => {
                    let days = windows.into_iter().zip(samples.iter().map(Vec::as_slice));
                    fit_days(days, &known.settings)
                }
                None => self.lines_day_by_day(known, hop, windows).await?,
            });
        }
        Ok(lines)
    }

    /// The lines of a path that is too large for memory.
    async fn lines_day_by_day(
        &self,
        known: &CachedPath,
        hop: &CachedHop,
        windows: Vec<Window>,
    ) -> Result<Days> {
        let mut lines = Vec::new();
        for window in windows {
            let samples = self.samples(known, hop, &[window], MOST_SAMPLES_OF_DAY).await?;
            let samples = samples.ok_or_else(|| {
                Error::Input(format!(
                    "{} has more than {MOST_SAMPLES_OF_DAY} records in the horizon of one day: set a shorter horizon_s, \
                     or roll up sooner (imtcp-advice serve --keep-raw)",
                    window.day
                ))
            })?;
            let line = day_line(&window, &samples[0], &known.settings);
            lines.extend(line.map(|line| (window, line)));
        }
        Ok(days_of(lines))
    }

    /// `None` where there are more.
    async fn samples(
        &self,
        known: &CachedPath,
        hop: &CachedHop,
        windows: &[Window],
        most: usize,
    ) -> Result<Option<Vec<Vec<(i64, f64)>>>> {
        let least = known.settings.min_validity_pct;
        self.store.samples(&hop.ids(), windows, least, most).await
    }

    /// `None` when there is too much to keep. Only what the block before it does not hold is read:
    /// of an hour and ten minutes as a rule the ten minutes.
    async fn read_block(
        &self,
        dst: &str,
        known: &CachedPath,
        t0_us: i64,
        before: Option<Block>,
    ) -> Result<Option<Block>> {
        let mut before = before.map(Block::into_spans).unwrap_or_default().into_iter();
        let mut hops = Vec::new();
        for hop in &known.hops {
            let windows = known.windows(hop, t0_us, BLOCK_US);
            let mut spans = block::take_over(before.next().unwrap_or_default(), windows);
            let missing: Vec<_> = spans.iter().map(Span::missing).collect();
            let room = MOST_SAMPLES.saturating_sub(block::count(&hops));
            let Some(found) = self.samples(known, hop, &missing, room).await? else {
                return Ok(None);
            };
            for (span, found) in spans.iter_mut().zip(found) {
                span.append(&found);
            }
            hops.push(spans);
        }
        let count = block::count(&hops);
        if count > MOST_SAMPLES {
            return Ok(None);
        }
        self.make_room(dst, count);
        Ok(Some(Block::new(t0_us, hops, &self.held)))
    }
}

/// The next step to advice, without the store.
async fn step_in_memory(
    entry: &Entry,
    dst: &str,
    clock: impl Fn() -> i64,
    pinged: Option<Rtt>,
) -> Result<Step> {
    let mut place = entry.lock().await;
    // Under the lock: what others count meanwhile has come by then.
    let t0_us = clock();
    if let Some(answer) = answer_in(&mut place, t0_us) {
        return Ok(Step::Answer(answer));
    }
    let Some(known) = place.as_mut() else { return Ok(Step::Read) };
    let begun = Instant::now();
    match known.lines_from_block(t0_us) {
        Some(lines) => make(known, dst, t0_us, lines, pinged, begun),
        None => Ok(Step::Read),
    }
}

/// The answer, if it is made already. A path that cannot be kept up to date is forgotten.
fn answer_in(place: &mut Option<CachedPath>, now_us: i64) -> Option<Arc<Answered>> {
    if !place.as_mut()?.count_until(now_us) {
        *place = None;
    }
    place.as_ref()?.answer(now_us)
}

/// Forgets a path: any but this one will do, it is read again when it is asked for. False when there is none.
fn forget_another(paths: &mut HashMap<String, Arc<Entry>>, dst: &str) -> bool {
    let one = paths.keys().find(|name| *name != dst).cloned();
    one.is_some_and(|name| paths.remove(&name).is_some())
}

/// The answer from a path's lines, kept for a second, or a ping first. `begun`: when its making did.
fn make(
    known: &mut CachedPath,
    dst: &str,
    t0_us: i64,
    lines: Vec<Days>,
    pinged: Option<Rtt>,
    begun: Instant,
) -> Result<Step> {
    let hops = known.with_lines(lines, t0_us);
    let told = hops.iter().any(|h| h.newest.is_some_and(|n| n.rtt_us.is_some()));
    let tested = known.fresh_tested_rtt_us(t0_us);
    let rtt_us = match pinged {
        _ if told => None,
        _ if hops.is_empty() || tested.is_some() => tested,
        Some(rtt_us) => rtt_us,
        None => return Ok(Step::Ping),
    };
    let request = known.request(dst, t0_us, rtt_us);
    let answer = Arc::new(Answered::new(advise(&request, &known.settings, &hops)?)?);
    let took_us = begun.elapsed().as_micros() as i64;
    // A path that is too large to keep would be read again for each record.
    let took_us = if known.block.is_none() { took_us.max(UNKEPT_US) } else { took_us };
    known.keep(t0_us, took_us, &answer);
    Ok(Step::Answer(answer))
}

#[cfg(test)]
mod tests;
