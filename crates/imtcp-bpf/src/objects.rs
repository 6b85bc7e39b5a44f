// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The compiled BPF programs that this crate carries.

use anyhow::{anyhow, Result};
use libbpf_rs::{Object, ObjectBuilder, OpenMapMut, OpenObject};
use libbpf_sys as sys;

use crate::probe;

/// The congestion controls that measure (bpf/imtcp.bpf.c).
pub static IMTCP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/imtcp.bpf.o"));
/// The other congestion controls (bpf/imtcp_modes.bpf.c).
pub static MODES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/imtcp_modes.bpf.o"));
/// The controls as their papers print them (bpf/imtcp_paper.bpf.c).
pub static PAPER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/imtcp_paper.bpf.o"));
/// The one that is loaded on request alone (bpf/imtcp_nocc.bpf.c).
pub static NOCC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/imtcp_nocc.bpf.o"));
/// Iterators and the cgroup program (bpf/imtcp_ctl.bpf.c).
pub static CTL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/imtcp_ctl.bpf.o"));
/// Programs that count what a run sends outside of its connections (bpf/imtcp_uncovered.bpf.c).
pub static UNCOVERED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/imtcp_uncovered.bpf.o"));

/// The control object's iterator over all connections, and the one for kernels that refuse it.
pub(crate) const CONNECTIONS: &str = "imtcp_connections";
pub(crate) const CONNECTIONS_HERE: &str = "imtcp_connections_here";

/// The control object's program that switches sockets, and the map that it alone uses.
pub(crate) const SWITCH: &str = "imtcp_switch";
pub(crate) const GIVEN_UP: &str = "imtcp_given_up";

/// The control object's iterator over sockets that have a tag.
pub(crate) const TAGGED: &str = "imtcp_tagged";

/// The control object's program of a cgroup.
pub(crate) const SOCKOPS: &str = "imtcp_sockops";

/// The program that counts this host's own foreground (bpf/imtcp_ctl_front.h).
pub(crate) const FRONT: &str = "imtcp_count_front";

/// A program of a cgroup that marks packets (bpf/imtcp_ctl_marks.h).
pub(crate) struct Mark {
    pub program: &'static str,
    /// Of its link's pin.
    pub suffix: &'static str,
    pub kind: sys::bpf_attach_type,
}

pub(crate) const KEEP_DSCP: Mark =
    Mark { program: "imtcp_keep_dscp", suffix: "-dscp", kind: sys::BPF_CGROUP_SETSOCKOPT };
pub(crate) const SET_PRIORITY: Mark =
    Mark { program: "imtcp_set_priority", suffix: "-priority", kind: sys::BPF_CGROUP_INET_EGRESS };

/// The program of a cgroup that steers the windows its connections offer (bpf/imtcp_ctl_receive.h).
pub(crate) const RECEIVE: Mark =
    Mark { program: "imtcp_receive", suffix: "-receive", kind: sys::BPF_CGROUP_SOCK_OPS };

/// The same for connections that are open, and the program that takes their windows back.
pub(crate) const ASK_OF_OPEN: &str = "imtcp_ask_of_open";
pub(crate) const LET_RECEIVE: &str = "imtcp_let_receive";

/// The control object's program that writes into a policy.
pub(crate) const SET_ORDERS: &str = "imtcp_set_orders";

/// The control object's program for multipath connections, on kernels that have them.
pub(crate) const TAG_SUBFLOWS: &str = "imtcp_tag_subflows";

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Tells one build of the programs from another.
pub fn id() -> u64 {
    let mut hash = Fnv::new();
    hash.write(IMTCP);
    hash.write(MODES);
    hash.write(PAPER);
    hash.write(NOCC);
    hash.write(CTL);
    hash.write(UNCOVERED);
    hash.0
}

/// A build of the programs as it is shown: its id in hexadecimal.
pub fn name(id: u64) -> String {
    format!("{id:016x}")
}

fn open(name: &str, bytes: &[u8]) -> Result<OpenObject> {
    Ok(ObjectBuilder::default().name(name)?.open_memory(bytes)?)
}

pub(crate) fn open_imtcp() -> Result<OpenObject> {
    open("imtcp", IMTCP)
}

pub(crate) fn open_modes() -> Result<OpenObject> {
    open("imtcp_modes", MODES)
}

pub(crate) fn open_paper() -> Result<OpenObject> {
    open("imtcp_paper", PAPER)
}

pub(crate) fn open_nocc() -> Result<OpenObject> {
    open("imtcp_nocc", NOCC)
}

fn open_all_of_ctl() -> Result<OpenObject> {
    open("imtcp_ctl", CTL)
}

fn open_all_of_uncovered() -> Result<OpenObject> {
    open("imtcp_uncovered", UNCOVERED)
}

fn programs(object: &OpenObject) -> Vec<String> {
    object.progs().map(|p| p.name().to_string_lossy().into_owned()).collect()
}

/// The names of the control object's programs.
pub(crate) fn ctl_programs() -> Result<Vec<String>> {
    Ok(programs(&open_all_of_ctl()?))
}

/// The same of what counts beside a run.
pub(crate) fn uncovered_programs() -> Result<Vec<String>> {
    Ok(programs(&open_all_of_uncovered()?))
}

/// Opens the control object with only the named program switched on.
pub(crate) fn open_ctl(program: &str) -> Result<OpenObject> {
    let mut object = only(open_all_of_ctl()?, program)?;
    if program != SWITCH {
        for mut map in object.maps_mut().filter(|map| map.name() == GIVEN_UP) {
            map.set_autocreate(false)?;
        }
    }
    Ok(object)
}

/// The same of what counts beside a run.
pub(crate) fn open_uncovered(program: &str) -> Result<OpenObject> {
    only(open_all_of_uncovered()?, program)
}

fn only(mut object: OpenObject, program: &str) -> Result<OpenObject> {
    let mut found = false;
    for mut prog in object.progs_mut() {
        let wanted = prog.name() == program;
        found |= wanted;
        prog.set_autoload(wanted);
    }
    if !found {
        return Err(anyhow!("no BPF object has a program {program}"));
    }
    Ok(object)
}

pub(crate) fn open_map<'o>(object: &'o mut OpenObject, name: &str) -> Result<OpenMapMut<'o>> {
    object
        .maps_mut()
        .find(|m| m.name().to_string_lossy().ends_with(name))
        .ok_or_else(|| anyhow!("the BPF object has no map {name}"))
}

/// Loads into the running kernel. Its verifier's refusal is an error number; the reasons are in
/// libbpf's messages.
pub(crate) fn load(object: OpenObject, what: &str) -> Result<Object> {
    object.load().map_err(|e| {
        anyhow!(
            "Linux {} does not accept {what} ({:#}): `sudo IMTCP_DEBUG=1 imtcp doctor` shows what \
             this machine lacks, and the kernel's reasons to report",
            probe::kernel_release(),
            anyhow!(e)
        )
    })
}

/// FNV-1a, 64 bits: enough to notice that two builds or two layouts differ.
pub(crate) struct Fnv(pub u64);

impl Fnv {
    pub fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    pub fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
        }
    }

    pub fn write_u64(&mut self, value: u64) {
        self.write(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::ProgramType;

    use super::*;

    #[test]
    fn a_kernel_that_refuses_a_program_is_named_with_the_next_step() {
        let mut object = open_ctl(SOCKOPS).unwrap();
        for mut program in object.progs_mut() {
            // A socket filter may do nothing of what this program does.
            program.set_prog_type(ProgramType::SocketFilter);
        }
        let error = load(object, "the cgroup program").map(drop).unwrap_err().to_string();
        let kernel = format!("Linux {} does not accept the cgroup", probe::kernel_release());
        assert!(error.starts_with(&kernel), "{error}");
        assert!(error.contains("IMTCP_DEBUG=1 imtcp doctor"), "{error}");
    }
}
