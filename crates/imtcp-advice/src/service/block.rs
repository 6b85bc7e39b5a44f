// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What past days hold around the time of day of requests, kept for ten minutes of them, and the
//! lines fitted through it in the present second.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use imtcp_client::time::MINUTE_US;

use crate::advice::answer::Days;
use crate::advice::days::Window;
use crate::advice::decide::fit_days;
use crate::settings::Settings;

/// Requests up to this much later find their samples in the block.
pub const BLOCK_US: i64 = 10 * MINUTE_US;

const SPAN_SAMPLES: usize = 8;

/// The samples of all windows of requests between two times.
pub struct Block {
    from_us: i64,
    /// By hop; the newest day first.
    hops: Vec<Vec<Span>>,
    /// Each hop's lines at a time: those of this second.
    lines: Option<(i64, Vec<Days>)>,
    _held: Held,
}

/// The samples of one day's windows.
pub struct Span {
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

impl Block {
    /// For requests from then on; its samples count among `held`.
    pub fn new(from_us: i64, hops: Vec<Vec<Span>>, held: &Arc<AtomicUsize>) -> Self {
        let count = count(&hops);
        Block { from_us, hops, lines: None, _held: Held::new(held, count) }
    }

    /// Its spans, for the next block; its samples do not count any more.
    pub fn into_spans(self) -> Vec<Vec<Span>> {
        self.hops
    }

    pub fn is_for(&self, t0_us: i64) -> bool {
        (self.from_us..self.from_us + BLOCK_US).contains(&t0_us)
    }

    pub fn spans_over(&self, t_us: i64) -> bool {
        let over = |s: &Span| (s.window.start_us..=s.window.end_us).contains(&t_us);
        self.hops.iter().flatten().any(over)
    }

    /// Each hop's lines for a request then, in its windows. `None` when one lies outside of what was
    /// read: a day began in between, or clocks changed.
    pub fn lines(
        &mut self,
        t0_us: i64,
        windows: impl FnOnce() -> Vec<Vec<Window>>,
        settings: &Settings,
    ) -> Option<Vec<Days>> {
        if let Some((_, lines)) = self.lines.as_ref().filter(|(at_us, _)| *at_us == t0_us) {
            return Some(lines.clone());
        }
        let mut lines = Vec::new();
        for (windows, spans) in windows().into_iter().zip(&self.hops) {
            if windows.len() != spans.len() {
                return None;
            }
            let days = windows.into_iter().zip(spans).map(|(w, span)| Some((w, span.within(&w)?)));
            let days = days.collect::<Option<Vec<_>>>()?;
            lines.push(fit_days(days, settings));
        }
        self.lines = Some((t0_us, lines.clone()));
        Some(lines)
    }
}

/// Samples in the spans of all hops. A span and the line through it take as much memory as eight.
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
        Span { window, samples: Vec::new(), read_until_us: window.start_us - 1 }
    }

    /// The part that a later window shares; `None` if that begins elsewhere.
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
        assert_eq!(next.within(&window(170, 171)), Some(&[(170, 3.0), (171, 4.0)][..]));
        assert_eq!(next.within(&window(170, 181)), None);
        assert!(next.moved_to(window(181, 251)).is_none());
    }
}
