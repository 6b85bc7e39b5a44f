// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What is kept of a path is what the store would tell.

use imtcp_client::record::Record;
use imtcp_client::time::{DAY_US, HOUR_US, MINUTE_US};
use proptest::prelude::*;
use serde_json::{json, Value};

use std::time::Duration;

use super::*;
use crate::advice::answer::{Mode, Reason};
use crate::service::entry::MOST_LATE;
use crate::service::ping::tests::{instead_of_ping, pinged};
use crate::store::maintain::Retention;
use crate::store::write::Batch;
use crate::store::Place;

const DST: &str = "192.0.2.7";
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// A change of a path between two requests.
#[derive(Clone, Debug)]
enum Event {
    Later(i64),
    /// The clock is set back.
    Earlier(i64),
    Report(Vec<Made>),
    /// By another process: the service hears that something was written.
    Import(Vec<Made>),
    Setting(Value),
    RollUp(Retention),
}

/// A record, by how long before the request it was measured; less than 0 for one that lies ahead.
#[derive(Clone, Debug)]
struct Made {
    back_us: i64,
    hop: &'static str,
    source: &'static str,
    available_bps: Option<u64>,
    capacity_bps: Option<u64>,
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
            capacity_bps: self.capacity_bps.filter(|_| !test),
            rtt_us: test.then_some(30_000),
            validity_pct: self.validity_pct,
            ..Record::default()
        }
    }
}

async fn empty_store() -> (tempfile::TempDir, Arc<Store>) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&Place::File(dir.path().join("history.db"))).await.unwrap();
    (dir, Arc::new(store))
}

fn without_ping(store: &Arc<Store>) -> Arc<AdviceCache> {
    AdviceCache::new(Arc::clone(store), Pinger::new(false, Arc::default()))
}

fn record(t_us: i64, available_bps: u64) -> Record {
    let available_bps = Some(available_bps);
    Record { dst: DST.into(), time: t_us, available_bps, ..Record::default() }
}

/// As the writing task does.
async fn report(cache: &AdviceCache, records: Vec<Record>, now_us: i64) {
    let batch = Batch { id: None, records: records.into_iter().map(Into::into).collect() };
    let batches = [batch];
    let (written, _) = cache.store().write(&batches, now_us).await.unwrap();
    cache.wrote(&batches, &written, now_us);
}

fn made() -> impl Strategy<Value = Made> {
    // Now, seconds and days ahead, around the windows of past days, somewhere.
    let back_us = prop_oneof![
        0..MINUTE_US,
        -10 * SECOND_US..0,
        -2 * DAY_US..0,
        (1..6i64, -20 * MINUTE_US..80 * MINUTE_US).prop_map(|(d, us)| d * DAY_US - us),
        0..7 * DAY_US,
    ];
    let hop = prop::sample::select(vec!["", "", "", "198.51.100.1"]);
    let source = prop::sample::select(vec!["a", "a", "b"]);
    let available_bps = prop::option::weighted(0.9, 1..100_000_000u64);
    let capacity_bps = prop::option::of(100_000_000..110_000_000u64);
    let validity_pct = prop::option::weighted(0.2, 0..=100u8);
    (back_us, hop, source, available_bps, capacity_bps, validity_pct).prop_map(
        |(back_us, hop, source, available_bps, capacity_bps, validity_pct)| Made {
            back_us,
            hop,
            source,
            available_bps,
            capacity_bps,
            validity_pct,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let later_us = prop_oneof![
        Just(0),
        0..SECOND_US,
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
        json!({"min_span_pct": 0}),
        json!({"min_span_pct": 90}),
        json!({"min_validity_pct": 50}),
        json!({"freshness_s": 30}),
    ]);
    prop_oneof![
        3 => later_us.prop_map(Event::Later),
        1 => (0..3 * HOUR_US).prop_map(Event::Earlier),
        3 => prop::collection::vec(made(), 1..4).prop_map(Event::Report),
        1 => prop::collection::vec(made(), 1..4).prop_map(Event::Import),
        1 => setting.prop_map(Event::Setting),
        1 => (1..4u32, 0..3u32, 4..9u32).prop_map(|(raw_days, more_days, hour_days)| {
            let minute_days = raw_days + more_days;
            Event::RollUp(Retention { raw_days, minute_days, hour_days, silent_days: 0 })
        }),
    ]
}

async fn answers_are_those_of_a_service_just_started(
    begin_us: i64,
    events: Vec<Event>,
) -> std::result::Result<(), TestCaseError> {
    let (_dir, store) = empty_store().await;
    let cache = without_ping(&store);
    let mut now_us = begin_us;
    let put = |records: Vec<Record>, now_us| {
        let store = Arc::clone(&store);
        let batch = Batch { id: None, records: records.into_iter().map(Into::into).collect() };
        async move {
            let (written, _) = store.write(std::slice::from_ref(&batch), now_us).await.unwrap();
            (batch, written)
        }
    };
    // Five days, each ten minutes.
    let usual = |i: i64| Made {
        back_us: i * 10 * MINUTE_US + 7,
        hop: "",
        source: "a",
        available_bps: Some(60_000_000 + (i * 7919 % 997) as u64 * 10_000),
        capacity_bps: (i % 3 == 0).then_some(100_000_000),
        validity_pct: None,
    };
    put((0..5 * 144).map(|i| usual(i).record(now_us)).collect(), now_us).await;
    for event in events {
        match &event {
            Event::Later(us) => now_us += us,
            Event::Earlier(us) => now_us -= us,
            Event::Report(made) => {
                let records = made.iter().map(|m| m.record(now_us)).collect();
                let (batch, written) = put(records, now_us).await;
                cache.wrote(&[batch], &written, now_us);
            }
            Event::Import(made) => {
                put(made.iter().map(|m| m.record(now_us)).collect(), now_us).await;
                cache.forget_all();
            }
            Event::Setting(change) => {
                let change = change.as_object().unwrap();
                store.change_settings(DST, change).await.unwrap();
                cache.forget_all();
            }
            Event::RollUp(keep) => {
                let mut rolled = |dst: &str, from, until| cache.rolled_up(dst, from, until);
                let done = store.maintain(keep, now_us, &mut rolled).await.unwrap();
                if done.removed > 0 {
                    cache.forget_all();
                }
            }
        }
        let kept = cache.at(CLIENT, DST, move || now_us).await.unwrap();
        let at_us = kept.advice.at;
        prop_assert!((now_us - SECOND_US + 1..=now_us).contains(&at_us), "{:?}", event);
        let started = without_ping(&store).at(CLIENT, DST, move || at_us).await.unwrap();
        prop_assert_eq!(&kept.json, &started.json, "{:?}", event);
        // And those of what keeps nothing.
        let read = cache.as_of(DST, at_us).await.unwrap();
        prop_assert_eq!(&kept.json, &read.json, "{:?}", event);
    }
    store.close().await;
    Ok(())
}

/// Five days, each ten minutes.
async fn with_past_days(now_us: i64) -> (tempfile::TempDir, Arc<Store>, Arc<AdviceCache>) {
    let (dir, store) = empty_store().await;
    let cache = without_ping(&store);
    let past = (1..5 * 144).map(|i| record(now_us - i * 10 * MINUTE_US, 60_000_000));
    report(&cache, past.collect(), now_us).await;
    (dir, store, cache)
}

/// As an older version took them. The path is congested, and one record from the future says otherwise.
#[tokio::test]
async fn a_record_that_lies_ahead_does_not_count_until_its_time_has_come() {
    let begin_us = 1_774_500_000_000_000;
    for ahead_us in [5 * SECOND_US, 59 * MINUTE_US, 400 * DAY_US] {
        let (_dir, _store, cache) = with_past_days(begin_us).await;
        let threshold = json!({"threshold": {"bps": 42_000_000}, "freshness_s": 86_400});
        cache.store().change_settings(DST, threshold.as_object().unwrap()).await.unwrap();
        let test = Record { available_bps: None, rtt_us: Some(9), ..record(begin_us, 0) };
        let ahead = Record { capacity_bps: Some(1), ..record(begin_us + ahead_us, 90_000_000) };
        report(&cache, vec![record(begin_us, 10_000_000), ahead], begin_us).await;
        let early = Record { time: begin_us + ahead_us, ..test };
        report(&cache, vec![early], begin_us).await;
        let check = async |now_us: i64| {
            let kept = cache.at(CLIENT, DST, move || now_us).await.unwrap();
            assert_eq!(kept.json, cache.as_of(DST, now_us).await.unwrap().json);
            let from = &kept.advice.computed_from;
            (kept.advice.reason, kept.advice.age_s, from.capacity_bps, kept.advice.rtt_us)
        };
        let congested = (Reason::Congested, Some(0.0), None, None);
        assert_eq!(check(begin_us).await, congested, "{ahead_us}");
        let its_time = check(begin_us + ahead_us).await;
        assert_eq!((its_time.1, its_time.2, its_time.3), (Some(0.0), Some(1.0), Some(9)));
    }
}

/// A test tells the RTT for as long as it is fresh, 600 s. Seen from later on it was none, and the clock was set back.
#[tokio::test]
async fn a_clock_that_is_set_back_has_the_path_read_again() {
    let begin_us = 1_774_500_000_000_000;
    let (_dir, _store, cache) = with_past_days(begin_us).await;
    let test = Record { available_bps: None, rtt_us: Some(9), ..record(begin_us, 0) };
    report(&cache, vec![test], begin_us).await;
    let rtt_us = async |cache: &Arc<AdviceCache>, at_us| {
        cache.at(CLIENT, DST, move || at_us).await.unwrap().advice.rtt_us
    };
    let started = without_ping(&cache.store);
    assert_eq!(rtt_us(&started, begin_us + 700 * SECOND_US).await, None);
    assert_eq!(rtt_us(&started, begin_us + 10 * SECOND_US).await, Some(9));
}

/// The threshold is 42 % of the capacity: 5.3 or 9.3 Mbit/s.
#[tokio::test]
async fn capacities_that_alternate_do_not_flip_the_mode() {
    let begin_us = 1_774_500_000_000_000;
    for available_bps in [5_000_000, 7_000_000, 7_300_000, 9_200_000, 9_500_000] {
        let (_dir, _store, cache) = with_past_days(begin_us).await;
        let mut modes = std::collections::HashSet::new();
        for i in 0..40 {
            let now_us = begin_us + i * 10 * SECOND_US;
            let capacity_bps = Some(if i % 2 == 0 { 12_600_000 } else { 22_200_000 });
            let capacity_bps = if i == 30 { Some(222_000_000) } else { capacity_bps };
            let one = Record { capacity_bps, ..record(now_us, available_bps) };
            report(&cache, vec![one], now_us).await;
            let kept = cache.at(CLIENT, DST, move || now_us).await.unwrap();
            assert_eq!(kept.json, cache.as_of(DST, now_us).await.unwrap().json);
            if i >= 4 {
                modes.insert(kept.advice.mode == Mode::Bg);
                let from = &kept.advice.computed_from;
                assert_eq!(from.capacity_bps, Some(22.2e6));
                assert_eq!(from.capacity_records, Some(i as u32 + 1));
                assert_eq!(from.capacity_to, from.newest_at);
            }
        }
        assert_eq!(modes.len(), 1, "{available_bps}");
    }
}

#[tokio::test]
async fn writing_does_not_wait_for_pings() {
    let begin_us = 1_774_500_000_000_000;
    let (dir, store, _) = with_past_days(begin_us).await;
    let pinger = instead_of_ping(dir.path(), "exec sleep 30");
    let cache = AdviceCache::new(store, pinger);
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let cache = Arc::clone(&cache);
            tokio::spawn(async move { cache.now(CLIENT, DST).await.map(drop) })
        })
        .collect();
    while pinged(dir.path()).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    for i in 0..10 {
        report(&cache, vec![record(begin_us - i - 1, 60_000_000)], begin_us).await;
    }
    assert!(asking.iter().all(|one| !one.is_finished()));
    assert_eq!(pinged(dir.path()), [DST]);
}

/// As a roll-up does: what was read before the ping is nobody's any more, and new records pass it by.
#[tokio::test]
async fn what_was_forgotten_during_a_ping_is_read_again() {
    let begin_us = 1_774_500_000_000_000;
    let (dir, store, _) = with_past_days(begin_us).await;
    let until_told = format!("while [ ! -e {}/go ]; do sleep 0.02; done", dir.path().display());
    let cache = AdviceCache::new(store, instead_of_ping(dir.path(), &until_told));
    let asking = {
        let cache = Arc::clone(&cache);
        tokio::spawn(async move {
            cache.now(CLIENT, DST).await.unwrap().advice.computed_from.newest_bps
        })
    };
    while pinged(dir.path()).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    cache.forget_all();
    report(&cache, vec![record(begin_us, 5)], begin_us).await;
    std::fs::write(dir.path().join("go"), "").unwrap();
    assert_eq!(asking.await.unwrap(), Some(5));
}

#[tokio::test]
async fn a_capacity_holds_for_records_of_the_day_after_that_tell_none() {
    let (_dir, store) = empty_store().await;
    let begin_us = 1_774_500_000_000_000;
    let record = |source: &str, hours: i64, capacity_bps| Record {
        source: source.into(),
        capacity_bps,
        ..record(begin_us + hours * HOUR_US, 60_000_000)
    };
    let cache = without_ping(&store);
    let told = vec![record("router", 0, Some(100_000_000)), record("agent", 23, None)];
    report(&cache, told, begin_us + 23 * HOUR_US).await;
    let capacity_at = async |hours: i64| {
        let at_us = begin_us + hours * HOUR_US;
        let kept = cache.at(CLIENT, DST, move || at_us).await.unwrap();
        kept.advice.computed_from.capacity_bps
    };
    assert_eq!(capacity_at(23).await, Some(1e8));
    for (hours, capacity_bps) in [(24, Some(1e8)), (25, None)] {
        let one = vec![record("agent", hours, None)];
        report(&cache, one, begin_us + hours * HOUR_US).await;
        assert_eq!(capacity_at(hours).await, capacity_bps);
    }
}

/// The whole history has a day more after midnight. The block of the day before then answered nothing, and
/// each second's advice was read from the disk for up to ten minutes.
#[tokio::test]
async fn a_day_that_begins_has_a_block_of_its_own() {
    let (_dir, store) = empty_store().await;
    let midnight_us = 1_774_483_200_000_000;
    let record =
        |i: i64| record(midnight_us - i * MINUTE_US, 60_000_000 + (i % 1440) as u64 * 1000);
    let records = (3..=5 * 1440).map(|i| record(i).into()).collect();
    store.write(&[Batch { id: None, records }], midnight_us).await.unwrap();
    let cache = without_ping(&store);
    for (t0_us, of_day_us) in [
        (midnight_us - 2 * MINUTE_US, midnight_us - 2 * MINUTE_US),
        (midnight_us + MINUTE_US, midnight_us + MINUTE_US),
        (midnight_us + 2 * MINUTE_US, midnight_us + MINUTE_US),
    ] {
        let kept = cache.at(CLIENT, DST, move || t0_us).await.unwrap();
        assert_eq!(kept.json, cache.as_of(DST, t0_us).await.unwrap().json);
        let entry = cache.entry(DST).await.unwrap().unwrap();
        let known = entry.lock().await;
        let block = known.as_ref().and_then(|k| k.block.as_ref()).unwrap();
        assert!(block.is_for(of_day_us) && !block.is_for(of_day_us - 1));
    }
}

/// A history of many hours around the time of day takes seconds to read. All reports go through one task.
#[tokio::test]
async fn reports_do_not_wait_for_a_path_that_is_read_and_whoever_asks_then_hears_of_them() {
    let begin_us = 1_774_500_000_000_000;
    let (_dir, _store, cache) = with_past_days(begin_us).await;
    let newest_bps = async || {
        let kept = cache.at(CLIENT, DST, move || begin_us).await.unwrap();
        kept.advice.computed_from.newest_bps
    };
    assert_eq!(newest_bps().await, Some(60_000_000));
    let has_block = |place: &Option<CachedPath>| place.as_ref().unwrap().block.is_some();
    let entry = cache.paths().get(DST).cloned().unwrap();
    let reading = entry.lock().await;
    report(&cache, vec![record(begin_us, 5)], begin_us).await;
    drop(reading);
    assert_eq!(newest_bps().await, Some(5));
    // The block is kept: otherwise a path with a report each second would be read for ever.
    assert!(has_block(&*entry.lock().await));
    // More than may lie beside it, and what is not told: it is read again.
    let reading = entry.lock().await;
    let many = (0..=MOST_LATE as i64).map(|i| record(begin_us + 1 + i, 7)).collect();
    report(&cache, many, begin_us + SECOND_US).await;
    drop(reading);
    assert!(entry.lock().await.is_none());
    let last = cache.at(CLIENT, DST, move || begin_us + SECOND_US).await;
    assert_eq!(last.unwrap().advice.computed_from.newest_bps, Some(7));
}

/// Each record had it read anew, and requests waited for each other longer and longer.
#[tokio::test]
async fn an_answer_of_more_than_is_kept_holds_for_ten_seconds_also_beside_records() {
    let begin_us = 1_774_500_000_000_000;
    let (_dir, store) = empty_store().await;
    let cache = without_ping(&store);
    let of_day = |i: i64| record(begin_us - DAY_US + i * 15_000, 60_000_000).into();
    let records = (0..MOST_SAMPLES as i64 + 1).map(of_day).collect();
    store.write(&[Batch { id: None, records }], begin_us).await.unwrap();
    let newest_bps = async |at_us: i64| {
        let kept = cache.at(CLIENT, DST, move || at_us).await.unwrap();
        kept.advice.computed_from.newest_bps
    };
    assert_eq!(newest_bps(begin_us).await, Some(60_000_000));
    report(&cache, vec![record(begin_us, 5)], begin_us).await;
    assert_eq!(newest_bps(begin_us + 9 * SECOND_US).await, Some(60_000_000));
    assert_eq!(newest_bps(begin_us + 10 * SECOND_US).await, Some(5));
}

/// Sixty strangers asked for one path that takes a second to read: each took a turn to wait for the others.
#[tokio::test]
async fn who_asks_for_a_path_that_another_reads_takes_no_turn_to_wait() {
    let begin_us = 1_774_500_000_000_000;
    let (_dir, _store, cache) = with_past_days(begin_us).await;
    let entry = cache.entry(DST).await.unwrap().unwrap();
    let reading = entry.begin_reading();
    let waiting: Vec<_> = (1..9)
        .map(|n| {
            let cache = Arc::clone(&cache);
            let client = IpAddr::from([198, 51, 100, n]);
            tokio::spawn(async move { cache.at(client, DST, move || begin_us).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(cache.turns.hold_all().await.is_some());
    drop(reading);
    for one in waiting {
        let answered = tokio::time::timeout(Duration::from_secs(30), one).await.unwrap();
        assert!(answered.unwrap().is_ok());
    }
}

#[tokio::test]
async fn who_needs_the_store_waits_for_a_turn_and_what_is_kept_and_others_do_not() {
    let begin_us = 1_774_500_000_000_000;
    let (_dir, _store, cache) = with_past_days(begin_us).await;
    let other = IpAddr::from([192, 0, 2, 1]);
    let has_answer = async |client: IpAddr, dst: &str, at_us: i64| {
        let asked = cache.at(client, dst, move || at_us);
        tokio::time::timeout(Duration::from_millis(200), asked).await.is_ok()
    };
    let cold = "192.0.2.8";
    let one = Record { dst: cold.into(), ..record(begin_us - SECOND_US, 60_000_000) };
    report(&cache, vec![one], begin_us).await;
    let of_client = Arc::clone(&cache);
    let long = tokio::spawn(async move {
        of_client
            .turns
            .run(CLIENT, std::future::pending::<std::result::Result<(), Problem>>())
            .await
    });
    tokio::task::yield_now().await;
    assert!(!has_answer(CLIENT, DST, begin_us).await);
    assert!(has_answer(other, DST, begin_us).await);
    assert!(has_answer(CLIENT, DST, begin_us).await);
    assert!(has_answer(CLIENT, DST, begin_us + SECOND_US).await);
    assert!(!has_answer(CLIENT, cold, begin_us).await);
    assert!(has_answer(other, cold, begin_us).await);
    assert!(has_answer(CLIENT, "192.0.2.9", begin_us).await, "of which there is no history");
    long.abort();
}

#[tokio::test]
async fn a_path_more_than_there_is_room_for_takes_the_place_of_one() {
    let begin_us = 1_774_500_000_000_000;
    let (_dir, store) = empty_store().await;
    let cache = without_ping(&store);
    let names = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
    for dst in names {
        let past = (1..5 * 144).map(|i| record(begin_us - i * 10 * MINUTE_US, 60_000_000));
        let past = past.map(|r| Record { dst: dst.into(), ..r });
        report(&cache, past.collect(), begin_us).await;
    }
    let ask = async |dst: &str| {
        cache.at(CLIENT, dst, move || begin_us).await.unwrap();
        cache.held.load(Ordering::Relaxed)
    };
    let of_one = ask(names[0]).await;
    assert!(of_one > 0 && ask(names[1]).await == 2 * of_one);
    cache.held.fetch_add(MOST_SAMPLES_OF_ALL - 2 * of_one, Ordering::Relaxed);
    assert_eq!(ask(names[2]).await, MOST_SAMPLES_OF_ALL);
    let paths = cache.paths();
    assert!(paths.len() == 2 && paths.contains_key(names[2]));
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
