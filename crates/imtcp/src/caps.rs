// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Giving up privileges that are not needed any more.

use std::io;

use imtcp_bpf::probe::{CAP_DAC_OVERRIDE, CAP_KILL, CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_PTRACE};

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

/// Keeps only what waiting for a command needs: CAP_KILL, to pass signals on to a command of
/// another user, and CAP_DAC_OVERRIDE, to remove its cgroup (the hierarchy's root is not
/// writable, not even for its owner). Descriptors that are open stay usable. Where the records are
/// read namespace by namespace, also what finds and enters those of processes of other users:
/// CAP_SYS_PTRACE and CAP_SYS_ADMIN. Where sockets get their congestion control back: CAP_NET_ADMIN, as not
/// everybody may choose each. For the calling thread, so before there are others.
pub fn keep_for_waiting(enters_namespaces: bool, gives_back: bool) -> io::Result<()> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: header and data have the layouts of version 3 and live through the calls.
    unsafe {
        if libc::syscall(libc::SYS_capget, &mut header, data.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut keep = 1u32 << CAP_KILL | 1u32 << CAP_DAC_OVERRIDE;
        if enters_namespaces {
            keep |= 1u32 << CAP_SYS_ADMIN | 1u32 << CAP_SYS_PTRACE;
        }
        if gives_back {
            keep |= 1u32 << CAP_NET_ADMIN;
        }
        data[0] = Data {
            effective: data[0].effective & keep,
            permitted: data[0].permitted & keep,
            inheritable: 0,
        };
        data[1] = Data::default();
        if libc::syscall(libc::SYS_capset, &mut header, data.as_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
