// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Histories as CSV, in and out. What is exported can be imported again, roll-ups too.

use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Write};

use csv::StringRecord;
use imtcp_client::destination::destination;
use imtcp_client::record::{Kind, Record, MOST_BPS};
use imtcp_client::time::{self, HOUR_US, SECOND_US};
use imtcp_common::format::count;
use serde::Serialize;

use crate::csv_text::{Decimal, Numbers, Table};
use crate::error::{Error, Result};
use crate::store::read::PathInfo;
use crate::store::write::{Batch, Stored};
use crate::store::{key_of, SeriesKey, Store};

/// The columns of an export. An import needs `time` and `available_bps`, in any order. A row whose
/// `available_bps` is empty is an active test's.
pub const COLUMNS: [&str; 15] = [
    "dst",
    "hop",
    "time",
    "available_bps",
    "capacity_bps",
    "rtt_us",
    "loss",
    "congested",
    "source",
    "validity",
    "span_s",
    "samples",
    "low_bps",
    "high_bps",
    "throughput_bps",
];

/// Bit/s. Means have fractions, and are rounded; a smaller one was meant in kbit/s or Mbit/s.
const LEAST_BPS: f64 = 100_000.0;

/// Records to a transaction.
pub(crate) const CHUNK: usize = 5_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    pub read: u64,
    pub stored: u64,
    /// Were there already: importing a file twice changes nothing.
    pub known: u64,
    /// Intervals of counters that said nothing.
    #[serde(skip_serializing_if = "is_0")]
    pub skipped: u64,
    /// Those of them with more traffic than the line carries.
    #[serde(skip)]
    pub skipped_too_much: u64,
}

fn is_0(n: &u64) -> bool {
    *n == 0
}

/// Reads records of `dst`; `None`: the column `dst` says whose they are. `source` measured them
/// where there is no column of that name.
pub async fn import(
    store: &Store,
    dst: Option<&str>,
    source: &str,
    input: impl Read,
) -> Result<Imported> {
    import_with(store, dst, source, Meaning::default(), input).await
}

/// What a file's numbers mean.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meaning {
    /// Their decimal mark; `None`: each number tells it.
    pub decimal: Option<Decimal>,
    /// Bit/s. A file whose greatest bandwidth is below probably has Mbit/s or kbit/s, and is refused.
    pub least_bps: u64,
}

/// The same, of a file whose numbers mean this.
pub async fn import_with(
    store: &Store,
    dst: Option<&str>,
    source: &str,
    meaning: Meaning,
    input: impl Read,
) -> Result<Imported> {
    let table = Table::open(input)?;
    let numbers = Numbers { decimal: meaning.decimal, comma_separates: table.comma_separates };
    let columns = Columns::new(&table.head, dst.is_some(), numbers)?.at_least(meaning.least_bps);
    import_rows(store, dst, source, columns, ("line", table.rows())).await
}

/// Stores rows of text. Each comes with its number, and `unit` is what is counted: what an error
/// names.
pub(crate) async fn import_rows(
    store: &Store,
    dst: Option<&str>,
    source: &str,
    columns: Columns,
    (unit, rows): (&str, impl Iterator<Item = Result<(u64, StringRecord)>>),
) -> Result<Imported> {
    let dst = dst.map(destination).transpose()?;
    let now_us = time::now_us();
    let mut done = Imported::default();
    let all = async {
        let mut chunk = Vec::with_capacity(CHUNK);
        for row in rows {
            let (number, row) = row?;
            let stored = columns
                .stored(&row, dst.as_deref(), source)
                .and_then(|s| Ok(Stored { record: s.record.checked(now_us)?, ..s }))
                .map_err(|e| Error::Input(format!("{unit} {number}: {e}")))?;
            chunk.push(stored);
            if chunk.len() == CHUNK {
                columns.check_unit(&chunk, &done)?;
                write(store, std::mem::take(&mut chunk), columns.tell_spans(), &mut done).await?;
            }
        }
        columns.check_unit(&chunk, &done)?;
        write(store, chunk, columns.tell_spans(), &mut done).await
    };
    let all = all.await;
    done.after(all)
}

impl Imported {
    /// These counts, or the error that ended the import, with the records stored before it.
    pub(crate) fn after(self, all: Result<()>) -> Result<Self> {
        match all {
            Ok(()) => Ok(self),
            Err(why) if self.read == 0 => Err(why),
            Err(why) => Err(Error::Partly { stored: self.stored, why: Box::new(why) }),
        }
    }
}

/// Writes records that are not there yet. A file with spans is an export: all of it counts, means and the
/// records beside them. In other files, records that the history's means hold already are left out.
pub(crate) async fn write(
    store: &Store,
    mut records: Vec<Stored>,
    tells_spans: bool,
    done: &mut Imported,
) -> Result<()> {
    let read = records.len() as u64;
    if !tells_spans {
        leave_out_rolled_up(store, &mut records).await?;
    }
    let now = time::now_us();
    let (written, _) = store.write(&[Batch { id: None, records }], now).await?;
    let stored = written.iter().map(|w| w.stored).sum::<u64>();
    done.read += read;
    done.stored += stored;
    done.known += read - stored;
    Ok(())
}

async fn leave_out_rolled_up(store: &Store, records: &mut Vec<Stored>) -> Result<()> {
    let mut by_series: BTreeMap<(Kind, SeriesKey), Vec<Stored>> = BTreeMap::new();
    for stored in records.drain(..) {
        let series = (stored.record.kind(), key_of(&stored.record));
        by_series.entry(series).or_default().push(stored);
    }
    for ((kind, series), mut of) in by_series {
        let times = || of.iter().map(|s| s.record.time);
        let (Some(first), Some(last)) = (times().min(), times().max()) else { continue };
        let around = (first - HOUR_US, last + HOUR_US);
        let means = store.roll_ups(kind, &series, around).await?;
        let bucket = |t_us: i64, span_s: i64| (span_s, t_us.div_euclid(span_s * SECOND_US));
        let taken: HashSet<_> = means.into_iter().map(|(t, span_s)| bucket(t, span_s)).collect();
        of.retain(|s| ![60, 3600].iter().any(|span| taken.contains(&bucket(s.record.time, *span))));
        records.append(&mut of);
    }
    Ok(())
}

/// Where each column is, and how its numbers are written.
pub(crate) struct Columns {
    at: [Option<usize>; COLUMNS.len()],
    numbers: Numbers,
    least_bps: u64,
}

impl Columns {
    pub(crate) fn new(head: &StringRecord, has_dst: bool, numbers: Numbers) -> Result<Self> {
        let mut at = [None; COLUMNS.len()];
        for (i, name) in head.iter().enumerate() {
            let Some(known) = COLUMNS.iter().position(|c| *c == name) else {
                let shown: String = name.chars().take(40).collect();
                if shown == "octets" {
                    return Err(Error::Input(
                        "octets are a router's counter: give --counters, and --capacity with the \
                         line's rate"
                            .into(),
                    ));
                }
                return Err(Error::Input(format!(
                    "unknown column '{shown}': known are {}, separated by a comma, ; or a tab",
                    COLUMNS.join(", ")
                )));
            };
            at[known] = Some(i);
        }
        let columns = Columns { at, numbers, least_bps: 0 };
        for needed in ["time", "available_bps"] {
            if columns.index(needed).is_none() {
                return Err(Error::Input(format!(
                    "the first line must name a column {needed}, as time,available_bps does"
                )));
            }
        }
        if !has_dst && columns.index("dst").is_none() {
            return Err(Error::Input(
                "name the path with --path, or give the file a column dst".into(),
            ));
        }
        Ok(columns)
    }

    /// See [`Meaning::least_bps`].
    pub(crate) fn at_least(self, least_bps: u64) -> Self {
        Columns { least_bps, ..self }
    }

    /// Checks the unit of the first records before any is stored. An export has bit/s.
    fn check_unit(&self, records: &[Stored], done: &Imported) -> Result<()> {
        let greatest_bps = records.iter().filter_map(|s| s.record.available_bps).max().unwrap_or(0);
        if done.read > 0 || self.tell_spans() || greatest_bps == 0 || greatest_bps >= self.least_bps
        {
            return Ok(());
        }
        Err(Error::Input(format!(
            "nothing is stored, for the greatest available_bps of the first {} is {greatest_bps} bit/s: if \
             these are Mbit/s, multiply them by 1000000; if the line is so slow, give --slow",
            count(records.len() as u64, "record")
        )))
    }

    pub(crate) fn tell_spans(&self) -> bool {
        self.index("span_s").is_some()
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.at[COLUMNS.iter().position(|c| *c == name)?]
    }

    /// A cell that is not empty.
    fn cell<'l>(&self, line: &'l StringRecord, name: &str) -> Option<&'l str> {
        line.get(self.index(name)?).filter(|text| !text.is_empty())
    }

    fn number(&self, line: &StringRecord, name: &str, most: u64) -> Result<Option<u64>> {
        let Some(text) = self.cell(line, name) else { return Ok(None) };
        if let Ok(whole) = text.parse::<u64>() {
            return Ok(Some(whole));
        }
        match self.fraction(text, name)? {
            value if value.fract() != 0.0 && value.abs() < LEAST_BPS && name.ends_with("_bps") => {
                Err(of_column(
                    name,
                    format!(
                        "'{text}' is no rate in bit/s: are these Mbit/s or kbit/s? Write bits per \
                         second, 42000000 for 42 Mbit/s"
                    ),
                ))
            }
            value if (0.0..=most as f64).contains(&value) => Ok(Some(value.round() as u64)),
            _ => Err(no_number(text, name, most)),
        }
    }

    fn fraction(&self, text: &str, name: &str) -> Result<f64> {
        let plain = self.numbers.plain(text).map_err(|e| of_column(name, e))?;
        plain.parse().map_err(|_| {
            of_column(name, format!("'{text}' is no number: write digits, as 42000000 or 0.5"))
        })
    }

    fn validity(&self, line: &StringRecord) -> Result<Option<u8>> {
        match self.cell(line, "validity").map(str::to_ascii_lowercase).as_deref() {
            Some("valid" | "true") => Ok(Some(100)),
            Some("invalid" | "false") => Ok(Some(0)),
            _ => Ok(self.number(line, "validity", 100)?.map(|pct| pct.min(101) as u8)),
        }
    }

    pub(crate) fn stored(
        &self,
        line: &StringRecord,
        dst: Option<&str>,
        source: &str,
    ) -> Result<Stored> {
        let missing = |name: &str| Error::Input(format!("{name} is empty"));
        let time = self.cell(line, "time").ok_or_else(|| missing("time"))?;
        let dst = match (dst, self.cell(line, "dst")) {
            (Some(wanted), Some(found)) if destination(found)? != wanted => {
                return Err(Error::Input(format!(
                    "it is of {found}, and --path says {wanted}: leave --path out to store each row \
                     under its own dst, or import the rows of {wanted} alone"
                )));
            }
            (wanted, found) => wanted.or(found).ok_or_else(|| missing("dst"))?,
        };
        let available_bps = self.number(line, "available_bps", MOST_BPS)?;
        let of_tests = ["rtt_us", "loss", "throughput_bps"];
        if available_bps.is_none() && !of_tests.iter().any(|c| self.cell(line, c).is_some()) {
            return Err(missing("available_bps"));
        }
        let loss = self.cell(line, "loss").map(|text| self.fraction(text, "loss")).transpose()?;
        // In a file that has the column, as an export does, an empty cell is a record that names
        // nobody. It stays so: under another's name it could meet that one's of the same time.
        let source = match self.index("source") {
            Some(_) => self.cell(line, "source").unwrap_or_default(),
            None => source,
        };
        let record = Record {
            dst: dst.into(),
            hop: self.cell(line, "hop").unwrap_or_default().into(),
            source: source.into(),
            time: self.numbers.time(time).map_err(|e| of_column("time", e))?,
            available_bps,
            capacity_bps: self.number(line, "capacity_bps", MOST_BPS)?,
            rtt_us: self.number(line, "rtt_us", u64::MAX)?,
            loss,
            congested: self.cell(line, "congested").map(yes_or_no).transpose()?,
            throughput_bps: self.number(line, "throughput_bps", MOST_BPS)?,
            validity_pct: self.validity(line)?,
        };
        let of =
            |name, absent| Ok::<_, Error>(self.number(line, name, MOST_BPS)?.unwrap_or(absent));
        let span_s = of("span_s", 0)?;
        if ![0, 60, 3600].contains(&span_s) {
            return Err(Error::Input("span_s is 0, 60 or 3600".into()));
        }
        let mean_bps = available_bps.unwrap_or(0);
        Ok(Stored {
            span_s: span_s as u32,
            samples: of("samples", 1)?.clamp(1, 1_000_000),
            low_bps: of("low_bps", mean_bps)?.min(mean_bps),
            high_bps: of("high_bps", mean_bps)?.clamp(mean_bps, MOST_BPS.max(mean_bps)),
            record,
        })
    }
}

fn yes_or_no(text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => Err(of_column("congested", format!("'{text}' is neither true nor false"))),
    }
}

fn of_column(name: &str, why: impl std::fmt::Display) -> Error {
    Error::Input(format!("column {name}: {why}"))
}

fn no_number(text: &str, name: &str, most: u64) -> Error {
    Error::Input(format!("column {name}: '{text}' is not between 0 and {most}"))
}

/// Writes the records of paths from one time up to another; returns how many.
pub async fn export(
    store: &Store,
    paths: &[PathInfo],
    between: (i64, i64),
    out: impl Write,
) -> Result<u64> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(COLUMNS).map_err(cannot_write)?;
    let count = each_chunk(store, paths, between, |rows| {
        rows.iter().try_for_each(|row| writer.write_record(cells(row)).map_err(cannot_write))
    });
    let count = count.await?;
    writer.flush()?;
    Ok(count)
}

/// Hands the records of paths on, some thousands at a time; returns how many there were.
pub(crate) async fn each_chunk(
    store: &Store,
    paths: &[PathInfo],
    (from_us, to_us): (i64, i64),
    mut take: impl FnMut(&[Stored]) -> Result<()>,
) -> Result<u64> {
    let mut count = 0;
    for path in paths {
        let of_series = |s| Kind::ALL.map(|kind| (s, kind));
        for series in path.series.iter().flat_map(of_series) {
            let mut after = (from_us - 1, i64::MAX);
            loop {
                let rows = store.stored(&path.dst, series, after, to_us, CHUNK as u32).await?;
                let Some(last) = rows.last() else { break };
                after = (last.record.time, last.span_s.into());
                take(&rows)?;
                count += rows.len() as u64;
            }
        }
    }
    Ok(count)
}

fn cannot_write(e: csv::Error) -> Error {
    Error::Io(std::io::Error::other(e))
}

fn cells(row: &Stored) -> [String; COLUMNS.len()] {
    fn text<T: ToString>(value: Option<T>) -> String {
        value.map_or_else(String::new, |v| v.to_string())
    }
    let r = &row.record;
    [
        r.dst.clone(),
        r.hop.clone(),
        time::format(r.time),
        text(r.available_bps),
        text(r.capacity_bps),
        text(r.rtt_us),
        text(r.loss),
        text(r.congested),
        r.source.clone(),
        text(r.validity_pct),
        row.span_s.to_string(),
        row.samples.to_string(),
        text(r.available_bps.map(|_| row.low_bps)),
        text(r.available_bps.map(|_| row.high_bps)),
        text(r.throughput_bps),
    ]
}
