// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! CSV as other programs write it: read, or one sentence says what to change.

mod support;
use imtcp_advice::csv_text::Decimal;
use imtcp_advice::exchange::{self, Imported, Meaning};
use imtcp_advice::store::write::Batch;
use imtcp_advice::store::{Place, Store};
use imtcp_advice::{Error, Result};
use imtcp_client::record::Record;
use imtcp_client::time::MINUTE_US;
use proptest::prelude::*;

use support::{at, record};

const DST: &str = "192.0.2.7";

/// Runs to the end on this thread, with a history of its own.
fn with_history<T>(work: impl AsyncFnOnce(Store) -> T) -> T {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(&Place::File(dir.path().join("history.db"))).await.unwrap();
        work(store).await
    })
}

fn import(decimal: Option<Decimal>, file: &[u8]) -> (Result<Imported>, String) {
    with_history(async |store| {
        let meaning = Meaning { decimal, ..Meaning::default() };
        let done = exchange::import_with(&store, Some(DST), "import", meaning, file).await;
        let exported = export(&store).await;
        (done, exported)
    })
}

async fn export(store: &Store) -> String {
    let mut out = Vec::new();
    let paths = match store.path(DST).await.unwrap() {
        Some(path) => vec![path],
        None => Vec::new(),
    };
    exchange::export(store, &paths, (0, i64::MAX), &mut out).await.unwrap();
    String::from_utf8(out).unwrap()
}

#[track_caller]
fn refused(file: &[u8], says: &str) {
    let Err(e) = import(None, file).0 else { panic!("{} is read", String::from_utf8_lossy(file)) };
    assert!(matches!(e, Error::Input(_)) && e.to_string().contains(says), "{e}");
}

/// As a spreadsheet of a country with decimal commas saves it.
fn utf_16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
    "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(order).collect()
}

#[test]
fn each_dialect_gives_the_same_history() {
    let plain = "time,available_bps,loss,source\n\
                 2026-03-20T14:25:00Z,42000000,0.125,k\u{e4}se\n";
    let wanted = import(None, plain.as_bytes()).1;
    assert_eq!(wanted.lines().count(), 2);
    let semicolons = "time;available_bps;loss;source\r\n\
                      2026-03-20T14:25:00Z;42000000;0,125;k\u{e4}se\r\n";
    let tabs = semicolons.replace(';', "\t");
    let quoted = plain.replace("time,available_bps", "\"Time\" , \"Available bps\"");
    let quoted = quoted.replace("Time\" , \"", "Time\",\"").replace("0.125", "\"0,125\"");
    for file in [
        semicolons.as_bytes().to_vec(),
        tabs.as_bytes().to_vec(),
        quoted.as_bytes().to_vec(),
        format!("\u{feff}{semicolons}").into_bytes(),
        format!("\u{feff}sep=;\r\n{semicolons}").into_bytes(),
        format!("SEP=\t\n{tabs}").into_bytes(),
        utf_16(semicolons, u16::to_le_bytes),
        utf_16(&tabs, u16::to_be_bytes),
        plain.replace('\n', "\r").into_bytes(),
        format!("\n\n{plain}\n").into_bytes(),
        plain.replace("2026-03-20T14:25:00Z", "1774016700").into_bytes(),
        plain.replace("2026-03-20T14:25:00Z", "1774016700000").into_bytes(),
        semicolons.replace("2026-03-20T14:25:00Z", "1774016700000000").into_bytes(),
        semicolons.replace("2026-03-20T14:25:00Z", "1774016700,000").into_bytes(),
        semicolons.replace("42000000", "4,2E+07").into_bytes(),
    ] {
        let (done, exported) = import(None, &file);
        assert_eq!(done.unwrap().stored, 1, "{}", String::from_utf8_lossy(&file));
        assert_eq!(exported, wanted, "{}", String::from_utf8_lossy(&file));
    }
}

#[test]
fn what_is_not_read_says_where_and_what_to_write() {
    let head = "time;rtt_us;available_bps\n2026-03-20T14:25:00Z;31000;5\n";
    let second = |cells: &str| format!("{head}{cells}\n").into_bytes();
    for (cells, says) in [
        (
            "2026-03-20T14:26:00Z;1,234;5",
            "line 3: column rtt_us: '1,234' is 1.234 or 1234: give --decimal",
        ),
        (
            "2026-03-20T14:26:00Z;1.234;5",
            "line 3: column rtt_us: '1.234' is 1.234 or 1234: give --decimal",
        ),
        (
            "2026-03-20T14:26:00Z;1.234.567;5",
            "column rtt_us: '1.234.567' has thousands separators: write 1234567",
        ),
        (
            "2026-03-20T14:26:00Z;1 234;5",
            "column rtt_us: '1 234' is no number: write digits, as 42000000",
        ),
        (
            "20.03.2026 14:26;1;5",
            "line 3: column time: '20.03.2026 14:26' is not a time: write RFC 3339",
        ),
        ("2026-03-20 14:26:00;1;5", "is not a time: write RFC 3339 with an offset"),
        ("1,77402E+09;1;5", "column time: '1,77402E+09' is a time without its last digits"),
        (
            "2026-03-20T14:26:00Z;1",
            "line 3: there are 2 cells, and the first line names 3 columns: write an empty cell",
        ),
    ] {
        refused(&second(cells), says);
    }
    refused(
        b"time,available_bps\n2026-03-20T14:25:00Z,42,5\n",
        "put a cell with a comma into quotes",
    );
    refused(b"time,available_bps\n2026-03-20T14:25:00Z,\"1,234\"\n", "is 1.234 or 1234");
    refused(b"sep=|\ntime|available_bps\n", "save the file with one of these");
    refused(b"sep=;\ntime;available_bps\nnoon;5\n", "line 3: column time: 'noon' is not a time");
    refused(b"sep=;\r\ntime;available_bps\r\nnoon;5\r\n", "line 3: column time: 'noon'");
    refused(b"time|available_bps\n", "unknown column 'time|available_bps'");
    refused(b"time,available_bps,Time\n", "the column time is there twice");
    refused(
        b"time,available_bps,source\n2026-03-20T14:25:00Z,5,k\xe4se\n",
        "line 2: there are bytes that are no UTF-8",
    );
    refused(b"t\0i\0m\0e\0", "UTF-16 or UTF-32 without a byte order mark");
    refused(b"PK\x03\x04", "save the sheet as CSV");
    refused(b"\x1f\x8b\x08", "unpack it, as in `zcat FILE | imtcp-advice import … -`");
    refused(&b"x".repeat(100_000), "the first line is too long");
}

#[test]
fn the_decimal_mark_that_is_named_decides() {
    let file = b"time;rtt_us;available_bps\n2026-03-20T14:25:00Z;1,234;5\n";
    let (done, exported) = import(Some(Decimal::Comma), file);
    assert_eq!(done.unwrap().stored, 1);
    assert!(exported.contains(",5,,1,"), "{exported}");
    let e = import(Some(Decimal::Point), file).0.unwrap_err().to_string();
    assert!(e.contains("'1,234' has thousands separators: write 1234"), "{e}");
}

/// How one program writes what another one exports.
#[derive(Clone, Debug)]
struct Dialect {
    separator: char,
    decimal_comma: bool,
    line_end: &'static str,
    encoding: u8,
    /// 0: RFC 3339; else so many units a second.
    time_per_s: i64,
    capitals: bool,
    quoted: bool,
}

fn dialect() -> impl Strategy<Value = Dialect> {
    let lines = prop::sample::select(vec!["\n", "\r\n", "\r"]);
    let times = prop::sample::select(vec![0, 1_000_000, 1_000_000_000]);
    let separators = prop::sample::select(vec![',', ';', '\t']);
    (separators, any::<bool>(), lines, 0..4_u8, times, any::<bool>(), any::<bool>()).prop_map(
        |(separator, decimal_comma, line_end, encoding, time_per_s, capitals, quoted)| Dialect {
            separator,
            // In a file with commas between columns it is a part of a quoted cell.
            decimal_comma: decimal_comma && (separator != ',' || quoted),
            line_end,
            encoding,
            time_per_s,
            capitals,
            quoted,
        },
    )
}

impl Dialect {
    fn write(&self, export: &str) -> Vec<u8> {
        let mut text = String::new();
        for (i, line) in export.lines().enumerate() {
            let cells: Vec<String> = line
                .split(',')
                .enumerate()
                .map(|(column, cell)| self.cell(i, column, cell))
                .collect();
            text += &cells.join(&self.separator.to_string());
            text += self.line_end;
        }
        match self.encoding {
            0 => text.into_bytes(),
            1 => format!("\u{feff}{text}").into_bytes(),
            2 => utf_16(&text, u16::to_le_bytes),
            _ => utf_16(&text, u16::to_be_bytes),
        }
    }

    fn cell(&self, line: usize, column: usize, cell: &str) -> String {
        let cell = match (line, column) {
            (0, _) if self.capitals => format!(" {} ", cell.to_uppercase().replace('_', " ")),
            (0, _) => cell.into(),
            (_, 2) if self.time_per_s > 0 => {
                (at(cell) as i128 * i128::from(self.time_per_s) / 1_000_000).to_string()
            }
            (_, 6) if self.decimal_comma => cell.replace('.', ","),
            _ => cell.into(),
        };
        if self.quoted {
            format!("\"{cell}\"")
        } else {
            cell
        }
    }
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let one = (
        0..10_000_000_000_000_u64,
        prop::option::of(0.0..=1.0),
        0..3_600_000_000_u64,
        0..1_000_000_i64,
    );
    prop::collection::vec(one, 1..12).prop_map(|all| {
        let of = |(i, (bps, loss, rtt_us, us)): (i64, (u64, Option<f64>, u64, i64))| Record {
            loss,
            rtt_us: Some(rtt_us),
            source: "k\u{e4}se".into(),
            ..record(DST, at("2026-03-20T12:00:00Z") + i * MINUTE_US + us, bps)
        };
        (0..).zip(all).map(of).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn an_export_in_any_dialect_gives_the_same_history(records in records(), dialect in dialect()) {
        let first = with_history(async |store| {
            let batch = Batch { id: None, records: records.into_iter().map(Into::into).collect() };
            store.write(&[batch], at("2026-03-21T12:00:00Z")).await.unwrap();
            export(&store).await
        });
        let (done, second) = import(None, &dialect.write(&first));
        prop_assert!(done.is_ok(), "{:?} {:?}", dialect, done);
        prop_assert_eq!(first, second);
    }
}

#[test]
fn a_small_bandwidth_with_a_fraction_is_asked_about_and_a_mean_is_rounded() {
    for text in ["12,5", "99999.9"] {
        let file = format!("time;available_bps\n2026-03-20T14:25:00Z;{text}\n");
        refused(file.as_bytes(), "line 2: column available_bps: '");
        refused(file.as_bytes(), "is no rate in bit/s: are these Mbit/s or kbit/s?");
    }
    for (text, stored) in [("41999999.6", "42000000"), ("12.0", "12"), ("4.25e5", "425000")] {
        let file = format!("time,available_bps\n2026-03-20T14:25:00Z,{text}\n");
        let (done, exported) = import(None, file.as_bytes());
        assert_eq!(done.unwrap().stored, 1);
        assert!(exported.contains(&format!("Z,{stored},")), "{exported}");
    }
}

#[test]
fn a_routers_counter_says_which_option_it_needs() {
    refused(b"time,octets\n2026-03-20T14:25:00Z,5\n", "give --counters, and --capacity");
}
