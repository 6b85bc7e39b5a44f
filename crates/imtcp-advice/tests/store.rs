// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The history, the same tests on SQLite and on PostgreSQL.

mod support;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use imtcp_advice::advice::days::Window;
use imtcp_advice::service::guard::{Access, Tokens};
use imtcp_advice::service::{Config, Service};
use imtcp_advice::settings::Changes;
use imtcp_advice::store::maintain::Retention;
use imtcp_advice::store::read::PathInfo;
use imtcp_advice::store::search::Found;
use imtcp_advice::store::write::{Batch, Written};
use imtcp_advice::store::{Limits, Place, Store};
use imtcp_advice::{exchange, parquet, Error};
use imtcp_client::record::{Kind, Record};
use imtcp_client::time::{self, DAY_US, HOUR_US, MINUTE_US};
use serde_json::Value;
use tower::ServiceExt;

use support::databases::tests;
use support::service::asked;
use support::{at, record};

fn main() {
    support::databases::run_all(tests![
        what_is_written_is_read_again,
        a_batch_comes_once,
        batches_that_come_together_are_told_apart,
        series_are_made_together_and_found_again,
        new_paths_take_no_longer_where_there_are_many,
        records_are_stored_beside_whoever_removes_paths_all_the_time,
        a_record_comes_once,
        batches_written_together_are_safe_together,
        settings_are_kept_and_taken_back,
        roll_up_keeps_means_and_counts,
        roll_up_twice_changes_nothing,
        what_comes_late_widens_the_mean_that_it_joins,
        the_oldest_go,
        active_tests_are_kept_apart_from_bandwidth,
        active_tests_become_means_of_what_they_tell,
        an_export_carries_active_tests,
        histories_of_older_schemas_are_brought_up_to_date,
        clients_are_kept_and_removed,
        paths_are_found_by_a_part_of_their_name,
        answers_about_paths_with_many_long_sources_have_a_megabyte_at_most,
        a_search_reads_a_bounded_number_of_names_and_goes_on_behind_them,
        a_path_is_removed_with_all_that_is_known_of_it,
        advice_takes_the_rtt_of_active_tests_and_nothing_else,
        an_export_can_be_imported_again,
        an_export_carries_records_without_a_source,
        importing_again_after_a_roll_up_changes_nothing,
        a_wrong_line_is_named,
        a_newer_schema_is_refused,
        other_processes_see_that_something_changed,
        two_that_open_at_once_agree,
        a_clock_that_leaps_ahead_removes_nothing_for_weeks,
        vacuum_works,
        space_is_given_back_in_steps_that_are_told,
        its_size_counts_paths_and_series,
        the_service_answers_from_it,
        two_services_on_one_history_take_reports_and_answer_at_once,
        silent_paths_go_and_imported_ones_stay,
        beyond_the_bounds_records_are_refused_and_the_others_stored,
        each_record_of_a_long_backlog_is_rolled_up_once,
    ]);
}

const DST: &str = "192.0.2.7";
const NOON: &str = "2026-03-20T12:00:00Z";

async fn open(place: &Place) -> Store {
    Store::open(place).await.unwrap()
}

fn batch(id: Option<&str>, records: Vec<Record>) -> Batch {
    Batch { id: id.map(str::to_string), records: records.into_iter().map(Into::into).collect() }
}

async fn put(store: &Store, records: Vec<Record>) -> u64 {
    store.write(&[batch(None, records)], at(NOON)).await.unwrap().0[0].stored
}

async fn path(store: &Store) -> PathInfo {
    store.path(DST).await.unwrap().unwrap()
}

/// A record a minute, its bandwidth rising by `step_bps`.
fn minutes(from_us: i64, count: i64, step_bps: i64) -> Vec<Record> {
    let bps = |i| (50_000_000 + i * step_bps) as u64;
    (0..count).map(|i| record(DST, from_us + i * MINUTE_US, bps(i))).collect()
}

async fn what_is_written_is_read_again(place: Place) {
    let store = open(&place).await;
    let full = Record {
        hop: "198.51.100.1".into(),
        capacity_bps: Some(100_000_000),
        rtt_us: Some(30_500),
        loss: Some(0.01),
        congested: Some(true),
        validity_pct: Some(93),
        ..record(DST, at(NOON), 42_000_000)
    };
    assert_eq!(put(&store, vec![full.clone(), record(DST, at(NOON) - 5, 7)]).await, 2);
    store.close().await;

    let store = Store::open_existing(&place).await.unwrap();
    let path = path(&store).await;
    assert_eq!(path.series.len(), 2);
    let hop = path.series.iter().find(|s| s.hop == "198.51.100.1").unwrap();
    assert_eq!((hop.oldest_us, hop.newest_us), (Some(at(NOON)), Some(at(NOON))));
    let stored = store.stored(DST, (hop, Kind::Bandwidth), (0, 0), i64::MAX, 10).await.unwrap();
    assert_eq!(stored[0].record, full);
    let (_, newest) = store.newest(hop.id, at(NOON), 1).await.unwrap().unwrap();
    assert_eq!((newest.congested, newest.rtt_us), (Some(true), Some(30_500)));
    assert_eq!(store.newest(hop.id, at(NOON) - 1, 1).await.unwrap(), None);
    assert_eq!(store.newest(hop.id, at(NOON), 94).await.unwrap(), None);

    let window = Window {
        day: jiff::civil::date(2026, 3, 20),
        start_us: at(NOON) - MINUTE_US,
        end_us: at(NOON),
    };
    let empty = Window { start_us: 0, end_us: 9, ..window };
    let samples = store.samples(&[hop.id], &[empty, window], 1, 100).await.unwrap().unwrap();
    assert_eq!(samples[0], []);
    assert_eq!(samples[1], [(at(NOON), 42e6)]);
    assert_eq!(store.path("192.0.2.99").await.unwrap().map(|p| p.dst), None);
    assert_eq!(store.path_names("", 10).await.unwrap(), [DST]);
}

async fn a_batch_comes_once(place: Place) {
    let store = open(&place).await;
    let first = batch(Some("b1"), minutes(at(NOON), 3, 0));
    let (written, _) = store.write(std::slice::from_ref(&first), at(NOON)).await.unwrap();
    assert_eq!((written[0].stored, written[0].duplicate), (3, false));
    let (written, _) = store.write(&[first], at(NOON)).await.unwrap();
    assert_eq!((written[0].stored, written[0].duplicate), (0, true));
}

/// The first of two batches with one id counts, also when both come together. Each batch hears how many of
/// its own records were new.
async fn batches_that_come_together_are_told_apart(place: Place) {
    let store = open(&place).await;
    put(&store, minutes(at(NOON), 3, 0)).await;
    let batches = [
        batch(Some("half there"), minutes(at(NOON), 5, 0)),
        batch(Some("new"), minutes(at(NOON) + HOUR_US, 4, 0)),
        batch(Some("new"), minutes(at(NOON) + 2 * HOUR_US, 4, 0)),
        batch(None, minutes(at(NOON) + HOUR_US, 6, 0)),
        batch(Some("empty"), vec![]),
    ];
    let told = |written: Vec<Written>| -> Vec<_> {
        written.into_iter().map(|w| (w.stored, w.duplicate)).collect()
    };
    let (written, _) = store.write(&batches, at(NOON)).await.unwrap();
    assert_eq!(told(written), [(2, false), (4, false), (0, true), (2, false), (0, false)]);
    let (written, _) = store.write(&batches, at(NOON)).await.unwrap();
    assert_eq!(told(written), [(0, true), (0, true), (0, true), (0, false), (0, true)]);
}

/// Names with everything that JSON escapes, and paths with several series.
async fn series_are_made_together_and_found_again(place: Place) {
    let named = |hop: &str, source: &str| Record {
        hop: hop.into(),
        source: source.into(),
        ..record(DST, at(NOON), 1)
    };
    let records = [
        named("", "a \"quoted\" \\ name\u{1f}é"),
        named("", "b"),
        named("198.51.100.1", "b"),
        Record { dst: "mirror.example".into(), ..named("", "b") },
    ];
    for stored in [4, 0] {
        let store = open(&place).await;
        assert_eq!(put(&store, records.to_vec()).await, stored);
        assert_eq!(put(&store, records.to_vec()).await, 0);
        let found = path(&store).await.series;
        let of_dst: Vec<_> = records.iter().filter(|r| r.dst == DST).map(|r| &r.source).collect();
        assert_eq!(found.len(), of_dst.len());
        assert!(of_dst.iter().all(|source| found.iter().any(|s| s.source == **source)));
        store.close().await;
    }
}

/// PostgreSQL read all paths for each new one.
async fn new_paths_take_no_longer_where_there_are_many(place: Place) {
    let store = open(&place).await;
    let mut took = Vec::new();
    for round in 0..12 {
        let of = |i| Record {
            dst: format!("10.{round}.{}.{}", i / 250, i % 250),
            ..record(DST, at(NOON), 1)
        };
        let begun = Instant::now();
        assert_eq!(put(&store, (0..500).map(of).collect()).await, 500);
        took.push(begun.elapsed());
    }
    let (first, last) = (took[..2].iter().min().unwrap(), took[10..].iter().min().unwrap());
    assert!(*last < *first * 3, "{took:?}");
}

/// With this store, and with another on the same history: one of them reports on the paths that go, too.
async fn records_are_stored_beside_whoever_removes_paths_all_the_time(place: Place) {
    let store = Arc::new(open(&place).await);
    let other = Arc::new(open(&place).await);
    let mut churning = tokio::task::JoinSet::new();
    for i in 0..8 {
        let with = Arc::clone(if i % 2 == 0 { &store } else { &other });
        churning.spawn(async move {
            loop {
                let dst = format!("churn{i}.example");
                with.change_settings(&dst, &Default::default()).await.unwrap();
                with.forget(&dst, &mut |_| {}).await.unwrap();
            }
        });
    }
    for round in 0..20 {
        let of = |dst: &str| Record { dst: dst.into(), ..record(DST, at(NOON) + round, 1) };
        let (id, now) = (format!("b{round}"), at(NOON));
        let batches = [batch(Some(&id), vec![of(DST), of("churn1.example")])];
        let written = tokio::time::timeout(Duration::from_secs(5), store.write(&batches, now));
        let (written, _) = written.await.expect("within five seconds").unwrap();
        assert_eq!(written[0].stored, 2);
    }
    churning.shutdown().await;
    let path = path(&store).await;
    let stored = store.stored(DST, (&path.series[0], Kind::Bandwidth), (0, 0), i64::MAX, 99).await;
    assert_eq!(stored.unwrap().len(), 20);
}

async fn a_record_comes_once(place: Place) {
    let store = open(&place).await;
    assert_eq!(put(&store, minutes(at(NOON), 3, 0)).await, 3);
    assert_eq!(put(&store, minutes(at(NOON), 5, 0)).await, 2);
}

async fn batches_written_together_are_safe_together(place: Place) {
    let store = open(&place).await;
    let batches: Vec<_> = (0..20)
        .map(|i| batch(Some(&format!("b{i}")), minutes(at(NOON) + i * HOUR_US, 50, 1)))
        .collect();
    let (written, _) = store.write(&batches, at(NOON)).await.unwrap();
    assert!(written.iter().all(|w| w.stored == 50 && !w.duplicate));
    let again = open(&place).await;
    let path = path(&again).await;
    let stored = again
        .stored(DST, (&path.series[0], Kind::Bandwidth), (0, 0), i64::MAX, 5000)
        .await
        .unwrap();
    assert_eq!(stored.len(), 1000);
}

async fn settings_are_kept_and_taken_back(place: Place) {
    let store = open(&place).await;
    let changes = |text: &str| serde_json::from_str(text).unwrap();
    store.change_settings(DST, &changes(r#"{"z": 3.0, "zone": "Europe/Berlin"}"#)).await.unwrap();
    let left = store.change_settings(DST, &changes(r#"{"z": null}"#)).await.unwrap();
    assert_eq!(left, changes(r#"{"zone": "Europe/Berlin"}"#));
    assert!(store.change_settings(DST, &changes(r#"{"z": -1}"#)).await.is_err());
    assert_eq!(path(&store).await.settings, left);
}

/// Two hours of a record each 10 s, the second 40 days after the first.
async fn roll_up_keeps_means_and_counts(place: Place) {
    let store = open(&place).await;
    let now = at(NOON);
    let old = (now - 40 * DAY_US) / HOUR_US * HOUR_US;
    let every_10_s =
        |from: i64| (0..360).map(move |i| record(DST, from + i * 10_000_000, i as u64 * 1000));
    put(&store, every_10_s(old).chain(every_10_s(now - HOUR_US)).collect()).await;
    let done = store.maintain(&Retention::default(), now, &mut |_, _, _| {}).await.unwrap();
    assert_eq!((done.rolled_up, done.removed), (360, 0));

    let path = path(&store).await;
    let stored = store
        .stored(DST, (&path.series[0], Kind::Bandwidth), (0, 0), i64::MAX, 5000)
        .await
        .unwrap();
    assert_eq!(stored.len(), 60 + 360);
    // The first minute: 0, 1, … 5 kbit/s at 0, 10, … 50 s.
    let minute = &stored[0];
    assert_eq!((minute.span_s, minute.samples, minute.record.available_bps), (60, 6, Some(2500)));
    assert_eq!((minute.low_bps, minute.high_bps), (0, 5000));
    assert_eq!(minute.record.time, old + 25_000_000);

    let keep = Retention { minute_days: 35, ..Retention::default() };
    assert_eq!(store.maintain(&keep, now, &mut |_, _, _| {}).await.unwrap().rolled_up, 60);
    let hour = &store
        .stored(DST, (&path.series[0], Kind::Bandwidth), (0, 0), i64::MAX, 5000)
        .await
        .unwrap()[0];
    assert_eq!((hour.span_s, hour.samples, hour.record.available_bps), (3600, 360, Some(179_500)));
    assert_eq!((hour.low_bps, hour.high_bps), (0, 359_000));
}

async fn roll_up_twice_changes_nothing(place: Place) {
    let store = open(&place).await;
    let now = at(NOON);
    put(&store, minutes(now - 50 * DAY_US, 600, 10)).await;
    let keep = Retention::default();
    // An old trace stays as it came, until something newer follows.
    assert_eq!(store.maintain(&keep, now, &mut |_, _, _| {}).await.unwrap().rolled_up, 0);
    put(&store, vec![record(DST, now, 1)]).await;
    let before = store.generation().await.unwrap();
    let mut rolled = Vec::new();
    let mut hear = |dst: &str, from_us, until_us| rolled.push((dst.to_string(), from_us, until_us));
    // A mean of one record says the same.
    assert_eq!(store.maintain(&keep, now, &mut hear).await.unwrap().rolled_up, 600);
    assert_eq!(store.maintain(&keep, now, &mut hear).await.unwrap().rolled_up, 0);
    assert_eq!(rolled, []);
    // Other processes are told all the same.
    let raised = store.generation().await.unwrap() - before;
    assert_eq!(raised, i64::from(!matches!(place, Place::File(_))));
    // A late record joins the others at the next roll-up.
    let late_us = now - 50 * DAY_US;
    put(&store, vec![record(DST, late_us, 1)]).await;
    let mut hear = |dst: &str, from_us, until_us| rolled.push((dst.to_string(), from_us, until_us));
    assert_eq!(store.maintain(&keep, now, &mut hear).await.unwrap().rolled_up, 1);
    assert!(
        matches!(&rolled[..], [(dst, from, until)] if dst == DST && (*from..*until).contains(&late_us))
    );
    let before = store.generation().await.unwrap();
    let short = Retention { raw_days: 1, minute_days: 2, hour_days: 3, ..keep };
    assert!(store.maintain(&short, now, &mut |_, _, _| {}).await.unwrap().removed > 0);
    assert_eq!(store.generation().await.unwrap(), before + 1, "what is removed is forgotten");
}

async fn what_comes_late_widens_the_mean_that_it_joins(place: Place) {
    let store = open(&place).await;
    let (now, old) = (at(NOON), at(NOON) - 50 * DAY_US);
    put(&store, vec![record(DST, now, 1)]).await;
    for bps in [30, 10, 50] {
        put(&store, vec![record(DST, old, bps)]).await;
        store.maintain(&Retention::default(), now, &mut |_, _, _| {}).await.unwrap();
    }
    let path = path(&store).await;
    let minute =
        &store.stored(DST, (&path.series[0], Kind::Bandwidth), (0, 0), now, 10).await.unwrap()[0];
    assert_eq!((minute.samples, minute.record.available_bps), (3, Some(30)));
    assert_eq!((minute.low_bps, minute.high_bps), (10, 50));
}

async fn the_oldest_go(place: Place) {
    let store = open(&place).await;
    let now = at(NOON);
    put(&store, [20, 5, 0].map(|days| record(DST, now - days * DAY_US, 1)).into()).await;
    let keep = Retention { raw_days: 1, minute_days: 2, hour_days: 10, ..Retention::default() };
    assert_eq!(store.maintain(&keep, now, &mut |_, _, _| {}).await.unwrap().removed, 1);
}

fn ping(time_us: i64, rtt_us: Option<u64>, loss: f64) -> Record {
    let source = "test/ping".into();
    Record { available_bps: None, rtt_us, loss: Some(loss), source, ..record(DST, time_us, 0) }
}

fn iperf3(time_us: i64, throughput_bps: u64) -> Record {
    let throughput_bps = Some(throughput_bps);
    let source = "test/iperf3".into();
    Record { available_bps: None, throughput_bps, source, ..record(DST, time_us, 0) }
}

/// As they are stored, of all series.
async fn tests_of(store: &Store) -> Vec<imtcp_advice::store::write::Stored> {
    let mut all = Vec::new();
    for series in &path(store).await.series {
        let of = (series, Kind::Test);
        all.extend(store.stored(DST, of, (0, 0), i64::MAX, 5000).await.unwrap());
    }
    all
}

async fn active_tests_are_kept_apart_from_bandwidth(place: Place) {
    let store = open(&place).await;
    let tests = [ping(at(NOON), Some(30_000), 0.2), iperf3(at(NOON) + 1, 40_000_000)];
    assert_eq!(put(&store, tests.into()).await, 2);
    assert_eq!(put(&store, vec![ping(at(NOON), Some(9), 0.0)]).await, 0);
    // The same source at the same time.
    let source = "test/ping".into();
    assert_eq!(put(&store, vec![Record { source, ..record(DST, at(NOON), 7) }]).await, 1);

    let path = path(&store).await;
    let of = |source: &str| path.series.iter().find(|s| s.source == source).unwrap();
    let (with_ping, with_iperf3) = (of("test/ping"), of("test/iperf3"));
    assert_eq!((with_ping.newest_us, with_ping.newest_test_us), (Some(at(NOON)), Some(at(NOON))));
    assert_eq!((with_iperf3.newest_us, with_iperf3.newest_test_us), (None, Some(at(NOON) + 1)));
    assert_eq!(store.newest(with_iperf3.id, i64::MAX, 0).await.unwrap(), None);
    let ids = [with_ping.id, with_iperf3.id];
    assert_eq!(store.all_samples(&ids, 0).await.unwrap(), [(at(NOON), 7.0)]);
    let points = store.history(&ids, at(NOON) - 5, at(NOON) + 5, 1).await.unwrap();
    assert_eq!((points.len(), points[0].samples, points[0].rtt_us), (1, 1, None));
    let told = store.tests(&path.series, at(NOON) - 5, at(NOON) + 5, 1).await.unwrap();
    let told: Vec<_> =
        told.iter().map(|t| (t.source.as_str(), t.rtt_us, t.loss, t.throughput_bps)).collect();
    let of_iperf3 = ("test/iperf3", None, None, Some(40_000_000));
    assert_eq!(told, [of_iperf3, ("test/ping", Some(30_000), Some(0.2), None)]);
}

/// Two pings that were answered in part, one that was not, in a minute of forty days ago.
async fn active_tests_become_means_of_what_they_tell(place: Place) {
    let store = open(&place).await;
    let (now, old) = (at(NOON), at(NOON) - 40 * DAY_US);
    let lost = ping(old + 40_000_000, None, 1.0);
    let tests = vec![ping(old, Some(30_000), 0.0), ping(old + 20_000_000, Some(50_000), 0.2), lost];
    put(&store, tests).await;
    put(&store, vec![iperf3(old, 10), iperf3(old + 5, 20), iperf3(now, 5)]).await;
    put(&store, vec![ping(now, Some(1), 0.0)]).await;
    let keep = Retention::default();
    assert_eq!(store.maintain(&keep, now, &mut |_, _, _| {}).await.unwrap().rolled_up, 5);
    let stored = tests_of(&store).await;
    let mean = stored.iter().find(|s| s.span_s == 60 && s.record.rtt_us.is_some()).unwrap();
    assert_eq!((mean.samples, mean.record.rtt_us), (3, Some(40_000)));
    assert!((mean.record.loss.unwrap() - 0.4).abs() < 1e-9);
    assert_eq!((mean.record.available_bps, mean.record.throughput_bps), (None, None));
    assert_eq!(mean.record.time, old + 20_000_000);
    let throughput: Vec<_> = stored.iter().filter_map(|s| s.record.throughput_bps).collect();
    assert_eq!(throughput, [15, 5]);
    // A late record joins, also where the mean lacks that value.
    put(&store, vec![ping(old + 20_000_000, None, 0.8)]).await;
    assert_eq!(store.maintain(&keep, now, &mut |_, _, _| {}).await.unwrap().rolled_up, 1);
    let stored = tests_of(&store).await;
    let mean = stored.iter().find(|s| s.samples == 4).unwrap();
    assert_eq!(mean.record.rtt_us, Some(40_000));
    assert!((mean.record.loss.unwrap() - 0.5).abs() < 1e-9);
    let keep = Retention { raw_days: 1, minute_days: 2, hour_days: 10, ..Retention::default() };
    assert_eq!(store.maintain(&keep, now, &mut |_, _, _| {}).await.unwrap().removed, 2);
}

async fn an_export_carries_active_tests(place: Place) {
    let store = open(&place).await;
    let now = at(NOON);
    let tests = [ping(now, Some(30_000), 0.2), ping(now + 1, None, 1.0), iperf3(now, 40_000_000)];
    put(&store, tests.into()).await;
    put(&store, minutes(now - 50 * DAY_US, 3, 5)).await;
    put(&store, vec![ping(now - 50 * DAY_US, Some(7), 0.0)]).await;
    store.maintain(&Retention::default(), now, &mut |_, _, _| {}).await.unwrap();
    let everything = (0, i64::MAX);
    let mut first = Vec::new();
    exchange::export(&store, &[path(&store).await], everything, &mut first).await.unwrap();

    let dir = tempfile::tempdir().unwrap();
    let (csv, table) = (dir.path().join("csv.db"), dir.path().join("parquet.db"));
    let (csv, table) = (open(&Place::File(csv)).await, open(&Place::File(table)).await);
    let file = dir.path().join("history.parquet");
    let out = std::fs::File::create(&file).unwrap();
    parquet::export(&store, &[path(&store).await], everything, out).await.unwrap();
    for (stored, known) in [(7, 0), (0, 7)] {
        let done = exchange::import(&csv, None, "", &first[..]).await.unwrap();
        assert_eq!((done.stored, done.known), (stored, known));
        let input = std::fs::File::open(&file).unwrap();
        let done = parquet::import(&table, None, "", 0, input).await.unwrap();
        assert_eq!((done.stored, done.known), (stored, known));
    }
    for other in [&csv, &table] {
        let mut again = Vec::new();
        exchange::export(other, &[path(other).await], everything, &mut again).await.unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), String::from_utf8(first.clone()).unwrap());
    }
}

async fn histories_of_older_schemas_are_brought_up_to_date(place: Place) {
    let store = open(&place).await;
    put(&store, minutes(at(NOON), 100, 5)).await;
    let everything = (0, i64::MAX);
    let mut before = Vec::new();
    exchange::export(&store, &[path(&store).await], everything, &mut before).await.unwrap();
    store.close().await;
    for version in [3, 2, 1] {
        let store = open(&place).await;
        store.back_to_version_for_tests(version).await.unwrap();
        store.close().await;

        // Two at once.
        let (a, b) = tokio::join!(Store::open(&place), Store::open_existing(&place));
        let (a, b) = (a.unwrap(), b.unwrap());
        let mut after = Vec::new();
        exchange::export(&a, &[path(&a).await], everything, &mut after).await.unwrap();
        assert_eq!(after, before, "{version}");
        b.add_client(DST, at(NOON)).await.unwrap();
        assert_eq!(a.clients().await.unwrap().len(), 1);
        a.close().await;
        b.close().await;
    }
    let store = open(&place).await;
    assert_eq!(put(&store, vec![ping(at(NOON), Some(5), 0.0)]).await, 1);
    assert_eq!(tests_of(&store).await.len(), 1);
}

async fn a_path_is_removed_with_all_that_is_known_of_it(place: Place) {
    let (store, other) = (open(&place).await, open(&place).await);
    put(&store, minutes(at(NOON), 100, 0)).await;
    put(&store, vec![ping(at(NOON), Some(5), 0.0)]).await;
    let threshold = serde_json::from_str(r#"{"threshold": {"bps": 42e6}}"#).unwrap();
    store.change_settings(DST, &threshold).await.unwrap();
    assert_eq!(other.forget(DST, &mut |_| {}).await.unwrap(), Some(101));
    assert_eq!(other.forget(DST, &mut |_| {}).await.unwrap(), None);
    assert!(store.path(DST).await.unwrap().is_none());
    // The next path may have the ids of the one that went, which `store` still knows as that one's.
    put(&other, vec![record("198.51.100.9", at(NOON), 1)]).await;
    assert_eq!(put(&store, minutes(at(NOON), 3, 0)).await, 3);
    let newest = async |dst| store.path(dst).await.unwrap().unwrap().series[0].newest_us;
    assert_eq!(newest("198.51.100.9").await, Some(at(NOON)));
    assert_eq!(newest(DST).await, Some(at(NOON) + 2 * MINUTE_US));
    assert!(path(&store).await.settings.is_empty());
}

async fn clients_are_kept_and_removed(place: Place) {
    let store = open(&place).await;
    for (i, dst) in ["192.0.2.9", DST, DST].into_iter().enumerate() {
        store.add_client(dst, at(NOON) + i as i64).await.unwrap();
    }
    let told: Vec<_> =
        store.clients().await.unwrap().into_iter().map(|c| (c.dst, c.added)).collect();
    let first = |dst: &str, after_us| (dst.to_string(), at(NOON) + after_us);
    assert_eq!(told, [first(DST, 1), first("192.0.2.9", 0)]);
    assert!(store.remove_client(DST).await.unwrap());
    assert!(!store.remove_client(DST).await.unwrap());
    assert_eq!(store.clients().await.unwrap().len(), 1);
    // They are no paths.
    assert!(store.path_names("", 9).await.unwrap().is_empty());
}

async fn paths_are_found_by_a_part_of_their_name(place: Place) {
    let store = open(&place).await;
    let names = ["192.0.2.7", "192.0.2.77", "2001:db8::7", "db8.example.org"];
    put(&store, names.iter().map(|dst| record(dst, at(NOON), 1)).collect()).await;
    store.change_settings("*", &Changes::default()).await.unwrap();
    let service = Service::start(store, Config::default()).await.unwrap();
    let found = async |query: &str| {
        let answer = asked(&service, "GET", &format!("/v1/paths?{query}"), String::new()).await;
        let names: Vec<_> = answer["paths"]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"))
            .iter()
            .map(|path| path["dst"].as_str().unwrap().to_string())
            .collect();
        (names, answer["matches"].as_u64(), answer["next"].as_str().map(str::to_string))
    };
    let all = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(found("q=2.7").await, (all(&names[..2]), Some(2), None));
    assert_eq!(found("q=DB8").await, (all(&names[2..]), Some(2), None));
    assert_eq!(found("q=%5B2001:db8::7%5D").await, (all(&names[2..3]), Some(1), None));
    // Wildcards of a pattern are plain characters here.
    for none in ["q=192_0", "q=%25", "q=%00", "q=%2A"] {
        assert_eq!(found(none).await, (vec![], Some(0), None), "{none}");
    }
    let first = (all(&names[..1]), Some(2), Some(names[0].to_string()));
    assert_eq!(found("q=192.0&limit=1").await, first);
    let second = (all(&names[1..2]), Some(1), Some(names[1].to_string()));
    assert_eq!(found("q=192.0&limit=1&after=192.0.2.7").await, second);
    assert_eq!(found("q=").await, (all(&names), Some(4), None));
    assert_eq!(found("").await, (all(&names), None, None));
    let long = format!("/v1/paths?q={}", "a".repeat(254));
    assert_eq!(asked(&service, "GET", &long, String::new()).await["status"], 400);
}

/// Clients that do not read hold an answer for a minute.
async fn answers_about_paths_with_many_long_sources_have_a_megabyte_at_most(place: Place) {
    const MEGABYTE: usize = 1 << 20;
    let store = open(&place).await;
    let names: Vec<_> = (1..=7).map(|n| format!("192.0.2.{n}")).collect();
    let source = |n: usize| format!("{n:0>240}");
    for dst in &names {
        let of = |n| Record { source: source(n), ..record(dst, at(NOON), 1) };
        put(&store, (0..900).map(of).collect()).await;
    }
    for minute in 0..3 {
        let time = at(NOON) + minute * MINUTE_US;
        let test = |n| Record { source: source(n), ..ping(time, Some(7), 0.0) };
        put(&store, (0..900).map(test).collect()).await;
    }
    let service = Service::start(store, Config::default()).await.unwrap();
    let get = async |path: &str| asked(&service, "GET", path, String::new()).await;
    let (mut after, mut found) = (String::new(), Vec::new());
    loop {
        let page = get(&format!("/v1/paths?limit=1000&after={after}")).await;
        // The path that fills it is in it.
        assert!(page.to_string().len() < MEGABYTE + MEGABYTE / 4);
        let paths = page["paths"].as_array().unwrap();
        found.extend(paths.iter().map(|p| p["dst"].as_str().unwrap().to_string()));
        let Some(next) = page["next"].as_str() else { break };
        after = next.into();
    }
    assert_eq!(found, names, "each path once");
    let history = get(&format!("/v1/history?dst={DST}&points=5000&to=2026-03-20T13:00:00Z")).await;
    assert_eq!(history["tests"].as_array().map(Vec::len), Some(900));
    assert!(history.to_string().len() < MEGABYTE);
}

async fn a_search_reads_a_bounded_number_of_names_and_goes_on_behind_them(place: Place) {
    let store = open(&place).await;
    let names = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.40"];
    put(&store, names.iter().map(|dst| record(dst, at(NOON), 1)).collect()).await;
    let first = store.find_paths("4", "", 10, 3).await.unwrap();
    let behind = "192.0.2.3".to_string();
    assert_eq!(first, Found { names: vec![], matches: 0, next: Some(behind.clone()) });
    let second = store.find_paths("4", &behind, 10, 3).await.unwrap();
    assert_eq!(second, Found { names: vec!["192.0.2.40".into()], matches: 1, next: None });
}

async fn advice_takes_the_rtt_of_active_tests_and_nothing_else(place: Place) {
    let store = open(&place).await;
    put(&store, vec![ping(at(NOON) - 2 * HOUR_US, Some(7), 0.0)]).await;
    let tests_alone = advice_as_of_noon(&store).await;
    assert_eq!(tests_alone["reason"], "no_history");
    let because = tests_alone["because"].as_str().unwrap();
    assert!(because.contains("of available bandwidth of this destination, only active tests"));
    put(&store, minutes(at(NOON) - 4 * DAY_US, 4 * 1440 + 1, 0)).await;
    let before = advice_as_of_noon(&store).await;
    assert_eq!((before["reason"].as_str(), before["rtt_us"].as_u64()), (Some("no_capacity"), None));
    let (fresh, old) = (at(NOON) - 60_000_000, at(NOON) - HOUR_US);
    // A hop's RTT is not the path's; a slow transfer is no bandwidth; the RTT of an hour ago is old.
    let of_hop = Record { hop: "198.51.100.1".into(), ..ping(fresh + 5, Some(9), 0.0) };
    put(&store, vec![of_hop, iperf3(fresh, 5), ping(old, Some(11), 0.0)]).await;
    assert_eq!(advice_as_of_noon(&store).await, before);
    put(&store, vec![ping(fresh, Some(30_000), 0.5), ping(at(NOON) + 5, Some(13), 0.0)]).await;
    let mut after = advice_as_of_noon(&store).await;
    assert_eq!(after["rtt_us"], 30_000);
    // 50 Mbit/s for 30 ms.
    assert_eq!(after["buffer_bytes"], 187_500);
    for key in ["rtt_us", "buffer_bytes"] {
        after[key] = before[key].clone();
    }
    assert_eq!(after, before);
}

/// Asks a service of its own.
async fn advice_as_of_noon(store: &Store) -> Value {
    let store = Store::open_existing(store.place()).await.unwrap();
    let service = Service::start(store, Config::default()).await.unwrap();
    asked(&service, "GET", &format!("/v1/advice?dst={DST}&at={NOON}"), String::new()).await
}

async fn an_export_can_be_imported_again(place: Place) {
    let store = open(&place).await;
    let now = at(NOON);
    let csv = "time,available_bps,rtt_us,congested,validity\n\
               2026-03-20T10:00:00Z,42000000,30000,true,valid\n\
               2026-03-20T11:01:00+01:00,4.5e7,,no,\n";
    let done = exchange::import(&store, Some(DST), "file", csv.as_bytes()).await.unwrap();
    assert_eq!((done.read, done.stored, done.known), (2, 2, 0));
    let done = exchange::import(&store, Some(DST), "file", csv.as_bytes()).await.unwrap();
    assert_eq!((done.read, done.stored, done.known), (2, 0, 2));
    put(&store, minutes(now - 60 * DAY_US, 120, 7)).await;
    put(&store, vec![record(DST, now, 1)]).await;
    store
        .maintain(&Retention { raw_days: 30, ..Retention::default() }, now, &mut |_, _, _| {})
        .await
        .unwrap();

    let everything = (0, i64::MAX);
    let mut first = Vec::new();
    exchange::export(&store, &[path(&store).await], everything, &mut first).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let other = open(&Place::File(dir.path().join("other.db"))).await;
    let done = exchange::import(&other, None, "", &first[..]).await.unwrap();
    assert_eq!(done.stored, 123);
    let mut second = Vec::new();
    exchange::export(&other, &[path(&other).await], everything, &mut second).await.unwrap();
    assert_eq!(String::from_utf8(first.clone()).unwrap(), String::from_utf8(second).unwrap());

    let file = dir.path().join("history.parquet");
    let out = std::fs::File::create(&file).unwrap();
    let count = parquet::export(&store, &[path(&store).await], everything, out).await.unwrap();
    assert_eq!(count, 123);
    let third = open(&Place::File(dir.path().join("third.db"))).await;
    let input = || std::fs::File::open(&file).unwrap();
    assert_eq!(parquet::import(&third, None, "", 0, input()).await.unwrap().stored, 123);
    assert_eq!(parquet::import(&third, None, "", 0, input()).await.unwrap().known, 123);
    let mut fourth = Vec::new();
    exchange::export(&third, &[path(&third).await], everything, &mut fourth).await.unwrap();
    assert_eq!(String::from_utf8(first).unwrap(), String::from_utf8(fourth).unwrap());
    std::fs::write(&file, "no parquet").unwrap();
    let e = parquet::import(&third, None, "", 0, input()).await.unwrap_err();
    assert!(e.to_string().contains("not the Parquet"), "{e}");
}

/// One record has the source that an import gives when a file names none.
async fn an_export_carries_records_without_a_source(place: Place) {
    let store = open(&place).await;
    let of = |source: &str, available_bps| Record {
        source: source.into(),
        loss: Some(1.0 / available_bps as f64),
        ..record(DST, at(NOON), available_bps)
    };
    let records = [("", 3), ("import", 7), (" import, of \"him\"", 11)];
    let records = records.map(|(source, bps)| of(source, bps).checked(at(NOON)).unwrap());
    assert_eq!(put(&store, records.into()).await, 3);
    let everything = (0, i64::MAX);
    let mut first = Vec::new();
    exchange::export(&store, &[path(&store).await], everything, &mut first).await.unwrap();

    let dir = tempfile::tempdir().unwrap();
    let other = open(&Place::File(dir.path().join("other.db"))).await;
    for stored in [3, 0] {
        let done = exchange::import(&other, None, "import", &first[..]).await.unwrap();
        assert_eq!((done.stored, done.known), (stored, 3 - stored));
    }
    let mut second = Vec::new();
    exchange::export(&other, &[path(&other).await], everything, &mut second).await.unwrap();
    assert_eq!(String::from_utf8(first).unwrap(), String::from_utf8(second).unwrap());
}

async fn importing_again_after_a_roll_up_changes_nothing(place: Place) {
    let store = open(&place).await;
    let now = at(NOON);
    let mut csv = String::from("time,available_bps\n");
    for back in [50 * 1440, 50 * 1440 - 1, 40 * 1440, 1] {
        csv.push_str(&format!("{},{}\n", time::format(now - back * MINUTE_US), 1000 + back));
    }
    let import = || exchange::import(&store, Some(DST), "file", csv.as_bytes());
    assert_eq!(import().await.unwrap().stored, 4);
    // The oldest become an hour, the next a minute, the newest stays.
    let keep = Retention { raw_days: 30, minute_days: 45, ..Retention::default() };
    store.maintain(&keep, now, &mut |_, _, _| {}).await.unwrap();
    let everything = (0, i64::MAX);
    let mut before = Vec::new();
    exchange::export(&store, &[path(&store).await], everything, &mut before).await.unwrap();
    let done = import().await.unwrap();
    assert_eq!((done.read, done.stored, done.known), (4, 0, 4));
    let done = exchange::import(&store, None, "", &before[..]).await.unwrap();
    assert_eq!((done.read, done.stored, done.known), (3, 0, 3));
    store.maintain(&keep, now, &mut |_, _, _| {}).await.unwrap();
    let mut after = Vec::new();
    exchange::export(&store, &[path(&store).await], everything, &mut after).await.unwrap();
    assert_eq!(String::from_utf8(before).unwrap(), String::from_utf8(after).unwrap());
    // New records come in: another minute of the old days, another source.
    let new = format!("time,available_bps\n{},7\n", time::format(now - 40 * DAY_US - HOUR_US));
    assert_eq!(
        exchange::import(&store, Some(DST), "file", new.as_bytes()).await.unwrap().stored,
        1
    );
    assert_eq!(exchange::import(&store, Some(DST), "x", csv.as_bytes()).await.unwrap().stored, 4);
}

async fn a_wrong_line_is_named(place: Place) {
    let store = open(&place).await;
    for (csv, says) in [
        (
            "time,available_bps\n2026-03-20T10:00:00Z,5\nyesterday,5\n",
            "line 3: column time: 'yesterday' is not a time",
        ),
        (
            "time,available_bps\n2026-03-20T10:00:00Z,-5\n",
            "line 2: column available_bps: '-5' is not between",
        ),
        ("time,available_bps\n2026-03-20T10:00:00Z,nan\n", "line 2"),
        ("time,available_bps\n2026-03-20T10:00:00Z,\n", "available_bps is empty"),
        (
            "dst,time,available_bps\n192.0.2.7,2026-03-20T10:00:00Z,5\n192.0.2.8,2026-03-20T10:00:00Z,5\n",
            "line 3: it is of 192.0.2.8, and --path says 192.0.2.7: leave --path out",
        ),
        ("time,speed\n", "unknown column 'speed'"),
        ("time\n", "column available_bps"),
        ("time,available_bps\n1,2,3\n", "line 2: there are 3 cells, and the first line names 2"),
        ("", "column time"),
    ] {
        let e = exchange::import(&store, Some(DST), "", csv.as_bytes()).await.unwrap_err();
        assert!(e.to_string().contains(says), "{csv:?}: {e}");
    }
    assert!(exchange::import(&store, None, "", "time,available_bps\n".as_bytes()).await.is_err());
}

async fn a_newer_schema_is_refused(place: Place) {
    let store = open(&place).await;
    store.set_schema_version_for_tests(7).await.unwrap();
    store.close().await;
    let e = Store::open(&place).await.err().unwrap();
    assert!(matches!(e, Error::Newer { found: 7, .. }), "{e}");
}

async fn other_processes_see_that_something_changed(place: Place) {
    let (one, other) = (open(&place).await, open(&place).await);
    let before = one.generation().await.unwrap();
    put(&other, minutes(at(NOON), 1, 0)).await;
    assert_eq!(one.generation().await.unwrap(), before + 1);
}

async fn two_that_open_at_once_agree(place: Place) {
    let (a, b) = tokio::join!(Store::open(&place), Store::open(&place));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!(put(&a, minutes(at(NOON), 1, 0)).await, 1);
    assert_eq!(put(&b, minutes(at(NOON), 1, 0)).await, 0);
}

async fn its_size_counts_paths_and_series(place: Place) {
    let store = open(&place).await;
    let empty = store.size().await.unwrap();
    assert_eq!((empty.paths, empty.series), (0, 0));
    // Settings alone are no history.
    store.change_settings("198.51.100.9", &Default::default()).await.unwrap();
    let hop = Record { hop: "198.51.100.1".into(), ..record(DST, at(NOON), 1) };
    put(&store, vec![hop]).await;
    put(&store, minutes(at(NOON), 5000, 0)).await;
    let size = store.size().await.unwrap();
    assert_eq!((size.paths, size.series), (1, 2));
    // A record takes some 30 bytes at least.
    assert!(size.bytes > empty.bytes + 150_000, "{empty:?} {size:?}");
}

/// A report and a roll-up while the clock is 500 days and 4000 days ahead.
async fn a_clock_that_leaps_ahead_removes_nothing_for_weeks(place: Place) {
    let store = open(&place).await;
    let report = async |dst: &str, t_us: i64| {
        let batch = batch(Some(&format!("{dst}-{t_us}")), vec![record(dst, t_us, 1)]);
        store.write(&[batch], t_us).await.unwrap();
    };
    let roll_up = async |now_us: i64| {
        let aged_us = store.aged_us(now_us).await.unwrap();
        store.maintain(&Retention::default(), aged_us, &mut |_, _, _| {}).await.unwrap()
    };
    let kept = async || store.path_names("", 10).await.unwrap().len();
    report(DST, at(NOON)).await;
    report("192.0.2.8", at(NOON)).await;
    roll_up(at(NOON)).await;
    for days in [500, 4000] {
        let then_us = at(NOON) + days * DAY_US;
        report("192.0.2.8", then_us).await;
        for hour in 0..24 {
            let done = roll_up(then_us + hour * HOUR_US).await;
            assert_eq!((done.removed, done.silent_paths), (0, 0), "{days} days, {hour} hours");
        }
    }
    assert_eq!(kept().await, 2);
    // The clock is right again, and later the time has really come.
    let mut now_us = at(NOON) + DAY_US;
    roll_up(now_us).await;
    assert_eq!(kept().await, 2);
    let mut twenty_days = async || {
        now_us += 20 * DAY_US;
        report("192.0.2.9", now_us).await;
        for hour in 0..21 {
            roll_up(now_us + hour * HOUR_US).await;
        }
    };
    for _ in 0..19 {
        twenty_days().await;
    }
    assert!(store.path(DST).await.unwrap().is_some(), "400 days are not over");
    for _ in 0..2 {
        twenty_days().await;
    }
    assert!(store.path(DST).await.unwrap().is_none());
    assert!(store.path("192.0.2.9").await.unwrap().is_some());
}

async fn vacuum_works(place: Place) {
    let store = open(&place).await;
    put(&store, minutes(at(NOON), 100, 0)).await;
    store.vacuum(&mut |_, _| {}).await.unwrap();
    assert_eq!(path(&store).await.series.len(), 1);
}

async fn space_is_given_back_in_steps_that_are_told(place: Place) {
    let Place::File(file) = &place else { return };
    let store = open(&place).await;
    put(&store, minutes(at(NOON), 300_000, 0)).await;
    store.forget(DST, &mut |_| {}).await.unwrap();
    let mut steps = Vec::new();
    store.vacuum(&mut |done, of| steps.push((done, of))).await.unwrap();
    // Each step has 1000 pages: a writer waits for one step.
    let (first, of) = steps[0];
    assert!(steps.len() >= 3 && first <= 1000 * 4096, "{steps:?}");
    assert!(steps.is_sorted() && steps.iter().all(|step| step.1 == of), "{steps:?}");
    assert_eq!(steps[steps.len() - 1].0, of);
    assert!(std::fs::metadata(file).unwrap().len() < of / 10);
}

async fn the_service_answers_from_it(place: Place) {
    let store = open(&place).await;
    // Until 12:00; at 11:30 each day the bandwidth rises by 6 kbit/s a minute.
    put(&store, minutes(at(NOON) - 4 * DAY_US, 4 * 1440 + 1, 6000)).await;
    let threshold = serde_json::from_str(r#"{"threshold": {"bps": 42e6}}"#).unwrap();
    store.change_settings(DST, &threshold).await.unwrap();
    let access = Access { write: Some(Tokens::new(&["token"])), read: None };
    let service = Service::start(store, Config { access, ..Config::default() }).await.unwrap();
    let ask = |method: &str, path: &str, body: String| asked(&service, method, path, body);
    let get = |path: &str| ask("GET", path, String::new());

    let advice = get("/v1/advice?dst=192.0.2.7&at=2026-03-20T11:30:00Z").await;
    let from = &advice["computed_from"];
    // Days are 8.64 M apart; of the first one only the end of the window was measured.
    let b0 = |back: f64| 50e6 + (4.0 * 1440.0 - 30.0 - back * 1440.0) * 6000.0;
    let mean = (b0(1.0) + b0(2.0) + b0(3.0) + b0(4.0)) / 4.0;
    assert!((from["b0_hat_bps"].as_f64().unwrap() - mean).abs() < 1.0, "{advice}");
    assert!((from["b1_mean_bps_per_s"].as_f64().unwrap() - 100.0).abs() < 1e-6, "{advice}");
    assert_eq!((&advice["reason"], &from["days_used"]), (&"free".into(), &4.into()));

    let history = get("/v1/history?dst=192.0.2.7&to=2026-03-20T12:00:00Z&points=10").await;
    assert_eq!(history["points"].as_array().unwrap().len(), 10, "{history}");
    let timeline = get("/v1/timeline?dst=192.0.2.7&to=2026-03-20T12:00:00Z&steps=5").await;
    assert_eq!(timeline["steps"].as_array().unwrap().len(), 5, "{timeline}");
    assert_eq!(get("/v1/paths").await["paths"][0]["newest"], NOON);

    // One that an older version stored of a day to come is not the newest.
    let later = record(DST, imtcp_client::time::now_us() + DAY_US, 1);
    let later = Batch { id: None, records: vec![later.into()] };
    open(&place).await.write(&[later], at(NOON)).await.unwrap();
    assert_eq!(get("/v1/paths").await["paths"][0]["newest"], NOON);

    // Now: reports count at once, and are stored once.
    let now = jiff::Timestamp::now();
    let report = serde_json::json!({"batch": "b", "records": [
        {"dst": DST, "time": now, "available_bps": 41_000_000, "source": "test"}]});
    assert_eq!(get("/v1/advice?dst=192.0.2.7").await["reason"], "stale");
    assert_eq!(ask("POST", "/v1/reports", report.to_string()).await["stored"], 1);
    assert_eq!(ask("POST", "/v1/reports", report.to_string()).await["duplicate"], true);
    assert_eq!(get("/v1/advice?dst=192.0.2.7").await["computed_from"]["newest_bps"], 41_000_000);

    // An active test of now tells the RTT, and its series is one of the path's.
    let report = serde_json::json!({"batch": "t", "records": [
        {"dst": DST, "time": now, "rtt_us": 30_000, "loss": 0.2, "source": "test/ping"},
        {"dst": DST, "time": now, "throughput_bps": 1_000_000, "source": "test/iperf3"}]});
    let before = get("/v1/advice?dst=192.0.2.7").await;
    assert_eq!(before["rtt_us"], Value::Null);
    assert_eq!(ask("POST", "/v1/reports", report.to_string()).await["stored"], 2);
    let after = get("/v1/advice?dst=192.0.2.7").await;
    assert_eq!((&after["reason"], &after["rtt_us"]), (&before["reason"], &30_000.into()));
    assert_eq!(after["computed_from"]["newest_bps"], 41_000_000);
    let history = get("/v1/history?dst=192.0.2.7").await;
    assert_eq!(history["tests"][0]["throughput_bps"], 1_000_000, "{history}");
    assert_eq!(history["tests"][1]["rtt_us"], 30_000, "{history}");
    let sources = serde_json::json!(["test", "test/iperf3", "test/ping"]);
    assert_eq!(get("/v1/paths/192.0.2.7").await["sources"], sources);
    let nothing = r#"{"batch": "n", "records": [{"dst": "x", "time": "2026-03-20T12:00:00Z"}]}"#;
    let refused = ask("POST", "/v1/reports", nothing.into()).await;
    assert!(refused["detail"].as_str().unwrap().contains("without available_bps"), "{refused}");
}

/// Behind PgBouncer, with fewer sessions than connections.
async fn two_services_on_one_history_take_reports_and_answer_at_once(place: Place) {
    const REPORTS: usize = 40;
    let now = time::now_us();
    let mut services = Vec::new();
    for _ in 0..2 {
        let access = Access { write: Some(Tokens::new(&["token"])), read: None };
        let config = Config { access, ..Config::default() };
        services.push(Service::start(open(&place).await, config).await.unwrap());
    }
    let mut asking = Vec::new();
    for (i, service) in services.iter().enumerate() {
        for n in 0..REPORTS {
            let path = n % 7;
            let time = time::format(now - (n * 10 + i) as i64 * 1_000_000);
            let report = serde_json::json!({"batch": format!("{i}/{n}"), "records": [
                {"dst": format!("192.0.2.{path}"), "time": time, "available_bps": 41_000_000,
                 "source": format!("s{i}")}]});
            let advice = format!("/v1/advice?dst=192.0.2.{path}");
            asking.push(tokio::spawn(asked(service, "POST", "/v1/reports", report.to_string())));
            asking.push(tokio::spawn(asked(service, "GET", &advice, String::new())));
            // No more than 32 lists of one client may wait.
            if n % 2 == 0 {
                asking.push(tokio::spawn(asked(service, "GET", "/v1/paths", String::new())));
            }
        }
    }
    for one in asking {
        let answer = one.await.unwrap();
        assert_eq!(answer.get("detail"), None, "{answer}");
        assert!(answer.get("stored").is_none_or(|stored| stored == 1), "{answer}");
    }
    let store = open(&place).await;
    let mut all = Vec::new();
    for dst in store.path_names("", 99).await.unwrap() {
        for series in store.path(&dst).await.unwrap().unwrap().series {
            all.extend(store.all_samples(&[series.id], 0).await.unwrap());
        }
    }
    assert_eq!(all.len(), 2 * REPORTS);
}

async fn silent_paths_go_and_imported_ones_stay(place: Place) {
    let store = open(&place).await;
    let reported =
        |dst: &str, time| batch(Some(&format!("{dst}/{time}")), vec![record(dst, time, 1)]);
    let start = at(NOON);
    put(&store, vec![record("192.0.2.1", start - 9 * 365 * DAY_US, 1)]).await;
    store
        .write(&[reported("192.0.2.2", start), reported("192.0.2.3", start)], start)
        .await
        .unwrap();
    let keep = Retention { silent_days: 20, ..Retention::default() };
    let names = async || store.path_names("", 9).await.unwrap();
    // A clock that is wrong, or agents that are all away, remove nothing.
    let done = store.maintain(&keep, start + 9000 * DAY_US, &mut |_, _, _| {}).await.unwrap();
    assert_eq!((done.silent_paths, names().await.len()), (0, 3));
    for (days, left) in [(20, 3), (21, 2)] {
        let later = start + days * DAY_US;
        store.write(&[reported("192.0.2.2", later)], later).await.unwrap();
        let never = Retention { silent_days: 0, ..keep };
        store.maintain(&never, later, &mut |_, _, _| {}).await.unwrap();
        let done = store.maintain(&keep, later, &mut |_, _, _| {}).await.unwrap();
        assert_eq!((done.silent_paths, names().await.len()), (3 - left as u64, left), "{days}");
    }
    assert_eq!(names().await, ["192.0.2.1", "192.0.2.2"]);
    // A path that comes again is a new one.
    let later = start + 22 * DAY_US;
    let (written, _) = store.write(&[reported("192.0.2.3", later)], later).await.unwrap();
    assert_eq!(written[0].stored, 1);
}

async fn beyond_the_bounds_records_are_refused_and_the_others_stored(place: Place) {
    let store = open(&place).await;
    let limits = Limits { paths: 2, series_of_path: 3 };
    let access = Access { write: Some(Tokens::new(&["token"])), read: None };
    let config = Config { access, limits, ..Config::default() };
    let service = Service::start(store, config).await.unwrap();
    let now = jiff::Timestamp::now();
    let report = async |batch: &str, records: &[(&str, &str)]| {
        let of = |(dst, source): &(&str, &str)| {
            serde_json::json!(
            {"dst": dst, "time": now, "available_bps": 41_000_000, "source": source})
        };
        let records: Vec<_> = records.iter().map(of).collect();
        let body = serde_json::json!({"batch": batch, "records": records});
        asked(&service, "POST", "/v1/reports", body.to_string()).await
    };
    let told = |answer: &Value| (answer["stored"].clone(), answer["refused"].clone());
    let first = report("a", &[("192.0.2.1", "x"), ("192.0.2.2", "x"), ("192.0.2.3", "x")]).await;
    assert_eq!(told(&first), (2.into(), 1.into()), "{first}");
    let because = first["because"].as_str().unwrap();
    assert!(because.contains("at most 2 paths (--most-paths), and 3 pairs"), "{because}");
    let more = report("b", &[("192.0.2.1", "y"), ("192.0.2.1", "z"), ("192.0.2.1", "u")]).await;
    assert_eq!(told(&more), (2.into(), 1.into()), "{more}");
    // Those that are there go on, and only new ones are refused.
    let again = report("c", &[("192.0.2.9", "x"), ("192.0.2.1", "v")]).await;
    assert_eq!(told(&again), (0.into(), 2.into()), "{again}");
    let known = report("d", &[("192.0.2.1", "x"), ("192.0.2.2", "y")]).await;
    assert_eq!(told(&known), (1.into(), Value::Null), "{known}");
    let settings = asked(&service, "PATCH", "/v1/paths/192.0.2.9", r#"{"z": 3}"#.into()).await;
    assert_eq!(settings["status"], 400, "{settings}");
    let metrics = store_metrics(&service).await;
    assert!(metrics.contains("imtcp_advice_refused_records_total 4"), "{metrics}");
    // One that goes makes room.
    asked(&service, "DELETE", "/v1/paths/192.0.2.2", String::new()).await;
    assert_eq!(told(&report("e", &[("192.0.2.9", "x")]).await), (1.into(), Value::Null));
}

async fn store_metrics(service: &Arc<Service>) -> String {
    let mut request = Request::get("/metrics").body(Body::empty()).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
    let answer = service.router().oneshot(request).await.unwrap();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Each step begins where the last one ended.
async fn each_record_of_a_long_backlog_is_rolled_up_once(place: Place) {
    let store = open(&place).await;
    let (days, a_day) = (300, 48);
    let step = DAY_US / a_day;
    let end = at(NOON);
    let records: Vec<_> =
        (0..days * a_day).map(|i| record(DST, end - i * step, i as u64)).collect();
    for chunk in records.chunks(5000) {
        put(&store, chunk.to_vec()).await;
    }
    let keep = Retention { raw_days: 0, minute_days: 0, ..Retention::default() };
    let done = store.maintain(&keep, end, &mut |_, _, _| {}).await.unwrap();
    // Each record once into its hour, without a minute in between.
    assert_eq!(done.rolled_up, (days * a_day - 1) as u64);
    assert_eq!(store.all_samples(&[path(&store).await.series[0].id], 0).await.unwrap().len(), 7201);
}
