// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Parquet of other programs, and what nobody should be given to read. Files of real programs are in
//! tests/test_advice_import.py.

mod support;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use imtcp_advice::exchange::{self, Imported};
use imtcp_advice::store::write::Batch;
use imtcp_advice::store::{Place, Store};
use imtcp_advice::{parquet as ours, Error, Result};
use imtcp_client::time::MINUTE_US;
use parquet::basic::{BrotliLevel, Compression, GzipLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use support::{at, record};

const DST: &str = "192.0.2.7";
const TIME_US: i64 = 1_774_016_700_000_000;

/// One row's value of a column beside `time` and `available_bps`.
enum Value {
    Int32(i32),
    Int64(i64),
    Float(f32),
    Double(f64),
    Bytes(Vec<u8>),
    Fixed(Vec<u8>),
}

fn write(file: &Path, columns: &str, values: Vec<Value>, compression: Compression) {
    let schema = parse_message_type(&format!("message of {{ {columns} }}")).unwrap();
    let properties = WriterProperties::builder().set_compression(compression).build();
    let out = File::create(file).unwrap();
    let mut writer =
        SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for value in values {
        let mut column = group.next_column().unwrap().unwrap();
        match (column.untyped(), value) {
            (ColumnWriter::Int32ColumnWriter(w), Value::Int32(v)) => {
                w.write_batch(&[v], None, None)
            }
            (ColumnWriter::Int64ColumnWriter(w), Value::Int64(v)) => {
                w.write_batch(&[v], None, None)
            }
            (ColumnWriter::FloatColumnWriter(w), Value::Float(v)) => {
                w.write_batch(&[v], None, None)
            }
            (ColumnWriter::DoubleColumnWriter(w), Value::Double(v)) => {
                w.write_batch(&[v], None, None)
            }
            (ColumnWriter::ByteArrayColumnWriter(w), Value::Bytes(v)) => {
                w.write_batch(&[ByteArray::from(v)], None, None)
            }
            (ColumnWriter::FixedLenByteArrayColumnWriter(w), Value::Fixed(v)) => {
                w.write_batch(&[FixedLenByteArray::from(ByteArray::from(v))], None, None)
            }
            _ => panic!("the column has another type"),
        }
        .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

fn import(file: &Path) -> (Result<Imported>, String) {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(&Place::File(dir.path().join("history.db"))).await.unwrap();
        let done = ours::import(&store, Some(DST), "import", 0, File::open(file).unwrap()).await;
        let mut out = Vec::new();
        let paths: Vec<_> = store.path(DST).await.unwrap().into_iter().collect();
        exchange::export(&store, &paths, (0, i64::MAX), &mut out).await.unwrap();
        (done, String::from_utf8(out).unwrap())
    })
}

/// Imports one row with this column beside a time and a bandwidth.
fn of_column(column: &str, value: Value) -> (Result<Imported>, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("one.parquet");
    let columns = format!("{BOTH} required {column};");
    let values = vec![Value::Int64(TIME_US), Value::Int64(5), value];
    write(&file, &columns, values, Compression::SNAPPY);
    import(&file)
}

const BOTH: &str = "required int64 time (TIMESTAMP(MICROS, true)); required int64 available_bps;";

#[test]
fn nan_is_no_value_in_every_type_of_float() {
    for (column, value) in [
        ("double loss", Value::Double(f64::NAN)),
        ("float loss", Value::Float(f32::NAN)),
        ("fixed_len_byte_array(2) loss (FLOAT16)", Value::Fixed(vec![0, 0x7e])),
    ] {
        let (done, exported) = of_column(column, value);
        assert_eq!(done.unwrap().stored, 1, "{column}");
        assert!(exported.contains("Z,5,,,,,import"), "{column}: {exported}");
    }
    for (column, value) in [
        ("double rtt_us", Value::Double(f64::INFINITY)),
        ("float rtt_us", Value::Float(f32::INFINITY)),
        ("fixed_len_byte_array(2) rtt_us (FLOAT16)", Value::Fixed(vec![0, 0x7c])),
    ] {
        let e = of_column(column, value).0.unwrap_err().to_string();
        assert!(e.starts_with("row 1: column rtt_us: 'inf' is not between"), "{column}: {e}");
    }
}

#[test]
fn decimals_are_read_in_each_of_their_forms() {
    for (column, value) in [
        ("int32 rtt_us (DECIMAL(9,2))", Value::Int32(3_150_000)),
        ("int64 rtt_us (DECIMAL(18,2))", Value::Int64(3_150_000)),
        ("binary rtt_us (DECIMAL(20,2))", Value::Bytes(vec![0x30, 0x10, 0xb0])),
        (
            "fixed_len_byte_array(5) rtt_us (DECIMAL(10,2))",
            Value::Fixed(vec![0, 0, 0x30, 0x10, 0xb0]),
        ),
    ] {
        let (done, exported) = of_column(column, value);
        assert_eq!(done.unwrap().stored, 1, "{column}");
        assert!(exported.contains("Z,5,,31500,"), "{column}: {exported}");
    }
    let (done, exported) = of_column("int32 loss (DECIMAL(3,3))", Value::Int32(125));
    assert_eq!(done.unwrap().stored, 1);
    assert!(exported.contains("Z,5,,,0.125,"), "{exported}");
    let e = of_column("binary rtt_us (DECIMAL(60,2))", Value::Bytes(vec![1; 20])).0.unwrap_err();
    assert!(e.to_string().contains("column rtt_us has a decimal too long"), "{e}");
}

#[test]
fn times_are_read_in_each_unit_and_not_without_a_zone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("times.parquet");
    let of = |column: &str, time: i64| {
        let values = vec![Value::Int64(time), Value::Int64(5)];
        let columns = format!("required int64 time {column}; required int64 available_bps;");
        write(&file, &columns, values, Compression::UNCOMPRESSED);
        import(&file)
    };
    for (column, time) in [
        ("(TIMESTAMP(MILLIS, true))", TIME_US / 1000),
        ("(TIMESTAMP(MICROS, true))", TIME_US),
        ("(TIMESTAMP(NANOS, true))", TIME_US * 1000),
        ("", TIME_US / 1_000_000),
        ("", TIME_US / 1000),
        ("", TIME_US),
    ] {
        let (done, exported) = of(column, time);
        assert_eq!(done.unwrap().stored, 1, "{column}");
        assert!(exported.contains(",2026-03-20T14:25:00Z,5,"), "{column}: {exported}");
    }
    for unit in ["MILLIS", "MICROS", "NANOS"] {
        let e = of(&format!("(TIMESTAMP({unit}, false))"), TIME_US).0.unwrap_err().to_string();
        assert!(e.starts_with("the column time has no zone: write it with the zone UTC"), "{e}");
    }
    // No other unit is guessed for a time out of range.
    let e = of("(TIMESTAMP(MICROS, true))", TIME_US * 1000).0.unwrap_err().to_string();
    assert!(e.contains("the column time has a time out of range"), "{e}");
}

#[test]
fn a_type_that_has_no_meaning_here_is_refused_with_the_columns_name() {
    for (column, value) in [
        ("int32 rtt_us (DATE)", Value::Int32(i32::MAX)),
        ("int32 rtt_us (TIME(MILLIS, true))", Value::Int32(5)),
        ("int64 rtt_us (TIME(MICROS, true))", Value::Int64(5)),
        ("fixed_len_byte_array(12) source (INTERVAL)", Value::Fixed(vec![0; 12])),
    ] {
        let e = of_column(column, value).0.unwrap_err().to_string();
        assert!(e.contains("has a type that is not read: write a number"), "{column}: {e}");
    }
    let e = of_column("binary source", Value::Bytes(vec![0xff])).0.unwrap_err().to_string();
    assert!(e.contains("the column source has bytes that are no UTF-8"), "{e}");
}

/// A megabyte of a file that would be gigabytes: `pages` of so many zeros.
fn bomb(file: &Path, compression: Compression, bytes: usize) {
    let columns = format!("{BOTH} required binary source (STRING);");
    let values = vec![Value::Int64(TIME_US), Value::Int64(5), Value::Bytes(vec![b'0'; bytes])];
    write(file, &columns, values, compression);
}

#[test]
fn a_page_that_unpacks_to_more_than_any_program_writes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bomb.parquet");
    let compressions = [
        Compression::SNAPPY,
        Compression::LZ4_RAW,
        Compression::ZSTD(Default::default()),
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
    ];
    for compression in compressions {
        bomb(&file, compression, 17 << 20);
        let e = import(&file).0.unwrap_err().to_string();
        assert!(e.contains("write pages of at most 16 MiB"), "{compression:?}: {e}");
        // A page may lie about its size: it says 1000 bytes and has 17 MiB.
        let mut bytes = std::fs::read(&file).unwrap();
        let (honest, lie) = (zigzag((17 << 20) + 4), [0xd0, 0x8f, 0x80, 0x00]);
        let lies = replace(&mut bytes, &honest, &lie);
        assert!(lies > 0, "{compression:?}");
        std::fs::write(&file, bytes).unwrap();
        let e = import(&file).0.unwrap_err();
        assert!(matches!(e, Error::Input(_)), "{compression:?}: {e}");
    }
    bomb(&file, Compression::LZ4, 100);
    let e = import(&file).0.unwrap_err().to_string();
    assert!(e.contains("LZ4_RAW"), "{e}");
}

/// As Thrift writes a number of four bytes.
fn zigzag(n: u32) -> [u8; 4] {
    let n = n << 1;
    [n as u8 | 0x80, (n >> 7) as u8 | 0x80, (n >> 14) as u8 | 0x80, (n >> 21) as u8]
}

fn replace(bytes: &mut [u8], from: &[u8; 4], to: &[u8; 4]) -> usize {
    let found: Vec<_> =
        bytes.windows(4).enumerate().filter(|(_, w)| w == from).map(|(at, _)| at).collect();
    found.iter().for_each(|at| bytes[*at..at + 4].copy_from_slice(to));
    found.len()
}

#[test]
fn a_footer_that_tells_of_more_than_the_file_holds_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("footer.parquet");
    // Field 4, the row groups: a list of structures, 2³¹ − 1 of them.
    let many = [0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0];
    let deep = [0x1c; 1000];
    for (footer, length) in [(&many[..], 8), (&deep[..], 1000), (&many[..], u32::MAX)] {
        let mut file = File::create(&path).unwrap();
        file.write_all(b"PAR1").unwrap();
        file.write_all(footer).unwrap();
        file.write_all(&length.to_le_bytes()).unwrap();
        file.write_all(b"PAR1").unwrap();
        let e = import(&path).0.unwrap_err().to_string();
        assert!(e.contains("this is not the Parquet that was expected: its footer"), "{e}");
    }
}

/// A file that `imtcp-advice export` writes.
static EXPORT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("history.parquet");
    runtime.block_on(async {
        let store = Store::open(&Place::File(dir.path().join("history.db"))).await.unwrap();
        let first = at("2026-03-20T12:00:00Z");
        let records = (0..20).map(|i| record(DST, first + i * MINUTE_US, 5).into()).collect();
        store.write(&[Batch { id: None, records }], first + MINUTE_US * 60).await.unwrap();
        let path = store.path(DST).await.unwrap().unwrap();
        ours::export(&store, &[path], (0, i64::MAX), File::create(&file).unwrap()).await.unwrap();
    });
    std::fs::read(&file).unwrap()
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_damaged_file_is_an_error_or_is_read_and_never_more(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>())
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("damaged.parquet");
        let mut bytes = EXPORT.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        std::fs::write(&path, bytes).unwrap();
        match import(&path).0 {
            Ok(done) => prop_assert!(done.read <= 20),
            Err(e) => {
                let is_known = matches!(e, Error::Input(_) | Error::Partly { .. } | Error::Io(_));
                prop_assert!(is_known, "{}", e);
            }
        }
    }
}
