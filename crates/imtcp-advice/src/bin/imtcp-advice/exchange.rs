// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `import` and `export`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read};
use std::path::Path;

use anyhow::{bail, Context, Result};
use imtcp_advice::counters::{self, Interface};
use imtcp_advice::csv_text::Decimal;
use imtcp_advice::exchange::{self, Meaning};
use imtcp_advice::parquet;
use imtcp_advice::store::{Place, Store};
use imtcp_client::destination::destination;
use imtcp_client::time;
use imtcp_common::out::print_json;
use imtcp_common::{exit, format};

use crate::cli::{DecimalMark, ExportArgs, ImportArgs};
use crate::histories::{open_existing, paths, wait};

/// Files with this ending are Parquet, others CSV.
fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet"))
}

/// A file whose greatest bandwidth is less is refused without --slow.
const LEAST_USUAL_BPS: u64 = 100_000;

pub fn import(args: ImportArgs) -> Result<u8> {
    let shown = args.file.display();
    if args.counters && is_parquet(&args.file) {
        bail!("{shown}: counters are read from CSV");
    }
    // Wrong arguments are told before a history is made.
    let dst = args.path.as_deref().map(destination).transpose()?;
    let hop = args.hop.as_deref().map(destination).transpose()?.unwrap_or_default();
    let from = Source::open(&args.file).with_context(|| format!("{shown}"))?;
    let least_bps = if args.slow { 0 } else { LEAST_USUAL_BPS };
    let done = wait(async {
        let place = Place::new(&args.db.db)?;
        let is_new = place.is_missing();
        let store = Store::open(&place).await?;
        let source = &args.source;
        let done = match (from, dst, args.capacity) {
            (Source::Text(input), Some(dst), Some(capacity)) => {
                let (source, capacity_bps) = (source.clone(), capacity.0);
                let interface = Interface { dst, hop, source, capacity_bps };
                counters::import(&store, &interface, input).await
            }
            (Source::Text(input), dst, _) => {
                let meaning = Meaning { decimal: args.decimal.map(Decimal::from), least_bps };
                exchange::import_with(&store, dst.as_deref(), source, meaning, input).await
            }
            (Source::Parquet(file), dst, _) => {
                // The library may panic over a damaged file, which becomes an error: say that alone.
                std::panic::set_hook(Box::new(|_| {}));
                parquet::import(&store, dst.as_deref(), source, least_bps, file).await
            }
        };
        let empty = store.path_names("", 1).await.is_ok_and(|names| names.is_empty());
        store.close().await;
        if done.is_err() && is_new && empty {
            place.remove();
        }
        done.with_context(|| format!("{shown}"))
    })?;
    if args.json {
        print_json(&done)?;
    } else {
        let read = format::count(done.read, "record");
        outln!("{read} read: {} stored, {} were there", done.stored, done.known);
        if done.known > 0 {
            outln!(
                "what was there stays as it was, whatever is read now: to put other values in its place, remove the \
                 path first (imtcp-advice forget --path DESTINATION --yes)"
            );
        }
        if done.read == 0 {
            eprintln!("imtcp-advice: warning: there is no record in {shown}");
        }
        if done.skipped > 0 {
            let intervals = format::count(done.skipped, "interval");
            let too_much = done.skipped_too_much;
            outln!(
                "{intervals} skipped: {too_much} with more traffic than --capacity or a counter that was reset, \
                 the others longer than an hour"
            );
        }
    }
    Ok(exit::OK)
}

impl From<DecimalMark> for Decimal {
    fn from(mark: DecimalMark) -> Self {
        match mark {
            DecimalMark::Point => Decimal::Point,
            DecimalMark::Comma => Decimal::Comma,
        }
    }
}

/// What is read from.
enum Source {
    Text(Box<dyn Read>),
    Parquet(File),
}

impl Source {
    fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Source::Text(Box::new(io::stdin())));
        }
        let file = File::open(path)?;
        Ok(match is_parquet(path) {
            true => Source::Parquet(file),
            false => Source::Text(Box::new(BufReader::new(file))),
        })
    }
}

pub fn export(args: ExportArgs) -> Result<u8> {
    let moment = |text: &Option<String>| text.as_deref().map(time::parse).transpose();
    let from_us = moment(&args.from).map_err(exit::usage)?.unwrap_or(0);
    let to_us = moment(&args.to).map_err(exit::usage)?.unwrap_or(i64::MAX);
    wait(async {
        let store = open_existing(&args.db).await?;
        let paths = paths(&store, args.path.as_deref()).await?;
        let between = (from_us, to_us);
        match &args.output {
            None => exchange::export(&store, &paths, between, BufWriter::new(io::stdout())).await?,
            Some(path) => {
                let named = || format!("cannot write {}", path.display());
                let out = BufWriter::new(File::create(path).with_context(named)?);
                let written = match is_parquet(path) {
                    true => parquet::export(&store, &paths, between, out).await,
                    false => exchange::export(&store, &paths, between, out).await,
                };
                // Half of a history is none; a pipe or a terminal is not ours to remove.
                if written.is_err() && path.is_file() {
                    let _ = std::fs::remove_file(path);
                }
                written.with_context(named)?
            }
        };
        store.close().await;
        Ok(exit::OK)
    })
}
