// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The tables and their version.

use imtcp_client::time::now_us;
use sqlx::{AnyPool, Executor, Row};

use super::connect::{begin_reading, begin_writing};
use super::dialect::Dialect;
use super::Place;
use crate::error::{Error, Result};

/// Raised with each change below; older histories are brought up to date when they are opened.
///
/// 1: the first. 2: `active_test`. 3: `client`. 4: `path.reported_us`. Older tables stay as they were.
pub const VERSION: i64 = 4;
/// "imtc", in SQLite's header.
const APPLICATION_ID: i64 = 0x696d_7463;

const TABLES: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value BIGINT NOT NULL);
CREATE TABLE path (id {id}, dst TEXT NOT NULL UNIQUE, settings TEXT NOT NULL DEFAULT '{}');
CREATE TABLE series (id {id}, path_id BIGINT NOT NULL REFERENCES path, hop TEXT NOT NULL,
    source TEXT NOT NULL, UNIQUE (path_id, hop, source));
CREATE TABLE record (series_id BIGINT NOT NULL REFERENCES series, t_us BIGINT NOT NULL,
    span_s BIGINT NOT NULL, samples BIGINT NOT NULL, available_bps BIGINT NOT NULL,
    low_bps BIGINT NOT NULL, high_bps BIGINT NOT NULL, capacity_bps BIGINT, rtt_us BIGINT,
    loss DOUBLE PRECISION, congested BIGINT, validity_pct BIGINT,
    PRIMARY KEY (series_id, t_us, span_s)) {clustered};
CREATE TABLE batch (id TEXT PRIMARY KEY, received_us BIGINT NOT NULL);
CREATE INDEX batch_by_time ON batch (received_us);
{since_2};
{since_3};
{since_4};
INSERT INTO meta VALUES ('schema', {version}), ('generation', 0)";

/// Came with version 2.
const ACTIVE_TEST: &str = "
CREATE TABLE active_test (series_id BIGINT NOT NULL REFERENCES series, t_us BIGINT NOT NULL,
    span_s BIGINT NOT NULL, samples BIGINT NOT NULL, rtt_us BIGINT, loss DOUBLE PRECISION,
    throughput_bps BIGINT, validity_pct BIGINT,
    PRIMARY KEY (series_id, t_us, span_s)) {clustered}";

/// Came with version 3.
const CLIENT: &str =
    "CREATE TABLE client (dst TEXT PRIMARY KEY, added_us BIGINT NOT NULL) {clustered}";

/// Came with version 4: when a report of the path came last, to the day; null if none ever came, as
/// with a path that was imported.
const REPORTED: &str = "
ALTER TABLE path ADD COLUMN reported_us BIGINT;
CREATE INDEX path_by_reported ON path (reported_us)";

/// The same, for a history that may have reports: a path with a record of the last 400 days counts as
/// reported today, so that nothing goes for 400 days. An older trace counts as imported.
const REPORTED_SINCE: &str = "
ALTER TABLE path ADD COLUMN reported_us BIGINT;
CREATE INDEX path_by_reported ON path (reported_us);
UPDATE path SET reported_us = {now_us} WHERE id IN (SELECT s.path_id FROM series s
    WHERE (SELECT MAX(t_us) FROM record WHERE series_id = s.id) > {now_us} - 34560000000000
       OR (SELECT MAX(t_us) FROM active_test WHERE series_id = s.id) > {now_us} - 34560000000000)";

/// What each version added.
const UPGRADES: [(i64, &str); 3] = [(2, ACTIVE_TEST), (3, CLIENT), (4, REPORTED_SINCE)];

/// Makes the tables, or brings them up to date; refuses what is not ours. Returns which tables
/// they are ([`Dialect::table_id`]).
pub async fn migrate(pool: &AnyPool, dialect: Dialect, place: &Place) -> Result<i64> {
    let found = version(pool, dialect, place).await?;
    match found {
        Some(found) if found > VERSION => {
            return Err(Error::Newer { db: place.to_string(), found, known: VERSION });
        }
        Some(found @ 1..) => {
            for (version, with) in UPGRADES.into_iter().filter(|(version, _)| *version > found) {
                upgrade(pool, dialect, version, with).await?;
            }
        }
        // Version 1 is the first: nothing older exists.
        Some(_) => return Err(Error::Foreign(place.to_string())),
        None => create(pool, dialect).await?,
    }
    let sql = format!("SELECT {} FROM meta WHERE key = 'schema'", dialect.table_id());
    let mut tx = begin_reading(pool, dialect).await?;
    Ok(tx.fetch_one(&*sql).await?.try_get(0)?)
}

/// From the version before to this one, in one transaction: a kill leaves the one or the other.
async fn upgrade(pool: &AnyPool, dialect: Dialect, to: i64, with: &str) -> Result<()> {
    let mut tx = begin_writing(pool, dialect).await?;
    // First a write: of two that open at once one waits here, and finds it done.
    let sql = "UPDATE meta SET value = $1 WHERE key = 'schema' AND value = $1 - 1";
    if dialect.query(sql).bind(to).execute(&mut *tx).await?.rows_affected() == 1 {
        let with = with.replace("{clustered}", clustered(dialect));
        let with = with.replace("{now_us}", &now_us().to_string());
        for statement in with.split(';') {
            tx.execute(statement).await?;
        }
    }
    Ok(tx.commit().await?)
}

/// SQLite's rows lie in the order of the key; PostgreSQL knows no such table.
fn clustered(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "WITHOUT ROWID",
        Dialect::Postgres => "",
    }
}

async fn version(pool: &AnyPool, dialect: Dialect, place: &Place) -> Result<Option<i64>> {
    let tables = match dialect {
        Dialect::Sqlite => "SELECT COUNT(*) FROM sqlite_master",
        Dialect::Postgres => {
            "SELECT COUNT(*) FROM information_schema.tables
             WHERE table_schema = 'imtcp' AND table_name = 'meta'"
        }
    };
    let mut tx = begin_reading(pool, dialect).await?;
    let tables: i64 = tx.fetch_one(tables).await?.try_get(0)?;
    if tables == 0 {
        return Ok(None);
    }
    if dialect == Dialect::Sqlite {
        let id = tx.fetch_one("SELECT * FROM pragma_application_id").await?;
        if id.try_get::<i64, _>(0)? != APPLICATION_ID {
            return Err(Error::Foreign(place.to_string()));
        }
    }
    let row = tx.fetch_one("SELECT value FROM meta WHERE key = 'schema'").await?;
    Ok(Some(row.try_get(0)?))
}

async fn create(pool: &AnyPool, dialect: Dialect) -> Result<()> {
    let id = match dialect {
        Dialect::Sqlite => "INTEGER PRIMARY KEY",
        Dialect::Postgres => "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    };
    let tables = TABLES
        .replace("{since_2}", ACTIVE_TEST)
        .replace("{since_3}", CLIENT)
        .replace("{since_4}", REPORTED)
        .replace("{id}", id)
        .replace("{clustered}", clustered(dialect))
        .replace("{version}", &VERSION.to_string());
    let mut tx = begin_writing(pool, dialect).await?;
    // Two that start at once take turns: the first statement takes a lock.
    let tables_there = match dialect {
        Dialect::Sqlite => {
            tx.execute(&*format!("PRAGMA application_id = {APPLICATION_ID}")).await?;
            "SELECT COUNT(*) FROM sqlite_master"
        }
        Dialect::Postgres => {
            tx.execute("SELECT pg_advisory_xact_lock(7596114)").await?;
            tx.execute("CREATE SCHEMA IF NOT EXISTS imtcp").await?;
            "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'imtcp'"
        }
    };
    if tx.fetch_one(tables_there).await?.try_get::<i64, _>(0)? > 0 {
        return Ok(());
    }
    for statement in tables.split(';') {
        tx.execute(statement).await?;
    }
    Ok(tx.commit().await?)
}

impl super::Store {
    /// Pretends that another version wrote the database.
    #[doc(hidden)]
    pub async fn set_schema_version_for_tests(&self, version: i64) -> Result<()> {
        let sql = "UPDATE meta SET value = $1 WHERE key = 'schema'";
        let mut tx = self.writing().await?;
        self.dialect.query(sql).bind(version).execute(&mut *tx).await?;
        self.commit(tx).await
    }

    /// Makes it what version 1, 2 or 3 wrote.
    #[doc(hidden)]
    pub async fn back_to_version_for_tests(&self, version: i64) -> Result<()> {
        let mut tx = self.writing().await?;
        tx.execute("DROP INDEX path_by_reported").await?;
        tx.execute("ALTER TABLE path DROP COLUMN reported_us").await?;
        if version < 3 {
            tx.execute("DROP TABLE client").await?;
        }
        if version < 2 {
            tx.execute("DROP TABLE active_test").await?;
        }
        self.commit(tx).await?;
        self.set_schema_version_for_tests(version).await
    }
}
