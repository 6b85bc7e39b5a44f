// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Our own arguments, which everybody may read in /proc. Those of the command may hold a password, and a command that
//! hides it overwrites its own arguments alone, as curl and mysql do.

use std::ptr;

use imtcp_common::procfs;

/// Blanks the last so many of this process's arguments, where the kernel and ps read them. Rust's
/// [`std::env::args`] reads the same memory: nobody may need these afterwards.
pub fn blank(last: usize) {
    let all = std::env::args_os().count();
    let Some((start, end)) = procfs::own_arguments() else { return };
    // SAFETY: the kernel has laid this process's arguments there, one after the other, and they are its own to write;
    // this thread alone reads them.
    unsafe {
        let mut at = start as *mut u8;
        let end = end as *mut u8;
        let mut kept = all.saturating_sub(last);
        while at < end && kept > 0 {
            kept -= usize::from(ptr::read_volatile(at) == 0);
            at = at.add(1);
        }
        while at < end {
            ptr::write_volatile(at, 0);
            at = at.add(1);
        }
    }
}
