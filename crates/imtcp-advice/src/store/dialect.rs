// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the two databases spell differently.

use imtcp_client::record::Kind;
use sqlx::any::AnyArguments;
use sqlx::query::{Query, QueryScalar};
use sqlx::Any;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// The elements of the JSON array in a parameter, as rows `j(key, value)`.
    pub fn elements(self, parameter: &str) -> String {
        match self {
            Dialect::Sqlite => format!("json_each({parameter}) j"),
            Dialect::Postgres => {
                format!("jsonb_array_elements({parameter}::jsonb) WITH ORDINALITY AS j(value, key)")
            }
        }
    }

    /// Records `r` of a kind for each row before it. PostgreSQL takes a JSON array for a hundred rows and
    /// would rather read the whole table: the subquery with OFFSET leaves it the index alone.
    pub fn records(self, kind: Kind, condition: &str) -> String {
        let table = table(kind);
        match self {
            Dialect::Sqlite => format!("CROSS JOIN {table} r WHERE {condition}"),
            Dialect::Postgres => {
                format!("CROSS JOIN LATERAL (SELECT * FROM {table} r WHERE {condition} OFFSET 0) r")
            }
        }
    }

    /// Rows as one text, a JSON array of arrays. A row of its own costs the driver 2 µs, ten times as
    /// much as its part of a text.
    pub fn as_one_text(self, columns: &str) -> String {
        match self {
            Dialect::Sqlite => format!("json_group_array(json_array({columns}))"),
            Dialect::Postgres => {
                format!("COALESCE(CAST(json_agg(json_build_array({columns})) AS TEXT), '[]')")
            }
        }
    }

    /// Tells the tables of a row's history from others of the same names: in PostgreSQL they may be
    /// dropped and made again, or restored, while they are in use. (SQLite: `store::files`.)
    pub fn table_id(self) -> &'static str {
        match self {
            Dialect::Sqlite => "CAST(0 AS BIGINT)",
            Dialect::Postgres => "CAST(meta.tableoid AS BIGINT)",
        }
    }

    /// Parameters of so many rows, from the first on. SQLite's have no numbers: the driver would look for each
    /// of them among all.
    pub fn rows(self, rows: usize, columns: usize) -> String {
        let parameter = |i: usize| match self {
            Dialect::Sqlite => "?".to_string(),
            Dialect::Postgres => format!("${}", i + 1),
        };
        let row = |row: usize| {
            let parameters = (0..columns).map(|column| parameter(row * columns + column));
            format!("({})", parameters.collect::<Vec<_>>().join(", "))
        };
        (0..rows).map(row).collect::<Vec<_>>().join(", ")
    }

    /// Element `index` of the JSON array `j.value`.
    pub fn field(self, index: usize, kind: &str) -> String {
        match self {
            Dialect::Sqlite => format!("(j.value ->> {index})"),
            Dialect::Postgres => format!("(j.value ->> {index})::{kind}"),
        }
    }

    /// A value within two others: the mean of doubles may be one more than the greatest of them.
    pub fn clamp(self, value: &str, low: &str, high: &str) -> String {
        match self {
            Dialect::Sqlite => format!("MIN(MAX({value}, {low}), {high})"),
            Dialect::Postgres => format!("LEAST(GREATEST({value}, {low}), {high})"),
        }
    }

    /// The settings of one transaction in PostgreSQL. Statements are short: compiling one takes
    /// longer than it saves.
    pub fn begin(self) -> Option<&'static str> {
        match self {
            Dialect::Sqlite => None,
            Dialect::Postgres => Some(
                "BEGIN; SET LOCAL search_path TO imtcp; SET LOCAL statement_timeout TO '60s'; \
                 SET LOCAL jit TO off",
            ),
        }
    }

    /// SQLite's lock is taken at once: a transaction that first reads may not write later, if
    /// another has written in between.
    pub fn begin_writing(self) -> &'static str {
        self.begin().unwrap_or("BEGIN IMMEDIATE")
    }

    pub fn query(self, sql: &str) -> Query<'_, Any, AnyArguments<'_>> {
        sqlx::query(sql).persistent(self.names_statements())
    }

    pub fn query_i64(self, sql: &str) -> QueryScalar<'_, Any, i64, AnyArguments<'_>> {
        sqlx::query_scalar(sql).persistent(self.names_statements())
    }

    /// A named statement is one session's.
    fn names_statements(self) -> bool {
        self == Dialect::Sqlite
    }
}

/// Where records of a kind are.
pub fn table(kind: Kind) -> &'static str {
    match kind {
        Kind::Bandwidth => "record",
        Kind::Test => "active_test",
    }
}
