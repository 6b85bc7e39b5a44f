// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp-advice …` and `imtcp-advice ask`.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use imtcp_test_support::advice::*;
use imtcp_test_support::*;

#[track_caller]
fn refused(args: &[&str], says: &str) {
    // a service that starts after all would not end
    let output = std::process::Command::new("timeout")
        .args(["60", &*IMTCP_ADVICE])
        .args(args)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
    assert!(stderr.contains(says), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "one sentence: {stderr}");
}

#[test]
fn import_export_set_and_vacuum_tell_what_they_did() {
    let scratch = Scratch::new();
    let (db, file) = (scratch.path("history.db"), scratch.path("trace.csv"));
    let (db, file) = (db.to_str().unwrap(), file.to_str().unwrap());
    fs::write(file, csv()).unwrap();
    let import = ["import", "--db", db, "--path", DST, "--json", file];
    assert_eq!(
        json(&advice_ok(&import)),
        serde_json::json!({"read": 14400, "stored": 14400, "known": 0})
    );
    assert_eq!(json(&advice_ok(&import))["known"], 14400);
    let out = advice_ok(&["export", "--db", db, "--from", "2026-03-20T14:30:00Z"]);
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(out.contains("192.0.2.7,,2026-03-20T14:30:00Z,54780000,100000000,30000,"), "{out}");
    let shown = advice_ok(&["set", "--db", db, "--path", DST, "epsilon=5%", "threshold=42M"]);
    assert!(shown.contains("epsilon           5 %"), "{shown}");
    assert!(shown.contains("threshold         42.0 Mbit/s"), "{shown}");
    let vacuum = ["vacuum", "--db", db, "--keep-raw", "1", "--json"];
    assert_eq!(json(&advice_ok(&vacuum))["removed"], 0);
}

#[test]
fn a_path_is_forgotten_after_a_word() {
    let scratch = Scratch::new();
    let (db, file) = (scratch.path("history.db"), scratch.path("trace.csv"));
    let (db, file) = (db.to_str().unwrap(), file.to_str().unwrap());
    fs::write(file, csv()).unwrap();
    advice_ok(&["import", "--db", db, "--path", DST, file]);
    let forget = ["forget", "--db", db, "--path", DST];
    refused(&forget, "say --yes");
    refused(&["forget", "--db", db, "--path", "192.0.2.8", "--yes"], "no history of 192.0.2.8");
    let told = advice_ok(&["forget", "--db", db, "--path", DST, "--yes"]);
    assert_eq!(told, "14400 records of 192.0.2.7 removed, and its settings\n");
    refused(&forget, "there is no history of 192.0.2.7");
}

#[test]
fn a_wrong_setting_is_wrong_usage_and_a_database_of_another_kind_is_named() {
    let scratch = Scratch::new();
    let db = scratch.path("history.db");
    for (setting, says) in [
        ("z=x", "z: 'x' is no number"),
        ("threshold=42,5%", "'42,5%' is no number: write digits and a point, as 42.5"),
        ("threshold=42", "write 42M for 42 Mbit/s, 42% for a share"),
        ("threshold=142%", "threshold is above 0, and a share at most 1 (100 %)"),
        ("horizon_s=1h", "'1h' is no whole number: write digits alone, as 3600"),
        ("z=11", "z is between 0 and 10"),
        ("min_span_pct=300", "min_span_pct: is a whole number from 0 to 100"),
        ("colour=5", "unknown field `colour`"),
    ] {
        let output = advice(&["set", "--db", db.to_str().unwrap(), setting]);
        assert_eq!(output.status.code(), Some(2), "{setting}");
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
    }
    refused(&["vacuum", "--db", "mysql://me:secret@db/x"], "only SQLite files and postgres://");
    refused(&["serve", "--db", "mysql://me:secret@db/x"], "no history at mysql://…");
}

#[test]
fn what_is_coarser_is_kept_as_long_at_least() {
    let scratch = Scratch::new();
    let db = scratch.path("history.db");
    import(&db, &scratch);
    let db = db.to_str().unwrap();
    let hours =
        ["vacuum", "--db", db, "--keep-raw", "2", "--keep-minutes", "2", "--keep-hours", "0"];
    refused(&hours, "--keep-hours 0 is less than --keep-minutes 2");
    let minutes = ["--keep-raw", "30", "--keep-minutes", "5"];
    refused(&[&["vacuum", "--db", db], &minutes[..]].concat(), "--keep-minutes 5 is less than");
    let serve = ["serve", "--db", db, "--listen", "127.0.0.1:0"];
    refused(&[&serve, &minutes[..]].concat(), "--keep-minutes 5 is less than");
    assert_eq!(advice_ok(&["export", "--db", db]).lines().count(), 14401);
}

/// A service of something else that answers all requests with this.
fn answers(body: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            let _ = stream.write_all((head + body).as_bytes());
        }
    });
    url
}

#[test]
fn an_answer_that_is_no_advice_is_a_failure() {
    let of = |control: &str, mode: &str, at: &str| -> &'static str {
        let text = format!(
            r#"{{"verdict": "advice", "congestion_control": "{control}", "mode": "{mode}", "at": {at},
            "next_advice_at": "2026-03-20T14:26:00Z", "valid_until": "2026-03-20T14:26:00Z"}}"#
        );
        text.leak()
    };
    let at = "\"2026-03-20T14:25:00Z\"";
    for wrong in ["[1,2]", "{}", of("maybe", "bg", at), of("on", "rm -rf", at), of("on", "bg", "5")]
    {
        let output = advice(&["ask", DST, "--url", &answers(wrong)]);
        assert_eq!(output.status.code(), Some(1), "{wrong}");
        assert!(text(&output.stderr).contains("no advice: is this"), "{}", text(&output.stderr));
    }
    assert_eq!(advice(&["ask", DST, "--url", &answers(of("on", "bg", at))]).status.code(), Some(0));
}

#[test]
fn who_asks_is_told_which_option_of_the_command_is_missing_or_wrong() {
    let service = Service::start(&[]);
    let readers = service.scratch.path("readers");
    let may = |mode| fs::set_permissions(&readers, PermissionsExt::from_mode(mode)).unwrap();
    fs::write(&readers, "a-token-of-a-reader   # host beta\n").unwrap();
    may(0o600);
    let reading = Service::start(&["--read-token-file", readers.to_str().unwrap()]);
    let says = |args: &[&str], wanted: &str| {
        let output = advice(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(wanted), "{said}");
    };
    let wrong_prefix = format!("{}/imtcp", service.url);
    says(&["ask", DST, "--url", &wrong_prefix], "is the path of its URL right?");
    let ask = ["ask", DST, "--url", &reading.url];
    says(&ask, "it wants a token: name a file with one by --token-file");
    let with_token = [&ask[..], &["--token-file", readers.to_str().unwrap()]].concat();
    advice_ok(&with_token);
    may(0o644);
    says(&with_token, "readers: anybody on this machine can open it: chmod o-rwx it first");
}

#[test]
fn a_routers_counters_become_history() {
    let scratch = Scratch::new();
    let (db, file) = (scratch.path("history.db"), scratch.path("if3.csv"));
    let (db, file) = (db.to_str().unwrap(), file.to_str().unwrap());
    let readings = "time,octets\n2026-03-20T14:00:00Z,1000\n2026-03-20T14:01:00Z,300001000\n\
                    2026-03-20T14:02:00Z,5\n2026-03-20T14:03:00Z,5\n";
    fs::write(file, readings).unwrap();
    let import = ["import", "--db", db, "--path", DST, "--json", file];
    let counters =
        [&import[..], &["--counters", "--capacity", "100M", "--hop", "10.0.0.1"]].concat();
    let done = json(&advice_ok(&counters));
    assert_eq!(done, serde_json::json!({"read": 2, "stored": 2, "known": 0, "skipped": 1}));
    let out = advice_ok(&["export", "--db", db]);
    assert!(out.contains("192.0.2.7,10.0.0.1,2026-03-20T14:00:30Z,60000000,100000000"), "{out}");
    assert_eq!(advice(&["import", "--db", db, "--counters", file]).status.code(), Some(2));
}

#[test]
fn counters_of_which_no_interval_says_anything_are_refused_with_the_reason() {
    let scratch = Scratch::new();
    let (db, file) = (scratch.path("history.db"), scratch.path("if3.csv"));
    let (db, file) = (db.to_str().unwrap(), file.to_str().unwrap());
    let of = |capacity| {
        ["import", "--db", db, "--path", DST, "--counters", "--capacity", capacity, file]
    };
    fs::write(file, "time,octets\n2026-03-20T14:00:00Z,0\n2026-03-20T14:01:00Z,180000000\n")
        .unwrap();
    refused(&of("100k"), "1 of 1 have more traffic than 100000 bit/s carry");
    refused(&of("100k"), "is --capacity the line's rate?");
    fs::write(file, "time,octets\n2026-03-20T14:00:00Z,0\n2026-03-20T15:01:00Z,5\n").unwrap();
    refused(&of("100M"), "read the counter more often");
    assert!(!fs::exists(db).unwrap());
}

/// Mbit/s by mistake. Removing them later would remove what is right, too.
#[test]
fn an_import_of_tiny_bandwidths_stores_nothing_unless_the_line_is_said_to_be_slow() {
    let scratch = Scratch::new();
    let (db, file) = (scratch.path("history.db"), scratch.path("trace.csv"));
    let (db, file) = (db.to_str().unwrap(), file.to_str().unwrap());
    fs::write(file, "time,available_bps\n2026-03-20T14:00:00Z,42\n2026-03-20T14:01:00Z,0\n")
        .unwrap();
    let import = ["import", "--db", db, "--path", DST, "--json", file];
    refused(
        &import,
        "nothing is stored, for the greatest available_bps of the first 2 records is 42 bit/s",
    );
    assert!(!fs::exists(db).unwrap());
    let slow = [&import[..], &["--slow"]].concat();
    assert_eq!(json(&advice_ok(&slow))["stored"], 2);
    // An export has bit/s, and a line that is full has none free.
    let exported = scratch.path("again.csv");
    fs::write(&exported, advice_ok(&["export", "--db", db])).unwrap();
    let again = ["import", "--db", db, "--json", exported.to_str().unwrap()];
    assert_eq!(json(&advice_ok(&again))["known"], 2);
    fs::write(file, "time,available_bps\n2026-03-21T14:00:00Z,0\n").unwrap();
    assert_eq!(json(&advice_ok(&import))["stored"], 1);
}

#[test]
fn an_import_that_fails_leaves_no_empty_history_behind() {
    let scratch = Scratch::new();
    let (db, file) = (scratch.path("history.db"), scratch.path("trace.csv"));
    let (path, trace) = (db.to_str().unwrap(), file.to_str().unwrap());
    let import = |dst: &str, says: &str| {
        refused(&["import", "--db", path, "--path", dst, trace], says);
    };
    import(DST, "No such file");
    fs::write(&file, "this is no history\n").unwrap();
    import(DST, "unknown column 'this_is_no_history'");
    import("not a host", "'not a host' is neither an address nor a host's name");
    import("300.1.2.3", "'300.1.2.3' is neither");
    assert!(!db.exists());
    // It does not take away older files either.
    fs::write(&file, csv()).unwrap();
    advice_ok(&["import", "--db", path, "--path", DST, trace]);
    fs::write(&file, "this is no history\n").unwrap();
    import(DST, "trace.csv: unknown column 'this_is_no_history': known are");
    assert_eq!(advice_ok(&["export", "--db", path]).lines().count(), 14401);
}

/// Records are written 5000 at a time.
#[test]
fn what_an_import_stored_before_a_wrong_line_is_told_and_nothing_else() {
    let scratch = Scratch::new();
    let (db, file) = (scratch.path("history.db"), scratch.path("trace.csv"));
    let (path, trace) = (db.to_str().unwrap(), file.to_str().unwrap());
    let import = ["import", "--db", path, "--path", DST, trace];
    let lines: Vec<String> = csv().lines().map(String::from).collect();
    for (before, told) in [(4_999, None), (5_001, Some("(5000 records before that are stored"))] {
        fs::write(&file, lines[..=before].join("\n") + "\nyesterday,1,1,1\n").unwrap();
        let output = advice(&import);
        let stderr = text(&output.stderr);
        assert!(stderr
            .contains(&format!("line {}: column time: 'yesterday' is not a time", before + 2)));
        assert_eq!(told.is_some(), stderr.contains("records before"), "{stderr}");
        assert!(stderr.contains(told.unwrap_or_default()), "{stderr}");
    }
}

#[test]
fn a_damaged_or_foreign_database_is_one_sentence() {
    let scratch = Scratch::new();
    let db = scratch.path("history.db");
    let path = db.to_str().unwrap();
    refused(&["export", "--db", path], "no such file");
    fs::write(&db, "this is a text, and not a short one").unwrap();
    refused(&["serve", "--db", path, "--listen", "127.0.0.1:0"], "is no history");
    fs::remove_file(&db).unwrap();
    import(&db, &scratch);
    let whole = fs::read(&db).unwrap();
    for length in [100, 4096, whole.len() / 2] {
        fs::write(&db, &whole[..length]).unwrap();
        refused(&["set", "--db", path], "is damaged");
        refused(&["export", "--db", path], "is damaged");
    }
    fs::write(&db, whole).unwrap();
    let mut bytes = fs::read(&db).unwrap();
    let middle = bytes.len() / 2;
    bytes[4096..middle].fill(0xa5);
    fs::write(&db, bytes).unwrap();
    refused(&["serve", "--db", path, "--listen", "127.0.0.1:0"], "is damaged");
    refused(&["export", "--db", path], "is damaged");
    refused(&["export", "--db", "/nonexistent/x.db"], "cannot open");
    refused(&["serve", "--db", "/nonexistent/x.db"], "there is no directory");
    refused(
        &["serve", "--db", "postgres://127.0.0.1:1/x"],
        "cannot open postgres://127.0.0.1:1/x: Connection refused",
    );
    let foreign = scratch.path("foreign.db");
    let make = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('CREATE TABLE t (x)')";
    let done = std::process::Command::new("python3").args(["-c", make]).arg(&foreign).status();
    assert!(done.unwrap().success());
    refused(&["export", "--db", foreign.to_str().unwrap()], "no database of imtcp");
}

#[test]
fn listening_elsewhere_than_on_loopback_needs_tokens_or_a_word() {
    let scratch = Scratch::new();
    let db = scratch.path("history.db");
    let db = db.to_str().unwrap();
    refused(&["serve", "--db", db, "--listen", "0.0.0.0:0"], "can be reached from other hosts");
    refused(&["serve", "--db", db, "--listen", "[::]:0"], "say --open");
    let open = scratch.path("readable");
    fs::write(&open, "0123456789abcdef\n").unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&open, PermissionsExt::from_mode(0o644)).unwrap();
    refused(&["serve", "--db", db, "--token-file", open.to_str().unwrap()], "chmod o-rwx");
    refused(&["serve", "--db", db, "--tls-cert", db, "--tls-key", db], "certificate file");
}

#[test]
fn advise_tells_people_and_programs() {
    let service = Service::start(&[]);
    import(&service.db(), &service.scratch);
    let ask = ["ask", DST, "--url", &service.url, "--at", "2026-03-20T14:25:00Z"];
    let out = advice_ok(&[&ask[..], &["--bytes", "1000000000"]].concat());
    assert!(out.contains("congestion control  off"), "{out}");
    assert!(out.contains("58.8 Mbit/s"), "{out}");
    assert!(out.contains("2m 17s"), "{out}");
    let answer = json(&advice_ok(&[&ask[..], &["--json"]].concat()));
    assert_eq!(answer["available_bps"], 58_810_000);
    let unknown = advice_ok(&["ask", "198.51.100.9", "--url", &service.url]);
    assert!(unknown.contains("on: there is no history"), "{unknown}");
    let nowhere = advice(&["ask", "no-such-host.invalid", "--url", &service.url]);
    assert_eq!(nowhere.status.code(), Some(1));
    let said = "imtcp-advice: no-such-host.invalid has no history by this name, and no address: ";
    assert!(text(&nowhere.stderr).starts_with(said), "{}", text(&nowhere.stderr));
    let stale = advice_ok(&["ask", DST, "--url", &service.url, "--at", "2026-03-22T14:25:00Z"]);
    assert!(stale.contains("on: the newest measurement of the path is too old"), "{stale}");
    assert!(stale.contains("newest measurement  1d 23h before"), "{stale}");
    let output = advice(&["ask", DST, "--url", "http://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("does not answer"), "{}", text(&output.stderr));
}

/// As docs/tutorials/advice.md begins. The answer depends on the time of day.
#[test]
fn somebody_without_data_gets_advice_from_a_made_history() {
    let scratch = Scratch::new();
    let generator = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/advice-trace.py");
    let now = jiff::Timestamp::now().to_string();
    let trace = std::process::Command::new(generator).args(["--end", &now]).output().unwrap();
    assert!(trace.status.success(), "{}", text(&trace.stderr));
    let (db, file) = (scratch.path("history.db"), scratch.path("trace.csv"));
    fs::write(&file, trace.stdout).unwrap();
    let (db, file) = (db.to_str().unwrap(), file.to_str().unwrap());
    let done = advice_ok(&["import", "--db", db, "--path", DST, file]);
    assert_eq!(done.trim(), "60481 records read: 60481 stored, 0 were there");
    let service = Service::start_in(scratch, &["--no-ping"]);
    let ask = ["ask", DST, "--url", &service.url, "--bytes", "16G"];
    let out = advice_ok(&ask);
    assert!(out.contains("transfer takes") && out.contains("42 days, 2520 samples"), "{out}");
    let answer = json(&advice_ok(&[&ask[..], &["--json"]].concat()));
    assert_ne!(answer["verdict"], "unknown", "{answer}");
}

#[test]
fn backtest_compares_the_papers_model_with_others() {
    let scratch = Scratch::new();
    let db = scratch.path("history.db");
    import(&db, &scratch);
    let out = advice_ok(&["backtest", "--db", db.to_str().unwrap(), "--days", "3"]);
    assert!(out.contains("linear, week before") && out.contains("last value"), "{out}");
    let scores = json(&advice_ok(&["backtest", "--db", db.to_str().unwrap(), "--json"]));
    assert_eq!(scores["scores"].as_array().unwrap().len(), 8);
}

#[test]
fn with_tls_the_command_trusts_what_it_is_told_to() {
    let scratch = Scratch::new();
    let Some((cert, key)) = certificate(&scratch) else { return };
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let service = Service::start(&["--tls-cert", cert, "--tls-key", key]);
    assert!(service.url.starts_with("https://"), "{}", service.url);
    let ask = ["ask", DST, "--url", &service.url];
    assert!(advice_ok(&[&ask[..], &["--ca", cert]].concat()).contains("no history"));
    let refused = |ask: &[&str], what_to_do: &str| {
        let done = advice(ask);
        assert_eq!(done.status.code(), Some(1));
        assert!(text(&done.stderr).contains(what_to_do), "{}", text(&done.stderr));
    };
    refused(&ask, "nobody known has signed its certificate: name who did with --ca");
    refused(&[&ask[..], &["--ca", key]].concat(), "key.pem: it holds no certificate");
    let without_tls = service.url.replace("https", "http");
    refused(&["ask", DST, "--url", &without_tls], "does its URL begin with https://?");
    let plain = Service::start(&[]);
    let with_tls = plain.url.replace("http", "https");
    refused(&["ask", DST, "--url", &with_tls], "does its URL begin with http://?");
    // With a peer that says nothing, it goes on.
    let _silent = std::net::TcpStream::connect(service.address()).unwrap();
    assert!(advice_ok(&[&ask[..], &["--ca", cert]].concat()).contains("no history"));
}

#[test]
fn an_export_of_no_history_leaves_the_one_of_before() {
    let scratch = Scratch::new();
    let out = scratch.path("out.csv");
    fs::write(&out, "of before").unwrap();
    let db = scratch.path("absent.db");
    refused(&["export", "--db", db.to_str().unwrap(), "-o", out.to_str().unwrap()], "no such file");
    assert_eq!(fs::read_to_string(&out).unwrap(), "of before");
}
