// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What is kept of a path is what the store would tell.

use super::*;
use crate::store::write::Batch;
use crate::store::Place;
use crate::time::{DAY_US, HOUR_US, MINUTE_US};
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
        3 => prop::collection::vec(made(), 1..4).prop_map(Event::Report),
        1 => prop::collection::vec(made(), 1..4).prop_map(Event::Import),
        1 => setting.prop_map(Event::Setting),
    ]
}

async fn answers_are_those_of_a_service_just_started(
    begin_us: i64,
    events: Vec<Event>,
) -> std::result::Result<(), TestCaseError> {
    let (_dir, store) = empty_store().await;
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
        capacity_bps: (i % 3 == 0).then_some(100_000_000),
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

#[tokio::test]
async fn a_capacity_holds_for_records_of_the_day_after_that_tell_none() {
    let (_dir, store) = empty_store().await;
    let begin_us = 1_774_500_000_000_000;
    let record = |source: &str, hours: i64, capacity_bps| Record {
        dst: DST.into(),
        source: source.into(),
        time: begin_us + hours * HOUR_US,
        available_bps: Some(60_000_000),
        capacity_bps,
        ..Record::default()
    };
    let told = [record("router", 0, Some(100_000_000)), record("agent", 23, None)];
    let records = told.into_iter().map(Into::into).collect();
    store.write(&[Batch { id: None, records }], begin_us).await.unwrap();
    let book = Book::new(Arc::clone(&store), Pinger::new(false));
    let capacity_at = async |hours: i64| {
        let kept = book.kept(DST, begin_us + hours * HOUR_US).await.unwrap();
        kept.advice.computed_from.capacity_bps
    };
    assert_eq!(capacity_at(23).await, Some(1e8));
    book.wrote([&record("agent", 24, None)].into_iter()).await;
    assert_eq!(capacity_at(24).await, Some(1e8));
    book.wrote([&record("agent", 25, None)].into_iter()).await;
    assert_eq!(capacity_at(25).await, None);
}

/// The whole history has a day more then: what was kept for the day before answered nothing, and each
/// second's advice was read from the disk until the ten minutes were over.
#[tokio::test]
async fn a_day_that_begins_has_a_block_of_its_own() {
    let (_dir, store) = empty_store().await;
    let midnight_us = 1_774_483_200_000_000;
    let record = |i: i64| Record {
        dst: DST.into(),
        time: midnight_us - i * MINUTE_US,
        available_bps: Some(60_000_000 + (i % 1440) as u64 * 1000),
        ..Record::default()
    };
    let records = (3..=5 * 1440).map(|i| record(i).into()).collect();
    store.write(&[Batch { id: None, records }], midnight_us).await.unwrap();
    let book = Book::new(Arc::clone(&store), Pinger::new(false));
    for (t0_us, of_day_us) in [
        (midnight_us - 2 * MINUTE_US, midnight_us - 2 * MINUTE_US),
        (midnight_us + MINUTE_US, midnight_us + MINUTE_US),
        (midnight_us + 2 * MINUTE_US, midnight_us + MINUTE_US),
    ] {
        let kept = book.kept(DST, t0_us).await.unwrap();
        assert_eq!(kept.json, book.as_of(DST, t0_us).await.unwrap().json);
        let entry = book.entry(DST).await.unwrap().unwrap();
        let known = entry.lock().await;
        let block = known.as_ref().and_then(|k| k.block.as_ref()).unwrap();
        assert!(block.is_for(of_day_us) && !block.is_for(of_day_us - 1));
    }
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
