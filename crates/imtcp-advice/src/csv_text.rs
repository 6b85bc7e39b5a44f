// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! CSV as programs and spreadsheets write it: separators, encodings, decimal commas, epoch times.
//! A cell with two meanings is an error: a guess would be a wrong history.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{BufRead, BufReader, Read};
use std::rc::Rc;

use csv::StringRecord;
use encoding_rs_io::DecodeReaderBytesBuilder;
use imtcp_client::time;

use crate::error::{Error, Result};

/// The mark before a number's fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decimal {
    Point,
    Comma,
}

/// How the numbers of a file are written.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// `None`: each number tells it, or is refused.
    pub decimal: Option<Decimal>,
    /// A point is a point in files that separate columns by commas.
    pub comma_separates: bool,
}

/// For files whose numbers are no text.
pub(crate) const WITH_POINTS: Numbers =
    Numbers { decimal: Some(Decimal::Point), comma_separates: true };

/// 1990 and 2100 in seconds since 1970: between them seconds, milliseconds, microseconds and
/// nanoseconds cannot be confused.
const EPOCH_S: std::ops::Range<u128> = 631_152_000..4_102_444_800;
/// Bytes of the first line at most; the names of all columns take 150.
const MOST_HEAD_BYTES: usize = 64 * 1024;

impl Numbers {
    /// The number as Rust reads it. The error says what to write instead.
    pub(crate) fn plain<'t>(&self, text: &'t str) -> std::result::Result<Cow<'t, str>, String> {
        let marks: Vec<char> = text.chars().filter(|c| matches!(c, ',' | '.')).collect();
        let without = || {
            let digits = |text: &str| text.replace([',', '.'], "");
            // If both marks occur, the last one is the decimal mark.
            let plain = match text.rfind([',', '.']) {
                Some(at) if marks.contains(&',') && marks.contains(&'.') => {
                    format!("{}.{}", digits(&text[..at]), &text[at + 1..])
                }
                _ => digits(text),
            };
            format!("'{text}' has thousands separators: write {plain}")
        };
        match (marks[..].first(), marks.len(), self.decimal) {
            (None, ..) => Ok(text.into()),
            (_, 2.., _) => Err(without()),
            (Some('.'), _, Some(Decimal::Comma)) | (Some(','), _, Some(Decimal::Point)) => {
                Err(without())
            }
            (Some(mark), _, None)
                if is_grouped(text, *mark) && !(*mark == '.' && self.comma_separates) =>
            {
                let (point, digits) = (text.replace(',', "."), text.replace([',', '.'], ""));
                Err(format!(
                    "'{text}' is {point} or {digits}: give --decimal point or --decimal comma"
                ))
            }
            (Some(','), ..) => Ok(text.replace(',', ".").into()),
            _ => Ok(text.into()),
        }
    }

    /// Microseconds since 1970, of RFC 3339 or of a number of seconds, milli-, micro- or
    /// nanoseconds since 1970.
    pub(crate) fn time(&self, text: &str) -> Result<i64> {
        let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if !whole.is_empty() && digits(whole) && digits(fraction) {
            return epoch_us(whole, fraction).ok_or_else(|| {
                let shown: String = text.chars().take(60).collect();
                Error::Input(format!(
                    "'{shown}' is not a time: write RFC 3339, as 2026-03-20T14:25:00Z, or \
                     seconds since 1970, as 1774016700"
                ))
            });
        }
        // 1,77402E+12 of a spreadsheet: the digits that would tell the minute are gone.
        if text.parse::<f64>().is_ok() || text.replace(',', ".").parse::<f64>().is_ok() {
            return Err(Error::Input(format!(
                "'{text}' is a time without its last digits: write all of them, as 1774016700"
            )));
        }
        Ok(time::parse(text)?)
    }
}

/// Whether the mark may separate thousands: `1,234`, but neither `0,125` nor `12,5`.
fn is_grouped(text: &str, mark: char) -> bool {
    let Some((before, after)) = text.trim_start_matches(['+', '-']).split_once(mark) else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (1..=3).contains(&before.len())
        && !before.starts_with('0')
        && after.len() == 3
        && digits(before)
        && digits(after)
}

/// `fraction` are the digits behind the mark.
fn epoch_us(whole: &str, fraction: &str) -> Option<i64> {
    let whole: u128 = whole.parse().ok()?;
    // A unit, as how many there are in a second, and its decimals down to microseconds.
    let units: [(u128, usize); 4] = [(1, 6), (1_000, 3), (1_000_000, 0), (1_000_000_000, 0)];
    let (per_s, decimals) = units.into_iter().find(|(n, _)| EPOCH_S.contains(&(whole / n)))?;
    let fraction: String = fraction.chars().chain("000000".chars()).take(decimals).collect();
    let us = whole * 1_000_000 / per_s + fraction.parse::<u128>().unwrap_or(0);
    i64::try_from(us).ok()
}

/// Bytes of one row at most: ours have 300.
const MOST_ROW_BYTES: usize = 1 << 20;

/// Ends with an error where a row is too long: a quote that is never closed makes one of all that follows.
struct BoundedRows<R> {
    input: R,
    /// Bytes since the last row.
    since_row: Rc<Cell<usize>>,
}

impl<R: Read> Read for BoundedRows<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let since_row = self.since_row.get();
        if since_row > MOST_ROW_BYTES {
            let why = "a row is longer than 1 MiB: is a quote not closed?";
            return Err(std::io::Error::other(why));
        }
        let count = self.input.read(buffer)?;
        self.since_row.set(since_row + count);
        Ok(count)
    }
}

/// The rows of a CSV, below its first line.
pub(crate) struct Table<'r> {
    /// Names of columns, in one form.
    pub head: StringRecord,
    pub comma_separates: bool,
    rows: csv::StringRecordsIntoIter<BoundedRows<Box<dyn Read + 'r>>>,
    since_row: Rc<Cell<usize>>,
    lines_behind: u64,
}

impl<'r> Table<'r> {
    pub(crate) fn open(input: impl Read + 'r) -> Result<Self> {
        // A byte order mark tells the encoding, and without one it is UTF-8.
        let decoded = DecodeReaderBytesBuilder::new()
            .bom_override(true)
            .strip_bom(true)
            .utf8_passthru(true)
            .build(input);
        let mut decoded = BufReader::new(decoded);
        let mut head = first_line(&mut decoded)?;
        refuse_other_formats(&head)?;
        let named = named_separator(&head)?;
        let mut lines_behind = 0;
        if named.is_some() {
            // A line feed after its CR goes into the next line, and csv counts that.
            lines_behind += u64::from(head.ends_with(b"\n"));
            head = first_line(&mut decoded)?;
        }
        let separator = named.unwrap_or_else(|| separator(&head));
        // csv counts a line where its line feed is: at the begin of the next row, after a CR.
        lines_behind += u64::from(head.ends_with(b"\r") && decoded.fill_buf()?.starts_with(b"\n"));
        let all: Box<dyn Read + 'r> = Box::new(std::io::Cursor::new(head).chain(decoded));
        let since_row = Rc::new(Cell::new(0));
        let all = BoundedRows { input: all, since_row: Rc::clone(&since_row) };
        let mut reader =
            csv::ReaderBuilder::new().delimiter(separator).trim(csv::Trim::All).from_reader(all);
        let head = reader.headers().map_err(wrong_csv)?.iter().map(column_name).collect();
        refuse_two_of_a_name(&head)?;
        let comma_separates = separator == b',';
        Ok(Table { head, comma_separates, rows: reader.into_records(), since_row, lines_behind })
    }

    /// Each row with the number of its line.
    pub(crate) fn rows(self) -> impl Iterator<Item = Result<(u64, StringRecord)>> + use<'r> {
        self.rows.map(move |row| {
            let row = row.map_err(wrong_csv)?;
            self.since_row.set(0);
            let line = row.position().map_or(0, csv::Position::line) + self.lines_behind;
            match row.iter().any(|cell| cell.contains(char::REPLACEMENT_CHARACTER)) {
                true => Err(Error::Input(format!(
                    "line {line}: there are bytes that are no text: save the file as UTF-8"
                ))),
                false => Ok((line, row)),
            }
        })
    }
}

/// With its end; empty lines before it are left out.
fn first_line(input: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let chunk = input.fill_buf()?;
        let Some(byte) = chunk.first().copied() else { return Ok(line) };
        input.consume(1);
        line.push(byte);
        let ends = matches!(byte, b'\n' | b'\r');
        if ends && line.iter().any(|b| !b.is_ascii_whitespace()) {
            return Ok(line);
        }
        if line.len() == MOST_HEAD_BYTES {
            return Err(Error::Input(
                "the first line is too long for names of columns, as time,available_bps".into(),
            ));
        }
    }
}

fn refuse_other_formats(head: &[u8]) -> Result<()> {
    let known: [(&[u8], &str); 4] = [
        (b"PAR1", "this is Parquet: give the file a name that ends in .parquet"),
        (
            b"\x1f\x8b",
            "this is compressed (gzip): unpack it, as in `zcat FILE | imtcp-advice import … -`",
        ),
        (b"PK\x03\x04", "this is a spreadsheet or an archive: save the sheet as CSV"),
        (b"SQLite format 3", "this is a database: write CSV with `imtcp-advice export`"),
    ];
    if let Some((_, what)) = known.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(Error::Input((*what).into()));
    }
    if head.contains(&0) {
        return Err(Error::Input(
            "this is UTF-16 or UTF-32 without a byte order mark, or no text: save it as UTF-8"
                .into(),
        ));
    }
    Ok(())
}

/// The separator that spreadsheets name in a line of its own, `sep=;`, before the names of columns.
fn named_separator(line: &[u8]) -> Result<Option<u8>> {
    let line = line.trim_ascii_start();
    let Some(named) = line.get(4..).filter(|_| line[..4].eq_ignore_ascii_case(b"sep=")) else {
        return Ok(None);
    };
    let end = named.iter().position(|b| matches!(b, b'\r' | b'\n')).unwrap_or(named.len());
    match named[..end] {
        [separator @ (b',' | b';' | b'\t')] => Ok(Some(separator)),
        _ => Err(Error::Input(
            "the line sep= names another separator than a comma, a semicolon or a tab: \
             save the file with one of these"
                .into(),
        )),
    }
}

/// The separator that occurs most often outside quotes. No name of a column has any of them.
fn separator(head: &[u8]) -> u8 {
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0)];
    let mut quoted = false;
    for byte in head {
        quoted ^= *byte == b'"';
        counts.iter_mut().filter(|(c, _)| c == byte && !quoted).for_each(|(_, n)| *n += 1);
    }
    // Of equals the first one.
    counts.iter().rev().max_by_key(|(_, n)| *n).map_or(b',', |(c, _)| *c)
}

/// `Available bps` is `available_bps`.
pub(crate) fn column_name(cell: &str) -> String {
    cell.trim_matches(['"', ' ']).to_lowercase().replace([' ', '-'], "_")
}

pub(crate) fn refuse_two_of_a_name(head: &StringRecord) -> Result<()> {
    let twice = head.iter().enumerate().find(|(i, name)| head.iter().take(*i).any(|n| n == *name));
    match twice {
        Some((_, name)) => {
            Err(Error::Input(format!("the column {name} is there twice: remove one of them")))
        }
        None => Ok(()),
    }
}

fn wrong_csv(e: csv::Error) -> Error {
    let line = |pos: &Option<csv::Position>| pos.as_ref().map_or(0, csv::Position::line);
    Error::Input(match e.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } if len < expected_len => format!(
            "line {}: there are {len} cells, and the first line names {expected_len} columns: \
             write an empty cell where there is no value",
            line(pos)
        ),
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => format!(
            "line {}: there are {len} cells, and the first line names {expected_len} columns: \
             put a cell with a comma into quotes, or separate the columns by ;",
            line(pos)
        ),
        csv::ErrorKind::Utf8 { pos, .. } => {
            format!("line {}: there are bytes that are no UTF-8: save the file as UTF-8", line(pos))
        }
        csv::ErrorKind::Io(e) => e.to_string(),
        _ => format!("this is not the CSV that was expected: {e}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Numbers = Numbers { decimal: None, comma_separates: false };
    const COMMAS: Numbers = Numbers { decimal: None, comma_separates: true };

    #[test]
    fn rows_tell_their_line_whatever_ends_it() {
        for end in ["\n", "\r\n"] {
            let text = ["time;available_bps", "a;1", "b;2", ""].join(end);
            let rows = Table::open(text.as_bytes()).unwrap().rows();
            let lines: Vec<_> = rows.map(|row| row.unwrap().0).collect();
            assert_eq!(lines, [2, 3], "{end:?}");
        }
    }

    #[test]
    fn a_row_that_never_ends_is_an_error_in_bounded_memory() {
        let endless = std::io::repeat(b'x').take(1 << 30);
        let text = "time,available_bps\n\"".as_bytes().chain(endless);
        let error = Table::open(text).unwrap().rows().next().unwrap().unwrap_err();
        assert!(error.to_string().contains("longer than 1 MiB"), "{error}");
    }

    #[test]
    fn a_number_with_one_meaning_is_read() {
        for (numbers, text, read) in [
            (OPEN, "42", "42"),
            (OPEN, "1,5", "1.5"),
            (OPEN, "0,125", "0.125"),
            (OPEN, "1.5", "1.5"),
            (OPEN, "1234,567", "1234.567"),
            (OPEN, "4,2E+07", "4.2E+07"),
            (COMMAS, "1.234", "1.234"),
            (COMMAS, "1,5", "1.5"),
            (Numbers { decimal: Some(Decimal::Comma), ..OPEN }, "1,234", "1.234"),
            (Numbers { decimal: Some(Decimal::Point), ..OPEN }, "1.234", "1.234"),
        ] {
            assert_eq!(numbers.plain(text).as_deref(), Ok(read), "{text}");
        }
    }

    #[test]
    fn a_number_with_two_meanings_is_refused_with_both() {
        for (numbers, text) in [(OPEN, "1,234"), (COMMAS, "1,234"), (OPEN, "1.234")] {
            let e = numbers.plain(text).unwrap_err();
            assert!(e.contains("is 1.234 or 1234: give --decimal"), "{e}");
        }
        for (text, plain) in [
            ("1,234,567", "1234567"),
            ("1.234.567", "1234567"),
            ("1.234,5", "1234.5"),
            ("1,234.5", "1234.5"),
        ] {
            let e = OPEN.plain(text).unwrap_err();
            assert!(e.ends_with(&format!("has thousands separators: write {plain}")), "{e}");
        }
    }

    #[test]
    fn a_time_since_1970_is_read_in_each_unit() {
        let us = 1_774_016_700_250_000;
        for text in ["1774016700.25", "1774016700,25", "1774016700250", "1774016700250000"] {
            assert_eq!(OPEN.time(text).unwrap(), us, "{text}");
        }
        assert_eq!(OPEN.time("1774016700250000999").unwrap(), us);
        assert_eq!(OPEN.time("1774016700250.5").unwrap(), us + 500);
        assert_eq!(OPEN.time("2026-03-20T14:25:00.25Z").unwrap(), us);
    }

    #[test]
    fn a_number_that_is_no_time_is_refused_with_an_example() {
        for text in ["5", "20260320", "99999999999999999999999", "1774016700250000999000"] {
            let e = OPEN.time(text).unwrap_err().to_string();
            assert!(e.contains("is not a time: write RFC 3339, as 2026"), "{e}");
        }
        for text in ["1,77402E+12", "1.77402E+12"] {
            let e = OPEN.time(text).unwrap_err().to_string();
            assert!(e.contains("without its last digits"), "{e}");
        }
    }

    #[test]
    fn the_first_line_tells_the_separator() {
        for (head, wanted) in [
            ("time,available_bps", b','),
            ("time;available_bps\r\n", b';'),
            ("time\tavailable_bps", b'\t'),
            ("\"time\";\"a,b,c\"", b';'),
            ("time", b','),
        ] {
            assert_eq!(separator(head.as_bytes()), wanted, "{head}");
        }
    }
}
