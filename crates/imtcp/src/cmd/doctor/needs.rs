// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What imtcp needs: the kernel's side by name, and then a run as a whole, tried and undone.

use imtcp_bpf::{paths, probe, Obstacle};
use imtcp_common::descriptors;

use super::{fail, has_failed, ok, warn, Finding};
use crate::cmd::{run, up};
use crate::{cgroup, socket};

pub(super) fn findings() -> Vec<Finding> {
    let privileges = probe::check_privileges();
    let is_privileged = privileges.is_ok();
    let mut findings = vec![
        need("kernel", probe::check_kernel(), tested_kernel),
        need("BTF", probe::check_btf(), || "the kernel describes its types".into()),
        need("JIT", probe::check_jit(), || "BPF programs are compiled".into()),
        need("struct_ops", probe::check_struct_ops(), || {
            "the kernel takes congestion controls in BPF".into()
        }),
        need("lockdown", probe::check_lockdown(), || "does not keep BPF from working".into()),
        cgroup2(),
        need("privileges", privileges, || "those of root".into()),
        bpf_file_system(is_privileged),
        open_sockets(is_privileged),
        replacement(),
    ];
    findings.push(a_run(&findings));
    findings
}

fn need(check: &str, result: Result<(), Obstacle>, well: impl FnOnce() -> String) -> Finding {
    match result {
        Ok(()) => ok(check, well()),
        Err(obstacle) => fail(check, obstacle),
    }
}

fn tested_kernel() -> String {
    format!("Linux {} (6.1, 6.12 and 6.18 are tested)", probe::kernel_release())
}

fn cgroup2() -> Finding {
    match cgroup::mount() {
        Ok(dir) => ok("cgroup v2", format!("mounted at {}", dir.display())),
        Err(obstacle) => fail("cgroup v2", obstacle),
    }
}

/// Without privileges nothing can be written, which says nothing of what else is wrong.
const WITHOUT_PRIVILEGES: (&str, &str) = ("not tried", "get the privileges first");

fn bpf_file_system(is_privileged: bool) -> Finding {
    if paths::bpffs_is_mounted() && !is_privileged {
        return warn("bpffs", WITHOUT_PRIVILEGES.0, WITHOUT_PRIVILEGES.1);
    }
    if paths::bpffs_is_mounted() {
        let found = || format!("mounted at {}", paths::BPFFS);
        return need("bpffs", paths::require_writable(), found);
    }
    warn("bpffs", format!("not mounted at {}", paths::BPFFS), "`imtcp up` mounts it")
}

fn open_sockets(is_privileged: bool) -> Finding {
    if !is_privileged {
        return warn("open sockets", WITHOUT_PRIVILEGES.0, WITHOUT_PRIVILEGES.1);
    }
    match socket::obstacle() {
        None => ok("open sockets", "`imtcp attach` reaches those of other processes"),
        Some(obstacle) => warn(
            "open sockets",
            format!("{obstacle}: `imtcp attach` does not reach those of other processes"),
            "`imtcp attach` covers their new connections; for all of them start the program with \
             `imtcp run`",
        ),
    }
}

fn replacement() -> Finding {
    if probe::has_struct_ops_links() {
        return ok("upgrades", "in place, by BPF links");
    }
    warn(
        "upgrades",
        "this kernel has no links for congestion controls (Linux 6.4 has)",
        "nothing to do; during a second `imtcp up` the names are absent for an instant",
    )
}

/// The real test: all that a run does, but for the command.
fn a_run(before: &[Finding]) -> Finding {
    const CHECK: &str = "a run";
    if has_failed(before) {
        return warn(CHECK, "not tried", "mend first what fails above");
    }
    match up::replaces_loaded() {
        Ok(false) => {}
        Ok(true) => {
            let advice = "`imtcp up` replaces it, as the next run does; then ask again";
            return warn(CHECK, "not tried: another build of imtcp is up", advice);
        }
        Err(e) => return fail(CHECK, obstacle_in(e)),
    }
    match run::rehearse() {
        Ok(()) => ok(CHECK, "begins, gives a connection its mode, and ends"),
        Err(e) => fail(CHECK, obstacle_in(e)),
    }
}

/// A failed run's message, with its remedy if it knows one.
fn obstacle_in(error: anyhow::Error) -> Obstacle {
    let found = format!("{error:#}");
    match error.downcast::<Obstacle>() {
        Ok(obstacle) => obstacle,
        Err(_) if !descriptors::hint(&found).is_empty() => {
            Obstacle::new(found, "`ulimit -n 1024` lets a process open enough files")
        }
        Err(_) => {
            Obstacle::new(found, "mend what it names; where nothing is wrong with that, report it")
        }
    }
}
