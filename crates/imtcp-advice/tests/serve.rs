// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The advice service as others meet it: over HTTP and XML-RPC, killed, overloaded, misused.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use imtcp_test_support::advice::*;
use imtcp_test_support::*;
use serde_json::{json, Value};

/// At 14:25 on the last day. B0(i) at 14:25 is 60 − 5.19 + i Mbit/s for i = 1 … 7:
/// B̂0 = 58.81 M; each day falls by 100 bit/s a second: σ = 0, S = 100, ε = 10 % of B̂0,
/// τ = 58810 s.
#[test]
fn advice_comes_with_everything_it_was_computed_from() {
    let service = Service::start(&[]);
    import(&service.db(), &service.scratch);
    let (status, advice) =
        service.get("/v1/advice?dst=192.0.2.7&bytes=1000000000&at=2026-03-20T14:25:00Z");
    assert_eq!(status, 200, "{advice}");
    let from = &advice["computed_from"];
    let near = |value: &Value, wanted: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - wanted).abs() < 1e-6 * wanted.abs().max(1.0), "{value} is not {wanted}");
    };
    near(&from["b0_hat_bps"], 58.81e6);
    near(&from["b1_mean_bps_per_s"], -100.0);
    near(&from["s_bps_per_s"], 100.0);
    near(&from["epsilon_bps"], 5.881e6);
    near(&from["tau_s"], 58_810.0);
    assert_eq!((&from["days_used"], &from["horizon_s"]), (&json!(7), &json!(3600)));
    let days = from["days"].as_array().unwrap();
    assert_eq!((days.len(), &days[0]["date"]), (7, &json!("2026-03-19")));
    near(&days[0]["b0_bps"], 55.81e6);
    near(&days[0]["r2"], 1.0);
    // t1 belongs to the window: 61 minutes.
    assert_eq!((&days[0]["samples"], &advice["sample_count"]), (&json!(61), &json!(427)));
    assert_eq!(advice["congestion_control"], "off");
    assert_eq!(advice["available_bps"], 58_810_000);
    assert_eq!(advice["next_advice_at"], "2026-03-21T06:45:10Z");
    assert_eq!(advice["valid_until"], "2026-03-20T14:35:00Z");
    // 30 ms × the capacity
    assert_eq!((&advice["rtt_us"], &advice["buffer_bytes"]), (&json!(30_000), &json!(375_000)));
    near(&advice["transfer_s"], 8e9 / 58.81e6);
}

#[test]
fn what_is_not_known_is_said_to_be_unknown_with_the_safe_default() {
    let service = Service::start(&[]);
    import(&service.db(), &service.scratch);
    for (query, reason) in [
        ("dst=198.51.100.9", "no_history"),
        ("dst=192.0.2.7", "stale"),
        ("dst=192.0.2.7&at=2026-03-12T14:25:00Z", "too_few_days"),
        ("dst=192.0.2.7&at=2026-01-12T14:25:00Z", "no_history"),
    ] {
        let (status, advice) = service.get(&format!("/v1/advice?{query}"));
        assert_eq!((status, &advice["reason"]), (200, &json!(reason)), "{advice}");
        assert_eq!(
            (&advice["verdict"], &advice["congestion_control"]),
            (&json!("unknown"), &json!("on"))
        );
    }
}

fn receipt_of(stored: u64, duplicate: bool) -> serde_json::Value {
    json!({"batch": "b1", "stored": stored, "duplicate": duplicate, "refused": null, "because": null})
}

#[test]
fn a_batch_sent_twice_is_stored_once() {
    let service = Service::start(&[]);
    let records = [record("2026-03-20T14:25:00Z", 42_000_000), record("2026-03-20T14:26:00Z", 1)];
    let (status, receipt) = service.report("b1", &records);
    assert_eq!((status, receipt), (200, receipt_of(2, false)));
    let (status, receipt) = service.report("b1", &records);
    assert_eq!((status, receipt), (200, receipt_of(0, true)));
}

#[test]
fn what_was_acknowledged_survives_sigkill() {
    let service = Service::start(&["--rate-limit", "0"]);
    let acknowledged = AtomicUsize::new(0);
    let going_on = AtomicBool::new(true);
    let url = service.url.clone();
    let scratch = std::thread::scope(|s| {
        for sender in 0..4 {
            let (url, acknowledged, going_on) = (&url, &acknowledged, &going_on);
            s.spawn(move || {
                for i in 0.. {
                    let at = jiff::Timestamp::from_second(1_700_000_000 + i).unwrap();
                    let body = json!({ "batch": format!("{sender}-{i}"), "records": [
                        { "dst": DST, "source": format!("s{sender}"), "time": at, "available_bps": i },
                    ]});
                    let sent = http()
                        .post(format!("{url}/v1/reports"))
                        .header("Authorization", format!("Bearer {TOKEN}"))
                        .send(body.to_string());
                    match sent {
                        Ok(answer) if answer.status() == 200 => {
                            acknowledged.fetch_add(1, Ordering::SeqCst);
                        }
                        _ if going_on.load(Ordering::SeqCst) => panic!("refused while alive"),
                        _ => return,
                    }
                }
            });
        }
        while acknowledged.load(Ordering::SeqCst) < 200 {
            std::thread::sleep(Duration::from_millis(5));
        }
        going_on.store(false, Ordering::SeqCst);
        service.kill()
    });
    let acknowledged = acknowledged.into_inner();
    let db = scratch.path("history.db");
    let all = advice_ok(&["export", "--db", db.to_str().unwrap()]);
    let stored = all.lines().count() - 1;
    // Each sender may have one more that was written and whose receipt did not arrive.
    assert!((acknowledged..=acknowledged + 4).contains(&stored), "{stored} of {acknowledged}");
    // The killed service's file is fit for the next.
    let again = Service::start_in(scratch, &[]);
    let (_, receipt) = again.report("0-0", &[record("2026-03-20T14:25:00Z", 1)]);
    assert_eq!(receipt["duplicate"], true);
}

#[test]
fn a_running_service_follows_imports_and_settings_of_other_processes() {
    let service = Service::start(&[]);
    let now = jiff::Timestamp::now();
    service.report("now", &[json!({"dst": DST, "time": now, "available_bps": 50_000_000})]);
    assert_eq!(service.get("/v1/advice?dst=192.0.2.7").1["reason"], "too_few_days");
    let mut csv = String::from("time,available_bps\n");
    for day in 1..5 {
        for minute in 0..120 {
            let at = now - jiff::SignedDuration::from_hours(24 * day)
                + jiff::SignedDuration::from_mins(minute);
            csv.push_str(&format!("{at},50000000\n"));
        }
    }
    let (db, file) = (service.db(), service.scratch.path("days.csv"));
    std::fs::write(&file, csv).unwrap();
    let db = db.to_str().unwrap();
    advice_ok(&["import", "--db", db, "--path", DST, file.to_str().unwrap()]);
    advice_ok(&["set", "--db", db, "--path", DST, "threshold=42M"]);
    let free = || service.get("/v1/advice?dst=192.0.2.7").1["reason"] == "free";
    eventually("the path is free", free);
    advice_ok(&["set", "--db", db, "--path", DST, "threshold=51M"]);
    let congested = || service.get("/v1/advice?dst=192.0.2.7").1["reason"] == "congested";
    eventually("the path is congested", congested);
    // Reports count at once.
    let later = now + jiff::SignedDuration::from_secs(1);
    service.report("more", &[json!({"dst": DST, "time": later, "available_bps": 52_000_000})]);
    assert_eq!(service.get("/v1/advice?dst=192.0.2.7").1["reason"], "free");
}

#[test]
fn errors_are_problem_documents_that_say_what_to_do() {
    let service = Service::start(&[]);
    for (query, says) in [
        ("/v1/advice", "give the destination, as ?dst=192.0.2.7"),
        ("/v1/paths/%ff", "/openapi.json tells how"),
        ("/v1/advice?dst=192.0.2.7&at=9999-12-31T23:59:59Z", "out of range"),
        ("/v1/advice?dst=a%20b", "neither an address nor a host"),
        ("/v1/advice?dst=192.0.2.7&at=yesterday", "RFC 3339"),
        ("/v1/advice?dst=192.0.2.7&bytes=-1", "bytes: this is no whole number"),
        ("/v1/advice?dst=192.0.2.7&colour=red", "unknown field `colour`"),
        ("/v1/history?dst=192.0.2.7&points=0", "points is between"),
        ("/v1/timeline?dst=192.0.2.7&steps=1000000", "steps is between"),
        ("/v1/timeline?dst=192.0.2.7&from=2026-03-20T00:00:00Z&to=2026-03-19T00:00:00Z", "before"),
        ("/v1/paths?limit=0", "limit is between"),
    ] {
        let (status, problem) = service.get(query);
        assert_eq!((status, &problem["status"]), (400, &json!(400)), "{query}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{query}: {problem}");
    }
    for (path, status) in [("/nowhere", 404), ("/v1/reports", 405), ("/v1/paths/192.0.2.99", 404)] {
        let (got, problem) = service.get(path);
        assert_eq!((got, &problem["status"]), (status, &json!(status)), "{problem}");
    }
    let (status, problem) = service
        .report("x", &[json!({"dst": DST, "time": "2026-03-20T14:25:00Z", "available_bps": -5})]);
    assert_eq!(status, 400, "{problem}");
    let (status, problem) = service
        .report("x", &[record("2026-03-20T14:25:00Z", 5), record("2126-03-20T14:25:00Z", 5)]);
    assert_eq!(status, 400);
    assert!(problem["detail"].as_str().unwrap().contains("record 1"), "{problem}");
    for nonsense in ["", "{", "[]", "null", "{\"batch\": 1}", "{\"batch\":\"\",\"records\":[]}"] {
        assert_eq!(service.post("/v1/reports", Some(TOKEN), nonsense).0, 400, "{nonsense}");
    }
}

#[test]
fn settings_are_changed_with_a_token_and_refused_when_they_make_no_sense() {
    let service = Service::start(&[]);
    let patch = |token: &str, body: &str| {
        let request = http().patch(format!("{}/v1/paths/192.0.2.7", service.url));
        let request = request.header("Authorization", format!("Bearer {token}"));
        let mut answer = request.send(body).unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    assert_eq!(patch("wrong", r#"{"z": 1}"#).0, 401);
    let (status, text) = patch(TOKEN, r#"{"zone": "Europe/Berlin", "threshold": {"bps": 42e6}}"#);
    assert_eq!(status, 200, "{text}");
    assert_eq!(json(&text)["settings"]["zone"], "Europe/Berlin");
    let (status, text) = patch(TOKEN, r#"{"zone": "Nowhere"}"#);
    assert!(status == 400 && text.contains("no time zone"), "{text}");
    let (_, path) = service.get("/v1/paths/192.0.2.7");
    assert_eq!(path["own_settings"]["zone"], "Europe/Berlin");
}

#[test]
fn a_path_is_removed_by_who_may_write_and_can_come_again() {
    let service = Service::start(&[]);
    let one = [record("2026-03-20T14:25:00Z", 5)];
    service.report("a", &one);
    service.get("/v1/advice?dst=192.0.2.7");
    assert_eq!(service.delete("/v1/paths/192.0.2.7", None).0, 401);
    let (status, gone) = service.delete("/v1/paths/192.0.2.7", Some(TOKEN));
    assert_eq!((status, gone), (200, json!({"dst": DST, "removed": 1, "finished": true})));
    assert_eq!(service.get("/v1/paths/192.0.2.7").0, 404);
    assert_eq!(service.get("/v1/advice?dst=192.0.2.7").1["reason"], "no_history");
    assert_eq!(service.delete("/v1/paths/192.0.2.7", Some(TOKEN)).0, 404);
    assert_eq!(service.delete("/v1/paths/*", Some(TOKEN)).0, 400);
    assert_eq!(service.report("b", &one).1["stored"], 1);
}

#[test]
fn clients_are_added_listed_and_removed_by_who_may_write() {
    let service = Service::start(&[]);
    let listed = || {
        let (_, all) = service.get("/v1/clients");
        let all = all["clients"].as_array().unwrap().clone();
        all.iter().map(|c| c["dst"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    let (status, first) = service.put("/v1/clients/192.0.2.7");
    assert_eq!((status, &first["dst"]), (200, &json!(DST)));
    assert_eq!(service.put("/v1/clients/192.0.2.7"), (200, first));
    assert_eq!(service.put("/v1/clients/Mirror.Example.ORG.").0, 200);
    assert_eq!(listed(), [DST, "mirror.example.org"]);
    assert_eq!(service.put("/v1/clients/a%20b").0, 400);
    for no_host in ["224.0.0.1", "255.255.255.255", "127.0.0.1", "0.0.0.0", "fe80::1", "ff02::1"] {
        let (status, problem) = service.put(&format!("/v1/clients/{no_host}"));
        assert_eq!(status, 400, "{no_host}");
        assert!(problem["detail"].as_str().unwrap().contains("are no peers"), "{problem}");
    }
    assert_eq!(service.delete("/v1/clients/192.0.2.7", None).0, 401);
    assert_eq!(service.delete("/v1/clients/192.0.2.7", Some(TOKEN)).0, 204);
    let (status, problem) = service.delete("/v1/clients/192.0.2.7", Some(TOKEN));
    assert_eq!((status, &problem["status"]), (404, &json!(404)), "{problem}");
    assert_eq!(listed(), ["mirror.example.org"]);
}

#[test]
fn history_and_timeline_tell_what_the_page_draws() {
    let service = Service::start(&[]);
    import(&service.db(), &service.scratch);
    let (_, history) = service.get("/v1/history?dst=192.0.2.7&to=2026-03-20T14:31:00Z&points=24");
    let points = history["points"].as_array().unwrap();
    assert!((24..=25).contains(&points.len()), "{}", points.len());
    assert_eq!(points.iter().map(|p| p["samples"].as_u64().unwrap()).sum::<u64>(), 1440);
    let (_, timeline) = service.get(
        "/v1/timeline?dst=192.0.2.7&from=2026-03-20T00:00:00Z&to=2026-03-21T00:00:00Z&steps=24",
    );
    let steps = timeline["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 24);
    assert!(steps.iter().all(|s| s["available_bps"].is_u64()), "{timeline}");
    assert_eq!((&steps[14]["reason"], &steps[16]["reason"]), (&json!("free"), &json!("stale")));
    let (_, paths) = service.get("/v1/paths");
    assert_eq!(paths["paths"][0]["dst"], DST);
}

#[test]
fn metrics_health_and_description_are_there() {
    let service = Service::start(&[]);
    service.get("/v1/advice?dst=192.0.2.7");
    service.report("b", &[record("2026-03-20T14:25:00Z", 5)]);
    let (_, metrics) = service.get("/metrics");
    let metrics = metrics.as_str().unwrap();
    for line in [
        "imtcp_advice_requests_total{route=\"/v1/advice\",status=\"200\"} 1",
        "imtcp_advice_answers_total{reason=\"no_history\"} 1",
        "imtcp_advice_records_total 1",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    assert_eq!(service.get("/healthz").1["status"], "ok");
    let (_, api) = service.get("/openapi.json");
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"));
    for path in ["/v1/advice", "/v1/paths", "/v1/clients", "/v1/history", "/v1/reports"] {
        assert!(api["paths"][path].is_object(), "{path}");
    }
    for method in ["get", "patch"] {
        let dst = &api["paths"]["/v1/paths/{dst}"][method]["parameters"][0];
        let schema = dst["schema"]["$ref"].as_str().unwrap().trim_start_matches('#');
        let schema = api.pointer(schema).unwrap();
        assert!(schema["pattern"].is_string(), "what a path may be: {schema}");
    }
}

#[test]
fn pythons_own_xmlrpc_client_gets_the_papers_answers() {
    let service = Service::start(&[]);
    import(&service.db(), &service.scratch);
    let now = jiff::Timestamp::now();
    let records: Vec<_> = (1..5)
        .flat_map(|day| (0..60).map(move |minute| (day, minute)))
        .map(|(day, minute)| {
            let at = now - jiff::SignedDuration::from_mins(1440 * day - minute);
            json!({"dst": "127.0.0.1", "time": at, "available_bps": 80_000_000})
        })
        .chain([json!({"dst": "127.0.0.1", "time": now, "available_bps": 70_000_000,
            "capacity_bps": 100_000_000, "rtt_us": 20_000})])
        .collect();
    assert_eq!(service.report("x", &records).0, 200);
    let no_rtt = json!({"dst": "192.0.2.8", "time": now, "available_bps": 80_000_000});
    assert_eq!(service.report("y", &[no_rtt]).0, 200);
    let script = r#"
import sys, urllib.request, xmlrpc.client
server = xmlrpc.client.ServerProxy(sys.argv[1] + "/RPC2")
assert server.EnableGetBufferSize("127.0.0.1") == 250_000
# A stranger's names are looked up only where they are clients.
assert "names are looked up" in server.EnableGetNetInfo("localhost")["because"]
assert not server.EnableGetNetInfo("localhost")["known"]
with_token = xmlrpc.client.ServerProxy(
    sys.argv[1] + "/RPC2", headers=[("Authorization", "Bearer " + sys.argv[2])])
assert with_token.EnableGetBufferSize("localhost") == 250_000
put = urllib.request.Request(sys.argv[1] + "/v1/clients/localhost", method="PUT",
                             headers={"Authorization": "Bearer " + sys.argv[2]})
assert urllib.request.urlopen(put).status == 200
assert server.EnableGetBufferSize("localhost") == 250_000
info = server.EnableGetNetInfo("127.0.0.1")
assert info["known"] is True and info["rtt_us"] == 20_000, info
assert info["available_bps"] == 80_000_000 and info["newest_bps"] == 70_000_000, info
for length in (1_000_000, 16e9, "16000000000"):
    advice = server.EnableGetAdvice("127.0.0.1", length)
    assert advice["congestion_control"] is False, advice
    assert advice["next_advice_s"] > 0 and advice["rtt_us"] == 20_000, advice
assert abs(advice["transfer_s"] - 1600) < 1, advice
assert (advice["mode"], advice["verdict"], advice["reason"]) == ("measure", "advice", "free"), advice
unknown = server.EnableGetAdvice("198.51.100.9", 5)
assert unknown["congestion_control"] is True and not unknown["known"], unknown
for call in (lambda: server.EnableGetBufferSize("198.51.100.9"), lambda: server.Fly(),
             lambda: server.EnableGetAdvice("127.0.0.1"), lambda: server.EnableGetAdvice("a b", 1),
             lambda: server.EnableGetAdvice("127.0.0.1", -1)):
    try:
        call()
    except xmlrpc.client.Fault as fault:
        assert fault.faultString, fault
    else:
        raise AssertionError("no fault")
for host, missing in [("198.51.100.9", "no history"), ("192.0.2.8", "does not tell the RTT")]:
    try:
        server.EnableGetBufferSize(host)
    except xmlrpc.client.Fault as fault:
        assert missing in fault.faultString, fault
assert "EnableGetAdvice" in server.system.listMethods()
"#;
    let done = Command::new("python3").args(["-c", script, &service.url, TOKEN]).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    for nonsense in
        ["", "<", "<methodCall/>", "<!DOCTYPE a [<!ENTITY b 'c'>]><methodCall>&b;</methodCall>"]
    {
        let (status, answer) = service.xmlrpc(None, nonsense);
        assert!(status == 200 && answer.as_str().unwrap().contains("faultCode"), "{answer}");
    }
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let no_utf8 = b"POST /RPC2 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n\
                    Content-Length: 2\r\n\r\n\xff\xfe";
    stream.write_all(no_utf8).unwrap();
    let mut answer = [0; 4096];
    let length = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("faultCode"), "{answer}");
}

#[test]
fn where_no_record_tells_the_rtt_ping_does_unless_forbidden() {
    if !Command::new("ping").arg("-V").output().is_ok_and(|o| o.status.success()) {
        skip("ping is missing");
        return;
    }
    // An address of this machine that is a host's for others, too.
    let route = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    if let Err(e) = route.connect("192.0.2.1:9") {
        skip(format_args!("this machine has no route: {e}"));
        return;
    }
    let dst = route.local_addr().unwrap().ip().to_string();
    let records = past_days(&dst);
    for (more, pings) in [(&[][..], true), (&["--no-ping"][..], false)] {
        let service = Service::start(more);
        assert_eq!(service.report("b", &records).0, 200);
        let (_, advice) = service.get(&format!("/v1/advice?dst={dst}"));
        assert_eq!(advice["rtt_us"].is_u64(), pings, "{advice}");
        assert_eq!(advice["buffer_bytes"].is_u64(), pings, "{advice}");
    }
}

/// Records of the last five days, each minute.
fn past_days(dst: &str) -> Vec<Value> {
    let now = jiff::Timestamp::now();
    let minutes = (0..5).flat_map(|day| (0..60).map(move |minute| 1440 * day - minute));
    let record = |minute: i64| {
        let at = now - jiff::SignedDuration::from_mins(minute);
        json!({"dst": dst, "time": at, "available_bps": 80_000_000 + minute % 7 * 1_000_000})
    };
    minutes.filter(|minute| *minute >= 0).map(record).collect()
}

/// Records come meanwhile, some of them within the second of an answer.
#[test]
fn an_answer_asked_for_again_as_of_its_own_moment_is_the_same() {
    let service = Service::start(&["--no-ping"]);
    assert_eq!(service.report("past", &past_days(DST)).0, 200);
    let mut moments = std::collections::BTreeSet::new();
    for i in 0..40 {
        let now = jiff::Timestamp::now();
        let newest = json!({"dst": DST, "time": now, "available_bps": 60_000_000 + i * 1_000_000,
            "capacity_bps": 100_000_000, "rtt_us": 30_000 + i});
        assert_eq!(service.report(&format!("b{i}"), &[newest]).0, 200);
        let (_, now) = service.get(&format!("/v1/advice?dst={DST}&bytes=1000"));
        let at = now["at"].as_str().unwrap();
        let (_, again) = service.get(&format!("/v1/advice?dst={DST}&bytes=1000&at={at}"));
        assert_eq!(now, again);
        assert_eq!((&now["rtt_us"], &now["verdict"]), (&json!(30_000 + i), &json!("advice")));
        moments.insert(at.to_string());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(moments.len(), 40);
}

#[test]
fn it_ends_on_sigterm_with_all_in_one_file() {
    let mut service = Service::start(&[]);
    service.report("b", &[record("2026-03-20T14:25:00Z", 5)]);
    assert!(service.terminate().success());
    // Nobody says which connection ends last: the log may stay, and then it is empty.
    let log = std::fs::metadata(service.scratch.path("history.db-wal"));
    assert_eq!(log.map_or(0, |log| log.len()), 0);
}

/// Old records are rolled up at the start, and the log says so.
#[test]
fn its_log_has_colours_on_a_terminal_alone() {
    let log = |to_terminal: bool, no_color: &str| {
        let scratch = Scratch::new();
        let (db, file) = (scratch.path("history.db"), scratch.path("old.csv"));
        std::fs::write(
            &file,
            "time,available_bps\n2026-01-01T00:00:00Z,1000000\n2026-03-20T14:25:00Z,1000000\n",
        )
        .unwrap();
        let (db, file) = (db.to_str().unwrap(), file.to_str().unwrap());
        advice_ok(&["import", "--db", db, "--path", DST, file]);
        let (mut reader, writer) = if to_terminal {
            let pty = nix::pty::openpty(None, None).unwrap();
            (File::from(pty.master), File::from(pty.slave))
        } else {
            let (reader, writer) = nix::unistd::pipe().unwrap();
            (File::from(reader), File::from(writer))
        };
        let mut command = Command::new(&*IMTCP_ADVICE);
        command.env("NO_COLOR", no_color).stderr(writer);
        let _service = Service::start_as(command, scratch, &[]);
        let mut log = [0; 1000];
        let length = reader.read(&mut log).unwrap();
        text(&log[..length])
    };
    let (piped, plain, coloured) = (log(false, ""), log(true, "1"), log(true, ""));
    assert!(piped.contains(" INFO rolled up 1 records") && !piped.contains('\x1b'), "{piped:?}");
    assert!(plain.contains(" INFO rolled up") && !plain.contains('\x1b'), "{plain:?}");
    assert!(coloured.contains("\x1b[32m"), "{coloured:?}");
}

#[test]
fn a_service_on_a_full_disk_says_that_it_is_full() {
    if !nix::unistd::geteuid().is_root() {
        skip("a small disk needs root");
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path("small");
    std::fs::create_dir(&dir).unwrap();
    // Each processor counts some pages of a tmpfs for itself: one file does not always fill it.
    let script = "mount -t tmpfs -o size=2m none \"$1\" && cd \"$1\" && \
                  \"$0\" set --db history.db z=2 >/dev/null 2>&1 && \
                  { for i in 1 2 3; do head -c 4m /dev/zero >fill$i 2>/dev/null; done; \
                  \"$0\" set --db history.db z=3; timeout 60 \"$0\" serve --db history.db; \
                  timeout 60 \"$0\" serve --db other.db; }";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script, &IMTCP_ADVICE, dir.to_str().unwrap()])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    for file in ["history.db", "history.db", "other.db"] {
        let line = format!("imtcp-advice: cannot open {file}: the disk is full: free some space\n");
        assert!(said.contains(&line), "{said}");
    }
}
