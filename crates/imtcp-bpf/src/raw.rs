// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The few system calls on pinned objects for which libbpf-rs has no words.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libbpf_sys as sys;

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

/// libbpf 1.x returns a negative errno.
fn check(rc: i32) -> io::Result<i32> {
    if rc < 0 {
        Err(io::Error::from_raw_os_error(-rc))
    } else {
        Ok(rc)
    }
}

pub fn obj_get(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: the path is NUL-terminated; the descriptor returned is new and ours.
    unsafe { Ok(OwnedFd::from_raw_fd(check(sys::bpf_obj_get(path.as_ptr()))?)) }
}

pub fn obj_pin(fd: BorrowedFd, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the path is NUL-terminated and the descriptor is open.
    unsafe { check(sys::bpf_obj_pin(fd.as_raw_fd(), path.as_ptr())).map(drop) }
}

/// Waits until nobody else holds the file.
pub fn lock(file: BorrowedFd) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Puts another struct_ops map behind a link: in-place replacement.
pub fn link_update(link: BorrowedFd, map: BorrowedFd) -> io::Result<()> {
    // SAFETY: both descriptors are open; no options.
    unsafe {
        check(sys::bpf_link_update(link.as_raw_fd(), map.as_raw_fd(), std::ptr::null())).map(drop)
    }
}

pub fn link_detach(link: BorrowedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    unsafe { check(sys::bpf_link_detach(link.as_raw_fd())).map(drop) }
}

/// The kernel's number of the cgroup that a link attaches a program to; nothing once that was removed.
pub fn cgroup_of_link(link: BorrowedFd) -> io::Result<Option<u64>> {
    let mut info = sys::bpf_link_info::default();
    let mut bytes = std::mem::size_of_val(&info) as u32;
    let place = std::ptr::from_mut(&mut info).cast();
    // SAFETY: the descriptor is open, and `info` has as many bytes as the call is told.
    check(unsafe { sys::bpf_obj_get_info_by_fd(link.as_raw_fd(), place, &mut bytes) })?;
    if info.type_ != sys::BPF_LINK_TYPE_CGROUP {
        return Ok(None);
    }
    // SAFETY: the kernel has filled in what belongs to this type.
    let id = unsafe { info.__bindgen_anon_1.cgroup.cgroup_id };
    Ok((id != 0).then_some(id))
}

/// The flags and ids of the programs of a kind that were attached to this very cgroup.
pub fn programs_of_cgroup(
    cgroup: BorrowedFd,
    kind: sys::bpf_attach_type,
) -> io::Result<(u32, Vec<u32>)> {
    let (mut flags, mut count, mut ids) = (0, 64, [0u32; 64]);
    // SAFETY: the descriptor is open, and `ids` has as many places as `count` says.
    check(unsafe {
        sys::bpf_prog_query(cgroup.as_raw_fd(), kind, 0, &mut flags, ids.as_mut_ptr(), &mut count)
    })?;
    Ok((flags, ids[..count as usize].to_vec()))
}

/// A link that has an iterator go through the open files of one process; of all with 0.
pub fn link_to_files_of(program: BorrowedFd, pid: u32) -> io::Result<OwnedFd> {
    let mut info = sys::bpf_iter_link_info::default();
    info.task.pid = pid;
    let options = sys::bpf_link_create_opts {
        sz: std::mem::size_of::<sys::bpf_link_create_opts>() as _,
        iter_info: &raw mut info,
        iter_info_len: std::mem::size_of_val(&info) as u32,
        ..Default::default()
    };
    // SAFETY: the descriptor is open, and `info` lives through the call; the descriptor returned is new and ours.
    unsafe {
        let link = sys::bpf_link_create(program.as_raw_fd(), 0, sys::BPF_TRACE_ITER, &options);
        Ok(OwnedFd::from_raw_fd(check(link)?))
    }
}

pub fn iter_create(link: BorrowedFd) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is open; the one returned is new and ours.
    unsafe { Ok(OwnedFd::from_raw_fd(check(sys::bpf_iter_create(link.as_raw_fd()))?)) }
}

/// Types whose every bit pattern is a value, without padding: the layouts of `shared.rs`.
///
/// # Safety
/// Only for `repr(C)` structures of integers and arrays of integers without padding.
pub unsafe trait Plain: Copy {
    fn bytes(&self) -> &[u8] {
        // SAFETY: no padding, so every byte is initialised.
        unsafe {
            std::slice::from_raw_parts((self as *const Self).cast(), std::mem::size_of::<Self>())
        }
    }

    /// `None` when there are too few bytes; bytes beyond are ignored.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < std::mem::size_of::<Self>() {
            return None;
        }
        let mut value = MaybeUninit::<Self>::uninit();
        // SAFETY: as many bytes as the type has, and every pattern is a value.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                value.as_mut_ptr().cast(),
                std::mem::size_of::<Self>(),
            );
            Some(value.assume_init())
        }
    }
}

// SAFETY: these are the layouts of bpf/imtcp_shared.h and bpf/imtcp_ctl.h: fixed-width
// integers with explicit padding (bindgen's assertions hold their sizes).
unsafe impl Plain for crate::shared::imtcp_record {}
unsafe impl Plain for crate::shared::imtcp_event {}
unsafe impl Plain for crate::shared::imtcp_totals {}
unsafe impl Plain for crate::shared::imtcp_policy {}
unsafe impl Plain for crate::shared::imtcp_tag {}
unsafe impl Plain for crate::shared::imtcp_ctl_cfg {}
unsafe impl Plain for crate::shared::imtcp_ctl_switch {}
unsafe impl Plain for crate::shared::imtcp_opened {}
unsafe impl Plain for crate::shared::imtcp_held {}
unsafe impl Plain for crate::shared::imtcp_tagged {}
unsafe impl Plain for crate::shared::imtcp_orders {}
unsafe impl Plain for crate::shared::imtcp_uncovered {}
unsafe impl Plain for crate::shared::imtcp_unix_peer {}
unsafe impl Plain for crate::shared::imtcp_moved {}
