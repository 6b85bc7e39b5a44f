// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Whoever answers in the place of the advice service, and names that lead nowhere.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use imtcp_test_support::*;

/// kB that each command may take.
const MOST_MEMORY_KB: i64 = 60_000;

/// An answer to a request, by its first line: status, and what is sent of this type.
type Answering = fn(&str) -> (u16, String);

/// Answers each request so. Keeps their first lines.
fn service(answering: Answering) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || answer(stream, answering, &kept));
        }
    });
    (url, asked)
}

fn answer(mut stream: TcpStream, answering: Answering, asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let first = lines.next()?.ok()?;
    let mut head = lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty());
    let posts = head.any(|line| line.to_ascii_lowercase().starts_with("content-length: "));
    let (status, body) = answering(&first);
    let head = format!(
        "HTTP/1.1 {status} so\r\nContent-Type: application/problem+json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    // Who has read enough closes.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    asked.lock().unwrap().push(first);
    // The rest of a report, so that no reset overtakes the answer.
    if posts {
        stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        let _ = stream.read_to_end(&mut Vec::new());
    }
    Some(())
}

/// 12 MB, of which each 9 bytes become an object.
fn objects() -> String {
    format!("[{}{{}}]", r#"{"":0},"#.repeat(1_700_000))
}

fn bare(_: &str) -> (u16, String) {
    (200, objects())
}

/// The wanted fields, and many others.
fn beside(request: &str) -> (u16, String) {
    let wanted = match request {
        path if path.contains("/healthz") => r#""status":"ok""#,
        path if path.contains("/v1/clients") => r#""clients":[]"#,
        path if path.contains("/v1/reports") => r#""batch":"x","stored":1"#,
        _ => {
            r#""at":"2026-03-20T14:00:00Z","verdict":"advice","congestion_control":"on","mode":"bg",
            "next_advice_at":"2026-03-20T14:05:00Z","valid_until":"2026-03-20T14:05:00Z""#
        }
    };
    let count = if request.contains("/healthz") { 10_000 } else { 100_000 };
    (200, format!(r#"{{{wanted},"more":[{}0]}}"#, r#"{"":0},"#.repeat(count)))
}

fn many_clients(request: &str) -> (u16, String) {
    let client = r#"{"dst":""},"#;
    match request.contains("/v1/clients") {
        true => (200, format!(r#"{{"clients":[{}{{"dst":"a"}}]}}"#, client.repeat(300_000))),
        false => beside(request),
    }
}

fn refusal(_: &str) -> (u16, String) {
    let wrong = r#"{"record":0,"why":""},"#;
    (400, format!(r#"{{"detail":"no","refused":[{}{{}}]}}"#, wrong.repeat(500_000)))
}

const HOSTILE: [(&str, Answering); 4] =
    [("bare", bare), ("beside", beside), ("clients", many_clients), ("refusal", refusal)];

#[test]
fn no_answer_takes_much_memory_of_who_asks_for_advice() {
    for (name, answering) in HOSTILE {
        let (url, _) = service(answering);
        let limited =
            format!("ulimit -d {MOST_MEMORY_KB} && exec \"$0\" ask 192.0.2.7 --json --url {url}");
        let output = Command::new("sh").args(["-c", &limited, &IMTCP_ADVICE]).output().unwrap();
        let (code, said) = (output.status.code(), text(&output.stderr));
        assert!(code.is_some_and(|code| code < 2), "{name}: {code:?} {said}");
    }
}

#[test]
fn no_answer_takes_much_memory_of_an_agent() {
    for (name, answering) in HOSTILE {
        let scratch = Scratch::new();
        let (url, asked) = service(answering);
        let spool = scratch.path("spool");
        let clock = imtcp_agent::clock::Clock::start();
        let record =
            serde_json::json!({"dst": "192.0.2.7", "time": "2026-03-20T14:00:00Z", "rtt_us": 1});
        let record = serde_json::from_value(record).unwrap();
        imtcp_agent::spool::Spool::open(&spool, 1 << 20, clock).unwrap().put(&[record]).unwrap();
        let mut agent = Command::new(&*IMTCP_AGENT);
        agent.args(["feed", "--no-connections", "--peers-from-service", "--ping", "3600"]);
        agent.args(["--interval", "1", "--url", &url, "--spool"]).arg(&spool);
        agent.stdout(Stdio::null()).stderr(Stdio::null());
        let agent = Background(agent.spawn().unwrap());
        let is_asked = |what: &str| asked.lock().unwrap().iter().any(|line| line.contains(what));
        eventually("it asks for the clients", || is_asked("/v1/clients"));
        // Who does not tell its time gets no report.
        let last = match name {
            "bare" | "refusal" => "/healthz",
            _ => "/v1/reports",
        };
        eventually(&format!("{name}: {last}"), || is_asked(last));
        std::thread::sleep(Duration::from_millis(300));
        let status = fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        let most_kb: i64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(most_kb < MOST_MEMORY_KB, "{name}: {line}");
        agent.signal(libc::SIGTERM);
        assert_eq!(agent.finish().status.code(), Some(0), "{name}");
    }
}

#[test]
fn what_a_service_says_has_an_end_and_commands_no_terminal() {
    fn long(_: &str) -> (u16, String) {
        let advice = serde_json::json!({
            "at": "2026-03-20T14:00:00Z", "verdict": "advice", "congestion_control": "on", "mode": "bg",
            "next_advice_at": "0001-01-01T00:00:00Z", "valid_until": "9999-12-30T00:00:00Z",
            "because": format!("\u{202e}\u{1b}[2J\u{2028}{}", "x".repeat(100_000)),
        });
        (200, advice.to_string())
    }
    fn no(_: &str) -> (u16, String) {
        let problem = serde_json::json!({ "detail": format!("\u{202e}{}", "x".repeat(100_000)) });
        (404, problem.to_string())
    }
    let (url, _) = service(long);
    let said = advice_ok(&["ask", "192.0.2.7", "--url", &url]);
    assert!(said.contains(r"on: \u{202e}\u{1b}[2J\u{2028}xxx") && said.len() < 1000, "{said}");
    let json_line = advice_ok(&["ask", "192.0.2.7", "--json", "--url", &url]);
    assert!(json_line.contains(r"\u202e\u001b[2J\u2028xxx"), "{}", &json_line[..500]);
    assert_eq!(json(&json_line)["because"].as_str().unwrap().chars().count(), 100_006);
    let (url, _) = service(no);
    let output = advice(&["ask", "192.0.2.7", "--url", &url]);
    let said = text(&output.stderr);
    assert!(said.contains(r"\u{202e}xxx") && said.len() < 1000, "{said}");
    assert!(said.ends_with("is the path of its URL right?\n"), "what to do is not cut off: {said}");
}

/// Each costs its 10 s, as no name server answers.
#[test]
fn names_that_do_not_resolve_keep_no_agent_from_starting_or_from_ending() {
    let scratch = Scratch::new();
    let names: String = (0..100).map(|i| format!("dead-{i}.example\n")).collect();
    let resolver = scratch.path("resolv.conf");
    fs::write(&resolver, "nameserver 192.0.2.1\n").unwrap();
    let script =
        "ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up \
                  && ip address add 192.0.2.2/24 dev d0 \
                  && ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev d0 && mount --bind \"$0\" /etc/resolv.conf || exit 77; exec \"$@\" 2>&1";
    for peers_from in ["--peers-from-service", "--peers"] {
        let mut agent = Command::new("unshare");
        agent.args(["-mn", "sh", "-c", script]).arg(&resolver).arg(&*IMTCP_AGENT);
        agent.args(["feed", "--no-connections", "--ping", "60", "--url", "http://127.0.0.1:1"]);
        // What the service said last.
        let (spool, file) = (scratch.path("spool"), scratch.path("spool/peers"));
        fs::create_dir_all(&spool).unwrap();
        fs::write(&file, &names).unwrap();
        agent.arg("--spool").arg(&spool).arg(peers_from);
        if peers_from == "--peers" {
            agent.arg(&file);
        }
        let begun = Instant::now();
        let mut agent = Background(agent.stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(agent.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        let Some(line) = lines.find(|line| line.contains(" ping of 0 peers every 60 s")) else {
            assert_eq!(agent.finish().status.code(), Some(77), "it never starts");
            eprintln!("skipped: no namespaces here");
            return;
        };
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}: {line}", begun.elapsed());
        let begun = Instant::now();
        agent.signal(libc::SIGTERM);
        assert_eq!(agent.finish().status.code(), Some(0));
        assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
    }
}
