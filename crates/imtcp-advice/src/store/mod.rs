// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The history: one SQLite file in WAL mode, or a PostgreSQL database. The same statements
//! serve both, but for what [`dialect::Dialect`] spells.

mod age;
pub mod clients;
mod connect;
mod dialect;
mod files;
pub mod forget;
pub mod maintain;
mod network_fs;
pub mod newest;
mod place;
pub mod read;
mod remove;
mod schema;
pub mod search;
mod series;
mod settings;
mod silent;
pub mod size;
mod vacuum;
pub mod write;

use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::AtomicI64;
use std::sync::Mutex;
use std::time::Duration;

use imtcp_client::secret_file::why_not_opened;
use sqlx::any::AnyConnectOptions;
use sqlx::{AnyConnection, AnyPool, ConnectOptions, Connection, Executor};

use crate::error::{Error, Result};
use dialect::Dialect;
use files::Files;
pub use place::Place;
use series::KnownSeries;
pub use series::Limits;
pub(crate) use series::{key_of, SeriesKey};

pub struct Store {
    pub(crate) readers: AnyPool,
    /// One connection: SQLite has one writer, and batches commit in groups anyway.
    pub(crate) writer: AnyPool,
    pub(crate) dialect: Dialect,
    pub(crate) place: Place,
    series: Mutex<KnownSeries>,
    limits: Limits,
    /// Whoever removes the records of hidden paths.
    removing: tokio::sync::Mutex<()>,
    /// SQLite's files, and a connection that keeps them there.
    files: Option<Files>,
    anchor: Mutex<Option<AnyConnection>>,
    /// Names PostgreSQL's tables as they were when this was opened.
    table_id: i64,
    /// The greatest generation that was on disk.
    seen: AtomicI64,
}

/// How long the end waits for those who read.
const CLOSING: Duration = Duration::from_millis(300);
/// SQLite begins its log anew when nobody reads it, so reads that overlap let it grow.
const LONG_LOG_BYTES: u64 = 96 << 20;
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
                network_fs::refuse(path)?;
                if create {
                    make_private(&network_fs::target(path))
                        .map_err(|e| named(sqlx::Error::Io(e).into(), place))?;
                }
                Dialect::Sqlite
            }
            Place::Postgres(_) => Dialect::Postgres,
        };
        let failed = |e: sqlx::Error| named(e.into(), place);
        let options = |create| {
            let options = AnyConnectOptions::from_str(&place.url(create)).map_err(failed)?;
            Ok::<_, Error>(options.disable_statement_logging())
        };
        let mut anchor = connect::connect(&options(create)?, dialect).await.map_err(failed)?;
        // From here on the file is there: where it goes, no new one takes its place.
        let options = options(false)?;
        let writer =
            connect::writer(dialect).connect_with(options.clone()).await.map_err(failed)?;
        let migrated = schema::migrate(&writer, dialect, place).await;
        let table_id = migrated.map_err(|e| named(e, place))?;
        let (files, anchor) = match place {
            Place::File(path) => {
                anchor.execute("SELECT COUNT(*) FROM meta").await.map_err(failed)?;
                let found = Files::of(path);
                let found = found.map_err(|e| named(sqlx::Error::Io(e).into(), place))?;
                (Some(found), Some(anchor))
            }
            Place::Postgres(_) => {
                anchor.close().await.map_err(failed)?;
                (None, None)
            }
        };
        let store = Store {
            readers: connect::readers(dialect).connect_lazy_with(options),
            writer,
            dialect,
            place: place.clone(),
            series: Mutex::default(),
            limits: Limits::default(),
            removing: tokio::sync::Mutex::default(),
            files,
            anchor: Mutex::new(anchor),
            table_id,
            seen: AtomicI64::new(0),
        };
        store.check_whole().await?;
        Ok(store)
    }

    /// Bounds what reports may add.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    pub async fn close(&self) {
        // A long read ends when its rows are wanted no more; nobody waits for it.
        let _ = tokio::time::timeout(CLOSING, self.readers.close()).await;
        // SQLite moves its log into the file when the last connection ends: which is the last is
        // not ours to say, and a reader cannot. Where this fails, the log still has it all.
        self.checkpoint().await;
        self.writer.close().await;
        let anchor = self.anchor.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(anchor) = anchor {
            let _ = anchor.close().await;
        }
    }

    /// Is SQLite's log so long that it has to go into the file while nobody reads?
    pub fn has_long_log(&self) -> bool {
        let bytes = self.files.as_ref().map(Files::log_bytes);
        matches!(bytes, Some(Ok(bytes)) if bytes > LONG_LOG_BYTES)
    }

    /// Moves SQLite's log into the file. It does not wait for another process's lock.
    pub async fn checkpoint(&self) {
        if self.dialect == Dialect::Sqlite {
            let patience = connect::LOCKED_BY_ANOTHER.as_millis();
            let sql = format!(
                "PRAGMA busy_timeout = 200; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout = {patience}"
            );
            let _ = self.writer.execute(&*sql).await;
        }
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

/// Finds faults of a file that SQLite would name late, or never.
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
            Err(open("there is no such file; `imtcp-advice import` or `serve` makes it".into()))
        }
        Err(e) => Err(open(why_not_opened(path, &e))),
    }
}

/// Makes a new file its owner's alone. SQLite gives its log and index the same rights. Whoever may read them
/// could hold a lock that stops all writing.
fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}

/// An error that names the database.
fn named(e: Error, place: &Place) -> Error {
    // Without room for its index SQLite says "disk I/O error".
    let e = match place.check_room() {
        Err(full) if matches!(e, Error::Db(sqlx::Error::Database(_))) => full,
        _ => e,
    };
    match e {
        Error::Corrupt(_) => Error::Corrupt(place.to_string()),
        Error::Db(sqlx::Error::Io(why)) => {
            Error::Open { db: place.to_string(), why: why.to_string() }
        }
        Error::Db(why @ (sqlx::Error::Database(_) | sqlx::Error::Configuration(_))) => {
            let why =
                why.as_database_error().map_or_else(|| why.to_string(), |e| e.message().into());
            let why = match connect::advice(&why) {
                Some(advice) => format!("{why}: {advice}"),
                None => why,
            };
            Error::Open { db: place.to_string(), why }
        }
        Error::Away => Error::Open { db: place.to_string(), why: "no answer within 5 s".into() },
        e @ (Error::Full | Error::ReadOnly) => {
            Error::Open { db: place.to_string(), why: e.to_string() }
        }
        e => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_new_file_is_for_its_owner_alone_and_so_is_what_stands_beside_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.db");
        let store = Store::open(&Place::File(path.clone())).await.unwrap();
        assert_eq!(store.rights_of_others(), None);
        for name in ["history.db", "history.db-wal", "history.db-shm"] {
            let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(store.rights_of_others(), Some(0o644));
    }

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

    use crate::settings::Changes;
    use crate::store::write::Batch;
    use imtcp_client::record::Record;

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
}
