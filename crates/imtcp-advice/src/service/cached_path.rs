// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What is kept of a path in memory, and how new records change it.

use std::collections::BTreeMap;
use std::sync::Arc;

use imtcp_client::record::Record;
use imtcp_client::time::SECOND_US;
use jiff::tz::TimeZone;

use super::block::Block;
use super::upcoming::Upcoming;
use crate::advice::answer::{Advice, Days};
use crate::advice::capacity::{Key, Told, HOLDS_US};
use crate::advice::days::{windows, Window};
use crate::advice::decide::{Hop, Newest, Request};
use crate::error::Result;
use crate::settings::Settings;
use crate::store::newest::Seen;
use crate::store::read::SeriesInfo;

/// Windows of past days that one answer reads, over all hops: with more hops fewer days count. ours: enough for ten
/// years of one hop; a second of reading.
const MOST_WINDOWS: usize = 20_000;

/// A path: records up to a time count, those after it are upcoming.
pub struct CachedPath {
    pub settings: Settings,
    pub zone: TimeZone,
    pub hops: Vec<CachedHop>,
    /// When an active test told the RTT of the path last, and the RTT.
    pub tested_rtt: Option<(i64, u64)>,
    pub upcoming_rtts: Upcoming<u64>,
    /// When the first active test was, of the path or of a hop.
    pub oldest_test_us: Option<i64>,
    /// All series of the path, also those of tests alone.
    pub series: Vec<SeriesInfo>,
    pub block: Option<Block>,
    pub answer: Option<Kept>,
    /// The latest time that it was asked for.
    pub asked_us: i64,
}

/// An advice, and its JSON.
pub struct Answered {
    pub advice: Advice,
    pub json: String,
}

impl Answered {
    pub fn new(advice: Advice) -> Result<Self> {
        let json = serde_json::to_string(&advice).map_err(std::io::Error::other)?;
        Ok(Answered { advice, json })
    }
}

/// An answer, of its own moment.
pub struct Kept {
    pub at_us: i64,
    /// It holds until then: its second is over, or the next record comes.
    pub until_us: i64,
    /// How long it took to make. One that took more than a second holds for as long again, also beside
    /// new records: or one path with a long history would have the service compute all the time.
    pub took_us: i64,
    pub answered: Arc<Answered>,
}

impl Kept {
    fn took_long(&self) -> bool {
        self.took_us > SECOND_US
    }

    fn holds(&self, now_us: i64) -> bool {
        let made_anew_at_us = self.at_us.saturating_add(2 * self.took_us);
        let until_us = if self.took_long() { made_anew_at_us } else { self.until_us };
        (self.at_us..until_us).contains(&now_us)
    }
}

pub struct CachedHop {
    pub name: String,
    pub series: Vec<SeriesInfo>,
    pub oldest_us: i64,
    pub newest: Option<(Key, Newest)>,
    pub told: Told,
    pub upcoming: Upcoming<Seen>,
}

impl CachedHop {
    pub fn ids(&self) -> Vec<i64> {
        self.series.iter().map(|s| s.id).collect()
    }

    /// The record's time has come.
    pub fn count(&mut self, key: Key, seen: Seen) {
        if let Some(bps) = seen.capacity_bps {
            self.told.add(key, bps);
        }
        if self.newest.is_none_or(|(newest, _)| key > newest) {
            self.newest = Some((key, seen.newest));
        }
    }
}

impl CachedPath {
    /// Counts the records whose time has come by now. False when the store has to be read again: the clock went back,
    /// or more come than are kept.
    pub fn count_until(&mut self, until_us: i64) -> bool {
        if until_us < self.asked_us {
            return false;
        }
        self.asked_us = until_us;
        for hop in &mut self.hops {
            for (key, seen) in hop.upcoming.take_until(until_us) {
                hop.count(key, seen);
            }
        }
        for (key, rtt_us) in self.upcoming_rtts.take_until(until_us) {
            self.tested_rtt = self.tested_rtt.max(Some((key.t_us, rtt_us)));
        }
        !self.upcoming_rtts.is_used_up() && !self.hops.iter().any(|h| h.upcoming.is_used_up())
    }

    /// The answer of less than a second ago, where nothing has come since.
    pub fn answer(&self, now_us: i64) -> Option<Arc<Answered>> {
        let kept = self.answer.as_ref()?;
        kept.holds(now_us).then(|| Arc::clone(&kept.answered))
    }

    /// Keeps the answer of a moment, that it took so long to make.
    pub fn keep(&mut self, at_us: i64, took_us: i64, answered: &Arc<Answered>) {
        let begins = self.hops.iter().map(|h| h.oldest_us).chain(self.oldest_test_us);
        let begins = begins.filter(|t_us| *t_us > at_us);
        let upcoming = self.hops.iter().filter_map(|h| h.upcoming.next_us());
        let next_us = begins.chain(upcoming).chain(self.upcoming_rtts.next_us()).min();
        let second_us = at_us + SECOND_US;
        let until_us = next_us.map_or(second_us, |t_us| t_us.min(second_us));
        self.answer = Some(Kept { at_us, until_us, took_us, answered: Arc::clone(answered) });
    }

    /// Each hop's lines for a request then, from the block. `None` where the block is not for then, or
    /// does not hold the windows.
    pub fn lines_from_block(&mut self, t0_us: i64) -> Option<Vec<Days>> {
        let mut block = self.block.take_if(|b| b.is_for(t0_us))?;
        let windows = |t_us| self.hops.iter().map(|hop| self.windows(hop, t_us, 0)).collect();
        let lines = block.lines(t0_us, windows, &self.settings);
        self.block = Some(block);
        lines
    }

    pub fn windows(&self, hop: &CachedHop, t0_us: i64, longer_us: i64) -> Vec<Window> {
        windows(
            self.settings.history,
            &self.zone,
            t0_us,
            i64::from(self.settings.horizon_s) * SECOND_US + longer_us,
            hop.oldest_us,
            (self.settings.max_days as usize).min(MOST_WINDOWS / self.hops.len().max(1)),
        )
    }

    /// The hops with a record by now, as the algorithm takes them.
    pub fn with_lines(&self, lines: Vec<Days>, t0_us: i64) -> Vec<Hop> {
        let hop = |(hop, days): (&CachedHop, Days)| {
            let newest = hop.newest.map(|(_, newest)| newest);
            let capacity = newest.and_then(|n| hop.told.capacity(n.t_us));
            Hop { name: hop.name.clone(), newest, capacity, days }
        };
        self.hops.iter().zip(lines).filter(|(h, _)| h.oldest_us <= t0_us).map(hop).collect()
    }

    pub fn fresh_tested_rtt_us(&self, t0_us: i64) -> Option<u64> {
        let freshness_us = i64::from(self.settings.freshness_s) * SECOND_US;
        let fresh = self.tested_rtt.filter(|(t_us, _)| t0_us - t_us <= freshness_us);
        fresh.map(|(_, rtt_us)| rtt_us)
    }

    pub fn request<'a>(&self, dst: &'a str, t0_us: i64, ping_rtt_us: Option<u64>) -> Request<'a> {
        let has_tests = self.oldest_test_us.is_some_and(|t_us| t_us <= t0_us);
        Request { dst, t0_us, ping_rtt_us, has_tests }
    }

    /// Brings a new record in; false when what is kept has to be read again.
    pub fn take_in(&mut self, record: &Record, span_s: u32, now_us: i64) -> bool {
        let of = |s: &&SeriesInfo| s.hop == record.hop && s.source == record.source;
        let Some(series) = self.series.iter().find(of).map(|s| s.id) else { return false };
        let key = Key { t_us: record.time, series, span_s: span_s.into() };
        let Some(available_bps) = record.available_bps else {
            self.take_in_test(key, record, now_us);
            return true;
        };
        let Some(hop) = self.hops.iter_mut().find(|h| h.name == record.hop) else { return false };
        if !hop.series.iter().any(|s| s.id == series) || record.time < hop.oldest_us {
            return false;
        }
        if record.validity_pct.is_some_and(|v| v < self.settings.min_validity_pct) {
            return true;
        }
        let newest = Newest {
            t_us: record.time,
            available_bps: available_bps as f64,
            rtt_us: record.rtt_us,
            congested: record.congested,
        };
        let seen = Seen { newest, capacity_bps: record.capacity_bps };
        if record.time > now_us {
            hop.upcoming.add(key, seen);
            self.answer_holds_until(record.time);
            return true;
        }
        hop.count(key, seen);
        if self.block.as_ref().is_some_and(|b| b.spans_over(record.time)) {
            self.block = None;
        }
        self.make_anew();
        true
    }

    fn take_in_test(&mut self, key: Key, record: &Record, now_us: i64) {
        if self.oldest_test_us.is_none_or(|t_us| key.t_us < t_us) {
            self.oldest_test_us = Some(key.t_us);
            self.make_anew();
        }
        let trusted = record.validity_pct.is_none_or(|v| v >= self.settings.min_validity_pct);
        let Some(rtt_us) = record.rtt_us.filter(|_| trusted && record.hop.is_empty()) else {
            return;
        };
        if key.t_us > now_us {
            self.upcoming_rtts.add(key, rtt_us);
            self.answer_holds_until(key.t_us);
        } else {
            self.tested_rtt = self.tested_rtt.max(Some((key.t_us, rtt_us)));
            self.make_anew();
        }
    }

    /// Records between two times have become means. False when what is kept has to be read again: the newest is one,
    /// or tells of the capacity, of a path that has been silent for long.
    pub fn rolled_up(&mut self, from_us: i64, until_us: i64) -> bool {
        let newest = self.hops.iter().filter_map(|h| h.newest.map(|(key, _)| key.t_us - HOLDS_US));
        let tested = self.tested_rtt.map(|(t_us, _)| t_us);
        if newest.chain(tested).any(|t_us| t_us < until_us) {
            return false;
        }
        if let Some(block) = &mut self.block {
            block.forget(from_us, until_us);
        }
        self.make_anew();
        true
    }

    /// The answer rests on what has changed.
    fn make_anew(&mut self) {
        self.answer.take_if(|kept| !kept.took_long());
    }

    fn answer_holds_until(&mut self, t_us: i64) {
        if let Some(kept) = &mut self.answer {
            kept.until_us = kept.until_us.min(t_us);
        }
    }
}

/// The hops of series, each with its series; nothing is known of their records yet.
pub fn hops(series: &[SeriesInfo]) -> Vec<CachedHop> {
    let mut by_name: BTreeMap<&str, Vec<SeriesInfo>> = BTreeMap::new();
    for one in series.iter().filter(|s| s.oldest_us.is_some()) {
        by_name.entry(&one.hop).or_default().push(one.clone());
    }
    let hop = |(name, mut series): (&str, Vec<SeriesInfo>)| {
        // The newest first: the others need not be asked as a rule.
        series.sort_by_key(|s| std::cmp::Reverse(s.newest_us));
        let oldest_us = series.iter().filter_map(|s| s.oldest_us).min().unwrap_or(i64::MAX);
        let (told, upcoming) = (Told::default(), Upcoming::new([]));
        CachedHop { name: name.into(), series, oldest_us, newest: None, told, upcoming }
    };
    by_name.into_iter().map(hop).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::decide::advise;

    fn kept(at_s: i64, until_s: i64, took_s: i64) -> Kept {
        let request = Request { dst: "192.0.2.7", t0_us: 0, ping_rtt_us: None, has_tests: false };
        let advice = advise(&request, &Settings::default(), &[]).unwrap();
        let answered = Arc::new(Answered { advice, json: String::new() });
        let [at_us, until_us, took_us] = [at_s, until_s, took_s].map(|s| s * SECOND_US);
        Kept { at_us, until_us, took_us, answered }
    }

    #[test]
    fn an_answer_holds_until_its_time_and_one_that_took_long_for_as_long_again() {
        let holds = |kept: &Kept, s: i64| kept.holds(s * SECOND_US);
        let quick = kept(10, 11, 0);
        assert!(holds(&quick, 10) && !holds(&quick, 11) && !holds(&quick, 9));
        // A record comes at once.
        assert!(!holds(&kept(10, 10, 0), 10));
        // Made from 10 to 13, it serves who waited, and until 15.
        let slow = kept(10, 10, 3);
        assert!((10..16).all(|s| holds(&slow, s)) && !holds(&slow, 16) && !holds(&slow, 9));
    }
}
