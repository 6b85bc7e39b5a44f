// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Sets the first retransmission timeout of every connection in a cgroup.
//!
//! Linux has no setting for this timeout. It asks a BPF program of the cgroup for each connection
//! (BPF_SOCK_OPS_TIMEOUT_INIT). The laboratory's guests have no compiler, so the program is here as
//! instructions.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

const PROG_LOAD: libc::c_long = 5;
const PROG_ATTACH: libc::c_long = 8;
const PROG_TYPE_SOCK_OPS: u32 = 13;
const CGROUP_SOCK_OPS: u32 = 3;
const ALLOW_MULTI: u32 = 2;
/// A value of `bpf_sock_ops.op`: the kernel asks for the timeout before the first RTT sample.
const TIMEOUT_INIT: i32 = 1;

#[derive(clap::Args)]
pub struct Args {
    /// The timeout
    #[arg(long = "ms", value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=120_000))]
    timeout_ms: u32,
    /// Connections made in this cgroup, or below it
    #[arg(long, default_value = "/sys/fs/cgroup")]
    cgroup: PathBuf,
}

/// One instruction of BPF, as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Insn {
    code: u8,
    /// Destination in the low half, source in the high one.
    registers: u8,
    offset: i16,
    value: i32,
}

const fn insn(code: u8, destination: u8, source: u8, offset: i16, value: i32) -> Insn {
    Insn { code, registers: destination | source << 4, offset, value }
}

/// Answers the kernel's question for the timeout with a number of ticks.
fn program(ticks: i32) -> [Insn; 6] {
    const LOAD: u8 = 0x61;
    const STORE: u8 = 0x63;
    const SET: u8 = 0xb7;
    const SKIP_UNLESS: u8 = 0x55;
    const EXIT: u8 = 0x95;
    // `op` and `reply` are at the beginning of bpf_sock_ops.
    [
        insn(LOAD, 2, 1, 0, 0),
        insn(SKIP_UNLESS, 2, 0, 2, TIMEOUT_INIT),
        insn(SET, 3, 0, 0, ticks),
        insn(STORE, 1, 3, 4, 0),
        insn(SET, 0, 0, 0, 1),
        insn(EXIT, 0, 0, 0, 0),
    ]
}

/// Converts a time to the kernel's ticks: the coarse clock advances by one of them.
fn ticks(timeout_ms: u32) -> i32 {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut tick) };
    let tick_ns = tick.tv_nsec.max(1);
    (i64::from(timeout_ms) * 1_000_000 / tick_ns).max(1) as i32
}

#[repr(C)]
struct LoadAttr {
    kind: u32,
    count: u32,
    insns: u64,
    license: u64,
    /// Log of the verifier, version of the kernel, flags, name and so on: all empty.
    rest: [u64; 14],
}

#[repr(C)]
struct AttachAttr {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

fn bpf<T>(command: libc::c_long, attr: &T) -> io::Result<i32> {
    let value = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), mem::size_of::<T>())
    };
    if value < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value as i32)
}

/// The program stays after this process ends, until the cgroup is removed.
pub fn set(args: &Args) -> io::Result<()> {
    let insns = program(ticks(args.timeout_ms));
    let load = LoadAttr {
        kind: PROG_TYPE_SOCK_OPS,
        count: insns.len() as u32,
        insns: insns.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        rest: [0; 14],
    };
    let loaded = unsafe { OwnedFd::from_raw_fd(bpf(PROG_LOAD, &load)?) };
    let cgroup = File::open(&args.cgroup)?;
    let attach = AttachAttr {
        target: cgroup.as_raw_fd() as u32,
        program: loaded.as_raw_fd() as u32,
        kind: CGROUP_SOCK_OPS,
        flags: ALLOW_MULTI,
    };
    bpf(PROG_ATTACH, &attach).map(|_| ())
}
