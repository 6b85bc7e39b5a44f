// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The end of a log that a server goes on writing: over rotation, truncation and our own restarts.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use imtcp_logs::{files, MOST_LINE_BYTES};
use serde::{Deserialize, Serialize};

/// How much is read at once. Longer lines are passed over.
const CHUNK: usize = 4 * MOST_LINE_BYTES;
/// How much one turn reads, so that the position is kept in between.
const MOST_A_TURN: u64 = 64 << 20;
/// A log's beginning, by which it is known again: longer than one line with its time.
const BEGINNING: u64 = 512;
/// A server goes on writing into a log that was renamed until it is told to open the new one.
const LINGER: Duration = Duration::from_secs(120);

/// Where the reading of a log stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    device: u64,
    inode: u64,
    offset: u64,
    /// A checksum of the first `beginning_bytes`: an inode may be another file's by now.
    beginning: u64,
    beginning_bytes: u64,
}

/// A file that is read from a position on.
struct Tail {
    file: File,
    at: Position,
    /// The line that is read now is too long.
    in_long_line: bool,
}

impl Tail {
    fn new(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let at = Position { device: metadata.dev(), inode: metadata.ino(), ..Position::default() };
        Ok(Tail { file, at, in_long_line: false })
    }

    /// The same file as before, unless it has become shorter or begins differently.
    fn from(file: File, before: &Position) -> io::Result<Option<Self>> {
        let mut tail = Tail::new(file)?;
        if !is_continued(&tail.file, before)? {
            return Ok(None);
        }
        let (device, inode) = (tail.at.device, tail.at.inode);
        tail.at = Position { device, inode, ..before.clone() };
        Ok(Some(tail))
    }

    /// Hands on the lines that are whole; says whether there is more to read at once.
    fn read(&mut self, take: &mut dyn FnMut(Option<&[u8]>)) -> io::Result<bool> {
        let mut buffer = vec![0; CHUNK];
        let from = self.at.offset;
        while self.at.offset - from < MOST_A_TURN {
            let n = self.file.read_at(&mut buffer, self.at.offset)?;
            let Some(end) = buffer[..n].iter().rposition(|byte| *byte == b'\n') else {
                if n < buffer.len() {
                    self.learn_beginning()?;
                    return Ok(false);
                }
                self.in_long_line = true;
                self.at.offset += n as u64;
                continue;
            };
            for line in buffer[..end].split(|byte| *byte == b'\n') {
                let is_long =
                    std::mem::take(&mut self.in_long_line) || line.len() > MOST_LINE_BYTES;
                match line.strip_suffix(b"\r").unwrap_or(line) {
                    _ if is_long => take(None),
                    [] => {}
                    line => take(Some(line)),
                }
            }
            self.at.offset += end as u64 + 1;
        }
        self.learn_beginning()?;
        Ok(true)
    }

    fn learn_beginning(&mut self) -> io::Result<()> {
        let bytes = self.at.offset.min(BEGINNING);
        if bytes > self.at.beginning_bytes {
            self.at.beginning = checksum(&self.file, bytes)?;
            self.at.beginning_bytes = bytes;
        }
        Ok(())
    }
}

/// No server writes on in a packed file.
fn refuse_packed(file: &File, path: &Path) -> io::Result<()> {
    let mut begins = [0; 8];
    let read = file.read_at(&mut begins, 0)?;
    let Some((kind, _)) = files::packed_by(&begins[..read]) else { return Ok(()) };
    Err(io::Error::other(format!(
        "it is compressed ({kind}): name the log that the server writes, and read this one with \
         `imtcp-advice clients --log {}`",
        path.display()
    )))
}

fn is_continued(file: &File, before: &Position) -> io::Result<bool> {
    let is_long_enough = file.metadata()?.len() >= before.offset;
    Ok(is_long_enough && checksum(file, before.beginning_bytes)? == before.beginning)
}

/// FNV-1a of the first bytes: what is kept on disk must not change with Rust's own hasher.
fn checksum(file: &File, bytes: u64) -> io::Result<u64> {
    let mut beginning = vec![0; bytes as usize];
    if bytes > 0 {
        file.read_exact_at(&mut beginning, 0)?;
    }
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    Ok(match bytes {
        0 => 0,
        _ => beginning.iter().fold(0xcbf2_9ce4_8422_2325, step),
    })
}

/// A log by its name, whichever file that is.
pub struct Log {
    pub path: PathBuf,
    current: Option<Tail>,
    /// The file that it was rotated to, and when.
    rotated: Option<(Tail, Instant)>,
    /// Where an earlier agent stopped.
    kept: Option<Position>,
}

impl Log {
    pub fn new(path: PathBuf, kept: Option<Position>) -> Self {
        Log { path, current: None, rotated: None, kept }
    }

    pub fn position(&self) -> Option<&Position> {
        self.current.as_ref().map(|tail| &tail.at).or(self.kept.as_ref())
    }

    /// Hands on what has been written since; says whether there is more to read at once.
    pub fn read(&mut self, take: &mut dyn FnMut(Option<&[u8]>)) -> io::Result<bool> {
        let opened = self.open();
        let mut more = false;
        if let Some((tail, since)) = &mut self.rotated {
            more |= tail.read(take)?;
            if !more && since.elapsed() > LINGER {
                self.rotated = None;
            }
        }
        if let Some(tail) = &mut self.current {
            more |= tail.read(take)?;
        }
        opened.map(|()| more)
    }

    /// Looks which file has the name now.
    fn open(&mut self) -> io::Result<()> {
        // A pipe would wait for a writer here.
        if !std::fs::metadata(&self.path)?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let file = File::open(&self.path)?;
        refuse_packed(&file, &self.path)?;
        let metadata = file.metadata()?;
        match self.current.take() {
            None => match self.kept.take() {
                None => self.current = Some(Tail::new(file)?),
                Some(kept) => match Tail::from(file.try_clone()?, &kept)? {
                    Some(tail) => self.current = Some(tail),
                    None => self.go_on_in_rotated(file, &kept)?,
                },
            },
            Some(tail) if (tail.at.device, tail.at.inode) != (metadata.dev(), metadata.ino()) => {
                self.rotated = Some((tail, Instant::now()));
                self.current = Some(Tail::new(file)?);
            }
            Some(tail) if is_continued(&file, &tail.at)? => self.current = Some(tail),
            // It was copied and emptied: what we have not read of it is in the copy.
            Some(tail) => self.go_on_in_rotated(file, &tail.at)?,
        }
        Ok(())
    }

    fn go_on_in_rotated(&mut self, new: File, before: &Position) -> io::Result<()> {
        self.rotated = self.find_rotated(before).map(|tail| (tail, Instant::now()));
        self.current = Some(Tail::new(new)?);
        Ok(())
    }

    /// The file beside it that goes on from there.
    fn find_rotated(&self, before: &Position) -> Option<Tail> {
        if before.beginning_bytes == 0 {
            return None;
        }
        let name = self.path.file_name()?.to_str()?;
        let entries = std::fs::read_dir(files::directory(&self.path)).ok()?.flatten();
        let of_log = |entry: &std::fs::DirEntry| {
            entry.file_name().to_str().is_some_and(|other| files::is_rotated(name, other))
        };
        entries.filter(of_log).find_map(|entry| open_from(&entry.path(), before))
    }
}

fn open_from(path: &Path, before: &Position) -> Option<Tail> {
    let is_file = std::fs::metadata(path).ok()?.is_file();
    let file = is_file.then(|| File::open(path))?.ok()?;
    Tail::from(file, before).ok()?
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let dir =
                std::env::temp_dir().join(format!("imtcp-tail-{name}-{}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            Scratch(dir)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn append(&self, name: &str, text: &str) {
            let mut file =
                OpenOptions::new().create(true).append(true).open(self.path(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn lines(log: &mut Log) -> Vec<String> {
        let mut all = Vec::new();
        let mut take = |line: Option<&[u8]>| {
            all.push(line.map_or("too long".into(), |l| String::from_utf8_lossy(l).into_owned()));
        };
        while log.read(&mut take).unwrap() {}
        all
    }

    #[test]
    fn lines_come_once_each_when_they_are_whole() {
        let scratch = Scratch::new("whole");
        let mut log = Log::new(scratch.path("log"), None);
        assert!(log.read(&mut |_| {}).is_err(), "there is none yet");
        scratch.append("log", "one\ntwo");
        assert_eq!(lines(&mut log), ["one"]);
        scratch.append("log", " and more\n\nthree\r\n");
        assert_eq!(lines(&mut log), ["two and more", "three"]);
        assert_eq!(lines(&mut log), [""; 0]);
    }

    #[test]
    fn a_packed_log_is_refused_with_what_reads_it() {
        let scratch = Scratch::new("packed");
        fs::write(scratch.path("log.gz"), b"\x1f\x8b\x08\0 one\n").unwrap();
        let mut log = Log::new(scratch.path("log.gz"), None);
        let why = log.read(&mut |_| panic!("it has no line")).unwrap_err().to_string();
        assert!(why.contains("compressed (gzip)") && why.contains("advice clients --log"), "{why}");
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_in_little_memory() {
        let scratch = Scratch::new("long");
        let mut log = Log::new(scratch.path("log"), None);
        scratch.append("log", &"x".repeat(3 * CHUNK));
        assert_eq!(lines(&mut log), [""; 0]);
        scratch.append("log", "x\nshort\n");
        assert_eq!(lines(&mut log), ["too long", "short"]);
    }

    #[test]
    fn a_renamed_log_is_read_to_its_end_beside_the_new_one() {
        let scratch = Scratch::new("renamed");
        let mut log = Log::new(scratch.path("log"), None);
        scratch.append("log", "one\n");
        assert_eq!(lines(&mut log), ["one"]);
        scratch.append("log", "two\n");
        fs::rename(scratch.path("log"), scratch.path("log.1")).unwrap();
        assert!(log.read(&mut |_| {}).is_err(), "there is no log for a moment");
        scratch.append("log", "four\n");
        scratch.append("log.1", "three\n");
        let all = lines(&mut log);
        assert!(all.contains(&"three".into()) && all.contains(&"four".into()), "{all:?}");
        scratch.append("log.1", "late\n");
        scratch.append("log", "five\n");
        assert_eq!(lines(&mut log), ["late", "five"]);
    }

    #[test]
    fn a_log_that_was_copied_and_emptied_is_read_on_in_the_copy() {
        let scratch = Scratch::new("copied");
        let mut log = Log::new(scratch.path("log"), None);
        scratch.append("log", "one\n");
        assert_eq!(lines(&mut log), ["one"]);
        scratch.append("log", "two\n");
        fs::copy(scratch.path("log"), scratch.path("log.1")).unwrap();
        File::create(scratch.path("log")).unwrap();
        // As long as before, and longer: only what is in it tells that it is another one.
        scratch.append("log", "new one\nand more of it\n");
        assert_eq!(lines(&mut log), ["two", "new one", "and more of it"]);
    }

    #[test]
    fn an_emptied_log_begins_anew() {
        let scratch = Scratch::new("emptied");
        let mut log = Log::new(scratch.path("log"), None);
        scratch.append("log", "one\ntwo\n");
        assert_eq!(lines(&mut log), ["one", "two"]);
        File::create(scratch.path("log")).unwrap();
        scratch.append("log", "x\n");
        assert_eq!(lines(&mut log), ["x"]);
    }

    #[test]
    fn reading_goes_on_where_it_stopped_also_after_a_rotation_meanwhile() {
        let scratch = Scratch::new("kept");
        let mut log = Log::new(scratch.path("log"), None);
        scratch.append("log", "one\n");
        assert_eq!(lines(&mut log), ["one"]);
        let kept = serde_json::to_string(log.position().unwrap()).unwrap();
        let kept = || Some(serde_json::from_str(&kept).unwrap());
        scratch.append("log", "two\n");
        assert_eq!(lines(&mut Log::new(scratch.path("log"), kept())), ["two"]);
        fs::rename(scratch.path("log"), scratch.path("log.1")).unwrap();
        scratch.append("log", "three\n");
        assert_eq!(lines(&mut Log::new(scratch.path("log"), kept())), ["two", "three"]);
        // The old one is gone: there is nothing to go on in.
        fs::remove_file(scratch.path("log.1")).unwrap();
        assert_eq!(lines(&mut Log::new(scratch.path("log"), kept())), ["three"]);
    }
}
