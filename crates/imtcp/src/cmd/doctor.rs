// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp doctor`: what this machine lacks, what spoils measurement, and what to do.

use std::fs;

use anyhow::Result;
use imtcp_bpf::{controls, down, meta, netns, paths, probe, up, verifier};
use serde::Serialize;
use serde_json::json;

use super::print_json;
use crate::cli::DoctorArgs;
use crate::device::{self, Device};
use crate::{exit, format, procfs, socket};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: String,
    verdict: Verdict,
    found: String,
    /// What to do; null when all is well.
    advice: Option<String>,
}

fn ok(check: &str, found: impl Into<String>) -> Finding {
    Finding { check: check.into(), verdict: Verdict::Ok, found: found.into(), advice: None }
}

fn warn(check: &str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    let advice = Some(advice.into());
    Finding { check: check.into(), verdict: Verdict::Warn, found: found.into(), advice }
}

fn fail(check: &str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    let advice = Some(advice.into());
    Finding { check: check.into(), verdict: Verdict::Fail, found: found.into(), advice }
}

pub fn main(args: DoctorArgs) -> Result<u8> {
    if args.verifier {
        return verifier(args.json);
    }
    let mut findings = vec![
        kernel(),
        type_information(),
        jit(),
        cgroup2(),
        bpf_file_system(),
        privileges(),
        lockdown(),
        open_sockets(),
        replacement(),
        programs(),
        clock(),
        default_control(),
    ];
    findings.extend(SYSCTLS.iter().filter_map(Sysctl::check));
    for device in device::of_default_routes() {
        findings.extend(device_findings(&device));
    }
    if args.json {
        print_json(&findings)?;
    } else {
        out!("{}", text(&findings));
    }
    let failed = findings.iter().any(|f| f.verdict == Verdict::Fail);
    Ok(if failed { exit::FAILURE } else { exit::OK })
}

fn verifier(json: bool) -> Result<u8> {
    probe::require_privileges("imtcp doctor --verifier")?;
    let costs = verifier::costs()?;
    if json {
        let row = |c: &verifier::Cost| {
            json!({
                "object": c.object,
                "program": c.program,
                "instructions": c.instructions,
                "stack_bytes": c.stack_bytes,
            })
        };
        print_json(&costs.iter().map(row).collect::<Vec<_>>())?;
        return Ok(exit::OK);
    }
    let header = ["OBJECT", "PROGRAM", "INSTRUCTIONS", "STACK"].map(String::from).to_vec();
    let row = |c: &verifier::Cost| {
        let stack = format!("{} B", c.stack_bytes);
        vec![c.object.to_string(), c.program.clone(), c.instructions.to_string(), stack]
    };
    let rows: Vec<_> = std::iter::once(header).chain(costs.iter().map(row)).collect();
    out!("{}", format::table(&rows));
    Ok(exit::OK)
}

fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|f| f.check.len()).max().unwrap_or(0);
    let mut out = String::new();
    for f in findings {
        let verdict = match f.verdict {
            Verdict::Ok => "ok  ",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        out += &format!("{verdict}  {:width$}  {}\n", f.check, f.found);
        if let Some(advice) = &f.advice {
            out += &format!("      {:width$}  -> {advice}\n", "");
        }
    }
    let count = |v| findings.iter().filter(|f| f.verdict == v).count();
    out += &match (count(Verdict::Fail), count(Verdict::Warn)) {
        (0, 0) => "all is well\n".into(),
        (0, warned) => format!("imtcp works here; {warned} could be better\n"),
        (failed, _) => format!("{failed} must be mended before imtcp works here\n"),
    };
    out
}

fn kernel() -> Finding {
    let found = format!("Linux {}", probe::kernel_release());
    if probe::kernel_version() < probe::FIRST_KERNEL {
        return fail(
            "kernel",
            found,
            "BPF congestion controls may set the pacing rate from Linux 6.0 on: take a newer one",
        );
    }
    ok("kernel", format!("{found} (6.1, 6.12 and 6.18 are tested)"))
}

fn type_information() -> Finding {
    if probe::has_btf() {
        return ok("BTF", "the kernel describes its types");
    }
    fail(
        "BTF",
        "/sys/kernel/btf/vmlinux is missing",
        "take a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions build them",
    )
}

fn jit() -> Finding {
    if probe::has_jit() {
        return ok("JIT", "BPF programs are compiled");
    }
    fail("JIT", "net.core.bpf_jit_enable is 0", "sysctl -w net.core.bpf_jit_enable=1")
}

fn cgroup2() -> Finding {
    match procfs::cgroup2_mount() {
        Some(dir) => ok("cgroup v2", format!("mounted at {}", dir.display())),
        None => fail(
            "cgroup v2",
            "not mounted: `imtcp run` and `imtcp attach` need it",
            "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified",
        ),
    }
}

fn bpf_file_system() -> Finding {
    if paths::bpffs_is_mounted() {
        return ok("bpffs", format!("mounted at {}", paths::BPFFS));
    }
    warn("bpffs", format!("not mounted at {}", paths::BPFFS), "`imtcp up` mounts it")
}

fn privileges() -> Finding {
    match probe::missing_capability() {
        None => ok("privileges", "those of root"),
        Some(cap) => fail("privileges", format!("{cap} is missing"), "start imtcp with sudo"),
    }
}

fn lockdown() -> Finding {
    if probe::lockdown_is_confidential() {
        return fail(
            "lockdown",
            "confidentiality: BPF may not read kernel memory",
            "boot without lockdown=confidentiality",
        );
    }
    ok("lockdown", "does not keep BPF from working")
}

fn open_sockets() -> Finding {
    match socket::obstacle() {
        None => ok("open sockets", "`imtcp attach` reaches those of other processes"),
        Some(obstacle) => warn(
            "open sockets",
            format!("{obstacle}: `imtcp attach` does not reach those of other processes"),
            "`imtcp attach` covers their new connections; for all of them start the program with `imtcp run`",
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

/// The real test: does this kernel take the programs?
fn programs() -> Finding {
    match meta::Meta::read() {
        Ok(Some(loaded)) => return ok("programs", format!("imtcp {} is up", loaded.version())),
        Ok(None) => {}
        Err(e) => return warn("programs", "what is up cannot be read", format!("{e:#}")),
    }
    let foreign: Vec<_> = controls().filter(|c| down::is_registered(c)).collect();
    if !foreign.is_empty() {
        return fail(
            "programs",
            format!("registered already, and not by `imtcp up`: {}", foreign.join(", ")),
            format!("`bpftool struct_ops unregister name {}` removes one", foreign[0]),
        );
    }
    if probe::missing_capability().is_some() {
        return warn("programs", "not tried without privileges", "run `sudo imtcp doctor`");
    }
    match up::try_load() {
        Ok(()) => ok("programs", "this kernel accepts them"),
        Err(e) => fail(
            "programs",
            format!("{e:#}"),
            "mend what else fails here; where nothing does, report it",
        ),
    }
}

fn clock() -> Finding {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let name = fs::read_to_string(path).unwrap_or_default().trim().to_string();
    match name.as_str() {
        "hpet" | "acpi_pm" | "jiffies" => warn(
            "clock",
            format!("{name}, which is slow to read or coarse"),
            "use tsc or the hypervisor's clock: boot with clocksource=tsc where it is stable",
        ),
        "" => warn("clock", "unknown", "look at the kernel's log for clocksource messages"),
        _ => ok("clock", name),
    }
}

fn default_control() -> Finding {
    let name = netns::default_cc();
    if name.starts_with("imtcp") {
        return warn(
            "default control",
            format!("{name} is the default of this network namespace"),
            "fine when it is wanted; `imtcp down` sets another",
        );
    }
    ok("default control", name)
}

/// A setting of the kernel's TCP, what it should be, and why.
struct Sysctl {
    name: &'static str,
    is_bad: fn(&[i64]) -> bool,
    why: &'static str,
    /// The value that the kernel has by itself.
    better: &'static str,
}

const SYSCTLS: [Sysctl; 8] = [
    Sysctl {
        name: "net.ipv4.tcp_timestamps",
        is_bad: |v| v[0] == 0,
        why: "without timestamps, round trips are measured worse and old segments confuse",
        better: "1",
    },
    Sysctl {
        name: "net.ipv4.tcp_sack",
        is_bad: |v| v[0] == 0,
        why: "without selective acknowledgements, each loss stops the measurement for long",
        better: "1",
    },
    Sysctl {
        name: "net.ipv4.tcp_window_scaling",
        is_bad: |v| v[0] == 0,
        why: "windows stay under 64 KiB, too little for most paths",
        better: "1",
    },
    Sysctl {
        name: "net.ipv4.tcp_no_metrics_save",
        is_bad: |v| v[0] == 0,
        why: "a new connection begins with the threshold of an old one, perhaps a bad one",
        better: "1",
    },
    Sysctl {
        name: "net.ipv4.tcp_limit_output_bytes",
        is_bad: |v| v[0] < 131_072,
        why: "the kernel stalls the sender before a stream for measuring is complete",
        better: "1048576",
    },
    Sysctl {
        name: "net.ipv4.tcp_min_tso_segs",
        is_bad: |v| v[0] > 2,
        why: "many packets leave at once, which no measurement sees through",
        better: "2",
    },
    Sysctl {
        name: "net.ipv4.tcp_tso_win_divisor",
        is_bad: |v| (1..3).contains(&v[0]) || v[0] == 0,
        why: "half of the window or more leaves as one burst",
        better: "3",
    },
    Sysctl {
        name: "net.ipv4.tcp_wmem",
        is_bad: |v| v.last().is_some_and(|max| *max < 1_048_576),
        why: "the send buffer's limit is under 1 MB, too little for fast or long paths",
        better: "4096 16384 4194304",
    },
];

impl Sysctl {
    fn path(&self) -> String {
        format!("/proc/sys/{}", self.name.replace('.', "/"))
    }

    /// Nothing where the kernel has no such setting.
    fn check(&self) -> Option<Finding> {
        let text = fs::read_to_string(self.path()).ok()?;
        self.judge(&text)
    }

    fn judge(&self, text: &str) -> Option<Finding> {
        let values: Vec<i64> = text.split_whitespace().filter_map(|v| v.parse().ok()).collect();
        if values.is_empty() {
            return None;
        }
        let found = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let short = self.name.trim_start_matches("net.ipv4.");
        Some(if (self.is_bad)(&values) {
            let advice = format!("{}: sysctl -w {}=\"{}\"", self.why, self.name, self.better);
            warn(short, found, advice)
        } else {
            ok(short, found)
        })
    }
}

/// Interrupts held back for longer than this bunch the ACKs that are measured.
const COALESCE_LIMIT_US: u32 = 100;

fn device_findings(device: &Device) -> Vec<Finding> {
    let name = &device.name;
    let mut findings = vec![queue(device)];
    if device.segmentation_offload() {
        findings.push(warn(
            &format!("{name} offloads"),
            device.offloads.join(", "),
            format!(
                "fast measurement is finer without large segments: \
                 `ethtool -K {name} tso off gso off`, or `ip link set {name} gso_max_segs 1`; \
                 costs processor time"
            ),
        ));
    } else {
        findings.push(ok(&format!("{name} offloads"), "no large segments"));
    }
    if device.offloads.contains(&"lro") {
        findings.push(warn(
            &format!("{name} receive offload"),
            "lro merges what arrives, ACKs too",
            format!("ethtool -K {name} lro off"),
        ));
    }
    if let Some(us) = device.rx_coalesce_us {
        let check = format!("{name} interrupts");
        findings.push(if us > COALESCE_LIMIT_US {
            let advice = format!("ACKs arrive in bunches: `ethtool -C {name} rx-usecs 30`");
            warn(&check, format!("held back up to {us} µs"), advice)
        } else {
            ok(&check, format!("held back up to {us} µs"))
        });
    }
    findings
}

fn queue(device: &Device) -> Finding {
    let check = format!("{} queue", device.name);
    let Some(qdisc) = &device.qdisc else {
        return warn(&check, "unknown", "`tc qdisc show` tells");
    };
    match qdisc.as_str() {
        "tbf" | "htb" | "hfsc" => warn(
            &check,
            format!("{qdisc}, a shaper"),
            "bursts that its bucket lets pass look like a faster path: keep the burst small",
        ),
        "fq_codel" | "cake" | "sfq" => ok(
            &check,
            format!("{qdisc} (where this device is the bottleneck, it shares evenly by itself)"),
        ),
        _ => ok(&check, qdisc.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctls_that_spoil_measurement_get_advice() {
        let verdict = |name: &str, text: &str| {
            let sysctl = SYSCTLS.iter().find(|s| s.name.ends_with(name)).unwrap();
            sysctl.judge(text).map(|f| (f.verdict, f.advice.is_some()))
        };
        assert_eq!(verdict("tcp_sack", "0\n"), Some((Verdict::Warn, true)));
        assert_eq!(verdict("tcp_sack", "1\n"), Some((Verdict::Ok, false)));
        assert_eq!(verdict("tcp_wmem", "4096\t16384\t4194304\n"), Some((Verdict::Ok, false)));
        assert_eq!(verdict("tcp_wmem", "4096\t16384\t65536\n"), Some((Verdict::Warn, true)));
        assert_eq!(verdict("tcp_sack", ""), None);
    }

    #[test]
    fn a_missing_need_is_told_apart_from_a_wish() {
        let findings = [ok("a", "x"), warn("b", "y", "do z")];
        assert!(text(&findings).contains("1 could be better"));
        let findings = [fail("c", "y", "do z")];
        assert!(text(&findings).contains("must be mended"));
    }
}
