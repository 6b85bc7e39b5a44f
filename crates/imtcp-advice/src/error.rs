// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What can go wrong, each in one sentence that says what to do.

pub type Result<T> = std::result::Result<T, Error>;

/// What SQLite needs.
pub(crate) const WRITABLE: &str =
    "the file and its directory must be writable, since SQLite keeps a log beside it";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody's input: theirs to correct.
    #[error("{0}")]
    Input(String),
    /// The same, after some of it was stored.
    #[error(
        "{why} ({stored} records before that are stored: import it again when it is mended, none \
         counts twice)"
    )]
    Partly { stored: u64, why: Box<Error> },
    #[error("{0} is damaged: restore it from a backup, or move it away to begin a new one")]
    Corrupt(String),
    #[error(
        "{0} is no history, or its beginning is damaged: name another file, or restore it from a backup"
    )]
    NotSqlite(String),
    #[error("{0} is no database of imtcp: name another file")]
    Foreign(String),
    #[error(
        "{db} was written by a newer imtcp (schema {found}, this one knows {known}): \
         use that version"
    )]
    Newer { db: String, found: i64, known: i64 },
    #[error("cannot open {db}: {why}")]
    Open { db: String, why: String },
    #[error("the database does not answer, or all connections to it are taken: try again later")]
    Away,
    #[error("the database failed: {0}")]
    Db(sqlx::Error),
    /// Nothing that was written since is safe.
    #[error(
        "{0} was removed or replaced while it was open: put the same one back, or start the service \
         again"
    )]
    Replaced(String),
    #[error("the disk is full: free some space")]
    Full,
    #[error("the history cannot be written: {WRITABLE}")]
    ReadOnly,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<imtcp_client::Wrong> for Error {
    fn from(wrong: imtcp_client::Wrong) -> Self {
        Error::Input(wrong.0)
    }
}

impl From<sqlx::Error> for Error {
    fn from(e: sqlx::Error) -> Self {
        if matches!(e, sqlx::Error::PoolTimedOut) {
            return Error::Away;
        }
        let code = e.as_database_error().and_then(|e| e.code()).unwrap_or_default();
        // PostgreSQL's codes have five characters: no such table, no such schema, no room.
        match &*code {
            "42P01" | "3F000" => return Error::Replaced("a table of the history".into()),
            "53100" => return Error::Full,
            other if other.len() == 5 => return Error::Db(e),
            _ => {}
        }
        // SQLITE_READONLY, SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_FULL, with their extended codes.
        match code.parse::<i32>().map(|c| c & 0xff) {
            Ok(8) => Error::ReadOnly,
            Ok(11 | 26) => Error::Corrupt("the database".into()),
            Ok(13) => Error::Full,
            _ => Error::Db(e),
        }
    }
}
