// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Files of tokens and private keys, which others on this machine must not open.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::unistd::User;

/// 1 MiB: a chain of certificates or a list of tokens takes some kB, and /dev/zero must end.
const MOST_BYTES: u64 = 1 << 20;
/// The rights of everybody who is neither the owner nor in the file's group.
const OTHERS: u32 = 0o007;

/// Reads a file, and refuses one that everybody on this machine can open.
///
/// The rights are those of the file that is read, even where another one takes its name meanwhile.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, String> {
    let file = open(path)?;
    let mode = file.metadata().map_err(|e| e.to_string())?.permissions().mode();
    if mode & OTHERS != 0 {
        return Err("anybody on this machine can open it: chmod o-rwx it first".into());
    }
    read_all(file)
}

/// Reads a file that everybody may know.
pub fn read_public(path: &Path) -> Result<Vec<u8>, String> {
    read_all(open(path)?)
}

/// A pipe that nobody writes to would keep the whole service waiting.
fn open(path: &Path) -> Result<File, String> {
    let file = File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    let file = file.map_err(|e| why_not_opened(path, &e))?;
    let kind = file.metadata().map_err(|e| e.to_string())?.file_type();
    if kind.is_fifo() || kind.is_socket() {
        return Err("it is a pipe or a socket: name a file".into());
    }
    Ok(file)
}

/// Why a file cannot be opened. Where its rights forbid it, whose it is: the remedy is that user, or other rights.
pub fn why_not_opened(path: &Path, e: &io::Error) -> String {
    let found = path.metadata().ok().filter(|_| e.kind() == io::ErrorKind::PermissionDenied);
    let Some(found) = found else { return e.to_string() };
    let user = User::from_uid(found.uid().into()).ok().flatten().map(|user| user.name);
    let owner = user.unwrap_or_else(|| format!("#{}", found.uid()));
    let mode = found.mode() & 0o777;
    format!("permission denied, it is {owner}'s with mode {mode:o}: run this as {owner} (`sudo -u {owner} …`), or let this user read it")
}

fn read_all(file: File) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    match file.take(MOST_BYTES + 1).read_to_end(&mut content) {
        Ok(_) if content.len() as u64 > MOST_BYTES => Err("it is longer than 1 MiB".into()),
        Ok(_) => Ok(content),
        Err(e) if e.kind() == io::ErrorKind::IsADirectory => Err("it is a directory".into()),
        Err(e) => Err(e.to_string()),
    }
}
