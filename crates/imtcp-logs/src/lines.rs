// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The lines of a log of any size, whose lines may be of any size too.

use std::io::{self, BufRead};

/// Servers limit what a request may put into a line: nginx takes 8 kB, four times at most.
pub const MOST_BYTES: usize = 64 * 1024;

/// Hands each line that is not empty on, without its end; `None` in place of one that is too long.
pub fn each(mut input: impl BufRead, mut take: impl FnMut(Option<&[u8]>)) -> io::Result<()> {
    // The beginning of a line that the next chunk goes on with.
    let mut begun: Vec<u8> = Vec::new();
    let mut hand_on = |line: &[u8]| match line.strip_suffix(b"\r").unwrap_or(line) {
        [] => {}
        line => take((line.len() <= MOST_BYTES).then_some(line)),
    };
    loop {
        let chunk = input.fill_buf()?;
        if chunk.is_empty() {
            hand_on(&begun);
            return Ok(());
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let (piece, used) = end.map_or((chunk, chunk.len()), |at| (&chunk[..at], at + 1));
        if end.is_some() && begun.is_empty() {
            hand_on(piece);
        } else {
            // One byte over the limit says that there were more, and is all that is kept of them.
            let room = (MOST_BYTES + 1).saturating_sub(begun.len());
            begun.extend_from_slice(&piece[..piece.len().min(room)]);
            if end.is_some() {
                hand_on(&begun);
                begun.clear();
            }
        }
        input.consume(used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], chunk: usize) -> Vec<Option<String>> {
        let mut all = Vec::new();
        let input = io::BufReader::with_capacity(chunk, text);
        each(input, |line| {
            all.push(line.map(|line| String::from_utf8_lossy(line).into_owned()));
        })
        .unwrap();
        all
    }

    #[test]
    fn lines_are_the_same_however_they_are_cut_into_chunks() {
        for chunk in 1..12 {
            let all = lines(b"one\r\n\n\r\ntwo two\nthree", chunk);
            assert_eq!(all, ["one", "two two", "three"].map(|l| Some(l.to_string())), "{chunk}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_told_and_the_next_one_is_whole() {
        let mut text = vec![b'x'; 3 * MOST_BYTES];
        text.extend_from_slice(b"\nshort\n");
        for chunk in [1000, 8 * MOST_BYTES] {
            assert_eq!(lines(&text, chunk), [None, Some("short".into())]);
        }
        assert_eq!(lines(&text[..MOST_BYTES], 7), [Some("x".repeat(MOST_BYTES))]);
    }
}
