// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The terminal of a command that runs as another user (--user).
//!
//! It is the caller's, mostly root's. TIOCSTI (kernels before 6.2, and later ones where it is switched on) types
//! into it, and the caller's shell reads that when the run is over. TIOCLINUX pastes on a console. A filter
//! refuses both, to the command and all that it starts. sudo makes a terminal of its own for this, and
//! `su -c` a session without one: the first would carry every byte through imtcp, and in the second ssh
//! cannot ask for a password. flatpak and snapd filter as here.

use libc::{sock_filter, sock_fprog};
use nix::Error;

/// Each way in which a program calls ioctl on a 64-bit machine: the kernel's AUDIT_ARCH and the number of the call.
/// A kernel knows only its own.
const IOCTL: [(u32, u32); 8] = [
    (0xC000_003E, 16),                // x86-64
    (0xC000_003E, 0x4000_0000 + 514), // x32
    (0x4000_0003, 54),                // i386
    (0xC000_00B7, 29),                // arm64
    (0x4000_0028, 54),                // arm
    (0xC000_00F3, 29),                // riscv64
    (0xC000_0015, 54),                // ppc64le
    (0x8000_0016, 54),                // s390x
];

const TIOCLINUX: u32 = 0x541C;

/// Where struct seccomp_data has them.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
/// The kernel takes the low half of ioctl's second argument alone, so the filter does.
const REQUEST: u32 = if cfg!(target_endian = "little") { 24 } else { 28 };

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

fn op(code: u32, k: u32, if_so: u8, if_not: u8) -> sock_filter {
    sock_filter { code: code as u16, jt: if_so, jf: if_not, k }
}

/// A filter that refuses these two calls alone.
fn filter() -> Vec<sock_filter> {
    const STEPS: usize = 4;
    let mut program = Vec::new();
    for (index, (arch, number)) in IOCTL.into_iter().enumerate() {
        let to_the_request = (STEPS * (IOCTL.len() - 1 - index) + 1) as u8;
        program.extend([
            op(LOAD, ARCH, 0, 0),
            op(IF_EQUAL, arch, 0, 2),
            op(LOAD, NUMBER, 0, 0),
            op(IF_EQUAL, number, to_the_request, 0),
        ]);
    }
    program.extend([
        op(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
        op(LOAD, REQUEST, 0, 0),
        op(IF_EQUAL, libc::TIOCSTI as u32, 1, 0),
        op(IF_EQUAL, TIOCLINUX, 0, 1),
        op(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
        op(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    ]);
    program
}

/// From now on this process does not type into its terminal. While it is root, or it would have to give up
/// that programs gain privileges (sudo inside).
pub fn forbid_typing() -> nix::Result<()> {
    let mut program = filter();
    let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter lives through the call.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
    Error::result(done).map(drop)
}
