// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The parts of a run's last line that name traffic which imtcp did not hold back, each as it was seen.

use imtcp_common::{format, shell};

use super::summary::{Summary, WORTH_TELLING_BYTES};
use super::uncovered::{Daemon, Uncovered};
use crate::policy::{chose_another, options, refused_control, unmarked};

/// Where TCP has sent something: lookups and attempts at QUIC are less.
const WORTH_TELLING_BESIDE_TCP_BYTES: u64 = 100_000;

pub fn not_held_back(s: &Summary) -> Vec<String> {
    let left = chose_another(s.left_uncounted(), "not held back nor counted");
    // `taken_away` says the same of the time after the programs were gone.
    let left_counted = chose_another(s.left_connections - s.uncounted_connections, "not held back")
        .filter(|_| s.taken_away.is_none());
    let no_room = (s.no_room_connections > 0).then(|| {
        let no_room = format::count(s.no_room_connections, "connection");
        format!(
            "{no_room} not held back, for want of room in the socket: \
             `sysctl -w net.core.optmem_max=131072` makes it"
        )
    });
    let refused = refused_control(s.refused_connections).filter(|_| s.taken_away.is_none());
    let unmarked = unmarked(s.unmarked_connections).filter(|_| s.dscp_is_chosen);
    let Uncovered { udp_bytes, other_bytes, nfs_bytes, daemons, moved } = &s.uncovered;
    let by = |bytes: Option<u64>, how| {
        let least =
            if s.bytes_acked == 0 { WORTH_TELLING_BYTES } else { WORTH_TELLING_BESIDE_TCP_BYTES };
        let much = bytes.filter(|n| *n >= least);
        much.map(|n| format!("{} sent by {how}, not held back", format::bytes(n)))
    };
    let udp = by(*udp_bytes, "UDP");
    let other = by(*other_bytes, "IP without TCP or UDP");
    let orders = options(s.mode, &s.params, &s.limits, s.handling);
    let moved = moved.as_ref().map(|m| {
        let (command, cgroup) = (format::others_text(&m.command), format::others_text(&m.cgroup));
        format!(
            "{command} moved to the cgroup {cgroup}, out of the run{}",
            remedy(&m.cgroup, &orders)
        )
    });
    let parts = [left, left_counted, no_room, refused, unmarked, udp, other, moved];
    let mut told: Vec<_> = parts.into_iter().flatten().collect();
    let saw_none = s.connections + s.inner_connections == 0;
    // Many ask the bus for something else: it is a likely cause where nothing else was seen.
    let does = |d: &Daemon| match (d.is_go_between, saw_none) {
        (false, true) => Some("sends for it"),
        (false, false) => Some("was used too, and what it sends is not held back"),
        (true, true) => Some("may have had a service send for it"),
        (true, false) => None,
    };
    told.extend(daemons.iter().filter_map(|d| {
        let path = format::others_text(&d.path);
        Some(format!("{} ({path}) {}: {}", d.name, does(d)?, d.remedy))
    }));
    // That number is the whole machine's: another's where the command has connections of its own.
    if saw_none {
        told.extend((*nfs_bytes >= WORTH_TELLING_BYTES).then(|| {
            let bytes = format::bytes(*nfs_bytes);
            format!("NFS wrote {bytes} meanwhile, by connections of the kernel, not held back")
        }));
    }
    told
}

/// The root is attached on request alone. Nothing of a cgroup whose name no shell can be given.
fn remedy(cgroup: &str, orders: &str) -> String {
    let force = match cgroup {
        "/" => " --force",
        _ => "",
    };
    let Some(cgroup) = shell::quoted(cgroup) else { return String::new() };
    let else_where = if force.is_empty() { "" } else { ", with all else that is in no cgroup" };
    format!(": `imtcp attach --cgroup {cgroup}{force}{orders}` holds it back there{else_where}")
}

#[cfg(test)]
mod tests {
    use super::super::line::line;
    use super::super::uncovered::Moved;
    use super::*;
    use crate::mode::Mode;
    use crate::policy::usual_orders;

    fn nothing() -> Summary {
        Summary::new(Mode::Bg, &usual_orders(), 2_000_000)
    }

    fn sent() -> Summary {
        Summary { connections: 2, bytes_acked: 12_500_000, ..nothing() }
    }

    #[track_caller]
    fn says(s: &Summary, part: &str) {
        assert!(line(s).contains(part), "{}", line(s));
    }

    #[test]
    fn connections_that_left_or_had_no_room_are_told() {
        let s = Summary { left_connections: 1, uncounted_connections: 1, ..sent() };
        says(
            &s,
            "; 1 connection chose another congestion control, not held back nor counted meanwhile",
        );
        let s = Summary { no_room_connections: 2, ..nothing() };
        assert_eq!(
            line(&s),
            "imtcp: 2 connections not held back, for want of room in the socket: \
             `sysctl -w net.core.optmem_max=131072` makes it"
        );
    }

    #[test]
    fn connections_that_the_kernel_refused_the_control_or_the_mark_are_told() {
        let s = Summary { refused_connections: 2, ..nothing() };
        assert_eq!(
            line(&s),
            "imtcp: 2 connections not held back, because the kernel refused them the mode's control: \
             `imtcp up` loads it again"
        );
        let s = Summary { unmarked_connections: 1, ..sent() };
        assert_eq!(line(&s), line(&sent()));
        let s = Summary { dscp_is_chosen: true, ..s };
        says(&s, "; 1 connection without the DSCP: this kernel lets imtcp mark no IPv4 on an IPv6");
    }

    #[test]
    fn udp_is_told_where_it_is_much() {
        let udp = |n| Uncovered { udp_bytes: Some(n), ..Default::default() };
        let s = Summary { uncovered: udp(31_000_000), ..nothing() };
        assert_eq!(
            line(&s),
            "imtcp: saw no TCP connection of the command; 31.0 MB sent by UDP, not held back"
        );
        says(&Summary { uncovered: udp(2_000_000), ..sent() }, "; 2.00 MB sent by UDP");
        let much = Summary { bytes_acked: 60_000_000_000, uncovered: udp(120_000), ..sent() };
        says(&much, "; 120 kB sent by UDP");
        for s in [
            Summary { uncovered: udp(300), ..nothing() },
            Summary { uncovered: udp(20_000), ..sent() },
        ] {
            assert!(!line(&s).contains("UDP"), "{}", line(&s));
        }
    }

    #[test]
    fn what_is_neither_tcp_nor_udp_is_told_where_it_is_much() {
        let s = |n| {
            let uncovered = Uncovered { other_bytes: Some(n), ..Default::default() };
            Summary { uncovered, ..nothing() }
        };
        says(&s(600_000), "; 600 kB sent by IP without TCP or UDP, not held back");
        assert!(!line(&s(300)).contains("without TCP"));
    }

    #[test]
    fn the_remedy_for_who_left_to_the_root_is_one_that_attach_takes() {
        assert!(remedy("/", "").starts_with(": `imtcp attach --cgroup / --force` "));
    }

    #[test]
    fn the_remedy_names_a_cgroup_as_a_shell_takes_it_or_not_at_all() {
        let told = ": `imtcp attach --cgroup '/x;touch pwned' --mode lp` holds it back there";
        assert_eq!(remedy("/x;touch pwned", " --mode lp"), told);
        assert_eq!(remedy("/x\u{1b}[2J", ""), "");
    }

    #[test]
    fn who_sends_in_the_commands_place_is_told_and_the_machines_nfs_where_there_is_nothing_else() {
        let uncovered = Uncovered {
            nfs_bytes: 31_000_000,
            daemons: vec![Daemon {
                name: "docker's daemon",
                path: "/run/docker.sock".into(),
                remedy: "do this",
                is_go_between: false,
            }],
            ..Default::default()
        };
        let s = Summary { uncovered: uncovered.clone(), ..nothing() };
        assert_eq!(
            line(&s),
            "imtcp: saw no TCP connection of the command; docker's daemon (/run/docker.sock) sends \
             for it: do this; NFS wrote 31.0 MB meanwhile, by connections of the kernel, not held back"
        );
        let s = Summary { uncovered, ..sent() };
        says(
            &s,
            "; docker's daemon (/run/docker.sock) was used too, and what it sends is not held back: do this",
        );
        assert!(!line(&s).contains("NFS"), "{}", line(&s));
    }

    #[test]
    fn a_bus_is_told_as_a_likely_cause_where_nothing_else_was_seen() {
        let bus = Daemon {
            name: "the system's D-Bus",
            path: "/run/dbus/system_bus_socket".into(),
            remedy: "do this",
            is_go_between: true,
        };
        let uncovered = Uncovered { daemons: vec![bus], ..Default::default() };
        let s = Summary { uncovered, ..nothing() };
        let told =
            "; the system's D-Bus (/run/dbus/system_bus_socket) may have had a service send \
                    for it: do this";
        assert!(line(&s).ends_with(told), "{}", line(&s));
        let s = Summary { connections: 2, bytes_acked: 12_500_000, ..s };
        assert!(!line(&s).contains("D-Bus"), "{}", line(&s));
    }

    #[test]
    fn who_left_the_cgroup_is_told_with_what_holds_it_there() {
        let moved = Moved { command: "su".into(), cgroup: "/user.slice/session-3.scope".into() };
        let uncovered = Uncovered { moved: Some(moved), ..Default::default() };
        says(
            &Summary { uncovered, ..sent() },
            "; su moved to the cgroup /user.slice/session-3.scope, out of the run: \
             `imtcp attach --cgroup /user.slice/session-3.scope` holds it back there",
        );
    }
}
