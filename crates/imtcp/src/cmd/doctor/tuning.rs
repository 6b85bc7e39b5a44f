// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What spoils measurement: the clock, settings of the kernel's TCP, queues and offloads of devices.

use std::fs;

use imtcp_bpf::netns;

use super::{ok, warn, Finding};
use crate::device::{self, Device};

pub(super) fn findings() -> Vec<Finding> {
    let mut findings = vec![clock(), default_control()];
    findings.extend(SYSCTLS.iter().filter_map(Sysctl::check));
    for device in device::of_default_routes() {
        findings.extend(device_findings(&device));
    }
    findings
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
    use super::super::Verdict;
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
}
