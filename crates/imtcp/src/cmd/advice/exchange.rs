// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `import` and `export`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read};
use std::path::Path;

use anyhow::{bail, Context, Result};
use imtcp_advice::counters::{self, Interface};
use imtcp_advice::record::destination;
use imtcp_advice::{exchange, parquet, time};

use super::super::print_json;
use super::{open, open_existing, paths, wait};
use crate::cli::advice::{ExportArgs, ImportArgs};
use crate::exit;

/// Files with this ending are Parquet, others CSV.
fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet"))
}

pub fn import(args: ImportArgs) -> Result<u8> {
    let shown = args.file.display();
    let open_file = || File::open(&args.file).with_context(|| format!("{shown}"));
    if args.counters && is_parquet(&args.file) {
        bail!("{shown}: counters are read from CSV");
    }
    let done = wait(async {
        let store = open(&args.db).await?;
        let done = match (args.path.clone(), args.capacity) {
            (Some(dst), Some(capacity)) => {
                let hop = args.hop.as_deref().map(destination).transpose()?.unwrap_or_default();
                let (source, capacity_bps) = (args.source.clone(), capacity.0);
                let interface = Interface { dst, hop, source, capacity_bps };
                counters::import(&store, &interface, input(&args.file, open_file)?).await
            }
            (dst, _) if is_parquet(&args.file) => {
                parquet::import(&store, dst.as_deref(), &args.source, open_file()?).await
            }
            (dst, _) => {
                let input = input(&args.file, open_file)?;
                exchange::import(&store, dst.as_deref(), &args.source, input).await
            }
        };
        store.close().await;
        done.with_context(|| format!("{shown}"))
    })?;
    if args.json {
        print_json(&done)?;
    } else {
        println!("{} records read: {} stored, {} were there", done.read, done.stored, done.known);
        if done.skipped > 0 {
            println!("{} intervals skipped: too long, or the counter was reset", done.skipped);
        }
    }
    Ok(exit::OK)
}

fn input(path: &Path, open: impl Fn() -> Result<File>) -> Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(BufReader::new(open()?)))
}

pub fn export(args: ExportArgs) -> Result<u8> {
    let from_us = args.from.as_deref().map(time::parse).transpose()?.unwrap_or(0);
    let to_us = args.to.as_deref().map(time::parse).transpose()?.unwrap_or(i64::MAX);
    let as_parquet = args.output.as_deref().is_some_and(is_parquet);
    let out: Box<dyn io::Write + Send> = match &args.output {
        None => Box::new(io::stdout()),
        Some(path) => {
            let file = File::create(path).with_context(|| format!("{}", path.display()))?;
            Box::new(file)
        }
    };
    wait(async {
        let store = open_existing(&args.db).await?;
        let paths = paths(&store, args.path.as_deref()).await?;
        let (between, out) = ((from_us, to_us), BufWriter::new(out));
        if as_parquet {
            parquet::export(&store, &paths, between, out).await?;
        } else {
            exchange::export(&store, &paths, between, out).await?;
        }
        store.close().await;
        Ok(exit::OK)
    })
}
