// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use anyhow::Result;
use imtcp_advice::time::now_us;

use super::super::print_json;
use super::{open_existing, retention, wait};
use crate::cli::advice::VacuumArgs;
use crate::exit;

pub fn main(args: VacuumArgs) -> Result<u8> {
    let keep = retention(args.keep)?;
    let done = wait(async {
        let store = open_existing(&args.db).await?;
        let done = store.maintain(&keep, now_us()).await?;
        store.vacuum().await?;
        store.close().await;
        Ok(done)
    })?;
    if args.json {
        print_json(&done)?;
    } else {
        outln!("{} records rolled up, {} removed", done.rolled_up, done.removed);
    }
    Ok(exit::OK)
}
