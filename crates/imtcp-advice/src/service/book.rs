// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Advice from the store, with what past days hold kept in memory: past days do not change,
//! so a request every few milliseconds need not read them again.
//!
//! Kept per path: the samples around the request's time of day ([`Block`], good for ten
//! minutes; the next one takes over what both hold), the lines fitted through them in the
//! present second, each hop's newest record, and the answer of the present second. All of it is
//! dropped when something is written that it rests upon: a new newest record takes the answer
//! with it, one in a past day's window the block and its lines as well.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::tz::TimeZone;

use super::block::{self, Block, Span, BLOCK_US};
use super::ping::Pinger;
use crate::advice::answer::{Advice, Days};
use crate::advice::days::{windows, Window};
use crate::advice::decide::{advise, fit_days, Hop, Newest, Request};
use crate::error::Result;
use crate::record::Record;
use crate::settings::{Changes, Settings};
use crate::store::read::{PathInfo, SeriesInfo, ALL_PATHS};
use crate::store::Store;
use crate::time::{now_us, DAY_US, SECOND_US};

pub struct Book {
    store: Arc<Store>,
    paths: Mutex<HashMap<String, Arc<Entry>>>,
    held: Arc<AtomicUsize>,
    pinger: Pinger,
}

type Entry = tokio::sync::Mutex<Option<Known>>;

/// Paths kept in memory; with a year of minutes, one takes half a megabyte at most.
const MOST_PATHS: usize = 512;
/// Samples of one path kept in memory; with more, past days are read at each request.
const MOST_SAMPLES: usize = 200_000;
/// Samples of all paths; 16 bytes each, so 128 MB.
const MOST_SAMPLES_OF_ALL: usize = 8_000_000;

/// A capacity holds for records of this much later that tell none: not every source knows it.
const CAPACITY_HOLDS_US: i64 = DAY_US;

/// What is kept of a path.
struct Known {
    settings: Settings,
    zone: TimeZone,
    hops: Vec<KnownHop>,
    /// When an active test told the RTT of the path last, and the RTT.
    tested_rtt: Option<(i64, u64)>,
    has_tests: bool,
    block: Option<Block>,
    /// The answer of this second, and its JSON.
    answer: Option<(i64, Arc<Answered>)>,
}

struct KnownHop {
    name: String,
    series: Vec<SeriesInfo>,
    oldest_us: i64,
    newest: Option<Newest>,
    /// When a record told the capacity last, and the capacity.
    capacity: Option<(i64, f64)>,
}

pub struct Answered {
    pub advice: Advice,
    pub json: String,
}

impl Answered {
    fn new(advice: Advice) -> Result<Self> {
        let json = serde_json::to_string(&advice).map_err(std::io::Error::other)?;
        Ok(Answered { advice, json })
    }
}

impl Book {
    pub fn new(store: Arc<Store>, pinger: Pinger) -> Self {
        Book { store, paths: Mutex::default(), held: Arc::default(), pinger }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Settings of a path, over those of all paths.
    pub async fn settings(&self, path: Option<&PathInfo>) -> Result<Settings> {
        let all = self.store.path(ALL_PATHS).await?.map(|p| p.settings).unwrap_or_default();
        Settings::layered(&[&all, path.map_or(&Changes::new(), |p| &p.settings)])
    }

    /// Advice as of now, made once a second.
    pub async fn now(&self, dst: &str) -> Result<Arc<Answered>> {
        self.kept(dst, this_second(dst, now_us())).await
    }

    /// Advice for the second that begins then, from what is kept where that will do.
    async fn kept(&self, dst: &str, t0_us: i64) -> Result<Arc<Answered>> {
        let Some(entry) = self.entry(dst).await? else { return self.unknown(dst, t0_us).await };
        let mut known = entry.lock().await;
        if known.is_none() {
            let path = self.store.path(dst).await?.unwrap_or_default();
            *known = Some(self.learn(&path, t0_us, i64::MAX).await?);
        }
        let Some(known) = known.as_mut() else { return self.unknown(dst, t0_us).await };
        if let Some((at_us, answer)) = &known.answer {
            if *at_us == t0_us {
                return Ok(Arc::clone(answer));
            }
        }
        let lines = self.lines(known, t0_us).await?;
        let hops = known.with_lines(lines);
        let told = hops.iter().any(|h| h.newest.is_some_and(|n| n.rtt_us.is_some()));
        let ping_rtt_us = match known.fresh_tested_rtt_us(t0_us) {
            _ if told => None,
            None if !hops.is_empty() => self.pinger.rtt_us(dst).await,
            tested => tested,
        };
        let request = known.request(dst, t0_us, ping_rtt_us);
        let advice = advise(&request, &known.settings, &hops)?;
        let answer = Arc::new(Answered::new(advice)?);
        known.answer = Some((t0_us, Arc::clone(&answer)));
        Ok(answer)
    }

    /// Advice as of another time: nothing that came after it counts.
    pub async fn as_of(&self, dst: &str, t0_us: i64) -> Result<Arc<Answered>> {
        let Some(path) = self.store.path(dst).await? else {
            return self.unknown(dst, t0_us).await;
        };
        let mut known = self.learn(&path, t0_us, t0_us).await?;
        let min_validity = known.settings.min_validity_pct;
        known.hops.retain(|hop| hop.oldest_us <= t0_us);
        for hop in &mut known.hops {
            self.learn_newest(hop, t0_us, min_validity).await?;
        }
        let lines = self.read_lines(&known, t0_us).await?;
        let hops = known.with_lines(lines);
        let ping_rtt_us = known.fresh_tested_rtt_us(t0_us);
        let advice = advise(&known.request(dst, t0_us, ping_rtt_us), &known.settings, &hops)?;
        Ok(Arc::new(Answered::new(advice)?))
    }

    async fn unknown(&self, dst: &str, t0_us: i64) -> Result<Arc<Answered>> {
        let settings = self.settings(None).await?;
        let advice =
            advise(&Request { dst, t0_us, ping_rtt_us: None, has_tests: false }, &settings, &[])?;
        Ok(Arc::new(Answered::new(advice)?))
    }

    /// These records are in the store now.
    pub async fn wrote<'r>(&self, records: impl Iterator<Item = &'r Record>) {
        let mut by_path: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
        for record in records {
            by_path.entry(&record.dst).or_default().push(record);
        }
        for (dst, records) in by_path {
            let entry = self.paths.lock().unwrap_or_else(|e| e.into_inner()).get(dst).cloned();
            let Some(entry) = entry else { continue };
            let mut known = entry.lock().await;
            let fits = known.as_mut().is_some_and(|k| records.iter().all(|r| k.take_in(r)));
            if !fits {
                *known = None;
            }
        }
    }

    /// Somebody else wrote: nothing that is kept may be relied upon.
    pub fn forget_all(&self) {
        self.paths.lock().unwrap_or_else(|e| e.into_inner()).clear();
    }

    /// The place of a path that there is; strangers take none.
    async fn entry(&self, dst: &str) -> Result<Option<Arc<Entry>>> {
        let known = self.paths.lock().unwrap_or_else(|e| e.into_inner()).get(dst).cloned();
        if known.is_some() || self.store.path(dst).await?.is_none() {
            return Ok(known);
        }
        let mut paths = self.paths.lock().unwrap_or_else(|e| e.into_inner());
        if paths.len() >= MOST_PATHS && !paths.contains_key(dst) {
            // Any one will do: it is read again when it is asked for.
            if let Some(one) = paths.keys().next().cloned() {
                paths.remove(&one);
            }
        }
        Ok(Some(Arc::clone(paths.entry(dst.into()).or_default())))
    }

    /// What the store has of a path for a request; of active tests, what came until a time.
    async fn learn(&self, path: &PathInfo, t0_us: i64, until_us: i64) -> Result<Known> {
        let settings = self.settings(Some(path)).await?;
        let mut hops: Vec<KnownHop> = Vec::new();
        for series in &path.series {
            let Some(oldest_us) = series.oldest_us else { continue };
            if hops.last().is_none_or(|h| h.name != series.hop) {
                hops.push(KnownHop {
                    name: series.hop.clone(),
                    series: Vec::new(),
                    oldest_us,
                    newest: None,
                    capacity: None,
                });
            }
            if let Some(hop) = hops.last_mut() {
                hop.series.push(series.clone());
                hop.oldest_us = hop.oldest_us.min(oldest_us);
            }
        }
        for hop in &mut hops {
            // The newest first: the others need not be asked as a rule.
            hop.series.sort_by_key(|s| std::cmp::Reverse(s.newest_us));
            self.learn_newest(hop, i64::MAX, settings.min_validity_pct).await?;
        }
        // Those of the path as a whole, and none that would not be fresh.
        let tests: Vec<_> = path.series.iter().filter(|s| s.hop.is_empty()).cloned().collect();
        let since_us = t0_us - i64::from(settings.freshness_s) * SECOND_US;
        let least = settings.min_validity_pct;
        let tested_rtt = self.store.newest_tested_rtt(&tests, (since_us, until_us), least).await?;
        let zone = settings.time_zone()?;
        let has_tests = path.series.iter().any(|s| s.newest_test_us.is_some());
        Ok(Known { zone, settings, hops, tested_rtt, has_tests, block: None, answer: None })
    }

    /// A hop's newest record up to a time, and the capacity that was told last.
    async fn learn_newest(&self, hop: &mut KnownHop, until_us: i64, least: u8) -> Result<()> {
        (hop.newest, hop.capacity) = (None, None);
        for one in &hop.series {
            let at_best = one.newest_us.map(|t_us| t_us.min(until_us));
            if hop.newest.is_some_and(|n| at_best.is_none_or(|t_us| n.t_us >= t_us)) {
                continue;
            }
            let found = self.store.newest(one.id, until_us, least).await?;
            if let Some(found) = found.filter(|f| hop.newest.is_none_or(|n| f.t_us > n.t_us)) {
                hop.newest = Some(found);
            }
        }
        let Some(newest) = hop.newest else { return Ok(()) };
        let between = (newest.t_us - CAPACITY_HOLDS_US, newest.t_us);
        for one in hop.series.iter().filter(|s| s.newest_us.is_some_and(|t| t >= between.0)) {
            let found = self.store.newest_capacity(one.id, between, least).await?;
            if let Some(found) = found.filter(|f| hop.capacity.is_none_or(|c| f.0 > c.0)) {
                hop.capacity = Some(found);
            }
        }
        Ok(())
    }

    /// Each hop's lines for a request now, from the block; from a new one where that is over, or where a
    /// day has begun since, in the path's time zone: other days count from then on.
    async fn lines(&self, known: &mut Known, t0_us: i64) -> Result<Vec<Days>> {
        if let Some(lines) = known.lines_from_block(t0_us) {
            return Ok(lines);
        }
        let before = known.block.take();
        known.block = self.read_block(known, t0_us, before).await?;
        match known.lines_from_block(t0_us) {
            Some(lines) => Ok(lines),
            None => self.read_lines(known, t0_us).await,
        }
    }

    async fn read_lines(&self, known: &Known, t0_us: i64) -> Result<Vec<Days>> {
        let mut lines = Vec::new();
        for hop in &known.hops {
            let windows = known.windows(hop, t0_us, 0);
            let least = known.settings.min_validity_pct;
            let samples = self.store.samples(&hop.ids(), &windows, least).await?;
            let days = windows.into_iter().zip(samples.iter().map(Vec::as_slice));
            lines.push(fit_days(days, &known.settings));
        }
        Ok(lines)
    }

    /// `None` when there is too much to keep. Only what the block before it does not hold is read:
    /// of an hour and ten minutes as a rule the ten minutes.
    async fn read_block(
        &self,
        known: &Known,
        t0_us: i64,
        before: Option<Block>,
    ) -> Result<Option<Block>> {
        let mut before = before.map(Block::into_spans).unwrap_or_default().into_iter();
        let mut hops = Vec::new();
        for hop in &known.hops {
            let windows = known.windows(hop, t0_us, BLOCK_US);
            let mut spans = block::take_over(before.next().unwrap_or_default(), windows);
            let missing: Vec<_> = spans.iter().map(Span::missing).collect();
            let least = known.settings.min_validity_pct;
            let found = self.store.samples(&hop.ids(), &missing, least).await?;
            for (span, found) in spans.iter_mut().zip(found) {
                span.append(&found);
            }
            hops.push(spans);
        }
        let count = block::count(&hops);
        if count > MOST_SAMPLES {
            return Ok(None);
        }
        if self.held.load(Ordering::Relaxed) + count > MOST_SAMPLES_OF_ALL {
            self.forget_all();
        }
        Ok(Some(Block::new(t0_us, hops, &self.held)))
    }
}

/// When the present second of a path began. Each path has its own beat: if all were due at
/// once, requests would wait for the others' at the turn of each second.
fn this_second(dst: &str, now_us: i64) -> i64 {
    let mut hasher = std::hash::DefaultHasher::new();
    dst.hash(&mut hasher);
    let beat_us = (hasher.finish() % SECOND_US as u64) as i64;
    now_us - (now_us - beat_us).rem_euclid(SECOND_US)
}

impl KnownHop {
    fn ids(&self) -> Vec<i64> {
        self.series.iter().map(|s| s.id).collect()
    }

    /// The capacity, where it still holds for the newest record.
    fn capacity_bps(&self) -> Option<f64> {
        let since_us = self.newest?.t_us - CAPACITY_HOLDS_US;
        self.capacity.filter(|(t_us, _)| *t_us >= since_us).map(|(_, bps)| bps)
    }
}

impl Known {
    /// `None` where the block is not for then, or does not hold the windows.
    fn lines_from_block(&mut self, t0_us: i64) -> Option<Vec<Days>> {
        let mut block = self.block.take_if(|b| b.is_for(t0_us))?;
        let windows = || self.hops.iter().map(|hop| self.windows(hop, t0_us, 0)).collect();
        let lines = block.lines(t0_us, windows, &self.settings);
        self.block = Some(block);
        lines
    }

    fn windows(&self, hop: &KnownHop, t0_us: i64, longer_us: i64) -> Vec<Window> {
        windows(
            self.settings.history,
            &self.zone,
            t0_us,
            i64::from(self.settings.horizon_s) * SECOND_US + longer_us,
            hop.oldest_us,
            self.settings.max_days as usize,
        )
    }

    fn with_lines(&self, lines: Vec<Days>) -> Vec<Hop> {
        let hop = |(hop, days): (&KnownHop, Days)| {
            let name = hop.name.clone();
            Hop { name, newest: hop.newest, capacity_bps: hop.capacity_bps(), days }
        };
        self.hops.iter().zip(lines).map(hop).collect()
    }

    fn fresh_tested_rtt_us(&self, t0_us: i64) -> Option<u64> {
        let freshness_us = i64::from(self.settings.freshness_s) * SECOND_US;
        let fresh = self.tested_rtt.filter(|(t_us, _)| t0_us - t_us <= freshness_us);
        fresh.map(|(_, rtt_us)| rtt_us)
    }

    /// Brings a new record in; false when what is kept has to be read again.
    fn take_in(&mut self, record: &Record) -> bool {
        let Some(available_bps) = record.available_bps else {
            self.take_in_test(record);
            return true;
        };
        let Some(hop) = self.hops.iter_mut().find(|h| h.name == record.hop) else { return false };
        if !hop.series.iter().any(|s| s.source == record.source) || record.time < hop.oldest_us {
            return false;
        }
        if record.validity_pct.is_some_and(|v| v < self.settings.min_validity_pct) {
            return true;
        }
        if let Some(bps) = record.capacity_bps {
            if hop.capacity.is_none_or(|(t_us, _)| record.time > t_us) {
                hop.capacity = Some((record.time, bps as f64));
            }
        }
        if hop.newest.is_none_or(|n| record.time > n.t_us) {
            hop.newest = Some(Newest {
                t_us: record.time,
                available_bps: available_bps as f64,
                rtt_us: record.rtt_us,
                congested: record.congested,
            });
        }
        if self.block.as_ref().is_some_and(|b| b.spans_over(record.time)) {
            self.block = None;
        }
        self.answer = None;
        true
    }

    fn request<'a>(&self, dst: &'a str, t0_us: i64, ping_rtt_us: Option<u64>) -> Request<'a> {
        Request { dst, t0_us, ping_rtt_us, has_tests: self.has_tests }
    }

    fn take_in_test(&mut self, record: &Record) {
        if !std::mem::replace(&mut self.has_tests, true) {
            self.answer = None;
        }
        let trusted = record.validity_pct.is_none_or(|v| v >= self.settings.min_validity_pct);
        let rtt_us = record.rtt_us.filter(|_| trusted && record.hop.is_empty());
        if let Some(rtt_us) = rtt_us {
            self.tested_rtt = self.tested_rtt.max(Some((record.time, rtt_us)));
            self.answer = None;
        }
    }
}

#[cfg(test)]
mod tests;
