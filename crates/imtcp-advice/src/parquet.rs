// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Histories as Parquet: the columns of the CSV, with types. Files of other programs may have
//! fewer columns, times as text, and bandwidths as doubles.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use csv::StringRecord;
use parquet::basic::{Compression, LogicalType};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::{Field, Row};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnDescriptor;

use crate::error::{Error, Result};
use crate::exchange::{each_chunk, import_rows, Imported, COLUMNS};
use crate::store::read::PathInfo;
use crate::store::write::Stored;
use crate::store::Store;
use crate::time;

/// In the order of [`COLUMNS`].
const SCHEMA: &str = "message record {
    required binary dst (STRING);
    required binary hop (STRING);
    required int64 time (TIMESTAMP(MICROS, true));
    optional int64 available_bps;
    optional int64 capacity_bps;
    optional int64 rtt_us;
    optional double loss;
    optional boolean congested;
    required binary source (STRING);
    optional int32 validity;
    required int32 span_s;
    required int64 samples;
    optional int64 low_bps;
    optional int64 high_bps;
    optional int64 throughput_bps;
}";

/// As [`crate::exchange::import`].
pub async fn import(
    store: &Store,
    dst: Option<&str>,
    source: &str,
    file: File,
) -> Result<Imported> {
    let reader = SerializedFileReader::new(file).map_err(wrong)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let names: Vec<_> = schema.root_schema().get_fields().iter().map(|f| f.name()).collect();
    // What pandas adds for itself.
    let ours: Vec<_> = names.iter().map(|name| !name.starts_with("__")).collect();
    let head: StringRecord = names.iter().zip(&ours).filter(|n| *n.1).map(|n| *n.0).collect();
    if schema.columns().iter().any(|column| column.name() == "time" && has_no_zone(column)) {
        let wanted = "with the zone UTC, or as text in RFC 3339";
        return Err(Error::Input(format!("the column time has no zone: write it {wanted}")));
    }
    let rows = reader.get_row_iter(None).map_err(wrong)?;
    let lines =
        (1..).zip(rows).map(|(number, row)| Ok((number, line(&row.map_err(wrong)?, &ours))));
    import_rows(store, dst, source, &head, ("row", lines)).await
}

fn wrong(e: ParquetError) -> Error {
    Error::Input(format!("this is not the Parquet that was expected: {e}"))
}

/// A time of the clocks at some place, which only who wrote it knows.
fn has_no_zone(column: &ColumnDescriptor) -> bool {
    match column.logical_type_ref() {
        Some(LogicalType::Timestamp(of)) => !of.is_adjusted_to_u_t_c,
        _ => false,
    }
}

/// A row as the CSV would have it.
fn line(row: &Row, ours: &[bool]) -> StringRecord {
    let fields = row.get_column_iter().zip(ours).filter(|(_, ours)| **ours);
    fields.map(|((name, field), _)| cell(name, field)).collect()
}

fn cell(name: &str, field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::TimestampMicros(us) => time::format(*us),
        Field::TimestampMillis(ms) => time::format(ms.saturating_mul(1000)),
        // Nanoseconds have no type of their own here; no other time is as large.
        Field::Long(ns) if name == "time" && *ns > 100_000_000_000_000_000 => {
            time::format(ns / 1000)
        }
        // Rust writes NaN, which is how others say that there is no value.
        Field::Double(value) if value.is_nan() => String::new(),
        other => other.to_string(),
    }
}

/// Writes the records of paths from one time up to another; returns how many.
pub async fn export(
    store: &Store,
    paths: &[PathInfo],
    between: (i64, i64),
    out: impl Write + Send,
) -> Result<u64> {
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(cannot_write)?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let writer = SerializedFileWriter::new(out, schema, Arc::new(properties));
    let mut writer = writer.map_err(cannot_write)?;
    let count = each_chunk(store, paths, between, |rows| {
        let mut group = writer.next_row_group().map_err(cannot_write)?;
        for column in COLUMNS {
            write_column(&mut group, column, rows).map_err(cannot_write)?;
        }
        group.close().map_err(cannot_write)?;
        Ok(())
    });
    let count = count.await?;
    writer.close().map_err(cannot_write)?;
    Ok(count)
}

fn cannot_write(e: ParquetError) -> Error {
    Error::Io(std::io::Error::other(e))
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<W>,
    name: &str,
    rows: &[Stored],
) -> parquet::errors::Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    match column.untyped() {
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let text = |row: &Stored| match name {
                "dst" => row.record.dst.as_str().into(),
                "hop" => row.record.hop.as_str().into(),
                _ => row.record.source.as_str().into(),
            };
            let values: Vec<ByteArray> = rows.iter().map(text).collect();
            writer.write_batch(&values, None, None)?;
        }
        ColumnWriter::Int64ColumnWriter(writer) => {
            let (values, levels) = present(rows, |row| int64(row, name));
            let optional = !matches!(name, "time" | "samples");
            writer.write_batch(&values, optional.then_some(&levels[..]), None)?;
        }
        ColumnWriter::Int32ColumnWriter(writer) if name == "span_s" => {
            let values: Vec<_> = rows.iter().map(|row| row.span_s as i32).collect();
            writer.write_batch(&values, None, None)?;
        }
        ColumnWriter::Int32ColumnWriter(writer) => {
            let (values, levels) = present(rows, |row| row.record.validity_pct.map(i32::from));
            writer.write_batch(&values, Some(&levels), None)?;
        }
        ColumnWriter::DoubleColumnWriter(writer) => {
            let (values, levels) = present(rows, |row| row.record.loss);
            writer.write_batch(&values, Some(&levels), None)?;
        }
        ColumnWriter::BoolColumnWriter(writer) => {
            let (values, levels) = present(rows, |row| row.record.congested);
            writer.write_batch(&values, Some(&levels), None)?;
        }
        _ => return Err(ParquetError::General(format!("column {name} has another type"))),
    }
    column.close()
}

fn int64(row: &Stored, name: &str) -> Option<i64> {
    let r = &row.record;
    let value = match name {
        "time" => return Some(r.time),
        "available_bps" => r.available_bps,
        "capacity_bps" => r.capacity_bps,
        "rtt_us" => r.rtt_us,
        "samples" => Some(row.samples),
        "low_bps" => r.available_bps.map(|_| row.low_bps),
        "throughput_bps" => r.throughput_bps,
        _ => r.available_bps.map(|_| row.high_bps),
    };
    value.map(|v| v as i64)
}

/// The values that there are, and for each row whether there is one.
fn present<T>(rows: &[Stored], of: impl Fn(&Stored) -> Option<T>) -> (Vec<T>, Vec<i16>) {
    let all: Vec<_> = rows.iter().map(of).collect();
    let levels = all.iter().map(|v| i16::from(v.is_some())).collect();
    (all.into_iter().flatten().collect(), levels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Place;

    #[tokio::test]
    async fn a_time_without_a_zone_is_refused_and_one_of_utc_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Place::File(dir.path().join("history.db"))).await.unwrap();
        for (is_utc, wanted) in [(true, Ok(0)), (false, Err("the column time has no zone"))] {
            let file = dir.path().join("times.parquet");
            let schema = format!(
                "message of {{ required int64 time (TIMESTAMP(MICROS, {is_utc})); \
                 required int64 available_bps; }}"
            );
            let schema = Arc::new(parse_message_type(&schema).unwrap());
            let out = File::create(&file).unwrap();
            SerializedFileWriter::new(out, schema, Arc::default()).unwrap().close().unwrap();
            let input = File::open(&file).unwrap();
            let done = import(&store, Some("192.0.2.7"), "", input).await;
            match (done, wanted) {
                (Ok(done), Ok(stored)) => assert_eq!(done.stored, stored),
                (Err(e), Err(why)) => assert!(e.to_string().starts_with(why), "{e}"),
                (done, _) => panic!("{done:?}"),
            }
        }
    }
}
