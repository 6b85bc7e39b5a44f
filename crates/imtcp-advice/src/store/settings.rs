// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Changing settings. A change is checked with all that it is layered with, in its transaction.

use serde_json::Value;
use sqlx::{Any, Executor, Row, Transaction};

use super::forget::NAMED;
use super::read::ALL_PATHS;
use super::Store;
use crate::error::{Error, Result};
use crate::settings::{Changes, Settings};

impl Store {
    /// Sets some of a path's settings (`*`: of all paths); null takes one back. Refuses a change
    /// after which the settings of this path, or with `*` of another one, would be wrong.
    pub async fn change_settings(&self, dst: &str, changes: &Changes) -> Result<Changes> {
        let mut tx = self.writing().await?;
        // First a write: of two changes at once the second one waits, and is checked with the first.
        self.raise_generation(&mut tx).await?;
        self.make_path(&mut tx, dst).await?;
        let before = self.own_settings(&mut tx, dst).await?;
        let mut after = before.clone();
        after.extend(changes.clone());
        after.retain(|_, value| !value.is_null());
        if dst == ALL_PATHS {
            Settings::layered(&[&after])?;
            check_paths(&mut tx, &before, &after).await?;
        } else {
            let all = self.own_settings(&mut tx, ALL_PATHS).await?;
            Settings::layered(&[&all, &after]).map_err(|e| below_all(e, &all, &after))?;
        }
        let sql = "UPDATE path SET settings = $2 WHERE dst = $1";
        let text = Value::Object(after.clone()).to_string();
        self.dialect.query(sql).bind(dst).bind(text).execute(&mut *tx).await?;
        self.commit(tx).await?;
        Ok(after)
    }

    async fn own_settings(&self, tx: &mut Transaction<'_, Any>, dst: &str) -> Result<Changes> {
        let query = self.dialect.query("SELECT settings FROM path WHERE dst = $1").bind(dst);
        let Some(row) = query.fetch_optional(&mut **tx).await? else { return Ok(Changes::new()) };
        Ok(serde_json::from_str(row.try_get(0)?).unwrap_or_default())
    }
}

impl Store {
    /// Stores settings unchecked, as an older version may have.
    #[doc(hidden)]
    pub async fn store_settings_for_tests(&self, dst: &str, text: &str) -> Result<()> {
        let mut tx = self.writing().await?;
        let query = self.dialect.query("UPDATE path SET settings = $2 WHERE dst = $1");
        query.bind(dst).bind(text).execute(&mut *tx).await?;
        self.commit(tx).await
    }
}

/// Why a path's settings are wrong over those of all paths.
fn below_all(e: Error, all: &Changes, own: &Changes) -> Error {
    if let Err(e) = Settings::layered(&[all]) {
        return Error::Input(format!(
            "the settings of all paths are wrong, change them first: {e}"
        ));
    }
    match Settings::layered(&[own]) {
        Ok(_) => Error::Input(format!("{e}, with what is set for all paths")),
        Err(_) => e,
    }
}

/// Refuses new settings of all paths over which a path's own would be wrong, and were not.
async fn check_paths(
    tx: &mut Transaction<'_, Any>,
    before: &Changes,
    after: &Changes,
) -> Result<()> {
    let sql =
        format!("SELECT dst, settings FROM path WHERE {NAMED} AND settings <> '{{}}' ORDER BY dst");
    for row in tx.fetch_all(&*sql).await? {
        let own: Changes = serde_json::from_str(row.try_get(1)?).unwrap_or_default();
        let Err(e) = Settings::layered(&[after, &own]) else { continue };
        if Settings::layered(&[before, &own]).is_ok() {
            let dst: String = row.try_get(0)?;
            return Err(Error::Input(format!(
                "this does not go together with what is set for {dst}, change that first: {e}"
            )));
        }
    }
    Ok(())
}
