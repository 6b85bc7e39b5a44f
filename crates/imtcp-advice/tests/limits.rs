// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the history and the service refuse, and what they bear: settings that do not go together,
//! sums beyond 64 bits, clocks that are ahead, pings that hang.

mod support;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use imtcp_advice::exchange;
use imtcp_advice::service::guard::{Access, Tokens};
use imtcp_advice::service::{Config, Service};
use imtcp_advice::settings::Changes;
use imtcp_advice::store::maintain::Retention;
use imtcp_advice::store::write::{Batch, Stored};
use imtcp_advice::store::{Place, Store};
use imtcp_client::record::{Kind, Record};
use imtcp_client::time::{self, now_us, DAY_US, MINUTE_US, SECOND_US};
use serde_json::{json, Value};

use support::databases::tests;
use support::service::asked;
use support::{at, record};

fn main() {
    let programs = hanging_ping();
    let path = std::env::var("PATH").unwrap_or_default();
    std::env::set_var("PATH", format!("{}:{path}", programs.display()));
    support::databases::run_all(tests![
        settings_that_do_not_go_together_are_refused_and_not_stored,
        of_two_changes_at_once_that_do_not_go_together_one_is_refused,
        a_path_with_wrong_settings_is_listed_and_spoils_no_other,
        ten_years_in_one_point_are_summed,
        a_stretch_of_any_length_is_answered,
        means_of_the_greatest_values_are_rolled_up,
        an_import_refuses_records_of_a_clock_that_is_ahead,
        reports_do_not_wait_for_pings_that_hang,
    ])
}

const DST: &str = "192.0.2.7";
const OTHER: &str = "192.0.2.8";
const NOON: &str = "2026-03-20T12:00:00Z";

async fn put(store: &Store, records: Vec<Stored>) {
    store.write(&[Batch { id: None, records }], at(NOON)).await.unwrap();
}

fn changes(value: Value) -> Changes {
    value.as_object().cloned().unwrap()
}

async fn set(store: &Store, dst: &str, change: Value) -> Result<Changes, String> {
    store.change_settings(dst, &changes(change)).await.map_err(|e| e.to_string())
}

async fn own(store: &Store, dst: &str) -> Changes {
    store.path(dst).await.unwrap().map(|p| p.settings).unwrap_or_default()
}

async fn service(place: &Place, ping: bool) -> Arc<Service> {
    let access = Access { write: Some(Tokens::new(&["token"])), read: None };
    let config = Config { access, ping, ..Config::default() };
    Service::start(Store::open(place).await.unwrap(), config).await.unwrap()
}

async fn settings_that_do_not_go_together_are_refused_and_not_stored(place: Place) {
    let store = Store::open(&place).await.unwrap();
    set(&store, DST, json!({"min_days": 10})).await.unwrap();
    set(&store, OTHER, json!({"min_days": 5})).await.unwrap();
    let e = set(&store, "*", json!({"max_days": 7})).await.unwrap_err();
    assert!(e.contains(DST) && e.contains("max_days is min_days to 3660"), "{e}");
    assert_eq!(own(&store, "*").await, Changes::new());

    set(&store, "*", json!({"max_days": 12})).await.unwrap();
    let e = set(&store, DST, json!({"min_days": 13})).await.unwrap_err();
    assert!(e.contains("max_days") && e.contains("what is set for all paths"), "{e}");
    assert_eq!(own(&store, DST).await, changes(json!({"min_days": 10})));
    // One that is right alone and not there yet.
    set(&store, "192.0.2.9", json!({"min_days": 20})).await.unwrap_err();
    assert!(store.path("192.0.2.9").await.unwrap().is_none());

    // A setting that is taken back is checked as well.
    set(&store, DST, json!({"max_days": 40, "min_days": 30})).await.unwrap();
    let e = set(&store, DST, json!({"max_days": null})).await.unwrap_err();
    assert!(e.contains("max_days"), "{e}");
    assert_eq!(own(&store, DST).await, changes(json!({"max_days": 40, "min_days": 30})));

    let service = service(&place, false).await;
    let refused = asked(&service, "PATCH", "/v1/paths/*", r#"{"max_days": 4}"#.into()).await;
    assert_eq!(refused["status"], 400, "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains(OTHER), "{refused}");
    assert_eq!(own(&store, "*").await, changes(json!({"max_days": 12})));
    for dst in [DST, OTHER] {
        let advice = asked(&service, "GET", &format!("/v1/advice?dst={dst}"), String::new()).await;
        assert_eq!(advice["verdict"], "unknown", "{advice}");
    }
}

async fn of_two_changes_at_once_that_do_not_go_together_one_is_refused(place: Place) {
    let (one, other) = (Store::open(&place).await.unwrap(), Store::open(&place).await.unwrap());
    let mut refused = [0, 0];
    for _ in 0..20 {
        let (of_path, of_all) = tokio::join!(
            set(&one, DST, json!({"min_days": 10})),
            set(&other, "*", json!({"max_days": 7}))
        );
        assert!(of_path.is_ok() != of_all.is_ok(), "{of_path:?} {of_all:?}");
        refused[usize::from(of_path.is_ok())] += 1;
        let stored = (own(&one, DST).await, own(&one, "*").await);
        assert!(stored.0.is_empty() != stored.1.is_empty(), "{stored:?}");
        set(&one, DST, json!({"min_days": null})).await.unwrap();
        set(&one, "*", json!({"max_days": null})).await.unwrap();
    }
    assert_eq!(refused[0] + refused[1], 20);
}

/// An older version may have stored what is refused now, and a zone may be gone.
async fn a_path_with_wrong_settings_is_listed_and_spoils_no_other(place: Place) {
    let store = Store::open(&place).await.unwrap();
    put(&store, [DST, OTHER].map(|dst| record(dst, at(NOON), 1).into()).into()).await;
    for wrong in [r#"{"zone": "Mars/Olympus"}"#, r#"{"min_days": 300, "max_days": 5}"#] {
        store.store_settings_for_tests(DST, wrong).await.unwrap();
        let service = service(&place, false).await;
        let get = |path: &str| asked(&service, "GET", path, String::new());
        let paths = get("/v1/paths").await;
        let [bad, good] = &paths["paths"].as_array().unwrap()[..] else { panic!("{paths}") };
        let error = bad["error"].as_str().unwrap();
        assert!(error.contains("the settings of 192.0.2.7 are wrong"), "{error}");
        assert_eq!((&bad["dst"], &bad["settings"]), (&DST.into(), &Value::Null));
        assert_eq!(bad["own_settings"], serde_json::from_str::<Value>(wrong).unwrap());
        assert_eq!((&good["dst"], &good["error"]), (&OTHER.into(), &Value::Null));
        assert_eq!(good["settings"]["min_days"], 3);
        assert_eq!(get(&format!("/v1/paths/{DST}")).await["error"], error);
        assert!(get(&format!("/v1/advice?dst={DST}")).await["detail"] == error);
        assert_eq!(get(&format!("/v1/advice?dst={OTHER}")).await["reason"], "stale");
        // It does not stand in the way of others' changes, and can be mended.
        set(&store, "*", json!({"z": 3})).await.unwrap();
        set(&store, OTHER, json!({"z": 1})).await.unwrap();
        let all = json!({"zone": null, "min_days": null, "max_days": null});
        assert_eq!(set(&store, DST, all).await.unwrap(), Changes::new());
    }
}

/// Three records of each kind, each for so many samples, with the greatest values that there are.
fn heavy(dst: &str, from_us: i64, samples: u64) -> Vec<Stored> {
    let stored = |i: i64, test: bool| {
        let record = record(dst, from_us + i * SECOND_US, 10_000_000_000_000);
        let record = match test {
            true => Record {
                available_bps: None,
                rtt_us: Some(3_600_000_000),
                throughput_bps: Some(10_000_000_000_000),
                ..record
            },
            false => record,
        };
        Stored { samples, ..record.into() }
    };
    (0..3).flat_map(|i| [stored(i, false), stored(i, true)]).collect()
}

/// The roll-up sums time × samples. With 20 000 samples a record, each product is below 2⁶³ and the sum is not.
/// With 600 000, each product is above it.
async fn ten_years_in_one_point_are_summed(place: Place) {
    let store = Store::open(&place).await.unwrap();
    let service = service(&place, false).await;
    for (dst, samples) in [(DST, 20_000), (OTHER, 600_000)] {
        put(&store, heavy(dst, at(NOON) - 60 * SECOND_US, samples)).await;
        let range = format!("from=2016-03-22T12:00:00Z&to={NOON}");
        let ten_years = format!("/v1/history?dst={dst}&{range}&points=1");
        let history = asked(&service, "GET", &ten_years, String::new()).await;
        let (point, test) = (&history["points"][0], &history["tests"][0]);
        assert_eq!(
            (&point["samples"], &test["samples"]),
            (&json!(3 * samples), &json!(3 * samples))
        );
        assert_eq!(point["available_bps"], 10_000_000_000_000_i64, "{history}");
        assert_eq!(test["throughput_bps"], 10_000_000_000_000_i64, "{history}");
        for of in [point, test] {
            let mean = time::parse(of["time"].as_str().unwrap()).unwrap();
            assert!((mean - (at(NOON) - 59 * SECOND_US)).abs() < 1000, "{history}");
        }
    }
}

async fn a_stretch_of_any_length_is_answered(place: Place) {
    let store = Store::open(&place).await.unwrap();
    put(&store, vec![record(DST, at(NOON), 1).into()]).await;
    let service = service(&place, false).await;
    for (what, from, to) in [
        ("history", "1970-01-01T00:00:01Z", "9999-12-30T21:59:59Z"),
        ("timeline", "1970-01-01T00:00:01Z", "9999-12-30T21:59:59Z"),
        ("history", "-009998-01-01T00:00:00Z", "9999-12-30T21:59:59Z"),
    ] {
        let few = if what == "history" { "points=1" } else { "steps=1" };
        let asked_for = format!("/v1/{what}?dst={DST}&from={from}&to={to}&{few}");
        let answer = asked(&service, "GET", &asked_for, String::new()).await;
        assert_eq!(answer["status"], Value::Null, "{answer}");
        if what == "history" {
            assert_eq!(answer["points"][0]["time"], "2026-03-20T12:00:00Z", "{answer}");
        }
    }
    // The last moment that there is.
    for path in [
        format!("/v1/advice?dst={DST}&at=9999-12-30T21:59:59Z"),
        format!("/v1/timeline?dst={DST}&to=9999-12-30T21:59:59Z&steps=1"),
        format!("/v1/history?dst={DST}&to=9999-12-30T21:59:59Z&points=1"),
    ] {
        let answer = asked(&service, "GET", &path, String::new()).await;
        assert_eq!(answer["status"], Value::Null, "{answer}");
        let text = answer.to_string();
        let next =
            answer["next_advice_at"].as_str().or(answer["steps"][0]["next_advice_at"].as_str());
        assert!(next.is_none_or(|t| time::parse(t).is_ok()), "{text}");
    }
}

async fn means_of_the_greatest_values_are_rolled_up(place: Place) {
    let store = Store::open(&place).await.unwrap();
    let old = (at(NOON) - 50 * DAY_US) / DAY_US * DAY_US;
    put(&store, heavy(DST, old + 56 * SECOND_US, 600_000)).await;
    put(&store, vec![record(DST, at(NOON), 1).into()]).await;
    let test = Record { available_bps: None, rtt_us: Some(1), ..record(DST, at(NOON), 1) };
    put(&store, vec![test.into()]).await;
    let keep = Retention { raw_days: 30, minute_days: 40, ..Retention::default() };
    assert_eq!(store.maintain(&keep, at(NOON), &mut |_, _, _| {}).await.unwrap().rolled_up, 6);
    // What comes late joins.
    put(&store, heavy(DST, old + 57 * SECOND_US, 600_000)).await;
    assert_eq!(store.maintain(&keep, at(NOON), &mut |_, _, _| {}).await.unwrap().rolled_up, 6);
    let path = store.path(DST).await.unwrap().unwrap();
    for kind in Kind::ALL {
        let of = (&path.series[0], kind);
        let stored = store.stored(DST, of, (0, 0), i64::MAX, 9).await.unwrap();
        let samples: u64 = stored.iter().filter(|s| s.span_s == 3600).map(|s| s.samples).sum();
        assert_eq!(samples, 6 * 600_000, "{stored:?}");
        for mean in stored.iter().filter(|s| s.span_s == 3600) {
            let record = &mean.record;
            let bps = record.available_bps.or(record.throughput_bps).unwrap();
            assert_eq!(bps, 10_000_000_000_000, "{stored:?}");
            assert!((old..old + 3600 * SECOND_US).contains(&record.time), "{stored:?}");
        }
    }
}

async fn an_import_refuses_records_of_a_clock_that_is_ahead(place: Place) {
    let store = Store::open(&place).await.unwrap();
    for (ahead_us, says) in [
        (59 * MINUTE_US + 30 * SECOND_US, "its time is 59 min ahead of this host's clock"),
        (400 * DAY_US + MINUTE_US, "its time is 400 days ahead"),
        (40 * SECOND_US, "the sender's clock is probably ahead"),
    ] {
        let time = time::format(now_us() + ahead_us);
        let csv = format!("time,available_bps\n{time},5\n");
        let e = exchange::import(&store, Some(DST), "", csv.as_bytes()).await.unwrap_err();
        assert!(e.to_string().contains("line 2") && e.to_string().contains(says), "{e}");
    }
    let csv = format!("time,available_bps\n{},5\n", time::format(now_us() + 3 * SECOND_US));
    assert_eq!(exchange::import(&store, Some(DST), "", csv.as_bytes()).await.unwrap().stored, 1);
}

/// The directory of a program of that name that notes whom it was to reach, and sleeps.
fn hanging_ping() -> PathBuf {
    // Not a temporary one: a test's process ends without destructors.
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hanging_ping");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let text = format!("#!/bin/sh\necho $8 >>'{}/log'\nexec sleep 30\n", dir.display());
    let program = dir.join("ping");
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    dir
}

fn is_pinged(dst: &str) -> bool {
    let path = std::env::var("PATH").unwrap();
    let log = Path::new(path.split(':').next().unwrap()).join("log");
    std::fs::read_to_string(log).unwrap_or_default().lines().any(|line| line == dst)
}

/// An answer waits half a second for a ping. A report of the same path took as long; of ten, on a busy
/// machine, one at least takes half of that.
async fn reports_do_not_wait_for_pings_that_hang(place: Place) {
    let store = Store::open(&place).await.unwrap();
    let kind = if matches!(place, Place::File(_)) { 1 } else { 2 };
    let dst = |i: usize| format!("198.51.10{kind}.{i}");
    put(&store, (1..=10).map(|i| record(&dst(i), at(NOON), 1).into()).collect()).await;
    let service = service(&place, true).await;
    let mut took = Vec::new();
    for i in 1..=10 {
        let advice = format!("/v1/advice?dst={}", dst(i));
        let advice = tokio::spawn(asked(&service, "GET", &advice, String::new()));
        while !is_pinged(&dst(i)) && !advice.is_finished() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let begin = Instant::now();
        let record = record(&dst(i), now_us(), 5);
        let report = json!({"batch": dst(i), "records": [record]}).to_string();
        let stored = asked(&service, "POST", "/v1/reports", report).await;
        assert_eq!(stored["stored"], 1, "{stored}");
        let in_time = !advice.is_finished() && begin.elapsed() < Duration::from_millis(250);
        took.push((begin.elapsed(), in_time));
        // And the answer has what came meanwhile.
        let advice = advice.await.unwrap();
        assert!(!in_time || advice["computed_from"]["newest_bps"] == 5, "{advice}");
    }
    assert!(took.iter().any(|(_, in_time)| *in_time), "{took:?}");
}
