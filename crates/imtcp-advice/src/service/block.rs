// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What past days hold around the time of day of requests, kept for ten minutes of them, and the
//! lines fitted through it.
//!
//! Lines are of the request's own moment, to the microsecond. From one request to the next most windows have the same
//! samples, and so the same line, read elsewhere.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use imtcp_client::time::MINUTE_US;

use crate::advice::answer::Days;
use crate::advice::days::Window;
use crate::advice::decide::{day_line, days_of};
use crate::advice::fit::DayLine;
use crate::settings::Settings;

/// Requests up to this much later find their samples in the block.
pub const BLOCK_US: i64 = 10 * MINUTE_US;

const SPAN_SAMPLES: usize = 12;

/// The samples of all windows of requests between two times.
pub struct Block {
    from_us: i64,
    /// By hop; the newest day first.
    hops: Vec<Vec<Span>>,
    minute: Option<Minute>,
    /// Is all of it read?
    whole: bool,
    _held: Held,
}

/// Each hop's windows of requests in one minute. In a minute they all move with the request: clocks change, and
/// days begin, at its end, since 1972.
struct Minute {
    begins_us: i64,
    hops: Vec<Vec<Window>>,
}

/// The samples of one day's windows.
pub struct Span {
    /// From the first one's beginning to the last one's end.
    window: Window,
    /// (time, available bandwidth), in the order of time.
    samples: Vec<(i64, f64)>,
    read_until_us: i64,
    fitted: Option<Fitted>,
}

/// The line through the samples of a window, if they make one.
struct Fitted {
    /// Where else the window may begin and have the same samples.
    starts_us: Range<i64>,
    line: Option<DayLine>,
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

impl Block {
    /// For requests from then on; its samples count among `held`.
    pub fn new(from_us: i64, hops: Vec<Vec<Span>>, held: &Arc<AtomicUsize>) -> Self {
        let count = count(&hops);
        Block { from_us, hops, minute: None, whole: true, _held: Held::new(held, count) }
    }

    /// Its spans, for the next block; its samples do not count any more.
    pub fn into_spans(self) -> Vec<Vec<Span>> {
        self.hops
    }

    pub fn is_for(&self, t0_us: i64) -> bool {
        self.whole && (self.from_us..self.from_us + BLOCK_US).contains(&t0_us)
    }

    /// The records of this stretch changed: the next block reads the days that contain some of it.
    pub fn forget(&mut self, from_us: i64, until_us: i64) {
        for span in self.hops.iter_mut().flatten() {
            if span.window.start_us < until_us && from_us <= span.window.end_us {
                *span = Span::empty(span.window);
                self.whole = false;
            }
        }
    }

    pub fn spans_over(&self, t_us: i64) -> bool {
        let over = |s: &Span| (s.window.start_us..=s.window.end_us).contains(&t_us);
        self.hops.iter().flatten().any(over)
    }

    /// Each hop's lines for a request at this time. `windows` gives each hop's windows for a request. `None` if a
    /// window lies outside of the days that were read: a day began in between, or clocks changed.
    pub fn lines(
        &mut self,
        t0_us: i64,
        windows: impl FnOnce(i64) -> Vec<Vec<Window>>,
        settings: &Settings,
    ) -> Option<Vec<Days>> {
        let begins_us = t0_us - t0_us.rem_euclid(MINUTE_US);
        let minute = match self.minute.take().filter(|m| m.begins_us == begins_us) {
            Some(minute) => minute,
            None => Minute { begins_us, hops: windows(begins_us) },
        };
        let later_us = t0_us - begins_us;
        let hops = minute.hops.iter().zip(&mut self.hops);
        let lines = hops.map(|(windows, spans)| lines_of_hop(windows, later_us, spans, settings));
        let lines = lines.collect();
        self.minute = Some(minute);
        lines
    }
}

fn lines_of_hop(
    windows: &[Window],
    later_us: i64,
    spans: &mut [Span],
    settings: &Settings,
) -> Option<Days> {
    if windows.len() != spans.len() {
        return None;
    }
    let mut lines = Vec::new();
    for (window, span) in windows.iter().zip(spans) {
        let window = window.later(later_us);
        lines.extend(span.line(&window, settings)?.map(|line| (window, line)));
    }
    Some(days_of(lines))
}

/// Samples in the spans of all hops. A span and the line through it take as much memory as twelve.
pub fn count(hops: &[Vec<Span>]) -> usize {
    hops.iter().flatten().map(|span| SPAN_SAMPLES + span.samples.len()).sum()
}

/// One span for each window, with what spans of before hold of it; both the newest day first. Where a
/// day has begun in between, a window is the next of the day before's.
pub fn take_over(before: Vec<Span>, windows: Vec<Window>) -> Vec<Span> {
    let mut held = before.into_iter().peekable();
    let span = |window: Window| {
        while held.next_if(|h| h.window.start_us > window.start_us).is_some() {}
        let span = held.next_if(|h| h.read_until_us >= window.start_us);
        span.and_then(|s| s.moved_to(window)).unwrap_or(Span::empty(window))
    };
    windows.into_iter().map(span).collect()
}

impl Span {
    fn empty(window: Window) -> Self {
        Span { window, samples: Vec::new(), read_until_us: window.start_us - 1, fitted: None }
    }

    /// The part that a later window shares; `None` if that begins elsewhere.
    fn moved_to(mut self, window: Window) -> Option<Self> {
        let held = self.window.start_us..=self.read_until_us;
        if !held.contains(&window.start_us) || window.end_us < self.read_until_us {
            return None;
        }
        self.samples.drain(..self.samples.partition_point(|s| s.0 < window.start_us));
        self.window = window;
        self.fitted = None;
        Some(self)
    }

    /// The rest of its window.
    pub fn missing(&self) -> Window {
        Window { start_us: self.read_until_us + 1, ..self.window }
    }

    /// The samples of the rest, in the order of time.
    pub fn append(&mut self, samples: &[(i64, f64)]) {
        // Room for these and no more: what is held is counted by samples.
        self.samples.reserve_exact(samples.len());
        self.samples.extend(samples);
        self.samples.shrink_to_fit();
        self.read_until_us = self.window.end_us;
        self.fitted = None;
    }

    /// The line through the samples of a window, if they make one. `None` when the window lies outside.
    fn line(&mut self, window: &Window, settings: &Settings) -> Option<Option<DayLine>> {
        if window.start_us < self.window.start_us || window.end_us > self.window.end_us {
            return None;
        }
        let known = self.fitted.take().filter(|f| f.starts_us.contains(&window.start_us));
        Some(self.fitted.insert(known.unwrap_or_else(|| self.fit(window, settings))).line)
    }

    fn fit(&self, window: &Window, settings: &Settings) -> Fitted {
        let samples = &self.samples;
        let from = samples.partition_point(|s| s.0 < window.start_us);
        let to = samples.partition_point(|s| s.0 <= window.end_us);
        let long_us = window.end_us - window.start_us;
        // The window's end is no sample's time yet, nor its beginning any more.
        let enters_us = samples.get(to).map_or(i64::MAX, |s| s.0 - long_us);
        let leaves_us = samples.get(from).map_or(i64::MAX, |s| s.0 + 1);
        let starts_us = window.start_us..enters_us.min(leaves_us);
        Fitted { starts_us, line: day_line(window, &samples[from..to], settings) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_midnight_a_window_goes_on_where_the_one_of_the_day_before_was() {
        let day = |d| jiff::civil::date(2026, 3, d);
        let window = |d, from, to| Window { day: day(d), start_us: from, end_us: to };
        let mut spans = take_over(Vec::new(), vec![window(21, 1000, 1070), window(20, 500, 570)]);
        spans[0].append(&[(1000, 1.0), (1065, 2.0)]);
        spans[1].append(&[(566, 3.0)]);
        let windows = vec![window(22, 1005, 1075), window(21, 505, 575), window(20, 5, 75)];
        let next = take_over(spans, windows);
        let missing: Vec<_> = next.iter().map(Span::missing).collect();
        assert_eq!(missing, [window(22, 1071, 1075), window(21, 571, 575), window(20, 5, 75)]);
        assert_eq!(next[0].samples, [(1065, 2.0)]);
        assert_eq!(next[1].samples, [(566, 3.0)]);
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
        assert!(next.moved_to(window(181, 251)).is_none());
    }

    /// Each moment's line is the one that nothing kept would have.
    #[test]
    fn a_line_is_kept_for_as_long_as_its_window_has_the_same_samples() {
        let settings = Settings { min_samples: 2, min_span_pct: 0, ..Settings::default() };
        let day = jiff::civil::date(2026, 3, 20);
        let window = |from| Window { day, start_us: from, end_us: from + 20 };
        let samples = [(103, 1.0), (110, 2.0), (111, 5.0), (124, 3.0), (140, 9.0), (160, 2.0)];
        let whole = || {
            let mut span = Span::empty(Window { end_us: 170, ..window(100) });
            span.append(&samples);
            span
        };
        let (mut kept, mut fits) = (whole(), 0);
        for start_us in 100..=150 {
            let line = kept.line(&window(start_us), &settings);
            assert_eq!(line, whole().line(&window(start_us), &settings), "{start_us}");
            fits += usize::from(kept.fitted.as_ref().unwrap().starts_us.start == start_us);
        }
        // At 100; samples enter at 104, 120 and 140, and leave at 104, 111, 112, 125 and 141.
        assert_eq!(fits, 8);
        assert_eq!(kept.line(&window(151), &settings), None);
        assert_eq!(kept.line(&window(99), &settings), None);
    }
}
