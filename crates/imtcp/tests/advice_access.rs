// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The advice service: who may do what, and how much of it.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use imtcp::cli::advice::ServiceArgs;
use imtcp::http::Client;
use serde_json::json;
use support::advice::*;
use support::*;

#[test]
fn writing_needs_the_token_and_reading_may_need_one() {
    let service = Service::start(&[]);
    let body = json!({"batch": "b", "records": []}).to_string();
    assert_eq!(service.post("/v1/reports", None, &body).0, 401);
    assert_eq!(service.post("/v1/reports", Some("another-token-than-ours"), &body).0, 401);
    assert_eq!(service.post("/v1/reports", Some(TOKEN), &body).0, 200);
    drop(service);
    let scratch = Scratch::new();
    let tokens = token_file(&scratch);
    let service = Service::start_in(scratch, &["--read-token-file", tokens.to_str().unwrap()]);
    let of_reading =
        ["/v1/advice?dst=x", "/v1/paths", "/v1/clients", "/v1/history?dst=x", "/metrics"];
    for path in of_reading {
        assert_eq!(service.get(path).0, 401, "{path}");
    }
    assert_eq!(service.post("/RPC2", None, "").0, 401);
    assert_eq!(service.post("/RPC2", Some(TOKEN), "").0, 200);
    assert_eq!(service.get("/healthz").0, 200);
}

#[test]
fn tokens_and_certificates_are_read_again_on_sighup_and_kept_where_one_file_is_wrong() {
    let scratch = Scratch::new();
    let Some((cert, key)) = certificate(&scratch) else { return };
    let (cert_path, key_path) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let service = Service::start_in(scratch, &["--tls-cert", cert_path, "--tls-key", key_path]);
    let (tokens, args) = (service.scratch.path("tokens"), |ca: &std::path::Path| ServiceArgs {
        url: service.url.clone(),
        token_file: Some(service.scratch.path("mine")),
        ca: Some(ca.into()),
    });
    let refusal = |token: &str| {
        std::fs::write(service.scratch.path("mine"), token).unwrap();
        let client = Client::new(&args(&cert)).unwrap();
        let body = json!({"batch": token, "records": []}).to_string();
        client.post("/v1/reports", body.as_bytes()).err().map(|e| e.to_string())
    };
    let (old, new) = (TOKEN, "another-token-for-the-tests");
    assert_eq!(refusal(old), None);
    std::fs::write(&tokens, format!("{new}\n")).unwrap();
    assert_eq!(refusal(old), None, "not before it is told to");
    service.signal(libc::SIGHUP);
    eventually("the new token counts", || refusal(new).is_none());
    assert!(refusal(old).unwrap().contains("not one of the service's"));

    // A wrong key: the new tokens beside it do not count either, and TLS goes on.
    let right = std::fs::read(&key).unwrap();
    std::fs::write(&key, "no key").unwrap();
    std::fs::write(&tokens, format!("{old}\n")).unwrap();
    service.signal(libc::SIGHUP);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(refusal(new), None);
    std::fs::write(&key, right).unwrap();

    // Another certificate, which the old one does not vouch for.
    let before = std::fs::read(&cert).unwrap();
    certificate(&service.scratch).unwrap();
    service.signal(libc::SIGHUP);
    eventually("the new certificate is shown", || refusal(old).is_none());
    std::fs::write(&cert, before).unwrap();
    assert!(refusal(old).unwrap().contains("does not answer"));
}

#[test]
fn a_web_page_that_leads_its_own_name_here_reads_nothing() {
    let service = Service::start(&["--host", "advice.example.org"]);
    let get = |host: &str| {
        let request = agent().get(format!("{}/v1/paths", service.url)).header("Host", host);
        let mut answer = request.call().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    for host in ["localhost", "127.0.0.1:80", "[::1]", "advice.example.org:8750"] {
        assert_eq!(get(host).0, 200, "{host}");
    }
    let (status, text) = get("rebound.example:8750");
    assert!(status == 421 && text.contains("not called 'rebound.example:8750'"), "{text}");
    assert!(text.contains("--host") && !text.contains("paths"), "{text}");
}

#[test]
fn the_rate_of_one_client_is_limited() {
    let service = Service::start(&["--rate-limit", "20"]);
    let statuses: Vec<_> = (0..40).map(|_| service.get("/healthz").0).collect();
    assert!(statuses.contains(&429) && statuses[..20].iter().all(|s| *s == 200), "{statuses:?}");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(service.get("/healthz").0, 200);
}

#[test]
fn huge_requests_are_refused() {
    let service = Service::start(&[]);
    let (status, problem) = service.post("/v1/reports", Some(TOKEN), &" ".repeat(5 << 20));
    assert_eq!(status, 413, "{problem}");
    let (status, problem) = service.post("/RPC2", None, &" ".repeat(70 << 10));
    assert_eq!((status, &problem["status"]), (413, &json!(413)), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("at most 64 KiB"), "{problem}");
    let (status, problem) = service.post("/RPC2", None, &" ".repeat(70 << 10));
    assert_eq!((status, &problem["status"]), (413, &413.into()), "{problem}");
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
    let _ = stream.write_all(head.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = text(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many: Vec<_> = (0..10_001)
        .map(|_| json!({"dst": DST, "time": "2026-03-20T14:25:00Z", "available_bps": 5}))
        .collect();
    assert_eq!(service.report("many", &many).0, 400);
    assert_eq!(service.get("/healthz").0, 200);
}

#[test]
fn clients_that_are_slow_are_dropped() {
    let service = Service::start(&[]);
    let slow = |begin: &str| {
        let mut stream = TcpStream::connect(service.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(begin.as_bytes()).unwrap();
        let started = Instant::now();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the service closes");
        (started.elapsed(), text(&answer))
    };
    std::thread::scope(|s| {
        let head = s.spawn(|| slow("GET /healthz HTTP/1.1\r\nHost: localhost\r\n"));
        let silent = s.spawn(|| slow(""));
        let body = s.spawn(|| {
            let auth = format!("Authorization: Bearer {TOKEN}\r\n");
            slow(&format!(
                "POST /v1/reports HTTP/1.1\r\nHost: localhost\r\n{auth}Content-Length: 100\r\n\r\n{{"
            ))
        });
        for thread in [head, silent, body] {
            let (took, answer) = thread.join().unwrap();
            assert!(took < Duration::from_secs(18), "{took:?} {answer}");
            assert!(answer.is_empty() || answer.contains(" 408 "), "{answer}");
        }
        assert_eq!(service.get("/healthz").0, 200);
    });
}
