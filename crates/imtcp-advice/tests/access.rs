// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The advice service: who may do what, and how much of it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use imtcp_client::answers::Health;
use imtcp_client::http::Client;
use imtcp_client::service::ServiceArgs;
use imtcp_test_support::advice::*;
use imtcp_test_support::*;
use serde_json::json;

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
    assert_eq!(service.xmlrpc(None, "").0, 401);
    assert_eq!(service.xmlrpc(Some(TOKEN), "").0, 200);
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
        let mine = service.scratch.path("mine");
        std::fs::write(&mine, token).unwrap();
        std::fs::set_permissions(&mine, PermissionsExt::from_mode(0o600)).unwrap();
        let client = Client::new(&args(&cert)).unwrap();
        let body = json!({"batch": token, "records": []}).to_string();
        client.report(body.as_bytes()).err().map(|e| e.to_string())
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
        let request = http().get(format!("{}/v1/paths", service.url)).header("Host", host);
        let mut answer = request.call().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    for host in ["localhost", "127.0.0.1:80", "[::1]", "advice.example.org:8750"] {
        assert_eq!(get(host).0, 200, "{host}");
    }
    let (status, text) = get("rebound.example:8750");
    assert!(status == 421 && text.contains("not called 'rebound.example:8750'"), "{text}");
    assert!(text.contains("--host") && !text.contains("paths"), "{text}");
    // The target may have a name too.
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let head = "GET http://rebound.example/v1/paths HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 421") && answer.contains("'rebound.example'"), "{answer}");
}

#[test]
fn beyond_loopback_a_web_page_that_leads_its_own_name_here_reads_nothing_either() {
    let service = Service::start(&["--listen", "0.0.0.0:0"]);
    let port = service.url.rsplit_once(':').unwrap().1.to_string();
    let get = |host: &str| {
        let request = http().get(format!("http://127.0.0.1:{port}/v1/paths"));
        let mut answer = request.header("Host", host).call().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    for host in ["localhost", "127.0.0.1:80", "192.0.2.7:8750", "[2001:db8::7]"] {
        assert_eq!(get(host).0, 200, "{host}");
    }
    let (status, text) = get("rebound.example:8750");
    assert!(status == 421 && text.contains("--host") && !text.contains("paths"), "{text}");
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
fn who_comes_through_a_trusted_proxy_has_limits_of_its_own_and_nobody_else_may_name_a_client() {
    let statuses = |service: &Service, name: &dyn Fn(u8) -> String| -> Vec<u16> {
        let ask = |i| {
            let request = http().get(format!("{}/healthz", service.url));
            request.header("X-Forwarded-For", name(i)).call().unwrap().status().as_u16()
        };
        (0..40).map(ask).collect()
    };
    let proxied = Service::start(&[
        "--rate-limit",
        "20",
        "--trusted-proxy",
        "127.0.0.1",
        "--trusted-proxy",
        "::1",
    ]);
    // What a client writes itself stands on the left.
    let one = statuses(&proxied, &|i| format!("203.0.113.{i}, 192.0.2.1"));
    assert!(one[..20].iter().all(|s| *s == 200) && one.contains(&429), "{one:?}");
    let bytes = statuses(&proxied, &|_| "\u{e9}, 192.0.2.3".into());
    assert!(bytes.contains(&429), "{bytes:?}");
    let other = statuses(&proxied, &|_| "192.0.2.2:4711".into());
    assert!(other[..20].iter().all(|s| *s == 200), "{other:?}");
    let direct = Service::start(&["--rate-limit", "20"]);
    let all = statuses(&direct, &|i| format!("192.0.2.{i}"));
    assert!(all.contains(&429), "{all:?}");
}

#[test]
fn huge_requests_are_refused() {
    let service = Service::start(&[]);
    let (status, problem) = service.post("/v1/reports", Some(TOKEN), &" ".repeat(5 << 20));
    assert_eq!(status, 413, "{problem}");
    let (status, problem) = service.xmlrpc(None, &" ".repeat(17 << 10));
    assert_eq!((status, &problem["status"]), (413, &json!(413)), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("an XML-RPC call 16 KiB"), "{problem}");
    // Without a length, what has come counts.
    let chunks = format!("1000\r\n{}\r\n", " ".repeat(0x1000)).repeat(5) + "0\r\n\r\n";
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let head = "POST /RPC2 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n\
                Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    let _ = stream.write_all((head.to_string() + &chunks).as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(text(&answer).starts_with("HTTP/1.1 413"), "{}", text(&answer));
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
        let after_an_answer = s.spawn(|| slow("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let body = s.spawn(|| {
            let auth = format!("Authorization: Bearer {TOKEN}\r\n");
            slow(&format!(
                "POST /v1/reports HTTP/1.1\r\nHost: localhost\r\n{auth}Content-Length: 100\r\n\r\n{{"
            ))
        });
        let (took, answer) = after_an_answer.join().unwrap();
        assert!(took < Duration::from_secs(18) && answer.contains(" 200 "), "{took:?} {answer}");
        for thread in [head, silent, body] {
            let (took, answer) = thread.join().unwrap();
            assert!(took < Duration::from_secs(18), "{took:?} {answer}");
            assert!(answer.is_empty() || answer.contains(" 408 "), "{answer}");
        }
        assert_eq!(service.get("/healthz").0, 200);
    });
}

/// The service's answer before the body has come, or nothing.
fn answer_to_head(service: &Service, head: &str) -> String {
    let mut stream = TcpStream::connect(service.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 4096];
    let length = stream.read(&mut answer).unwrap_or(0);
    text(&answer[..length])
}

#[test]
fn whoever_may_not_write_is_refused_before_the_body_is_read() {
    let service = Service::start(&[]);
    let head = |first: &str, more: &str| {
        format!(
            "{first} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\
             Expect: 100-continue\r\n{more}\r\n"
        )
    };
    for first in [
        "POST /v1/reports",
        "PATCH /v1/paths/192.0.2.7",
        "DELETE /v1/paths/192.0.2.7",
        "PUT /v1/clients/192.0.2.7",
    ] {
        let answer = answer_to_head(&service, &head(first, ""));
        assert!(answer.starts_with("HTTP/1.1 401"), "{first}: {answer}");
        let wrong = "Authorization: Bearer another-token-than-ours\r\n";
        let answer = answer_to_head(&service, &head(first, wrong));
        assert!(answer.starts_with("HTTP/1.1 401"), "{first}: {answer}");
    }
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    let answer = answer_to_head(&service, &head("POST /v1/reports", &right));
    assert!(answer.starts_with("HTTP/1.1 100"), "{answer}");
    let answer = answer_to_head(&service, &head("PATCH /v1/paths/192.0.2.7", &right));
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[test]
fn who_sends_a_long_body_without_the_right_still_reads_why_it_is_refused() {
    let service = Service::start(&[]);
    for _ in 0..10 {
        let (status, problem) = service.post("/v1/reports", None, &"x".repeat(4 << 20));
        assert!(status == 401 && problem["detail"].as_str().unwrap().contains("needs a token"));
    }
}

#[test]
fn a_page_of_another_site_is_answered_nothing() {
    let service = Service::start(&[]);
    let origin = |value: &str| {
        let request = http().get(format!("{}/v1/paths", service.url)).header("Origin", value);
        request.call().unwrap().status().as_u16()
    };
    assert_eq!(origin(&service.url), 200);
    assert_eq!(origin("http://evil.example"), 403);
    assert_eq!(origin("null"), 403);
    // On every route, with every method that it has, and where there is none.
    let description = service.get("/openapi.json").1;
    let described = description["paths"].as_object().unwrap().iter();
    let mut routes: Vec<(&str, &str)> = described
        .flat_map(|(path, of)| of.as_object().unwrap().keys().map(|m| (&**path, &**m)))
        .collect();
    assert!(routes.len() >= 10, "{routes:?}");
    routes.extend([("/", "get"), ("/openapi.json", "get"), ("/nowhere", "get")]);
    for (path, method) in &routes {
        let path = path.replace("{dst}", DST);
        let foreign = "Origin: http://evil.example\r\nContent-Length: 0\r\n";
        let head = format!(
            "{} {path} HTTP/1.1\r\nHost: localhost\r\n{foreign}Connection: close\r\n\r\n",
            method.to_uppercase()
        );
        let answer = answer_to_head(&service, &head);
        assert!(answer.starts_with("HTTP/1.1 403"), "{method} {path}: {answer}");
    }
    let post = |kind: &str| {
        let request = http().post(format!("{}/RPC2", service.url)).header("Content-Type", kind);
        request.send("<methodCall/>").unwrap().status().as_u16()
    };
    assert_eq!(post("text/xml"), 200);
    assert_eq!(post("text/xml; charset=utf-8"), 200);
    // The kinds that a page may send elsewhere without asking.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        assert_eq!(post(kind), 415, "{kind}");
    }
    let metrics = service.get("/metrics").1;
    let metrics = metrics.as_str().unwrap();
    let refused = format!("imtcp_advice_refused_total{{why=\"origin\"}} {}", 2 + routes.len());
    assert!(metrics.contains(&refused), "{metrics}");
}

#[test]
fn wrong_tokens_are_limited_and_a_right_one_is_not() {
    let service = Service::start(&["--rate-limit", "1000"]);
    let body = json!({"batch": "b", "records": []}).to_string();
    let guess = |n: u32| service.post("/v1/reports", Some(&format!("guess-number-{n:06}")), &body);
    let statuses: Vec<_> = (0..15).map(|n| guess(n).0).collect();
    assert_eq!(statuses[..10], [401; 10], "{statuses:?}");
    assert_eq!(statuses[10..], [429; 5], "{statuses:?}");
    // A stranger behind the same proxy must not keep others out.
    assert_eq!(service.post("/v1/reports", Some(TOKEN), &body).0, 200);
    assert_eq!(service.get("/healthz").0, 200);
    assert_eq!(service.get("/v1/paths").0, 200, "reading needs no token here");
}

#[test]
fn a_client_that_holds_connections_open_makes_room_for_its_next() {
    let service = Service::start(&["--client-connections", "20"]);
    let mut held: Vec<_> =
        (0..60).map(|_| TcpStream::connect(service.address()).unwrap()).collect();
    for _ in 0..5 {
        assert_eq!(service.get("/healthz").0, 200);
    }
    // The one that makes room for this question may still be counted.
    eventually("no more than 20 are open", || {
        let metrics = service.get("/metrics").1;
        let mut lines = metrics.as_str().unwrap().lines();
        let open = lines.find_map(|l| l.strip_prefix("imtcp_advice_connections ")).unwrap();
        open.parse::<f64>().unwrap() <= 20.0
    });
    let is_closed = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        matches!(stream.read(&mut [0]), Ok(0))
    };
    let closed = held.iter_mut().map(is_closed).filter(|closed| *closed).count();
    assert!(closed >= 40, "{closed}");
}

/// A handshake, and the client is gone: std's vectored writes under TLS raise SIGPIPE.
#[test]
fn clients_that_hang_up_do_not_end_the_service() {
    let scratch = Scratch::new();
    let Some((cert, key)) = certificate(&scratch) else { return };
    let (cert, key) = (cert.to_str().unwrap().to_string(), key.to_str().unwrap().to_string());
    let mut service = Service::start_in(scratch, &["--tls-cert", &cert, "--tls-key", &key]);
    let script = r#"
import socket, ssl, struct, sys
context = ssl.create_default_context(cafile=sys.argv[2])
host, port = sys.argv[1].rsplit(":", 1)
request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
for i in range(60):
    raw = socket.create_connection((host, int(port)))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, i % 2))
    tls = context.wrap_socket(raw, server_hostname="127.0.0.1")
    tls.sendall(request * (i % 5))
    tls.close()
"#;
    let args = ["-c", script, &service.address(), &cert];
    let done = Command::new("python3").args(args).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(service.exited(), None);
    let ca = ServiceArgs { url: service.url.clone(), token_file: None, ca: Some(cert.into()) };
    assert!(Client::new(&ca).unwrap().get::<Health>("/healthz").is_ok());
}

#[test]
fn a_log_that_closes_does_not_end_the_service() {
    let scratch = Scratch::new();
    let mut imtcp = Command::new(&*IMTCP_ADVICE);
    imtcp.stderr(Stdio::piped());
    let mut service = Service::start_as(imtcp, scratch, &[]);
    drop(service.take_stderr());
    // That the files are read again is a line in the log, and so is each wrong token.
    service.signal(libc::SIGHUP);
    let body = json!({"batch": "b", "records": []}).to_string();
    for _ in 0..3 {
        assert_eq!(service.post("/v1/reports", Some("another-token-than-ours"), &body).0, 401);
    }
    assert_eq!(service.get("/healthz").0, 200);
    assert_eq!(service.exited(), None);
}

#[test]
fn an_output_that_cannot_be_written_does_not_end_the_service() {
    let pipe = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    for output in [pipe(), Stdio::from(full)] {
        let (scratch, port) = (Scratch::new(), free_port());
        let listen = format!("127.0.0.1:{port}");
        let mut service = Command::new(&*IMTCP_ADVICE)
            .args(["serve", "--listen", &listen, "--db"])
            .arg(scratch.path("history.db"))
            .stdin(Stdio::null())
            .stdout(output)
            .spawn()
            .unwrap();
        eventually("it answers", || {
            assert_eq!(service.try_wait().unwrap(), None);
            http().get(format!("http://{listen}/healthz")).call().is_ok_and(|a| a.status() == 200)
        });
        service.kill().unwrap();
        service.wait().unwrap();
    }
}

/// Of a listener that has gone.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn it_ends_within_a_second_whatever_its_clients_do() {
    let mut service = Service::start(&[]);
    let slow: Vec<_> = (0..50)
        .map(|i| {
            let mut stream = TcpStream::connect(service.address()).unwrap();
            let auth = format!("Authorization: Bearer {TOKEN}\r\n");
            let head = "POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n";
            let text = ["", "GET ", &format!("{head}\r\n"), &format!("{head}{auth}\r\n{{")][i % 4]
                .to_string();
            stream.write_all(text.as_bytes()).unwrap();
            stream
        })
        .collect();
    let started = Instant::now();
    assert!(service.terminate().success());
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    drop(slow);
}

fn net_info_of(name: &str) -> String {
    format!(
        "<methodCall><methodName>EnableGetNetInfo</methodName><params><param><value>{name}\
         </value></param></params></methodCall>"
    )
}

/// A thread that looks up a name waits for the name server, half a minute where that is silent.
#[test]
fn names_that_nobody_answers_for_hold_few_threads_and_not_the_end() {
    // In a mount namespace of its own the service asks a name server that never answers.
    let Ok(_silent) = UdpSocket::bind("127.0.0.77:53") else {
        skip("a name server's port needs root");
        return;
    };
    let scratch = Scratch::new();
    let resolv = scratch.path("resolv.conf");
    std::fs::write(&resolv, "nameserver 127.0.0.77\noptions timeout:10 attempts:3\n").unwrap();
    let script = r#"mount --bind "$0" "$(readlink -f /etc/resolv.conf)" && exec "$@""#;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", script]).arg(&resolv).arg(&*IMTCP_ADVICE);
    let mut service = Service::start_as(unshare, scratch, &[]);
    let started = Instant::now();
    std::thread::scope(|s| {
        for i in 0..100 {
            let (service, call) = (&service, net_info_of(&format!("host-{i}.example")));
            s.spawn(move || assert_eq!(service.xmlrpc(Some(TOKEN), &call).0, 200));
        }
    });
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.pid())).unwrap();
    let threads = status.lines().find_map(|l| l.strip_prefix("Threads:\t")).unwrap();
    assert!(threads.parse::<u32>().unwrap() < 40, "{threads}");
    // A stranger's names are not looked up at all.
    let asked = Instant::now();
    let answer = service.xmlrpc(None, &net_info_of("stranger.example")).1;
    assert!(answer.as_str().unwrap().contains("names are looked up for who may write"), "{answer}");
    assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
    let ended = Instant::now();
    assert!(service.terminate().success());
    assert!(ended.elapsed() < Duration::from_secs(1), "{:?}", ended.elapsed());
}

/// A request whose body never comes.
fn stalled(service: &Service, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(service.address()).unwrap();
    stream.write_all(format!("{head}\r\nHost: localhost\r\n").as_bytes()).unwrap();
    stream
}

#[test]
fn whoever_never_ends_a_body_makes_room_as_an_idle_client_does() {
    let service = Service::start(&["--client-connections", "20"]);
    let held: Vec<_> = (0..60)
        .map(|_| {
            let mut stream = stalled(&service, "POST /RPC2 HTTP/1.1");
            let rest = b"Content-Type: text/xml\r\nContent-Length: 1000\r\n\r\n<";
            let _ = stream.write_all(rest);
            stream
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(service.get("/healthz").0, 200);
    }
    drop(held);
}

#[test]
fn reports_that_stall_take_no_room_from_others() {
    let service = Service::start(&[]);
    let auth = format!("Authorization: Bearer {TOKEN}\r\n");
    let held: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = stalled(&service, "POST /v1/reports HTTP/1.1");
            let rest = format!("{auth}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n");
            stream.write_all(rest.as_bytes()).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let started = Instant::now();
    assert_eq!(service.report("b", &[record("2026-03-20T14:25:00Z", 1)]).0, 200);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    // And they end, with the reason.
    let mut one = held.into_iter().next().unwrap();
    one.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = [0; 1024];
    let length = one.read(&mut answer).unwrap();
    assert!(text(&answer[..length]).contains(" 408 "), "{}", text(&answer[..length]));
}

/// Another process that holds the history's lock until its input ends.
fn hold(service: &Service) -> std::process::Child {
    let script = r#"
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"#;
    let mut other = Command::new("python3")
        .args(["-c", script])
        .arg(service.db())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    other.stdout.as_mut().unwrap().read_exact(&mut [0; 4]).unwrap();
    other
}

#[test]
fn a_report_that_came_whole_and_waits_for_the_history_is_told_that_it_is_busy() {
    let service = Service::start(&[]);
    let mut other = hold(&service);
    let report = |batch: &str| service.report(batch, &[record("2026-03-20T14:25:00Z", 1)]);
    // The first waits for the lock for ten seconds, and the second for the first and ten more.
    let (status, problem) = std::thread::scope(|scope| {
        scope.spawn(|| report("first"));
        std::thread::sleep(Duration::from_secs(1));
        report("second")
    });
    assert_eq!((status, &problem["status"]), (503, &json!(503)), "{problem}");
    assert_eq!(problem["detail"], "the history is busy: try again later, with less if you can");
    drop(other.stdin.take());
    other.wait().unwrap();
    eventually("a report is stored", || report("second").0 == 200);
}

#[test]
fn it_ends_within_a_second_while_another_process_holds_the_history() {
    let mut service = Service::start(&[]);
    let mut other = hold(&service);
    // Reading goes on.
    assert_eq!(service.get("/v1/paths").0, 200);
    let started = Instant::now();
    assert!(service.terminate().success());
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    drop(other.stdin.take());
    other.wait().unwrap();
}
