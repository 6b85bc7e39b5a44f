// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The files of a log: the one that is named, what it was rotated to, all of a directory, unpacked.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

/// How much of a log is read at once.
const CHUNK: usize = 256 * 1024;

/// The files that are meant, each once. A directory means its files; with `rotated`, a log means those
/// that logrotate made of it too: `access.log.1`, `access.log.2.gz`, `access.log-20261122`.
pub fn find(named: &[PathBuf], rotated: bool) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in named {
        if path == Path::new("-") {
            all.push(path.clone());
            continue;
        }
        let with_path = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let metadata = std::fs::metadata(path).map_err(with_path)?;
        if metadata.is_dir() {
            all.extend(files_in(path, |_| true).map_err(with_path)?);
            continue;
        }
        all.push(path.clone());
        if let (true, Some(name)) = (rotated, path.file_name().and_then(|name| name.to_str())) {
            all.extend(files_in(directory(path), |of| is_rotated(name, of)).map_err(with_path)?);
        }
    }
    let mut seen = HashSet::new();
    all.retain(|path| match std::fs::metadata(path) {
        Ok(file) if path != Path::new("-") => seen.insert((file.dev(), file.ino())),
        _ => true,
    });
    Ok(all)
}

pub fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

fn files_in(directory: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let is_file = std::fs::metadata(entry.path()).is_ok_and(|file| file.is_file());
        if is_file && entry.file_name().to_str().is_some_and(&wanted) {
            all.push(entry.path());
        }
    }
    all.sort();
    Ok(all)
}

/// Whether logrotate may have made `name` of a log: a number or a date follows.
pub fn is_rotated(log: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(log) else { return false };
    let rest = rest.strip_suffix(".gz").unwrap_or(rest);
    let Some(rest) = rest.strip_prefix(['.', '-']) else { return false };
    !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}

/// Unpacks what gzip packed; refuses other packed files in a sentence.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let log: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    };
    let mut log = BufReader::with_capacity(CHUNK, log);
    let begins = log.fill_buf()?;
    if begins.starts_with(GZIP) {
        return Ok(Box::new(BufReader::with_capacity(CHUNK, MultiGzDecoder::new(log))));
    }
    match packed_by(begins) {
        Some((kind, unpack)) => Err(io::Error::other(format!(
            "it is compressed ({kind}): unpack it, as in \
             `{unpack} {} | imtcp-advice clients --log -`",
            path.display()
        ))),
        None => Ok(Box::new(log)),
    }
}

const GZIP: &[u8] = b"\x1f\x8b";

/// The program that packed a file which begins so, and the one that unpacks it.
pub fn packed_by(begins: &[u8]) -> Option<(&'static str, &'static str)> {
    let known: [(&[u8], _, _); 4] = [
        (GZIP, "gzip", "zcat"),
        (b"\xfd7zXZ\0", "xz", "xzcat"),
        (b"BZh", "bzip2", "bzcat"),
        (b"\x28\xb5\x2f\xfd", "zstd", "zstdcat"),
    ];
    let found = known.into_iter().find(|(magic, ..)| begins.starts_with(magic));
    found.map(|(_, kind, unpack)| (kind, unpack))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_logrotate_makes_of_a_log_is_told_from_other_logs() {
        for name in
            ["access.log.1", "access.log.12.gz", "access.log-20261122", "access.log-2026-11-22.gz"]
        {
            assert!(is_rotated("access.log", name), "{name}");
        }
        for name in [
            "access.log",
            "access.log.bak",
            "access.log.1.xz",
            "other.log.1",
            "access.log.",
            "access.log1",
        ] {
            assert!(!is_rotated("access.log", name), "{name}");
        }
    }
}
