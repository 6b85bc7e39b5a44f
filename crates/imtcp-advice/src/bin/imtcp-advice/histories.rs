// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What commands on a history share.

use std::future::Future;

use anyhow::{bail, Result};
use imtcp_advice::store::maintain::Retention;
use imtcp_advice::store::read::PathInfo;
use imtcp_advice::store::{Place, Store};
use imtcp_client::destination::destination;

use crate::cli::{DbArgs, KeepArgs};

/// Runs to the end on this thread.
pub fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

pub async fn open(db: &DbArgs) -> Result<Store> {
    Ok(Store::open(&Place::new(&db.db)?).await?)
}

/// A history that must be there: a mistyped name makes no new one.
pub async fn open_existing(db: &DbArgs) -> Result<Store> {
    Ok(Store::open_existing(&Place::new(&db.db)?).await?)
}

/// The path that was named, or all.
pub async fn paths(store: &Store, named: Option<&str>) -> Result<Vec<PathInfo>> {
    if let Some(name) = named {
        let name = destination(name)?;
        return match store.path(&name).await? {
            Some(path) => Ok(vec![path]),
            None => bail!("there is no history of {name} in {}", store.place()),
        };
    }
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let names = store.path_names(&after, 1000).await?;
        let Some(last) = names.last() else { return Ok(all) };
        after = last.clone();
        for name in names {
            all.extend(store.path(&name).await?);
        }
    }
}

/// How long each form is kept: each at least as long as the finer one.
pub fn retention(keep: KeepArgs) -> Result<Retention> {
    let (raw_days, minute_days, hour_days) = (keep.keep_raw, keep.keep_minutes, keep.keep_hours);
    if minute_days < raw_days {
        bail!("--keep-minutes {minute_days} is less than --keep-raw {raw_days}: give both");
    }
    if hour_days < minute_days {
        bail!("--keep-hours {hour_days} is less than --keep-minutes {minute_days}: give both");
    }
    Ok(Retention { raw_days, minute_days, hour_days, silent_days: keep.keep_silent })
}
