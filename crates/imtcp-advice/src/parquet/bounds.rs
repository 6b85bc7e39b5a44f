// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Refuses Parquet that would take more memory than a history needs, before the library reads it.
//! A file's footer and its pages say themselves how large they are, and the library believes them.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;

use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::error::{Error, Result};

/// A footer's bytes at most; one of 1000 row groups with all columns takes 2 MB.
const MOST_FOOTER_BYTES: u64 = 16 << 20;
/// List elements in a footer at most: the library makes up to 400 bytes of each.
const MOST_FOOTER_ELEMENTS: u64 = 500_000;
/// An unpacked page's bytes at most; programs write pages of 1 MiB.
const MOST_PAGE_BYTES: u64 = 16 << 20;
/// Structures within one another; Parquet's own have five levels.
const MOST_DEPTH: u32 = 16;

/// To be called before the library reads the footer.
pub fn check_footer(file: &File) -> Result<()> {
    let bytes = file.metadata()?.len();
    let mut tail = [0; 8];
    let Some(tail_at) = bytes.checked_sub(8) else { return Err(not_parquet()) };
    file.read_exact_at(&mut tail, tail_at)?;
    if &tail[4..] != b"PAR1" {
        return Err(not_parquet());
    }
    let footer_bytes = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if footer_bytes > MOST_FOOTER_BYTES || footer_bytes > tail_at {
        return Err(wrong(format_args!("its footer has {footer_bytes} bytes")));
    }
    let mut thrift = Thrift::new(At { file, at: tail_at - footer_bytes, left: footer_bytes });
    thrift.structure(0).map_err(|e| wrong(format_args!("its footer: {e}")))?;
    Ok(())
}

/// The same of the pages of these columns, before the library reads them.
pub fn check_pages(file: &File, metadata: &ParquetMetaData, columns: &[usize]) -> Result<()> {
    let file_bytes = file.metadata()?.len();
    let mut sum = 0_u64;
    for group in metadata.row_groups() {
        for column in columns.iter().filter_map(|i| group.columns().get(*i)) {
            let (start, bytes) = chunk(column)?;
            sum = sum.saturating_add(bytes);
            if start.saturating_add(bytes) > file_bytes || sum > file_bytes {
                return Err(wrong(format_args!("its columns are larger than the file")));
            }
            check_chunk(file, column.compression(), start, bytes)?;
        }
    }
    Ok(())
}

fn chunk(column: &ColumnChunkMetaData) -> Result<(u64, u64)> {
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let unsigned = |n: i64| u64::try_from(n).map_err(|_| wrong(format_args!("an offset is {n}")));
    Ok((unsigned(start)?, unsigned(column.compressed_size())?))
}

fn check_chunk(file: &File, compression: Compression, start: u64, bytes: u64) -> Result<()> {
    if compression == Compression::LZ4 {
        let wanted = "write LZ4_RAW, zstd or snappy in place of the old LZ4";
        return Err(wrong(format_args!("{wanted}")));
    }
    let end = start + bytes;
    let mut at = start;
    while at < end {
        let mut thrift = Thrift::new(At { file, at, left: end - at });
        let header = thrift.structure(0).map_err(|e| wrong(format_args!("a page: {e}")))?;
        let number = |path: Path| header.iter().find(|(p, _)| *p == path).map_or(0, |(_, n)| *n);
        let (unpacked, packed) = (number((2, 0)), number((3, 0)));
        let data_at = at + thrift.read;
        let fits = |n: i64, most: u64| u64::try_from(n).is_ok_and(|n| n <= most);
        if !fits(unpacked, MOST_PAGE_BYTES) || !fits(packed, end.saturating_sub(data_at)) {
            let most = MOST_PAGE_BYTES >> 20;
            return Err(wrong(format_args!(
                "a page has {unpacked} bytes, {packed} of them packed: write pages of at most {most} MiB"
            )));
        }
        // Levels precede the packed part of a page of version 2.
        let levels = number((8, 5)).saturating_add(number((8, 6))).clamp(0, packed) as u64;
        let data = At { file, at: data_at + levels, left: packed as u64 - levels };
        if unpacks_to_more(compression, data) {
            return Err(wrong(format_args!("a page unpacks to more than {MOST_PAGE_BYTES} bytes")));
        }
        at = data_at + packed as u64;
    }
    Ok(())
}

/// The library unpacks these two to their end, whatever the page's header says; others stop there.
fn unpacks_to_more(compression: Compression, data: At) -> bool {
    let unpacked: Box<dyn Read + '_> = match compression {
        Compression::GZIP(_) => Box::new(flate2::read::MultiGzDecoder::new(data)),
        Compression::BROTLI(_) => Box::new(brotli::Decompressor::new(data, 64 * 1024)),
        _ => return false,
    };
    let mut counted = 0;
    // If unpacking fails, this stops; the library then refuses the page.
    let mut unpacked = unpacked.take(MOST_PAGE_BYTES + 1);
    let mut chunk = [0; 16 * 1024];
    while let Ok(n @ 1..) = unpacked.read(&mut chunk) {
        counted += n as u64;
    }
    counted > MOST_PAGE_BYTES
}

fn not_parquet() -> Error {
    Error::Input(
        "this is not the Parquet that was expected: it does not end as Parquet does".into(),
    )
}

fn wrong(why: std::fmt::Arguments) -> Error {
    Error::Input(format!("this is not the Parquet that was expected: {why}"))
}

/// A part of a file.
#[derive(Clone, Copy)]
struct At<'f> {
    file: &'f File,
    at: u64,
    left: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = buf.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let n = self.file.read_at(&mut buf[..most], self.at)?;
        self.at += n as u64;
        self.left -= n as u64;
        Ok(n)
    }
}

/// A field, and within a field of the outermost structure that is one itself, its field.
type Path = (i16, i16);

/// Walks over Thrift's compact protocol, in which Parquet's footer and headers are.
struct Thrift<'f> {
    input: BufReader<At<'f>>,
    /// Bytes of it that were read.
    read: u64,
    left: u64,
    elements: u64,
    /// The whole numbers of the outermost structure, and of structures in it.
    numbers: Vec<(Path, i64)>,
    path: Path,
}

impl<'f> Thrift<'f> {
    fn new(input: At<'f>) -> Self {
        let left = input.left;
        // A header of a page takes some 30 bytes, a footer kilobytes.
        let input = BufReader::with_capacity(4096, input);
        Thrift { input, read: 0, left, elements: 0, numbers: Vec::new(), path: (0, 0) }
    }

    /// Walks over a structure; of the outermost one the numbers in it are what is returned.
    fn structure(&mut self, depth: u32) -> io::Result<Vec<(Path, i64)>> {
        let mut id = 0_i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(if depth == 0 { std::mem::take(&mut self.numbers) } else { Vec::new() });
            }
            id = match head >> 4 {
                0 => self.zigzag()? as i16,
                more => id.wrapping_add(i16::from(more)),
            };
            match depth {
                0 => self.path = (id, 0),
                1 => self.path.1 = id,
                _ => {}
            }
            // True and false are in the head itself.
            if !matches!(head & 15, 1 | 2) {
                self.value(head & 15, depth)?;
            }
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> io::Result<()> {
        match kind {
            1..=3 => drop(self.byte()?),
            4..=6 => {
                let number = self.zigzag()?;
                // Numbers further in are of nobody here; a header of a page has few.
                if depth < 2 && self.numbers.len() < 64 {
                    self.numbers.push((self.path, number));
                }
            }
            7 => self.skip(8)?,
            8 => {
                let bytes = self.varint()?;
                self.skip(bytes)?;
            }
            9 | 10 => self.list(depth)?,
            12 if depth < MOST_DEPTH => drop(self.structure(depth + 1)?),
            _ => return Err(io::Error::other("it is damaged")),
        }
        Ok(())
    }

    fn list(&mut self, depth: u32) -> io::Result<()> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            few => u64::from(few),
        };
        self.elements = self.elements.saturating_add(count);
        // Each takes a byte or more.
        if count > self.left || self.elements > MOST_FOOTER_ELEMENTS || depth >= MOST_DEPTH {
            return Err(io::Error::other("it tells of more than it holds"));
        }
        // From the second level on numbers are not kept.
        (0..count).try_for_each(|_| self.value(head & 15, depth.max(1) + 1))
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        self.read += 1;
        self.left = self.left.saturating_sub(1);
        Ok(byte[0])
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        if bytes > self.left {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        io::copy(&mut self.input.by_ref().take(bytes), &mut io::sink())?;
        self.read += bytes;
        self.left -= bytes;
        Ok(())
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(io::Error::other("a number has no end"))
    }

    fn zigzag(&mut self) -> io::Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}
