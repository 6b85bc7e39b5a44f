// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the running kernel offers.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::btf::types::Struct;
use libbpf_rs::btf::Btf;

use crate::{netns, Obstacle};

const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";
const JIT_ENABLE: &str = "/proc/sys/net/core/bpf_jit_enable";

pub const CAP_DAC_OVERRIDE: u32 = 1;
pub const CAP_KILL: u32 = 5;
pub const CAP_NET_ADMIN: u32 = 12;
pub const CAP_SYS_PTRACE: u32 = 19;
pub const CAP_SYS_ADMIN: u32 = 21;
pub const CAP_PERFMON: u32 = 38;
pub const CAP_BPF: u32 = 39;

/// The running kernel's release, as uname(1) prints it.
pub fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string()
}

/// (major, minor) of the running kernel.
fn kernel_version() -> (u32, u32) {
    parse_release(&kernel_release())
}

fn parse_release(text: &str) -> (u32, u32) {
    let mut parts = text.split(|c: char| !c.is_ascii_digit()).map(|p| p.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// The first kernel that lets congestion controls in BPF set sk_pacing_rate.
const FIRST_KERNEL: (u32, u32) = (6, 0);

pub fn capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .and_then(|v| u64::from_str_radix(v.trim(), 16).ok())
        .unwrap_or(0)
}

/// The first capability that loading and attaching needs and this process lacks.
fn missing_capability() -> Option<&'static str> {
    let have = capabilities();
    let has = |cap: u32| have & (1 << cap) != 0;
    // Pins, other network namespaces and cgroups ask for CAP_SYS_ADMIN itself.
    [
        (has(CAP_SYS_ADMIN), "CAP_SYS_ADMIN"),
        (has(CAP_BPF) || has(CAP_SYS_ADMIN), "CAP_BPF"),
        (has(CAP_PERFMON) || has(CAP_SYS_ADMIN), "CAP_PERFMON"),
        (has(CAP_NET_ADMIN), "CAP_NET_ADMIN"),
    ]
    .into_iter()
    .find_map(|(ok, name)| (!ok).then_some(name))
}

type Check = Result<(), Obstacle>;

/// Nearly all that the command knows of the machine it reads there.
pub fn check_proc() -> Check {
    let own = std::process::id().to_string();
    if fs::read_link("/proc/self").is_ok_and(|link| link == Path::new(&own)) {
        return Ok(());
    }
    let found = match Path::new("/proc/version").exists() {
        true => "/proc is that of another pid namespace: its numbers mean other processes",
        false => "/proc is not mounted",
    };
    Err(Obstacle::new(found, "mount it: `mount -t proc proc /proc`"))
}

/// Root of the machine, with the capabilities that loading and attaching need.
pub fn check_privileges() -> Check {
    if let Some(cap) = missing_capability() {
        // SAFETY: asks only.
        let is_root = unsafe { libc::geteuid() } == 0;
        let remedy = if is_root {
            "root lacks it in a container or a restricted service: start imtcp outside of it"
        } else {
            "start it with sudo"
        };
        return Err(Obstacle::new(format!("{cap} is missing"), remedy));
    }
    if in_user_namespace() {
        return Err(Obstacle::new(
            "this is root of a user namespace only (a rootless container, `unshare --user`), and \
             the kernel gives BPF to root of the machine",
            "start imtcp outside of it, with sudo",
        ));
    }
    Ok(())
}

/// In another than the machine's first, where capabilities do not count for BPF.
fn in_user_namespace() -> bool {
    // PROC_USER_INIT_INO of the kernel's include/linux/proc_ns.h.
    const FIRST: &str = "user:[4026531837]";
    fs::read_link("/proc/self/ns/user").is_ok_and(|ns| ns != Path::new(FIRST))
}

/// In another than the machine's first, as in a container.
pub fn in_pid_namespace() -> bool {
    // PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h.
    const FIRST: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|ns| ns != Path::new(FIRST))
}

pub fn check_kernel() -> Check {
    if kernel_version() >= FIRST_KERNEL {
        return Ok(());
    }
    let (major, minor) = FIRST_KERNEL;
    Err(Obstacle::new(
        format!(
            "Linux {} does not let BPF congestion controls write sk_pacing_rate",
            kernel_release()
        ),
        format!("take a kernel from {major}.{minor} on (6.1 is tested)"),
    ))
}

pub fn check_btf() -> Check {
    if Path::new(VMLINUX_BTF).exists() {
        return Ok(());
    }
    if !Path::new("/sys/kernel").exists() {
        return Err(Obstacle::new("/sys is not mounted", "mount it: `mount -t sysfs sysfs /sys`"));
    }
    Err(Obstacle::new(
        format!("this kernel has no type information ({VMLINUX_BTF} is missing)"),
        "take one with CONFIG_DEBUG_INFO_BTF=y, as distributions build them",
    ))
}

/// struct_ops programs run only when compiled to machine code. The switch is shown in the
/// first network namespace only; where it cannot be seen, loading will tell.
pub fn check_jit() -> Check {
    let read = || fs::read_to_string(JIT_ENABLE).ok();
    let value = read().or_else(|| netns::of_pid(1).ok()?.run(read).ok()?);
    if value.is_none_or(|v| v.trim() != "0") {
        return Ok(());
    }
    Err(Obstacle::new(
        "the kernel's BPF compiler (JIT) is off",
        "switch it on: `sysctl -w net.core.bpf_jit_enable=1`",
    ))
}

pub fn check_struct_ops() -> Check {
    if kernel_struct("bpf_struct_ops_tcp_congestion_ops").is_some() {
        return Ok(());
    }
    Err(Obstacle::new(
        "this kernel does not take congestion controls in BPF (struct_ops of tcp_congestion_ops)",
        "take one with CONFIG_BPF_JIT=y and CONFIG_BPF_SYSCALL=y",
    ))
}

pub fn check_lockdown() -> Check {
    let state = fs::read_to_string("/sys/kernel/security/lockdown");
    if !state.is_ok_and(|v| v.contains("[confidentiality]")) {
        return Ok(());
    }
    Err(Obstacle::new(
        "the kernel is locked down (confidentiality): BPF may not read its memory",
        "boot without lockdown=confidentiality",
    ))
}

/// One sentence when the caller may not do what it asks for.
pub fn require_privileges(what: &str) -> Result<()> {
    check_proc()?;
    check_privileges().with_context(|| format!("{what} needs root"))
}

/// One sentence that names the first thing that this kernel lacks.
pub fn require_kernel() -> Result<()> {
    check_kernel()?;
    check_btf()?;
    check_jit()?;
    check_struct_ops()?;
    check_lockdown()?;
    Ok(())
}

/// Links for struct_ops maps with replacement in place: kernels from 6.4 on.
pub fn has_struct_ops_links() -> bool {
    kernel_struct("bpf_struct_ops").is_some_and(|m| m.iter().any(|name| name == "update"))
}

/// Names of a kernel structure's members.
fn kernel_struct(name: &str) -> Option<Vec<String>> {
    let btf = Btf::from_vmlinux().ok()?;
    let ty = btf.type_by_name::<Struct>(name)?;
    let members =
        ty.iter().filter_map(|m| m.name.map(|n| n.to_string_lossy().into_owned())).collect();
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_distributions_are_understood() {
        assert_eq!(parse_release("6.1.0-18-cloud-amd64"), (6, 1));
        assert_eq!(parse_release("6.12.9+bpo-amd64"), (6, 12));
        assert_eq!(parse_release("6.18.44-fc-v657"), (6, 18));
        assert_eq!(parse_release(""), (0, 0));
    }
}
