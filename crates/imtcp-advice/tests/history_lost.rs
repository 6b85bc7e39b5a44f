// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A history that is removed, replaced, full or held by another under a running service: the service
//! acknowledges nothing that it did not store, says so, and goes on when the history is back.

mod support;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use imtcp_advice::service::guard::{Access, Tokens};
use imtcp_advice::service::{Config, Service};
use imtcp_advice::store::{Place, Store};
use imtcp_client::time;
use libtest_mimic::{Arguments, Failed, Trial};
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sched::{unshare, CloneFlags};
use serde_json::Value;
use sqlx::{ConnectOptions, Connection, Executor};
use tower::ServiceExt;

use support::pgbouncer::PgBouncer;
use support::Postgres;

/// The half second after which a change is noticed, and some more on a busy machine.
const NOTICED: Duration = Duration::from_secs(20);
const DST: &str = "192.0.2.7";

fn main() {
    let mut trials = Vec::new();
    let mut test = |name: &str, missing: Option<String>, run: fn()| {
        if let Some(why) = &missing {
            eprintln!("skipped: 1 test, {name}: {why}");
        }
        let run = move || -> Result<(), Failed> {
            run();
            Ok(())
        };
        trials.push(Trial::test(name, run).with_ignored_flag(missing.is_some()));
    };
    test("a_file_that_is_removed_is_told_and_going_on_when_it_is_back", None, || {
        run(removed(|dir| rename(dir, "history.db", "away")));
    });
    test("a_directory_that_is_removed_is_told_and_going_on_when_it_is_back", None, || {
        run(removed(|dir| {
            let parent = dir.parent().unwrap();
            rename(parent, "history", "elsewhere")
        }));
    });
    test("a_file_that_is_replaced_is_not_taken_for_the_history", None, || run(replaced()));
    test("an_older_copy_in_its_place_is_not_taken_for_the_history", None, || run(restored()));
    test("what_was_acknowledged_survives_the_loss_of_the_log", None, || run(log_removed()));
    test("a_database_that_another_holds_is_told_and_nothing_is_lost", None, || run(held()));
    let root = (!nix::unistd::geteuid().is_root()).then(|| "mounting needs root".to_string());
    test("a_full_disk_is_told_until_there_is_room_again", root.clone(), full);
    test("a_history_that_cannot_be_written_is_told_before_a_report", root.clone(), read_only);
    test("a_file_system_that_is_unmounted_is_told", root, unmounted);
    let postgres = Postgres::start_own(&["-c", "fsync=off"]).map(drop).err();
    test("in_postgresql_tables_that_are_dropped_are_told", postgres.clone(), || run(dropped()));
    test("a_single_table_that_is_dropped_is_told_until_it_is_back", postgres.clone(), || {
        run(one_table_dropped());
    });
    let pooler = postgres.clone().or(PgBouncer::missing());
    test("a_pooler_that_gives_too_few_connections_is_refused_at_start", pooler, || {
        run(too_few_connections());
    });
    test("a_postgresql_that_is_started_again_is_used_again", postgres, || run(restarted()));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn run(test: impl Future<Output = ()>) {
    // While a test waits for psql, the service must be able to end its transactions: psql waits for them.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test);
}

/// Moves it away; what is returned moves it back.
fn rename(dir: &Path, name: &str, other: &str) -> Box<dyn FnOnce()> {
    let (here, there) = (dir.join(name), dir.join(other));
    std::fs::rename(&here, &there).unwrap();
    Box::new(move || std::fs::rename(there, here).unwrap())
}

/// A service with a history in a directory of its own.
struct Running {
    service: Arc<Service>,
    place: Place,
    count: u64,
}

impl Running {
    async fn start(place: Place) -> Self {
        let access = Access { write: Some(Tokens::new(&["token"])), read: None };
        let store = Store::open(&place).await.unwrap();
        let config = Config { access, ..Config::default() };
        let service = Service::start(store, config).await.unwrap();
        Running { service, place, count: 0 }
    }

    async fn ask(&self, method: &str, path: &str, body: String) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("Authorization", "Bearer token");
        let mut request = request.body(Body::from(body)).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
        let answer = self.service.router().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn get(&self, path: &str) -> u16 {
        self.ask("GET", path, String::new()).await.0
    }

    /// Reports as many records; the next ones are others.
    async fn report(&mut self, records: u64) -> (u16, Value) {
        let first = self.count;
        self.count += records;
        let of = |i: u64| {
            let time = time::format(time::now_us() - 3_600_000_000 + i as i64);
            serde_json::json!({"dst": DST, "time": time, "available_bps": 41_000_000})
        };
        let records: Vec<_> = (first..self.count).map(of).collect();
        let report = serde_json::json!({"batch": format!("b{first}"), "records": records});
        self.ask("POST", "/v1/reports", report.to_string()).await
    }

    async fn until(&self, path: &str, status: u16) {
        let end = Instant::now() + NOTICED;
        loop {
            let answer = self.ask("GET", path, String::new()).await;
            if answer.0 == status {
                return;
            }
            assert!(Instant::now() < end, "{path} is {answer:?}, not {status}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Nothing is read or stored, and it is told; metrics go on.
    async fn is_without_history(&mut self) {
        let (status, answer) = self.report(1).await;
        assert_eq!(status, 503, "{answer}");
        let detail = answer["detail"].as_str().unwrap();
        assert!(detail.contains("the history was removed or replaced"), "{detail}");
        self.until("/healthz", 503).await;
        for path in ["/v1/advice?dst=192.0.2.7", "/v1/paths", "/v1/history?dst=192.0.2.7"] {
            assert_eq!(self.get(path).await, 503, "{path}");
        }
        let settings = self.ask("PATCH", "/v1/paths/192.0.2.7", r#"{"z": 3}"#.into()).await;
        assert_eq!(settings.0, 503, "{settings:?}");
    }

    async fn works(&mut self) {
        self.until("/healthz", 200).await;
        let (status, answer) = self.report(1).await;
        assert_eq!((status, &answer["stored"]), (200, &1.into()), "{answer}");
        assert_eq!(self.get("/v1/advice?dst=192.0.2.7").await, 200);
    }
}

/// How many records there are, for who opens it now.
async fn records(place: &Place) -> usize {
    let store = Store::open_existing(place).await.unwrap();
    let Some(path) = store.path(DST).await.unwrap() else { return 0 };
    let ids: Vec<_> = path.series.iter().map(|s| s.id).collect();
    store.all_samples(&ids, 0).await.unwrap().len()
}

fn new_dir() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("history");
    std::fs::create_dir(&inner).unwrap();
    (dir, inner)
}

async fn removed(remove: impl FnOnce(&Path) -> Box<dyn FnOnce()>) {
    let (_dir, inner) = new_dir();
    let mut running = Running::start(Place::File(inner.join("history.db"))).await;
    running.works().await;
    let back = remove(&inner);
    running.is_without_history().await;
    back();
    running.works().await;
    running.service.close().await;
    // Two that were acknowledged; one that was not, and may be there or not.
    assert!((2..=3).contains(&records(&running.place).await));
}

async fn replaced() {
    let (_dir, inner) = new_dir();
    let path = inner.join("history.db");
    let other = Place::File(inner.join("other.db"));
    Store::open(&other).await.unwrap().close().await;
    let mut running = Running::start(Place::File(path.clone())).await;
    running.works().await;
    std::fs::rename(inner.join("other.db"), &path).unwrap();
    running.is_without_history().await;
}

/// By SQLite itself, as `.restore` does it. Ids that the service knows are others' then.
async fn restored() {
    let (_dir, inner) = new_dir();
    let [path, copy] = ["history.db", "copy.db"].map(|name| inner.join(name));
    let backup = |from: &Path, to: &Path| {
        let script =
            "import sqlite3, sys\nfrom_, to = map(sqlite3.connect, sys.argv[1:])\nfrom_.backup(to)";
        let done = Command::new("python3").args(["-c", script]).args([from, to]).status().unwrap();
        assert!(done.success());
    };
    let mut running = Running::start(Place::File(path.clone())).await;
    running.works().await;
    backup(&path, &copy);
    running.works().await;
    backup(&copy, &path);
    running.is_without_history().await;
    let before = records(&Place::File(copy)).await;
    assert_eq!(records(&Place::File(path)).await, before, "nothing was mixed into it");
}

async fn log_removed() {
    let (_dir, inner) = new_dir();
    let mut running = Running::start(Place::File(inner.join("history.db"))).await;
    running.works().await;
    std::fs::remove_file(inner.join("history.db-wal")).unwrap();
    running.is_without_history().await;
    let copy = inner.join("copy.db");
    // As after a kill: the file alone, without what the service would still do.
    tokio::time::sleep(Duration::from_secs(1)).await;
    std::fs::copy(inner.join("history.db"), &copy).unwrap();
    assert!(records(&Place::File(copy)).await >= 1);
}

async fn held() {
    let (_dir, inner) = new_dir();
    let path = inner.join("history.db");
    let mut running = Running::start(Place::File(path.clone())).await;
    running.works().await;
    let url = format!("sqlite://{}", path.display());
    let options: sqlx::any::AnyConnectOptions = url.parse().unwrap();
    let mut other = options.connect().await.unwrap();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let look = async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        let router = running.service.router();
        let mut request = Request::get("/healthz").body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
        let status = router.oneshot(request).await.unwrap().status().as_u16();
        other.execute("ROLLBACK").await.unwrap();
        status
    };
    let (service, place) = (Arc::clone(&running.service), running.place.clone());
    let mut writer = Running { service, place, count: 100 };
    let (written, status) = tokio::join!(writer.report(1), look);
    assert_eq!((written.0, status), (200, 503), "{written:?}");
    other.close().await.unwrap();
    running.works().await;
}

/// In a mount namespace of this thread's, and of those that it starts.
fn with_file_system(test: impl AsyncFnOnce(PathBuf)) {
    let dir = tempfile::tempdir().unwrap();
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
    let options = Some("size=1m");
    mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), options).unwrap();
    run(test(dir.path().to_path_buf()));
    let _ = umount2(dir.path(), MntFlags::MNT_DETACH);
}

fn full() {
    with_file_system(async |dir| {
        let place = Place::File(dir.join("history.db"));
        let mut running = Running::start(place).await;
        running.works().await;
        // The rest of the file system is another's.
        let filler = dir.join("filler");
        let mut size = 1 << 20;
        let mut data = Vec::new();
        while size > 0 {
            let more = vec![0; size];
            let grown = [&data[..], &more[..]].concat();
            match std::fs::write(&filler, &grown) {
                Ok(()) => data = grown,
                Err(_) => size /= 2,
            }
        }
        std::fs::write(&filler, &data).unwrap();
        let mut acknowledged = 1;
        let refused = loop {
            match running.report(500).await {
                (200, _) => acknowledged += 500,
                refused => break refused,
            }
            assert!(acknowledged < 100_000, "a megabyte is full by now");
        };
        assert_eq!(refused.0, 503, "{refused:?}");
        assert!(refused.1["detail"].as_str().unwrap().contains("the disk is full"), "{refused:?}");
        running.until("/healthz", 503).await;
        // Reading still works, and the health page goes on to say that writing fails.
        assert_eq!(running.get("/v1/advice?dst=192.0.2.7").await, 200);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(running.get("/healthz").await, 503);
        std::fs::remove_file(&filler).unwrap();
        // By itself, without a report.
        running.works().await;
        acknowledged += 1;
        let place = running.place.clone();
        assert_eq!(records(&place).await, acknowledged);
    });
}

fn read_only() {
    with_file_system(async |dir| {
        let place = Place::File(dir.join("history.db"));
        // Its log stays, as after a kill: without one SQLite does not open such a file at all.
        let _open = Store::open(&place).await.unwrap();
        mount(Some(&dir), &dir, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        mount(None::<&str>, &dir, None::<&str>, read_only, None::<&str>).unwrap();
        let running = Running::start(place).await;
        running.until("/healthz", 503).await;
        assert_eq!(running.get("/v1/advice?dst=192.0.2.7").await, 200);
    });
}

fn unmounted() {
    with_file_system(async |dir| {
        let mut running = Running::start(Place::File(dir.join("history.db"))).await;
        running.works().await;
        umount2(&dir, MntFlags::MNT_DETACH).unwrap();
        running.is_without_history().await;
    });
}

async fn dropped() {
    let postgres = Postgres::start_own(&["-c", "fsync=off"]).unwrap();
    let place = postgres.place();
    let mut running = Running::start(place.clone()).await;
    running.works().await;
    postgres.psql_in(&place, "DROP SCHEMA imtcp CASCADE");
    running.is_without_history().await;
    // Other tables of the same names are another history.
    Store::open(&place).await.unwrap().close().await;
    running.is_without_history().await;
    assert_eq!(records(&place).await, 0);
}

async fn too_few_connections() {
    let postgres = Arc::new(Postgres::start_own(&["-c", "fsync=off"]).unwrap());
    let pooler = PgBouncer::start_in(&postgres, "session").unwrap();
    let store = Store::open(&pooler.place()).await.unwrap();
    let begun = Instant::now();
    let Err(e) = Service::start(store, Config::default()).await else { panic!("it starts") };
    assert!(e.to_string().contains("`default_pool_size = 8` at least"), "{e}");
    assert!(begun.elapsed() < NOTICED, "{:?}", begun.elapsed());
}

/// The others answer: what nobody asks for just now must not pass for a whole history.
async fn one_table_dropped() {
    let postgres = Postgres::start_own(&["-c", "fsync=off"]).unwrap();
    for table in ["record", "active_test", "batch", "client"] {
        let place = postgres.place();
        let mut running = Running::start(place.clone()).await;
        running.works().await;
        postgres.psql_in(&place, &format!("DROP TABLE imtcp.{table}"));
        running.until("/healthz", 503).await;
        for _ in 0..8 {
            let _ = running.report(1).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(running.get("/healthz").await, 503, "{table}");
        }
    }
}

async fn restarted() {
    let mut postgres = Postgres::start_own(&["-c", "fsync=off"]).unwrap();
    let mut running = Running::start(postgres.place()).await;
    running.works().await;
    postgres.restart(|| {});
    running.works().await;
    assert_eq!(records(&running.place).await, 2);
}
