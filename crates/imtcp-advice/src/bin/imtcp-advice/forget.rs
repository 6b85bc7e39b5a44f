// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::io::{self, IsTerminal};

use anyhow::{bail, Context, Result};
use imtcp_client::destination::destination;
use imtcp_common::out::print_json;
use imtcp_common::{exit, format};
use serde_json::json;

use crate::cli::ForgetArgs;
use crate::histories::{open_existing, paths, wait};
use crate::said::Said;

pub fn main(args: ForgetArgs) -> Result<u8> {
    let dst = destination(&args.path)?;
    let (removed, is_client) = wait(async {
        let store = open_existing(&args.db).await?;
        paths(&store, Some(&dst)).await?;
        if !args.yes {
            confirm(&dst, &store.place().to_string())?;
        }
        let mut said = Said::new();
        let mut tell = |records| said.progress(|| format!("{records} records of {dst} removed"));
        let removed = store.forget(&dst, &mut tell).await?;
        let is_client = store.is_client(&dst).await?;
        store.close().await;
        let removed = removed.with_context(|| format!("somebody else has removed {dst} by now"))?;
        Ok((removed, is_client))
    })?;
    if args.json {
        print_json(&json!({ "path": dst, "removed": removed, "is_client": is_client }))?;
    } else {
        outln!("{} of {dst} removed, and its settings", format::count(removed, "record"));
        if is_client {
            outln!("It stays in the list of clients: DELETE /v1/clients/{dst} takes it out.");
        }
    }
    Ok(exit::OK)
}

fn confirm(dst: &str, place: &str) -> Result<()> {
    if !io::stdin().is_terminal() {
        bail!("this removes all records and settings of {dst} from {place} for good: say --yes");
    }
    eprint!("Remove all records and settings of {dst} from {place} for good? [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    if !["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) {
        bail!("nothing was removed");
    }
    Ok(())
}
