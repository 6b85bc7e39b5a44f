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

use super::ping::Pinger;
use crate::advice::answer::{Advice, Days};
use crate::advice::days::{windows, Window};
use crate::advice::decide::{advise, fit_days, Hop, Newest, Request};
use crate::error::Result;
use crate::record::Record;
use crate::settings::{Changes, Settings};
use crate::store::read::{PathInfo, SeriesInfo, ALL_PATHS};
use crate::store::Store;
use crate::time::{now_us, MINUTE_US, SECOND_US};

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
/// Requests up to this much later find their samples in the block.
const BLOCK_US: i64 = 10 * MINUTE_US;

/// What is kept of a path.
struct Known {
    settings: Settings,
    zone: TimeZone,
    hops: Vec<KnownHop>,
    /// When an active test told the RTT of the path last, and the RTT.
    tested_rtt: Option<(i64, u64)>,
    block: Option<Block>,
    /// The answer of this second, and its JSON.
    answer: Option<(i64, Arc<Answered>)>,
}

struct KnownHop {
    name: String,
    series: Vec<SeriesInfo>,
    oldest_us: i64,
    newest: Option<Newest>,
}

/// The samples of all windows of requests between two times.
struct Block {
    from_us: i64,
    /// By hop; the newest day first.
    hops: Vec<Vec<Span>>,
    /// Each hop's lines at a time: those of this second.
    lines: Option<(i64, Vec<Days>)>,
    _held: Held,
}

/// The samples of one day's windows.
struct Span {
    /// From the first one's beginning to the last one's end.
    window: Window,
    /// (time, available bandwidth), in the order of time.
    samples: Vec<(i64, f64)>,
    read_until_us: i64,
}

/// Counts samples for as long as they are kept.
struct Held(Arc<AtomicUsize>, usize);

impl Held {
    fn new(all: &Arc<AtomicUsize>, count: usize) -> Self {
        all.fetch_add(count, Ordering::Relaxed);
        Held(Arc::clone(all), count)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
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
        let request = Request { dst, t0_us, ping_rtt_us };
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
            hop.newest = self.newest(&hop.series, t0_us, min_validity).await?;
        }
        let lines = self.read_lines(&known, t0_us).await?;
        let hops = known.with_lines(lines);
        let ping_rtt_us = known.fresh_tested_rtt_us(t0_us);
        let advice = advise(&Request { dst, t0_us, ping_rtt_us }, &known.settings, &hops)?;
        Ok(Arc::new(Answered::new(advice)?))
    }

    async fn unknown(&self, dst: &str, t0_us: i64) -> Result<Arc<Answered>> {
        let settings = self.settings(None).await?;
        let advice = advise(&Request { dst, t0_us, ping_rtt_us: None }, &settings, &[])?;
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
            hop.newest = self.newest(&hop.series, i64::MAX, settings.min_validity_pct).await?;
        }
        // Those of the path as a whole, and none that would not be fresh.
        let tests: Vec<_> = path.series.iter().filter(|s| s.hop.is_empty()).cloned().collect();
        let since_us = t0_us - i64::from(settings.freshness_s) * SECOND_US;
        let least = settings.min_validity_pct;
        let tested_rtt = self.store.newest_tested_rtt(&tests, (since_us, until_us), least).await?;
        let zone = settings.time_zone()?;
        Ok(Known { zone, settings, hops, tested_rtt, block: None, answer: None })
    }

    async fn newest(
        &self,
        series: &[SeriesInfo],
        until_us: i64,
        least: u8,
    ) -> Result<Option<Newest>> {
        let mut newest: Option<Newest> = None;
        for one in series {
            let at_best = one.newest_us.map(|t_us| t_us.min(until_us));
            if newest.is_some_and(|n| at_best.is_none_or(|t_us| n.t_us >= t_us)) {
                continue;
            }
            let found = self.store.newest(one.id, until_us, least).await?;
            if let Some(found) = found.filter(|f| newest.is_none_or(|n| f.t_us > n.t_us)) {
                newest = Some(found);
            }
        }
        Ok(newest)
    }

    /// Each hop's lines for a request now, from the block where it holds their samples.
    async fn lines(&self, known: &mut Known, t0_us: i64) -> Result<Vec<Days>> {
        if !known.block.as_ref().is_some_and(|b| b.is_for(t0_us)) {
            let before = known.block.take();
            known.block = self.read_block(known, t0_us, before).await?;
        }
        if let Some(mut block) = known.block.take() {
            let lines = block.lines(known, t0_us);
            known.block = Some(block);
            if let Some(lines) = lines {
                return Ok(lines);
            }
        }
        self.read_lines(known, t0_us).await
    }

    async fn read_lines(&self, known: &Known, t0_us: i64) -> Result<Vec<Days>> {
        let mut lines = Vec::new();
        for hop in &known.hops {
            let windows = known.windows(hop, t0_us, 0);
            let least = known.settings.min_validity_pct;
            let samples = self.store.samples(&hop.ids(), &windows, least).await?;
            let days = windows.into_iter().zip(samples.iter().map(Vec::as_slice));
            lines.push(fit_days(days, known.settings.min_samples));
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
        let mut before = before.map(|b| b.hops).unwrap_or_default().into_iter();
        let (mut hops, mut count) = (Vec::new(), 0);
        for hop in &known.hops {
            let windows = known.windows(hop, t0_us, BLOCK_US);
            let mut held = before.next().unwrap_or_default().into_iter().peekable();
            let mut spans: Vec<Span> = windows
                .into_iter()
                .map(|window| {
                    // Both have the newest day first.
                    while held.next_if(|h| h.window.day > window.day).is_some() {}
                    let span = held.next_if(|h| h.window.day == window.day);
                    span.and_then(|s| s.moved_to(window)).unwrap_or(Span::empty(window))
                })
                .collect();
            let missing: Vec<_> = spans.iter().map(Span::missing).collect();
            let least = known.settings.min_validity_pct;
            let found = self.store.samples(&hop.ids(), &missing, least).await?;
            for (span, found) in spans.iter_mut().zip(found) {
                span.append(&found);
                count += span.samples.len();
            }
            hops.push(spans);
        }
        if count > MOST_SAMPLES {
            return Ok(None);
        }
        if self.held.load(Ordering::Relaxed) + count > MOST_SAMPLES_OF_ALL {
            self.forget_all();
        }
        let _held = Held::new(&self.held, count);
        Ok(Some(Block { from_us: t0_us, hops, lines: None, _held }))
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
}

impl Known {
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
            Hop { name, newest: hop.newest, days }
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
        if hop.newest.is_none_or(|n| record.time > n.t_us) {
            hop.newest = Some(Newest {
                t_us: record.time,
                available_bps: available_bps as f64,
                capacity_bps: record.capacity_bps.map(|c| c as f64),
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

    fn take_in_test(&mut self, record: &Record) {
        let trusted = record.validity_pct.is_none_or(|v| v >= self.settings.min_validity_pct);
        let rtt_us = record.rtt_us.filter(|_| trusted && record.hop.is_empty());
        if let Some(rtt_us) = rtt_us {
            self.tested_rtt = self.tested_rtt.max(Some((record.time, rtt_us)));
            self.answer = None;
        }
    }
}

impl Block {
    fn is_for(&self, t0_us: i64) -> bool {
        (self.from_us..self.from_us + BLOCK_US).contains(&t0_us)
    }

    fn spans_over(&self, t_us: i64) -> bool {
        let over = |s: &Span| (s.window.start_us..=s.window.end_us).contains(&t_us);
        self.hops.iter().flatten().any(over)
    }

    /// `None` when a window lies outside of what was read (clocks changed in between).
    fn lines(&mut self, known: &Known, t0_us: i64) -> Option<Vec<Days>> {
        if let Some((_, lines)) = self.lines.as_ref().filter(|(at_us, _)| *at_us == t0_us) {
            return Some(lines.clone());
        }
        let mut lines = Vec::new();
        for (hop, spans) in known.hops.iter().zip(&self.hops) {
            let windows = known.windows(hop, t0_us, 0);
            if windows.len() != spans.len() {
                return None;
            }
            let days = windows.into_iter().zip(spans).map(|(w, span)| Some((w, span.within(&w)?)));
            let days = days.collect::<Option<Vec<_>>>()?;
            lines.push(fit_days(days, known.settings.min_samples));
        }
        self.lines = Some((t0_us, lines.clone()));
        Some(lines)
    }
}

impl Span {
    fn empty(window: Window) -> Self {
        Span { window, samples: Vec::new(), read_until_us: window.start_us - 1 }
    }

    /// What it holds of a later window; `None` when that begins elsewhere.
    fn moved_to(mut self, window: Window) -> Option<Self> {
        let held = self.window.start_us..=self.read_until_us;
        if !held.contains(&window.start_us) || window.end_us < self.read_until_us {
            return None;
        }
        self.samples.drain(..self.samples.partition_point(|s| s.0 < window.start_us));
        self.window = window;
        Some(self)
    }

    /// The rest of its window.
    fn missing(&self) -> Window {
        Window { start_us: self.read_until_us + 1, ..self.window }
    }

    /// The samples of the rest, in the order of time.
    fn append(&mut self, samples: &[(i64, f64)]) {
        // Room for these and no more: what is held is counted by samples.
        self.samples.reserve_exact(samples.len());
        self.samples.extend(samples);
        self.samples.shrink_to_fit();
        self.read_until_us = self.window.end_us;
    }

    /// `None` when the window lies outside.
    fn within(&self, window: &Window) -> Option<&[(i64, f64)]> {
        if window.start_us < self.window.start_us || window.end_us > self.window.end_us {
            return None;
        }
        let from = self.samples.partition_point(|s| s.0 < window.start_us);
        let to = self.samples.partition_point(|s| s.0 <= window.end_us);
        Some(&self.samples[from..to])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::write::Batch;
    use crate::store::Place;
    use crate::time::{DAY_US, HOUR_US};
    use proptest::prelude::*;
    use serde_json::{json, Value};

    const DST: &str = "192.0.2.7";

    /// What happens to a path between two requests.
    #[derive(Clone, Debug)]
    enum Event {
        Later(i64),
        Report(Vec<Made>),
        /// By another process: the service hears that something was written.
        Import(Vec<Made>),
        Setting(Value),
    }

    /// A record, by how long before the request it was measured.
    #[derive(Clone, Debug)]
    struct Made {
        back_us: i64,
        hop: &'static str,
        source: &'static str,
        available_bps: Option<u64>,
        validity_pct: Option<u8>,
    }

    impl Made {
        fn record(&self, t0_us: i64) -> Record {
            let test = self.available_bps.is_none();
            Record {
                dst: DST.into(),
                hop: self.hop.into(),
                source: self.source.into(),
                time: t0_us - self.back_us,
                available_bps: self.available_bps,
                capacity_bps: (!test).then_some(100_000_000),
                rtt_us: test.then_some(30_000),
                validity_pct: self.validity_pct,
                ..Record::default()
            }
        }
    }

    fn made() -> impl Strategy<Value = Made> {
        // Now, around the windows of past days, somewhere.
        let back_us = prop_oneof![
            0..MINUTE_US,
            (1..6i64, -20 * MINUTE_US..80 * MINUTE_US).prop_map(|(d, us)| d * DAY_US - us),
            0..7 * DAY_US,
        ];
        let hop = prop::sample::select(vec!["", "", "", "198.51.100.1"]);
        let source = prop::sample::select(vec!["a", "a", "b"]);
        let available_bps = prop::option::weighted(0.9, 1..100_000_000u64);
        let validity_pct = prop::option::weighted(0.2, 0..=100u8);
        (back_us, hop, source, available_bps, validity_pct).prop_map(
            |(back_us, hop, source, available_bps, validity_pct)| Made {
                back_us,
                hop,
                source,
                available_bps,
                validity_pct,
            },
        )
    }

    fn event() -> impl Strategy<Value = Event> {
        let later_us = prop_oneof![
            Just(0),
            Just(SECOND_US),
            0..20 * MINUTE_US,
            0..20 * MINUTE_US,
            0..3 * HOUR_US,
            Just(DAY_US)
        ];
        let setting = prop::sample::select(vec![
            json!({"zone": "Europe/Berlin"}),
            json!({"zone": "UTC"}),
            json!({"history": "week"}),
            json!({"history": "all"}),
            json!({"horizon_s": 1800}),
            json!({"horizon_s": null}),
            json!({"min_samples": 4}),
            json!({"min_validity_pct": 50}),
            json!({"freshness_s": 30}),
        ]);
        prop_oneof![
            3 => later_us.prop_map(Event::Later),
            3 => prop::collection::vec(made(), 1..4).prop_map(Event::Report),
            1 => prop::collection::vec(made(), 1..4).prop_map(Event::Import),
            1 => setting.prop_map(Event::Setting),
        ]
    }

    async fn answers_are_those_of_a_service_just_started(
        begin_us: i64,
        events: Vec<Event>,
    ) -> std::result::Result<(), TestCaseError> {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Place::File(dir.path().join("history.db"))).await.unwrap();
        let store = Arc::new(store);
        let book = Book::new(Arc::clone(&store), Pinger::new(false));
        let mut t0_us = begin_us;
        let put = |records: Vec<Record>, t0_us| {
            let store = Arc::clone(&store);
            let records = records.into_iter().map(Into::into).collect();
            async move { store.write(&[Batch { id: None, records }], t0_us).await.unwrap() }
        };
        // Five days, each ten minutes.
        let usual = |i: i64| Made {
            back_us: i * 10 * MINUTE_US + 7,
            hop: "",
            source: "a",
            available_bps: Some(60_000_000 + (i * 7919 % 997) as u64 * 10_000),
            validity_pct: None,
        };
        put((0..5 * 144).map(|i| usual(i).record(t0_us)).collect(), t0_us).await;
        for event in events {
            match &event {
                Event::Later(us) => t0_us += us,
                Event::Report(made) => {
                    let records: Vec<_> = made.iter().map(|m| m.record(t0_us)).collect();
                    put(records.clone(), t0_us).await;
                    book.wrote(records.iter()).await;
                }
                Event::Import(made) => {
                    put(made.iter().map(|m| m.record(t0_us)).collect(), t0_us).await;
                    book.forget_all();
                }
                Event::Setting(change) => {
                    let change = change.as_object().unwrap();
                    store.change_settings(DST, change).await.unwrap();
                    book.forget_all();
                }
            }
            let kept = &book.kept(DST, t0_us).await.unwrap().json;
            let started = Book::new(Arc::clone(&store), Pinger::new(false));
            prop_assert_eq!(kept, &started.kept(DST, t0_us).await.unwrap().json, "{:?}", event);
            // And those of what keeps nothing.
            prop_assert_eq!(kept, &started.as_of(DST, t0_us).await.unwrap().json, "{:?}", event);
        }
        store.close().await;
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn what_is_kept_gives_the_answers_of_a_service_that_has_just_started(
            // Around the end of March 2026, when Berlin's clocks go forward.
            begin_us in 1_774_500_000_000_000..1_775_200_000_000_000i64,
            events in prop::collection::vec(event(), 1..16),
        ) {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(answers_are_those_of_a_service_just_started(begin_us, events))?;
        }
    }

    /// The block of ten minutes later asks for no more than its last ten minutes of each day.
    #[test]
    fn the_next_block_reads_only_what_the_one_before_it_does_not_hold() {
        let day = jiff::civil::date(2026, 3, 20);
        let window = |from, to| Window { day, start_us: from, end_us: to };
        let mut span = Span::empty(window(100, 170));
        assert_eq!(span.missing(), window(100, 170));
        span.append(&[(100, 1.0), (115, 2.0), (170, 3.0)]);
        let mut next = span.moved_to(window(110, 180)).unwrap();
        assert_eq!(next.missing(), window(171, 180));
        next.append(&[(171, 4.0), (180, 5.0)]);
        assert_eq!(next.samples, [(115, 2.0), (170, 3.0), (171, 4.0), (180, 5.0)]);
        assert_eq!(next.within(&window(170, 171)), Some(&[(170, 3.0), (171, 4.0)][..]));
        assert_eq!(next.within(&window(170, 181)), None);
        assert!(next.moved_to(window(181, 251)).is_none());
    }
}
