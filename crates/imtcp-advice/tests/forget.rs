// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A path is removed in steps: out of sight at once, its records after that, also beside a stop.

mod support;
use std::sync::Arc;

use imtcp_advice::store::maintain::Retention;
use imtcp_advice::store::write::Batch;
use imtcp_advice::store::{Limits, Place, Store};
use imtcp_client::record::{Kind, Record};
use imtcp_client::time::SECOND_US;
use tokio::sync::Notify;

use support::databases::tests;
use support::{at, record};

fn main() {
    support::databases::run_all(tests![
        a_path_that_is_being_removed_is_seen_nowhere_and_its_name_is_free,
        what_a_stop_leaves_of_a_removal_goes_with_the_next_maintenance,
    ])
}

const DST: &str = "192.0.2.7";
const NOON: &str = "2026-03-20T12:00:00Z";
/// More than two steps.
const RECORDS: i64 = 5_000;

async fn put(store: &Store, source: &str, count: i64) -> u64 {
    let of = |i| Record { source: source.into(), ..record(DST, at(NOON) - i * SECOND_US, 1) };
    let records = (0..count).map(|i| of(i).into()).collect();
    let (written, _) = store.write(&[Batch { id: None, records }], at(NOON)).await.unwrap();
    written[0].stored
}

async fn maintain(store: &Store) -> u64 {
    store.maintain(&Retention::default(), at(NOON), &mut |_, _, _| {}).await.unwrap().removed
}

async fn a_path_that_is_being_removed_is_seen_nowhere_and_its_name_is_free(place: Place) {
    let (mut store, other) =
        (Store::open(&place).await.unwrap(), Store::open(&place).await.unwrap());
    store.limit(Limits { paths: 1, series_of_path: 2 });
    for source in ["a", "b"] {
        put(&store, source, RECORDS).await;
    }
    let threshold = serde_json::from_str(r#"{"threshold": {"bps": 42e6}}"#).unwrap();
    store.change_settings(DST, &threshold).await.unwrap();
    assert!(other.hide(DST).await.unwrap().is_some());
    assert!(other.hide(DST).await.unwrap().is_none());
    for of in [&store, &other] {
        assert!(of.path(DST).await.unwrap().is_none() && !of.has_path(DST).await.unwrap());
        assert_eq!(of.path_names("", 9).await.unwrap(), [""; 0]);
        assert_eq!(of.find_paths("", "", 9, 9).await.unwrap().matches, 0);
        let size = of.size().await.unwrap();
        assert_eq!((size.paths, size.series), (0, 0));
    }
    // `store` knew the series, and there is room for one path.
    assert_eq!(put(&store, "a", 3).await, 3);
    assert_eq!(maintain(&other).await, 2 * RECORDS as u64);
    assert_eq!(maintain(&other).await, 0);
    let path = store.path(DST).await.unwrap().unwrap();
    assert!(path.settings.is_empty() && path.series.len() == 1, "{path:?}");
    let of = (&path.series[0], Kind::Bandwidth);
    assert_eq!(store.stored(DST, of, (0, 0), i64::MAX, 9).await.unwrap().len(), 3);
}

async fn what_a_stop_leaves_of_a_removal_goes_with_the_next_maintenance(place: Place) {
    let store = Arc::new(Store::open(&place).await.unwrap());
    put(&store, "a", RECORDS).await;
    let begun = Arc::new(Notify::new());
    let removing = tokio::spawn({
        let (store, begun) = (Arc::clone(&store), Arc::clone(&begun));
        async move { store.forget(DST, &mut |_| begun.notify_one()).await.map(drop) }
    });
    begun.notified().await;
    removing.abort();
    assert!(removing.await.unwrap_err().is_cancelled());
    assert!(store.path(DST).await.unwrap().is_none());
    let left = maintain(&store).await;
    assert!((1..RECORDS as u64).contains(&left), "{left}");
    assert_eq!(maintain(&store).await, 0);
}
