// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What tests and benchmark share: a directory of their own, a PostgreSQL of their own.
#![allow(dead_code, unused_imports, unused_macros)]

pub mod databases;
pub mod service;

pub mod pgbouncer;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use imtcp_advice::store::Place;
use imtcp_client::record::Record;
use imtcp_client::time;

/// A PostgreSQL server on a socket in a directory that goes with it.
pub struct Postgres {
    url: String,
    options: Vec<String>,
    server: Option<Child>,
    dir: Option<tempfile::TempDir>,
}

impl Postgres {
    /// The server named by IMTCP_TEST_POSTGRES, else one started here, which does not wait for the
    /// disk; or why there is none.
    pub fn start() -> Result<Self, String> {
        if let Ok(url) = std::env::var("IMTCP_TEST_POSTGRES") {
            return Ok(Postgres { url, options: Vec::new(), server: None, dir: None });
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
        let as_user = |program: &str| command_as(user, &bin.join(program), dir.path());
        let mut initdb = as_user("initdb");
        initdb.arg("-D").arg(&data).args(["-A", "trust", "-U", "test", "-N", "-E", "UTF8"]);
        let made = initdb.stderr(Stdio::piped()).output().map_err(|e| e.to_string())?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr);
            return Err(format!("initdb failed: {}", said.trim().replace('\n', "; ")));
        }
        let mut server = as_user("postgres");
        server.arg("-D").arg(&data).arg("-k").arg(dir.path());
        server.args(["-c", "listen_addresses="]).args(options);
        let options = options.iter().map(|o| o.to_string()).collect();
        let server = server.spawn().map_err(|e| e.to_string())?;
        let url = format!("postgres://test@localhost/postgres?host={}", dir.path().display());
        let started = Postgres { url, options, server: Some(server), dir: Some(dir) };
        started.wait_until_it_answers()?;
        Ok(started)
    }

    fn wait_until_it_answers(&self) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.psql("SELECT 1").is_err() {
            if Instant::now() > deadline {
                return Err("PostgreSQL did not start within 20 s".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Where it was started here: its directory.
    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_ref().map(|dir| dir.path())
    }

    /// Ends it and starts it again. In between, this runs.
    pub fn restart(&mut self, meanwhile: impl FnOnce()) {
        let dir = self.dir.as_ref().expect("a server of its own").path().to_path_buf();
        let user = server_user().expect("a user");
        end(self.server.as_mut().expect("a server of its own"));
        meanwhile();
        let bin = binaries().expect("PostgreSQL");
        let mut server = command_as(user, &bin.join("postgres"), &dir);
        server.arg("-D").arg(dir.join("data")).arg("-k").arg(&dir);
        server.args(["-c", "listen_addresses="]).args(&self.options);
        self.server = Some(server.spawn().expect("a server"));
        self.wait_until_it_answers().expect("an answer");
    }

    /// In the database of a place.
    pub fn psql_in(&self, place: &Place, sql: &str) {
        let Place::Postgres(url) = place else { panic!("a PostgreSQL") };
        let done = Command::new("psql").args(["-q", url, "-c", sql]).output().expect("psql");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
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
            end(server);
        }
    }
}

/// At once, and without a core dump.
fn end(server: &mut Child) {
    let pid = nix::unistd::Pid::from_raw(server.id() as i32);
    let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGQUIT);
    let _ = server.wait();
}

fn command_as(user: Option<nix::unistd::Uid>, program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(user) = user {
        command.uid(user.as_raw());
    }
    command
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
