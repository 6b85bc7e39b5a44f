// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A PgBouncer, in transaction mode as a rule, in front of a PostgreSQL of the tests' own.

use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use imtcp_advice::store::Place;

use super::{command_as, end, Postgres};

/// Server sessions of each database: fewer than one service has connections.
const POOL_SIZE: u32 = 2;
/// On a socket in a directory of its own, so that no other one is in its way.
const PORT: u16 = 6432;

pub struct PgBouncer {
    postgres: Arc<Postgres>,
    pooler: Child,
}

fn program() -> Result<&'static Path, String> {
    let mut known = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].into_iter().map(Path::new);
    known.find(|p| p.exists()).ok_or("PgBouncer is not installed (Debian: pgbouncer)".into())
}

impl PgBouncer {
    /// Why there is none.
    pub fn missing() -> Option<String> {
        program().err()
    }

    pub fn start(postgres: &Arc<Postgres>) -> Result<Self, String> {
        Self::start_in(postgres, "transaction")
    }

    pub fn start_in(postgres: &Arc<Postgres>, mode: &str) -> Result<Self, String> {
        let dir = postgres.dir().ok_or("the PostgreSQL is not the tests' own")?;
        let program = program()?;
        let write = |name: &str, text: String| {
            let path = dir.join(name);
            std::fs::write(&path, text).map_err(|e| e.to_string()).map(|()| path)
        };
        let users = write("users.txt", "\"test\" \"\"\n".into())?;
        let shown = dir.display();
        let config = write(
            "pgbouncer.ini",
            format!(
                "[databases]\n* = host={shown}\n[pgbouncer]\npool_mode = {mode}\n\
                 default_pool_size = {POOL_SIZE}\nunix_socket_dir = {shown}\nlisten_port = {PORT}\n\
                 auth_type = trust\nauth_file = {}\nignore_startup_parameters = extra_float_digits\n",
                users.display()
            ),
        )?;
        let mut pooler = command_as(super::server_user()?, program, dir);
        let pooler = pooler.arg("-q").arg(config).spawn().map_err(|e| e.to_string())?;
        let started = PgBouncer { postgres: Arc::clone(postgres), pooler };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !dir.join(format!(".s.PGSQL.{PORT}")).exists() {
            if Instant::now() > deadline {
                return Err("PgBouncer did not start within 10 s".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(started)
    }

    /// A new, empty database behind it.
    pub fn place(&self) -> Place {
        let Place::Postgres(url) = self.postgres.place() else { panic!("a PostgreSQL") };
        let url = url.replacen("@localhost/", &format!("@localhost:{PORT}/"), 1);
        Place::new(&url).expect("a place")
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        end(&mut self.pooler);
    }
}
