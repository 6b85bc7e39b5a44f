// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The history: one SQLite file in WAL mode, or a PostgreSQL database. The same statements
//! serve both, but for what [`schema::Dialect`] spells.

pub mod clients;
mod forget;
pub mod maintain;
pub mod newest;
pub mod read;
pub mod schema;
pub mod search;
mod settings;
pub mod size;
pub mod write;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyConnection, AnyPool, ConnectOptions, Connection, Executor};
use std::str::FromStr;

use crate::error::{Error, Result};
use schema::Dialect;

/// Where the history is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    File(PathBuf),
    /// With its password: never shown.
    Postgres(String),
}

impl Place {
    pub fn new(text: &str) -> Result<Self> {
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Place::Postgres(text.into())),
            Some(("sqlite", path)) => Ok(Place::File(path.into())),
            // Never the rest of it: there may be a password.
            Some((other, _)) if other.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                Err(Error::Input(format!(
                    "no history at {other}://…: only SQLite files and postgres:// are known"
                )))
            }
            _ => Ok(Place::File(text.into())),
        }
    }

    /// A file that opening would make.
    pub fn is_missing(&self) -> bool {
        matches!(self, Place::File(path) if !path.exists())
    }

    /// Takes away the file of a history that was made for nothing, and is closed.
    pub fn remove(&self) {
        if let Place::File(path) = self {
            let _ = std::fs::remove_file(path);
        }
    }

    fn url(&self) -> String {
        match self {
            Place::Postgres(url) => url.clone(),
            Place::File(path) => {
                let mut url = String::from("sqlite://");
                for byte in path.to_string_lossy().bytes() {
                    match byte {
                        b'/' | b'.' | b'-' | b'_' => url.push(byte.into()),
                        b if b.is_ascii_alphanumeric() => url.push(b.into()),
                        b => url.push_str(&format!("%{b:02X}")),
                    }
                }
                url + "?mode=rwc"
            }
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Place::File(path) => write!(f, "{}", path.display()),
            Place::Postgres(url) => {
                let after = url.rsplit_once('@').map_or_else(
                    || url.split_once("://").map_or("", |(_, rest)| rest),
                    |(_, rest)| rest,
                );
                write!(f, "postgres://{}", after.split('?').next().unwrap_or_default())
            }
        }
    }
}

pub struct Store {
    pub(crate) readers: AnyPool,
    /// One connection: SQLite has one writer, and batches commit in groups anyway.
    pub(crate) writer: AnyPool,
    pub(crate) dialect: Dialect,
    pub(crate) place: Place,
    pub(crate) series: Mutex<KnownSeries>,
}

/// Ids of series, so that they need not be looked up for each batch.
#[derive(Default)]
pub(crate) struct KnownSeries {
    ids: HashMap<SeriesKey, i64>,
    /// How many paths had been removed when these were looked up.
    forgotten: i64,
}

/// dst, hop, source
pub(crate) type SeriesKey = (String, String, String);

/// How long a connection to the database may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// So long one that has the file to itself is waited for, asking so often.
const LOCKED: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(10);

/// Files up to this size are checked whole when they are opened.
const CHECKED_WHOLE_BYTES: u64 = 64 << 20;

impl Store {
    /// Opens the history, or makes it.
    pub async fn open(place: &Place) -> Result<Self> {
        Self::open_with(place, true).await
    }

    /// Opens a history that is there.
    pub async fn open_existing(place: &Place) -> Result<Self> {
        Self::open_with(place, false).await
    }

    async fn open_with(place: &Place, create: bool) -> Result<Self> {
        sqlx::any::install_default_drivers();
        let dialect = match place {
            Place::File(path) => {
                check_file(path, create)?;
                Dialect::Sqlite
            }
            Place::Postgres(_) => Dialect::Postgres,
        };
        let failed = |e: sqlx::Error| named(e.into(), place);
        let options = AnyConnectOptions::from_str(&place.url()).map_err(failed)?;
        let options = options.disable_statement_logging();
        connect_once(&options, dialect).await.map_err(failed)?;
        let pool = |most: u32| {
            AnyPoolOptions::new()
                .max_connections(most)
                .acquire_timeout(CONNECTING)
                .after_connect(move |connection, _| Box::pin(prepare(connection, dialect)))
                .after_release(|connection, _| Box::pin(is_outside_of_transactions(connection)))
        };
        let writer = pool(1).connect_with(options.clone()).await.map_err(failed)?;
        schema::migrate(&writer, dialect, place).await.map_err(|e| named(e, place))?;
        let readers = pool(4).connect_lazy_with(options);
        let store =
            Store { readers, writer, dialect, place: place.clone(), series: Mutex::default() };
        store.check_whole().await?;
        Ok(store)
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    pub async fn close(&self) {
        self.readers.close().await;
        // SQLite moves its log into the file when the last connection ends: which is the last is
        // not ours to say, and a reader cannot. Where this fails, the log still has it all.
        if self.dialect == Dialect::Sqlite {
            let checkpoint = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)");
            let _ = checkpoint.execute(&self.writer).await;
        }
        self.writer.close().await;
    }

    /// A small file is read whole: better no service than advice from half a history.
    async fn check_whole(&self) -> Result<()> {
        let Place::File(path) = &self.place else { return Ok(()) };
        if std::fs::metadata(path).map_or(0, |m| m.len()) > CHECKED_WHOLE_BYTES {
            return Ok(());
        }
        let check = sqlx::query_scalar::<_, String>("PRAGMA quick_check(1)");
        let found = check.fetch_one(&self.writer).await;
        match found.map_err(|e| named(e.into(), &self.place))?.as_str() {
            "ok" => Ok(()),
            _ => Err(Error::Corrupt(self.place.to_string())),
        }
    }
}

/// A pool tries again until its time is over and does not tell why it failed; one connection does at
/// once.
async fn connect_once(options: &AnyConnectOptions, dialect: Dialect) -> sqlx::Result<()> {
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
                Ok(()) => return connection.close().await,
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

/// Where SQLite itself undid a transaction that failed (the disk was full), the driver's ROLLBACK fails, and it
/// takes the next BEGIN for one inside: what is written then is told to be safe, and lost. Such a
/// connection is closed.
async fn is_outside_of_transactions(connection: &mut AnyConnection) -> sqlx::Result<bool> {
    // A rollback may still be on its way.
    connection.ping().await?;
    Ok(!connection.is_in_transaction())
}

/// What holds for each connection.
async fn prepare(connection: &mut AnyConnection, dialect: Dialect) -> sqlx::Result<()> {
    let statements: &[&str] = match dialect {
        // FULL: what is acknowledged survives a power cut too.
        Dialect::Sqlite => &[
            "PRAGMA busy_timeout = 10000",
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "PRAGMA foreign_keys = ON",
            "PRAGMA cache_size = -16384",
            "PRAGMA journal_size_limit = 67108864",
        ],
        // Statements are short: compiling one takes longer than it saves.
        Dialect::Postgres => {
            &["SET search_path TO imtcp", "SET statement_timeout TO '60s'", "SET jit TO off"]
        }
    };
    for statement in statements {
        connection.execute(*statement).await?;
    }
    Ok(())
}

/// What SQLite itself would only say later, or not at all.
fn check_file(path: &Path, create: bool) -> Result<()> {
    let open = |why: String| Error::Open { db: path.display().to_string(), why };
    match std::fs::File::open(path) {
        Ok(mut file) => {
            use std::io::Read;
            let mut head = Vec::new();
            (&mut file).take(16).read_to_end(&mut head).map_err(|e| open(e.to_string()))?;
            if !head.is_empty() && head != b"SQLite format 3\0" {
                return Err(Error::NotSqlite(path.display().to_string()));
            }
            Ok(())
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && create => {
            match path.parent().filter(|p| !p.as_os_str().is_empty() && !p.is_dir()) {
                Some(dir) => Err(open(format!("there is no directory {}", dir.display()))),
                None => Ok(()),
            }
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(open("there is no such file; `imtcp advice import` or `serve` makes it".into()))
        }
        Err(e) => Err(open(e.to_string())),
    }
}

/// An error that names the database.
fn named(e: Error, place: &Place) -> Error {
    match e {
        Error::Corrupt(_) => Error::Corrupt(place.to_string()),
        Error::Db(sqlx::Error::Io(why)) => {
            Error::Open { db: place.to_string(), why: why.to_string() }
        }
        Error::Db(why @ (sqlx::Error::Database(_) | sqlx::Error::Configuration(_))) => {
            let why =
                why.as_database_error().map_or_else(|| why.to_string(), |e| e.message().into());
            Error::Open { db: place.to_string(), why }
        }
        Error::Away => Error::Open { db: place.to_string(), why: "no answer within 5 s".into() },
        e => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first of them turns the file's log on, which SQLite does for one alone.
    #[tokio::test(flavor = "multi_thread", worker_threads = 8)]
    async fn many_that_open_a_new_file_at_once_all_have_it() {
        for _ in 0..30 {
            let dir = tempfile::tempdir().unwrap();
            let place = Place::File(dir.path().join("history.db"));
            let opening: Vec<_> = (0..8)
                .map(|_| {
                    let place = place.clone();
                    tokio::spawn(async move { Store::open(&place).await.map(drop) })
                })
                .collect();
            for one in opening {
                one.await.unwrap().unwrap();
            }
        }
    }

    use crate::record::Record;
    use crate::settings::Changes;
    use crate::store::write::Batch;

    /// As it does where the disk is full. The second failure left a transaction open, in which all that
    /// came after was acknowledged and none of it committed.
    #[tokio::test]
    async fn after_transactions_that_sqlite_undid_itself_what_is_acknowledged_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::File(dir.path().join("history.db"));
        let store = Store::open(&place).await.unwrap();
        let mut undone = store.writer.begin().await.unwrap();
        undone.execute("ROLLBACK").await.unwrap();
        drop(undone);
        drop(store.writer.begin().await.unwrap());
        let record = Record {
            dst: "192.0.2.7".into(),
            time: 1_774_500_000_000_000,
            available_bps: Some(1_000_000),
            ..Record::default()
        };
        let batch = Batch { id: Some("a".into()), records: vec![record.into()] };
        let (written, _) = store.write(&[batch], 1_774_600_000_000_000).await.unwrap();
        assert_eq!(written[0].stored, 1);
        // Another process sees it, and may write.
        let other = Store::open(&place).await.unwrap();
        assert_eq!(other.path_names("", 9).await.unwrap(), ["192.0.2.7"]);
        other.change_settings("192.0.2.7", &Changes::new()).await.unwrap();
    }

    #[test]
    fn a_place_never_shows_its_password() {
        let place = |text| Place::new(text).unwrap();
        let postgres = place("postgres://me:secret@db.example.org/imtcp?sslmode=require");
        assert_eq!(postgres.to_string(), "postgres://db.example.org/imtcp");
        assert_eq!(place("postgresql:///x").to_string(), "postgres:///x");
        assert_eq!(place("sqlite://a b.db").url(), "sqlite://a%20b.db?mode=rwc");
        let e = Place::new("mysql://me:secret@db/x").unwrap_err().to_string();
        assert_eq!(e, "no history at mysql://…: only SQLite files and postgres:// are known");
        assert_eq!(place("./a://b").url(), "sqlite://./a%3A//b?mode=rwc");
    }
}
