// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A path with a long history is removed beside agents that report.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use imtcp_client::time::now_us;
use imtcp_test_support::advice::*;
use serde_json::json;
use sqlx::{Connection, Row, SqliteConnection};

/// Removed at once they keep reports waiting for 3 s on a fast machine.
const RECORDS: i64 = 2_000_000;

/// The history's own connection, which does not wait for the disk.
fn sql(db: &Path, text: &str) -> i64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite://{}", db.display());
        let mut history = SqliteConnection::connect(&url).await.unwrap();
        sqlx::query("PRAGMA synchronous = OFF").execute(&mut history).await.unwrap();
        let rows = sqlx::query(text).fetch_all(&mut history).await.unwrap();
        history.close().await.unwrap();
        rows.first().map_or(0, |row| row.get(0))
    })
}

fn left(db: &Path) -> i64 {
    sql(db, "SELECT COUNT(*) FROM record WHERE available_bps = 7")
}

#[test]
fn a_long_path_is_removed_beside_reports_and_a_stop_only_delays_it() {
    let service = Service::start(&["--no-ping", "--keep-raw", "3650", "--keep-minutes", "3650"]);
    service.report("first", &[record("2026-03-20T14:25:00Z", 7)]);
    let (db, now_us) = (service.db(), now_us());
    sql(
        &db,
        &format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {RECORDS})
             INSERT INTO record SELECT (SELECT MAX(id) FROM series), {now_us} - i * 10000000, 0, 1,
                7, 7, 7, NULL, NULL, NULL, NULL, NULL FROM n"
        ),
    );
    let done = AtomicBool::new(false);
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                let one =
                    json!({"dst": "192.0.2.8", "time": "2026-03-20T14:25:00Z", "available_bps": n});
                let begun = Instant::now();
                assert_eq!(service.report(&format!("beside {n}"), &[one]).0, 200);
                assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
                assert_eq!(service.get("/healthz").0, 200);
                if done.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let answer = service.delete(&format!("/v1/paths/{DST}"), Some(TOKEN));
        std::thread::sleep(Duration::from_secs(1));
        done.store(true, Ordering::Relaxed);
        answer
    });
    assert_eq!((answer.0, &answer.1["finished"]), (200, &json!(false)), "{answer:?}");
    assert_eq!(service.get(&format!("/v1/paths/{DST}")).0, 404);
    let names = service.get("/v1/paths").1["paths"].as_array().unwrap().clone();
    assert!(names.len() == 1 && names[0]["dst"] == "192.0.2.8", "{names:?}");

    let scratch = service.kill();
    let after_stop = left(&db);
    assert!((1..RECORDS).contains(&after_stop), "{after_stop}");
    let begun_again = Service::start_in(scratch, &["--no-ping"]);
    let deadline = Instant::now() + Duration::from_secs(120);
    while left(&db) > 0 {
        assert!(Instant::now() < deadline, "{} records are left", left(&db));
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(begun_again.get("/healthz").0, 200);
}
