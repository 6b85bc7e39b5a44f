// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The real advice service, on a port of its own, with a made history.
#![allow(dead_code)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{json, Value};

use crate::{advice_ok, skip, Scratch, IMTCP_ADVICE};

pub const TOKEN: &str = "a-token-for-the-tests";
pub const DST: &str = "192.0.2.7";

pub struct Service {
    child: Child,
    pub url: String,
    pub scratch: Scratch,
}

impl Service {
    pub fn start(more: &[&str]) -> Self {
        Self::start_in(Scratch::new(), more)
    }

    pub fn start_in(scratch: Scratch, more: &[&str]) -> Self {
        Self::start_as(Command::new(&*IMTCP_ADVICE), scratch, more)
    }

    pub fn start_as(mut imtcp: Command, scratch: Scratch, more: &[&str]) -> Self {
        let tokens = token_file(&scratch);
        let listen: &[_] =
            if more.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let child = imtcp
            .arg("serve")
            .args(listen)
            .arg("--db")
            .arg(scratch.path("history.db"))
            .arg("--token-file")
            .arg(tokens)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut service = Service { child, url: String::new(), scratch };
        let mut line = String::new();
        BufReader::new(service.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|w| w.starts_with("http")).unwrap_or_default();
        service.url = url.trim_end_matches(['/', ',']).into();
        assert!(!service.url.is_empty(), "no URL in {line:?}");
        service
    }

    pub fn db(&self) -> PathBuf {
        self.scratch.path("history.db")
    }

    pub fn address(&self) -> String {
        self.url.split_once("://").unwrap().1.into()
    }

    /// SIGKILL: no chance to tidy up. What it has written stays.
    pub fn kill(mut self) -> Scratch {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.scratch, Scratch::new())
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so the pid is its.
        unsafe {
            libc::kill(self.child.id() as i32, signal);
        }
    }

    pub fn terminate(&mut self) -> std::process::ExitStatus {
        self.signal(libc::SIGTERM);
        self.child.wait().unwrap()
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        answer(http().get(format!("{}{path}", self.url)).call())
    }

    pub fn post(&self, path: &str, token: Option<&str>, body: &str) -> (u16, Value) {
        let mut request = http().post(format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        answer(request.send(body))
    }

    /// A call in XML-RPC, or what should be one.
    pub fn xmlrpc(&self, token: Option<&str>, body: &str) -> (u16, Value) {
        let mut request = http().post(format!("{}/RPC2", self.url));
        request = request.header("Content-Type", "text/xml");
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        answer(request.send(body))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, where it has.
    pub fn exited(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub fn take_stderr(&mut self) -> std::process::ChildStderr {
        self.child.stderr.take().unwrap()
    }

    /// Of one who may write.
    pub fn put(&self, path: &str) -> (u16, Value) {
        let request = http().put(format!("{}{path}", self.url));
        answer(request.header("Authorization", format!("Bearer {TOKEN}")).send_empty())
    }

    pub fn delete(&self, path: &str, token: Option<&str>) -> (u16, Value) {
        let mut request = http().delete(format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        answer(request.call())
    }

    pub fn report(&self, batch: &str, records: &[Value]) -> (u16, Value) {
        let body = json!({ "batch": batch, "records": records });
        self.post("/v1/reports", Some(TOKEN), &body.to_string())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

pub fn token_file(scratch: &Scratch) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = scratch.path("tokens");
    std::fs::write(&path, format!("# of the tests\n{TOKEN}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}

/// A certificate for this machine that nobody vouches for, and its key; `None` without openssl.
pub fn certificate(scratch: &Scratch) -> Option<(PathBuf, PathBuf)> {
    let (cert, key) = (scratch.path("cert.pem"), scratch.path("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "1", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        skip("openssl is missing or too old");
        return None;
    }
    Some((cert, key))
}

pub fn http() -> ureq::Agent {
    ureq::Agent::config_builder().proxy(None).http_status_as_error(false).build().into()
}

fn answer(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> (u16, Value) {
    let mut response = result.unwrap();
    let text = response.body_mut().read_to_string().unwrap();
    let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    (response.status().as_u16(), value)
}

pub fn record(time: &str, available_bps: u64) -> Value {
    json!({ "dst": DST, "time": time, "available_bps": available_bps })
}

/// Ten days of minutes until 2026-03-20 14:30 UTC. On each day the bandwidth is 60 Mbit/s at
/// midnight and falls by 100 bit/s a second; day d before the last has d Mbit/s more.
pub fn csv() -> String {
    let end: jiff::Timestamp = "2026-03-20T14:30:00Z".parse().unwrap();
    let mut text = String::from("time,available_bps,capacity_bps,rtt_us\n");
    for minute in (0..10 * 1440).rev() {
        let at = end - jiff::SignedDuration::from_mins(minute);
        let since_midnight_s = at.as_second() % 86_400;
        let days_before = end.as_second() / 86_400 - at.as_second() / 86_400;
        let bps = 60_000_000 - since_midnight_s * 100 + days_before * 1_000_000;
        text.push_str(&format!("{at},{bps},100000000,30000\n"));
    }
    text
}

pub fn import(db: &Path, scratch: &Scratch) {
    let file = scratch.path("trace.csv");
    std::fs::write(&file, csv()).unwrap();
    let (db, file) = (db.to_str().unwrap(), file.to_str().unwrap());
    advice_ok(&["import", "--db", db, "--path", DST, file]);
    advice_ok(&["set", "--db", db, "history=week"]);
}
