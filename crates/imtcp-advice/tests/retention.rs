// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! From when ages count, and what a mean may be.

mod support;
use imtcp_advice::store::maintain::Retention;
use imtcp_advice::store::write::Batch;
use imtcp_advice::store::{Place, Store};
use imtcp_client::record::{Kind, Record};
use imtcp_client::time::{DAY_US, SECOND_US};

use support::databases::tests;
use support::{at, record};

fn main() {
    support::databases::run_all(tests![
        a_source_that_went_silent_ages_with_the_others_of_its_path,
        a_path_whose_sources_are_all_silent_stays_as_it_is,
        a_mean_is_no_more_than_the_greatest_of_its_records,
        a_mean_is_of_the_records_that_count_and_of_no_others,
    ])
}

const DST: &str = "192.0.2.7";
const NOON: &str = "2026-03-20T12:00:00Z";

async fn put(store: &Store, records: Vec<Record>) {
    let records = records.into_iter().map(Into::into).collect();
    store.write(&[Batch { id: None, records }], at(NOON)).await.unwrap();
}

/// Records of a source until so many days ago.
fn of(source: &str, days: i64) -> Vec<Record> {
    let time = |i: i64| at(NOON) - days * DAY_US - i * 10 * SECOND_US;
    let one = |i| Record { source: source.into(), ..record(DST, time(i), 1) };
    (0..50).map(one).collect()
}

/// Spans of the records of bandwidth that a source has, each once.
async fn spans(store: &Store, source: &str) -> Vec<u32> {
    let path = store.path(DST).await.unwrap().unwrap();
    let series = path.series.iter().find(|s| s.source == source).unwrap();
    let of = (series, Kind::Bandwidth);
    let stored = store.stored(DST, of, (0, 0), i64::MAX, 999).await.unwrap();
    let mut spans: Vec<_> = stored.iter().map(|s| s.span_s).collect();
    spans.dedup();
    spans
}

async fn a_source_that_went_silent_ages_with_the_others_of_its_path(place: Place) {
    let store = Store::open(&place).await.unwrap();
    for (source, days) in [("gone", 3800), ("hours", 500), ("minutes", 40), ("raw", 20)] {
        put(&store, of(source, days)).await;
    }
    // A test counts as the path's newest, too.
    let ping = Record { available_bps: None, rtt_us: Some(1), ..record(DST, at(NOON), 0) };
    put(&store, vec![ping]).await;
    let done = store.maintain(&Retention::default(), at(NOON), &mut |_, _, _| {}).await.unwrap();
    // What is due for hours becomes one of them first.
    assert!((1..=50).contains(&done.removed), "{done:?}");
    assert_eq!(spans(&store, "gone").await, [0; 0]);
    assert_eq!(spans(&store, "hours").await, [3600]);
    assert_eq!(spans(&store, "minutes").await, [60]);
    assert_eq!(spans(&store, "raw").await, [0]);
}

async fn a_path_whose_sources_are_all_silent_stays_as_it_is(place: Place) {
    let store = Store::open(&place).await.unwrap();
    put(&store, of("a", 5000)).await;
    put(&store, of("b", 5010)).await;
    // Another path's newest says nothing of this one.
    put(&store, vec![record("192.0.2.8", at(NOON), 1)]).await;
    let done = store.maintain(&Retention::default(), at(NOON), &mut |_, _, _| {}).await.unwrap();
    assert_eq!((done.rolled_up, done.removed), (0, 0));
}

async fn a_mean_is_no_more_than_the_greatest_of_its_records(place: Place) {
    let store = Store::open(&place).await.unwrap();
    // As a double it is one more.
    let odd_bps = (1 << 53) + 3;
    let old = at(NOON) - 40 * DAY_US;
    put(&store, vec![record(DST, old, odd_bps), record(DST, at(NOON), 1)]).await;
    let path = store.path(DST).await.unwrap().unwrap();
    let series = &path.series[0];
    let mean = async || {
        let points = store.history(&[series.id], old - 1, old + DAY_US, 1).await.unwrap();
        (points[0].available_bps, points[0].high_bps)
    };
    assert_eq!(mean().await, (odd_bps, odd_bps));
    // The second joins the mean that the first has become.
    for _ in 0..2 {
        assert_eq!(
            store
                .maintain(&Retention::default(), at(NOON), &mut |_, _, _| {})
                .await
                .unwrap()
                .rolled_up,
            1
        );
        let stored = store.stored(DST, (series, Kind::Bandwidth), (0, 0), old + DAY_US, 9).await;
        let minute = &stored.unwrap()[0];
        let values = (minute.low_bps, minute.record.available_bps, minute.high_bps);
        assert_eq!((minute.span_s, values), (60, (odd_bps, Some(odd_bps), odd_bps)));
        assert_eq!(mean().await, (odd_bps, odd_bps));
        put(&store, vec![record(DST, old, odd_bps)]).await;
    }
}

/// Who reports with little validity moved the mean, which counted then; and what counts with a validity of 0 was lost.
async fn a_mean_is_of_the_records_that_count_and_of_no_others(place: Place) {
    let store = Store::open(&place).await.unwrap();
    let old = at(NOON) - 40 * DAY_US;
    let of = |validity_pct, available_bps| Record {
        validity_pct: Some(validity_pct),
        ..record(DST, old + i64::from(validity_pct) * SECOND_US / 10, available_bps)
    };
    for (least_pct, mean_bps, samples) in [(50, 10, 1), (0, 40, 3)] {
        store.forget(DST, &mut |_| {}).await.unwrap();
        put(&store, vec![of(100, 10), of(20, 90), of(0, 20), record(DST, at(NOON), 1)]).await;
        let change = serde_json::json!({ "min_validity_pct": least_pct });
        store.change_settings(DST, change.as_object().unwrap()).await.unwrap();
        let done = store.maintain(&Retention::default(), at(NOON), &mut |_, _, _| {}).await;
        assert_eq!(done.unwrap().rolled_up, 3);
        let path = store.path(DST).await.unwrap().unwrap();
        let points = store.history(&[path.series[0].id], old - 1, old + DAY_US, 1).await.unwrap();
        assert_eq!((points[0].available_bps, points[0].samples), (mean_bps, samples));
    }
}
