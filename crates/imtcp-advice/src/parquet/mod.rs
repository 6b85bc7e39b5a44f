// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Histories as Parquet: the columns of the CSV, with types. Files of other programs may have
//! fewer columns, times as text, and bandwidths as doubles.

mod bounds;
mod cells;

use std::fs::File;
use std::io::Write;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use csv::StringRecord;
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::reader::RowIter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;

use crate::csv_text::{refuse_two_of_a_name, WITH_POINTS};
use crate::error::{Error, Result};
use crate::exchange::{each_chunk, import_rows, Columns, Imported, COLUMNS};
use crate::store::read::PathInfo;
use crate::store::write::Stored;
use crate::store::Store;

use cells::Column;

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

/// As [`crate::exchange::import`]. The library may panic over a damaged file: that is an error too.
pub async fn import(
    store: &Store,
    dst: Option<&str>,
    source: &str,
    least_bps: u64,
    file: File,
) -> Result<Imported> {
    bounds::check_footer(&file)?;
    let again = file.try_clone()?;
    let reader = or_damaged(|| SerializedFileReader::new(file).map_err(wrong))?;
    let columns = or_damaged(|| columns(&reader))?;
    let indices: Vec<_> = columns.iter().map(|column| column.index).collect();
    bounds::check_pages(&again, reader.metadata(), &indices)?;
    let head: StringRecord = columns.iter().map(|column| column.name.as_str()).collect();
    refuse_two_of_a_name(&head)?;
    let head = Columns::new(&head, dst.is_some(), WITH_POINTS)?.at_least(least_bps);
    let rows = or_damaged(|| rows(reader, &indices))?;
    import_rows(store, dst, source, head, ("row", lines(rows, &columns))).await
}

/// All but those that pandas adds for itself.
fn columns(reader: &SerializedFileReader<File>) -> Result<Vec<Column>> {
    let root = reader.metadata().file_metadata().schema_descr().root_schema();
    let mut ours = Vec::new();
    for (index, field) in root.get_fields().iter().enumerate() {
        // Without groups a field's place is its column's.
        if field.is_group() || !field.name().starts_with("__") {
            ours.push(Column::new(index, field)?);
        }
    }
    Ok(ours)
}

fn rows(reader: SerializedFileReader<File>, indices: &[usize]) -> Result<RowIter<'static>> {
    let root = reader.metadata().file_metadata().schema_descr().root_schema().clone();
    let fields = indices.iter().map(|i| root.get_fields()[*i].clone()).collect();
    let wanted =
        Type::group_type_builder(root.name()).with_fields(fields).build().map_err(wrong)?;
    RowIter::from_file_into(Box::new(reader)).project(Some(wanted)).map_err(wrong)
}

/// Each row as the CSV would have it, with its number.
fn lines<'r>(
    mut rows: RowIter<'r>,
    columns: &'r [Column],
) -> impl Iterator<Item = Result<(u64, StringRecord)>> + 'r {
    let mut number = 0;
    let mut damaged = false;
    std::iter::from_fn(move || {
        if damaged {
            return None;
        }
        number += 1;
        let line = or_damaged(|| {
            let Some(row) = rows.next() else { return Ok(None) };
            let row = row.map_err(wrong)?;
            let fields = row.get_column_iter().zip(columns);
            let cells = fields.map(|((_, field), column)| column.cell(field));
            cells.collect::<Result<StringRecord>>().map(Some)
        });
        damaged = line.is_err();
        match line {
            Ok(line) => line.map(|line| Ok((number, line))),
            Err(e) => Some(Err(Error::Input(format!("row {number}: {e}")))),
        }
    })
}

fn or_damaged<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Error::Input("this Parquet is damaged: write it again".into())))
}

fn wrong(e: ParquetError) -> Error {
    Error::Input(format!("this is not the Parquet that was expected: {e}"))
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
            let done = import(&store, Some("192.0.2.7"), "", 0, input).await;
            match (done, wanted) {
                (Ok(done), Ok(stored)) => assert_eq!(done.stored, stored),
                (Err(e), Err(why)) => assert!(e.to_string().starts_with(why), "{e}"),
                (done, _) => panic!("{done:?}"),
            }
        }
    }
}
