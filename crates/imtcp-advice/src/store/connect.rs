// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Connections to the database, and the transactions that all reading and writing is in.
//!
//! A PgBouncer in transaction mode gives each transaction another server session. So nothing here
//! relies on a session: settings are LOCAL to a transaction, statements have no name
//! ([`Dialect::query`]), and even a single SELECT is in a transaction ([`Reading`]).

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Connection, Executor, Row, Transaction};

use super::dialect::Dialect;
use super::Store;
use crate::error::{Error, Result, WRITABLE};

/// How long a connection to the database may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long a statement waits for another process's lock on SQLite's file: an import of another
/// process holds it for a second or two at once.
pub(super) const LOCKED_BY_ANOTHER: Duration = Duration::from_secs(10);
/// How long opening waits for a process that has the file to itself, and how often it tries.
const LOCKED: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(10);

impl Store {
    /// A connection to read from; what it began ends when it is dropped.
    pub(crate) async fn reading(&self) -> Result<Reading> {
        self.check_files()?;
        begin_reading(&self.readers, self.dialect).await
    }

    /// A transaction that writes: to be ended with [`Store::commit`].
    pub(crate) async fn writing(&self) -> Result<Transaction<'static, Any>> {
        self.check_files()?;
        begin_writing(&self.writer, self.dialect).await
    }

    /// Everything written is on disk, and in the file that the path names, when this returns.
    pub(crate) async fn commit(&self, tx: Transaction<'static, Any>) -> Result<()> {
        tx.commit().await?;
        self.check_files()
    }
}

impl Store {
    /// Is a row's [`Dialect::table_id`] the one that was opened?
    pub(super) fn check_tables(&self, id: i64) -> Result<()> {
        if id == self.table_id {
            return Ok(());
        }
        Err(Error::Replaced(format!("a table of {}", self.place)))
    }

    /// To be asked before a statement: others write while it runs.
    pub(super) fn seen(&self) -> i64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// A generation is on disk.
    pub(super) fn saw(&self, generation: i64) {
        self.seen.fetch_max(generation, Ordering::Relaxed);
    }

    /// A smaller generation than before means that somebody put an older copy of the database here. Its ids belong to
    /// other series.
    pub(super) fn check_generation(&self, generation: i64, seen: i64) -> Result<()> {
        if generation >= seen {
            return Ok(());
        }
        Err(Error::Replaced(self.place.to_string()))
    }
}

/// PostgreSQL's settings need a transaction. In SQLite each statement is one by itself: a BEGIN and a
/// ROLLBACK would take longer than most of what is read.
pub(crate) enum Reading {
    Statements(PoolConnection<Any>),
    InTransaction(Transaction<'static, Any>),
}

impl Deref for Reading {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        match self {
            Reading::Statements(connection) => connection,
            Reading::InTransaction(tx) => tx,
        }
    }
}

impl DerefMut for Reading {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        match self {
            Reading::Statements(connection) => connection,
            Reading::InTransaction(tx) => tx,
        }
    }
}

pub(super) async fn begin_reading(pool: &AnyPool, dialect: Dialect) -> Result<Reading> {
    Ok(match dialect.begin() {
        None => Reading::Statements(pool.acquire().await?),
        Some(sql) => Reading::InTransaction(pool.begin_with(sql).await?),
    })
}

pub(super) async fn begin_writing(
    pool: &AnyPool,
    dialect: Dialect,
) -> Result<Transaction<'static, Any>> {
    Ok(pool.begin_with(dialect.begin_writing()).await?)
}

impl Store {
    /// Are all connections to be had at once? A pooler in session mode gives as many as its pool has, and has
    /// whoever needs one more wait for minutes.
    pub async fn check_connections(&self) -> Result<()> {
        if self.dialect == Dialect::Sqlite {
            return Ok(());
        }
        let all = async {
            let mut held = Vec::new();
            for pool in [&self.readers; READERS as usize].into_iter().chain([&self.writer]) {
                let mut connection = pool.acquire().await?;
                connection.execute("SELECT 1").await?;
                held.push(connection);
            }
            Ok::<_, sqlx::Error>(())
        };
        match tokio::time::timeout(CONNECTING, all).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(Error::Open {
                db: self.place.to_string(),
                why: format!(
                    "it gave fewer than {} connections within {} s: a PgBouncer in session mode needs \
                     `default_pool_size = 8` at least",
                    READERS + 1,
                    CONNECTING.as_secs()
                ),
            }),
        }
    }
}

/// Connections that read: for two requests that read much, two for advice that is not kept in memory, and two
/// for what is short.
const READERS: u32 = 6;

pub(super) fn readers(dialect: Dialect) -> AnyPoolOptions {
    let options = pool(READERS, dialect);
    match dialect {
        Dialect::Sqlite => options,
        Dialect::Postgres => with_transactions(options),
    }
}

pub(super) fn writer(dialect: Dialect) -> AnyPoolOptions {
    with_transactions(pool(1, dialect))
}

fn with_transactions(options: AnyPoolOptions) -> AnyPoolOptions {
    options.after_release(|connection, _| Box::pin(is_outside_of_transactions(connection)))
}

/// So many connections at most.
fn pool(most: u32, dialect: Dialect) -> AnyPoolOptions {
    let options = AnyPoolOptions::new().max_connections(most);
    // Strangers' requests may wait for each other: no line of the log for each.
    let options = options.acquire_slow_threshold(Duration::MAX);
    match dialect {
        // A file's connection is as good on the last day as on the first. Whoever has it may wait for
        // another process's lock first.
        Dialect::Sqlite => {
            let waits = LOCKED_BY_ANOTHER + LOCKED;
            options.idle_timeout(None).max_lifetime(None).acquire_timeout(waits)
        }
        Dialect::Postgres => options.acquire_timeout(CONNECTING),
    }
    .after_connect(move |connection, _| Box::pin(prepare(connection, dialect)))
}

/// One connection. A pool tries again until its time is over and does not tell why it failed; one
/// connection does at once.
pub(super) async fn connect(
    options: &AnyConnectOptions,
    dialect: Dialect,
) -> sqlx::Result<AnyConnection> {
    let until = Instant::now() + LOCKED;
    let connect = async {
        loop {
            let mut connection = AnyConnection::connect_with(options).await?;
            match prepare(&mut connection, dialect).await {
                Err(e) if is_locked(&e) && Instant::now() < until => {
                    drop(connection);
                    tokio::time::sleep(AGAIN).await;
                }
                Err(e) => return Err(e),
                Ok(()) => return Ok(connection),
            }
        }
    };
    tokio::time::timeout(CONNECTING, connect).await.map_err(|_| sqlx::Error::PoolTimedOut)?
}

/// Whether another has SQLite's file to itself, as who turns a new file's log on: SQLite does not wait
/// for that one, whatever its timeout.
fn is_locked(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|e| e.message() == "database is locked")
}

/// SQLite itself undoes a transaction that fails, as on a full disk. The driver's ROLLBACK then fails too, and
/// the driver takes the next BEGIN for a nested one. Writes on such a connection would be acknowledged and
/// lost, so it is closed.
async fn is_outside_of_transactions(connection: &mut AnyConnection) -> sqlx::Result<bool> {
    // A rollback may still be on its way. An error would be a line of the log for each request while a database is away.
    Ok(connection.ping().await.is_ok() && !connection.is_in_transaction())
}

/// What holds for each connection.
async fn prepare(connection: &mut AnyConnection, dialect: Dialect) -> sqlx::Result<()> {
    if dialect == Dialect::Postgres {
        return Ok(());
    }
    // A new file gives space back in steps (store::vacuum) if it is told before it has a page.
    let pages: i64 = connection.fetch_one("SELECT * FROM pragma_page_count").await?.try_get(0)?;
    let mode = connection.fetch_one("PRAGMA journal_mode").await?.try_get::<String, _>(0)?;
    connection
        .execute(&*format!("PRAGMA busy_timeout = {}", LOCKED_BY_ANOTHER.as_millis()))
        .await?;
    // Both write to the file: a reader would wait for a lock, and fail where the disk is full.
    if pages == 0 {
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL").await?;
    }
    if mode != "wal" {
        connection.execute("PRAGMA journal_mode = WAL").await?;
    }
    for statement in [
        // FULL: what is acknowledged survives a power cut too.
        "PRAGMA synchronous = FULL",
        "PRAGMA foreign_keys = ON",
        "PRAGMA cache_size = -16384",
        "PRAGMA journal_size_limit = 67108864",
    ] {
        connection.execute(statement).await?;
    }
    Ok(())
}

/// How a person mends an error of the database's own, if we know it.
pub(super) fn advice(message: &str) -> Option<&'static str> {
    let known = [
        (
            "unsupported startup parameter",
            "write `ignore_startup_parameters = extra_float_digits` in pgbouncer.ini",
        ),
        ("unable to open database file", WRITABLE),
    ];
    known.iter().find(|(says, _)| message.contains(says)).map(|(_, advice)| *advice)
}
