// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What tests and benchmark share: a directory of their own, a PostgreSQL of their own.
#![allow(dead_code, unused_imports, unused_macros)]

pub mod databases;
pub mod service;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use imtcp_advice::record::Record;
use imtcp_advice::store::Place;
use imtcp_advice::time;

/// A PostgreSQL server on a socket in a directory that goes with it.
pub struct Postgres {
    url: String,
    server: Option<Child>,
    _dir: Option<tempfile::TempDir>,
}

impl Postgres {
    /// The server named by IMTCP_TEST_POSTGRES, else one started here, which does not wait for the
    /// disk; or why there is none.
    pub fn start() -> Result<Self, String> {
        if let Ok(url) = std::env::var("IMTCP_TEST_POSTGRES") {
            return Ok(Postgres { url, server: None, _dir: None });
        }
        Self::start_own(&["-c", "fsync=off"])
    }

    /// One started here, as PostgreSQL comes but for these options.
    pub fn start_own(options: &[&str]) -> Result<Self, String> {
        let bin = binaries().ok_or("PostgreSQL is not installed (Debian: postgresql)")?;
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let user = server_user()?;
        let own = |path: &Path| nix::unistd::chown(path, user, None).map_err(|e| e.to_string());
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755))
            .map_err(|e| e.to_string())?;
        own(dir.path())?;
        let data = dir.path().join("data");
        let as_user = |program: &str| {
            let mut command = Command::new(bin.join(program));
            command.current_dir(dir.path()).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            if let Some(user) = user {
                command.uid(user.as_raw());
            }
            command
        };
        let mut initdb = as_user("initdb");
        initdb.arg("-D").arg(&data).args(["-A", "trust", "-U", "test", "-N", "-E", "UTF8"]);
        if !initdb.status().map_err(|e| e.to_string())?.success() {
            return Err("initdb failed".into());
        }
        let mut server = as_user("postgres");
        server.arg("-D").arg(&data).arg("-k").arg(dir.path());
        server.args(["-c", "listen_addresses="]).args(options);
        let server = server.spawn().map_err(|e| e.to_string())?;
        let url = format!("postgres://test@localhost/postgres?host={}", dir.path().display());
        let started = Postgres { url, server: Some(server), _dir: Some(dir) };
        let deadline = Instant::now() + Duration::from_secs(20);
        while started.psql("SELECT 1").is_err() {
            if Instant::now() > deadline {
                return Err("PostgreSQL did not start within 20 s".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(started)
    }

    fn psql(&self, sql: &str) -> Result<(), String> {
        let done = Command::new("psql").args(["-q", &self.url, "-c", sql]).output();
        let done = done.map_err(|e| format!("psql: {e}"))?;
        done.status.success().then_some(()).ok_or(String::from_utf8_lossy(&done.stderr).into())
    }

    /// A new, empty database.
    pub fn place(&self) -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("imtcp_test_{}_{n}", std::process::id());
        self.psql(&format!("CREATE DATABASE {name}")).expect("a database can be made");
        let (server, options) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let base = server.rsplit_once('/').map_or(server, |(base, _)| base);
        Place::new(&format!("{base}/{name}?{options}")).expect("a place")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let pid = nix::unistd::Pid::from_raw(server.id() as i32);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGQUIT);
            let _ = server.wait();
        }
    }
}

fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut bins: Vec<_> = versions.map(|v| v.path().join("bin")).collect();
    bins.sort();
    bins.into_iter().rfind(|bin| bin.join("initdb").exists())
}

/// PostgreSQL does not run as root.
fn server_user() -> Result<Option<nix::unistd::Uid>, String> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(None);
    }
    match nix::unistd::User::from_name("postgres") {
        Ok(Some(user)) => Ok(Some(user.uid)),
        _ => Err("running as root, and there is no user postgres".into()),
    }
}

pub fn at(text: &str) -> i64 {
    time::parse(text).expect("a time")
}

pub fn record(dst: &str, time_us: i64, available_bps: u64) -> Record {
    Record {
        dst: dst.into(),
        source: "test".into(),
        time: time_us,
        available_bps: Some(available_bps),
        ..Record::default()
    }
}
