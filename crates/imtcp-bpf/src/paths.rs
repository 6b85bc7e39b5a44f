// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Where things are pinned, and the BPF file system they are pinned in.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{raw, Obstacle};

pub const BPFFS: &str = "/sys/fs/bpf";

/// The map of connections whose offered windows are steered.
pub(crate) const RECEIVERS: &str = "imtcp_receivers";

/// The map of bytes that this host's own foreground sent.
pub(crate) const FRONTS: &str = "imtcp_fronts";

/// Maps that outlive an upgrade when their layouts agree.
pub const SHARED_MAPS: [&str; 8] = [
    "imtcp_conns",
    RECEIVERS,
    "imtcp_tags",
    "imtcp_policies",
    "imtcp_events",
    "imtcp_totals",
    "imtcp_hosts",
    FRONTS,
];

/// The pinned iterator: reading the file gives one `imtcp_record` per connection.
pub const CONNECTIONS: &str = "connections";
/// The one in its place where the kernel does not accept it: of the reader's network namespace alone.
pub const CONNECTIONS_HERE: &str = "connections_here";
/// The counter of this host's own foreground.
pub const FRONT: &str = "front";
pub const META: &str = "meta";

/// Where everything is pinned.
pub fn dir() -> PathBuf {
    Path::new(BPFFS).join("imtcp")
}

/// Links of attachments, one or more for each.
pub fn attach_dir() -> PathBuf {
    dir().join("attach")
}

pub fn pin(name: &str) -> PathBuf {
    dir().join(name)
}

/// The struct_ops map of a congestion control.
pub fn ops_pin(control: &str) -> PathBuf {
    pin(&format!("ops_{control}"))
}

/// The link that keeps a congestion control registered (kernels from 6.4).
pub fn link_pin(control: &str) -> PathBuf {
    pin(&format!("link_{control}"))
}

/// Is a BPF file system mounted at its usual place?
pub fn bpffs_is_mounted() -> bool {
    const BPF_FS_MAGIC: i64 = 0xcafe4a11;
    let path = CString::new(BPFFS).expect("no NUL inside");
    // SAFETY: statfs only writes the structure that it is given.
    unsafe {
        let mut st: libc::statfs = std::mem::zeroed();
        libc::statfs(path.as_ptr(), &mut st) == 0 && st.f_type as i64 == BPF_FS_MAGIC
    }
}

/// Mounts the BPF file system where it is missing; says whether it had to.
pub fn ensure_bpffs() -> Result<bool, Obstacle> {
    if bpffs_is_mounted() {
        return Ok(false);
    }
    let target = CString::new(BPFFS).expect("no NUL inside");
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: all pointers are NUL-terminated strings that live through the call.
    let rc = unsafe {
        libc::mount(
            c"bpf".as_ptr(),
            target.as_ptr(),
            c"bpf".as_ptr(),
            flags,
            c"mode=700".as_ptr().cast(),
        )
    };
    if rc != 0 {
        let e = io::Error::last_os_error();
        return Err(Obstacle::new(
            format!("cannot mount the BPF file system at {BPFFS}: {e}"),
            format!("mount it first: `mount -t bpf bpf {BPFFS}`"),
        ));
    }
    Ok(true)
}

/// Can pins be made and removed? Asked before anything changes, so that nothing is done by half.
pub fn require_writable() -> Result<(), Obstacle> {
    if !bpffs_is_mounted() {
        return Ok(());
    }
    let wanted = dir();
    let nearest = if wanted.exists() { wanted.as_path() } else { Path::new(BPFFS) };
    let path = CString::new(nearest.as_os_str().as_bytes()).expect("no NUL inside");
    // SAFETY: asks only; the path ends with NUL and lives through the call.
    match unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(Obstacle::unwritable(&wanted, &io::Error::last_os_error())),
    }
}

/// The directory of pins, made where it is missing, and held: one command at a time changes what is in it.
/// A container may see these pins and have a /run of its own, so a lock there is not enough.
pub(crate) fn make_and_hold() -> Result<File, Obstacle> {
    loop {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir())
            .map_err(|e| Obstacle::unwritable(&dir(), &e))?;
        if let Some(held) = hold()? {
            return Ok(held);
        }
    }
}

/// The same, or nothing where it is missing.
pub(crate) fn hold() -> Result<Option<File>, Obstacle> {
    let held = || -> io::Result<File> {
        let held = File::open(dir())?;
        // Whoever can open it can hold it. An older imtcp made it for everybody to open.
        let _ = held.set_permissions(Permissions::from_mode(0o700));
        raw::lock(held.as_fd())?;
        // The command that held it until now may have removed it.
        match fs::metadata(dir())?.ino() == held.metadata()?.ino() {
            true => Ok(held),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    };
    match held() {
        Ok(held) => Ok(Some(held)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Obstacle::unwritable(&dir(), &e)),
    }
}

/// Removes the directory of pins and whatever is in it.
pub(crate) fn remove_all() -> Result<()> {
    remove_tree(&dir()).with_context(|| format!("cannot remove {}", dir().display()))
}

fn remove_tree(dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            remove_tree(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    fs::remove_dir(dir)
}
