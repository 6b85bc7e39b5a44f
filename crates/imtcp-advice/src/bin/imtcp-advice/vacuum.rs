// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use anyhow::Result;
use imtcp_advice::store::maintain::Progress;
use imtcp_client::time::now_us;
use imtcp_common::out::print_json;
use imtcp_common::{exit, format};

use crate::cli::VacuumArgs;
use crate::histories::{open_existing, retention, wait};
use crate::said::Said;

pub fn main(args: VacuumArgs) -> Result<u8> {
    let keep = retention(args.keep)?;
    let done = wait(async {
        let store = open_existing(&args.db).await?;
        let mut said = Said::new();
        let mut rolling_up = |p: Progress| {
            let (series, all, records) = (p.series, p.of_series, p.rolled_up);
            said.progress(|| format!("{series} of {all} series, {records} records rolled up"));
        };
        let done = store.maintain_telling(&keep, now_us(), &mut rolling_up).await?;
        let mut giving_back = |bytes: u64, of: u64| {
            said.progress(|| format!("{} of {} MB given back", bytes / 1_000_000, of / 1_000_000));
        };
        store.vacuum(&mut giving_back).await?;
        store.close().await;
        Ok(done)
    })?;
    if args.json {
        print_json(&done)?;
    } else {
        let rolled_up = format::count(done.rolled_up, "record");
        outln!("{rolled_up} rolled up, {} removed", done.removed);
        if done.silent_paths > 0 {
            let paths = format::count(done.silent_paths, "path");
            outln!("{paths} removed: no reports for too long");
        }
    }
    Ok(exit::OK)
}
