// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use imtcp_bpf::meta::Meta;
use imtcp_bpf::policy::Policies;
use imtcp_bpf::records::Records;
use imtcp_bpf::totals::TotalsMap;
use imtcp_bpf::{controls, netns, objects, probe, Record, Totals, MODES};
use imtcp_common::out::print_json;
use imtcp_common::{exit, format, procfs};
use serde_json::{json, Value};

use crate::attachment::{self, Attachment, Target};
use crate::cli::StatusArgs;
use crate::coverage::Coverage;
use crate::left_behind;
use crate::mode::Mode;
use crate::nested::Nest;
use crate::nocc;
use crate::policy;
use crate::runs::{self, LeftBehind, Run};
use crate::state;
use crate::sweep::sweep_runs;

/// A run, alive or with connections that outlive it.
struct Listed {
    run: Run,
    ended: bool,
    connections: usize,
    in_force: InForceNow,
    without: Without,
}

/// Connections of a run or attachment that do not have what it ordered.
#[derive(Clone, Copy, Default)]
struct Without {
    /// The kernel refused them the control.
    control: u64,
    /// The kernel refused them the mark.
    mark: u64,
    /// Their program chose another control, or one of ours that holds nothing back.
    left: u64,
}

impl Without {
    fn of(policies: Option<&Policies>, records: &[Record], policy: u64, mode: Mode) -> Self {
        let counted = policies.and_then(|p| p.get(policy).ok().flatten()).unwrap_or_default();
        let is_left = |r: &&Record| r.policy == policy && mode.is_left_on(r.mode);
        Without {
            control: counted.refused_conns,
            mark: if policy::has_default_dscp(&counted) { 0 } else { counted.unmarked_conns },
            left: counted.left_conns + records.iter().filter(is_left).count() as u64,
        }
    }

    /// Behind other parts; empty where there are none.
    fn text(self) -> String {
        let told = [
            policy::chose_another(self.left, "not held back"),
            policy::refused_control(self.control),
            policy::unmarked(self.mark),
        ];
        told.into_iter().flatten().map(|told| format!("; {told}")).collect()
    }
}

impl Listed {
    fn text(&self) -> String {
        let r = &self.run;
        let orders = match self.ended && self.connections == 0 {
            true => "the run is over".into(),
            false => self.in_force.text(r.orders()),
        };
        let open = format::count(self.connections, "connection");
        let ended = match self.ended {
            true => format!(", which has ended; open: {open}"),
            false => String::new(),
        };
        let left = left_behind::told_with_remedy(&self.alive(), &r.options());
        let left = left.map_or(String::new(), |l| format!("; {l}"));
        let without = self.without.text();
        let pid = match r.pid_here() {
            Some(pid) => format!("imtcp's pid {pid}"),
            None => "in another pid namespace".into(),
        };
        let command = format::others_text(&r.command_shown());
        format!("{orders} ({pid}{ended}{left}{without}): {command}")
    }

    /// The processes that the run left behind and that still live.
    fn alive(&self) -> Vec<LeftBehind> {
        self.run.left_behind.iter().filter(|l| l.is_alive()).cloned().collect()
    }
}

struct ListedAttachment {
    attachment: Attachment,
    coverage: Coverage,
    in_force: InForceNow,
    without: Without,
}

/// Has a run or attachment what it ordered? It may go on without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InForceNow {
    Yes,
    /// `imtcp down` ended it, also where imtcp is up again since.
    Down,
    /// Its mode was nocc, which is not allowed any more.
    NoccTakenAway,
}

impl InForceNow {
    fn of(policies: Option<&Policies>, policy: u64, mode: Mode) -> Self {
        if !policies.is_some_and(|p| p.has(policy)) {
            InForceNow::Down
        } else if !nocc::may_be(mode) {
            InForceNow::NoccTakenAway
        } else {
            InForceNow::Yes
        }
    }

    /// The orders, or why they are no more.
    fn text(self, orders: String) -> String {
        match self {
            InForceNow::Yes => orders,
            InForceNow::Down => "no longer in force since `imtcp down`".into(),
            InForceNow::NoccTakenAway => {
                format!("{orders}; no longer in force: nocc is not allowed any more")
            }
        }
    }
}

struct Status {
    loaded: Option<Meta>,
    /// Does this command understand the loaded maps?
    current: bool,
    registered: Vec<&'static str>,
    connections: usize,
    /// How many of them in each mode.
    of_mode: Vec<(&'static str, usize)>,
    totals: Option<Totals>,
    runs: Vec<Listed>,
    attachments: Vec<ListedAttachment>,
}

pub fn main(args: StatusArgs) -> Result<u8> {
    probe::require_privileges("imtcp status")?;
    let loaded = Meta::read()?;
    // Where /run cannot be written, or another command is at work, nothing is swept, and what there is can still
    // be shown.
    if let Ok(Some(lock)) = state::lock_at_once() {
        sweep_runs(&lock);
    }
    let (records, unseen) = match loaded {
        // The state of another version's programs cannot be read. The rest can still be shown.
        Some(_) => Records::open()?.read_seen().unwrap_or_default(),
        None => Default::default(),
    };
    let of_mode = MODES
        .iter()
        .map(|m| (m.name, records.iter().filter(|r| u32::from(r.mode) == m.number).count()))
        .collect();
    let policies = loaded.and_then(|_| Policies::open().ok());
    let nest = Nest::now();
    let status = Status {
        current: loaded.map(|m| m.layout_matches()).transpose()?.unwrap_or(false),
        registered: controls().filter(|c| netns::is_registered(c)).collect(),
        connections: records.len(),
        of_mode,
        totals: loaded.and_then(|_| TotalsMap::open().ok()?.read().ok()),
        runs: listed(&records, policies.as_ref()),
        attachments: attachment::all()
            .into_iter()
            .map(|a| match &policies {
                Some(policies) => a.as_in_kernel(policies),
                None => a,
            })
            .map(|a| ListedAttachment {
                in_force: InForceNow::of(policies.as_ref(), a.policy, a.mode),
                coverage: Coverage::of(&a, &nest),
                without: Without::of(policies.as_ref(), &records, a.policy, a.mode),
                attachment: a,
            })
            .collect(),
        loaded,
    };
    if args.json {
        print_json(&status.json())?;
    } else {
        out!("{}", status.text());
    }
    if let Some(text) = unseen.text() {
        eprintln!("imtcp: connections may be missing: {text}");
        return Ok(exit::FAILURE);
    }
    Ok(if status.loaded.is_some() { exit::OK } else { exit::NOT_UP })
}

/// Runs that live, then those that have ended.
fn listed(records: &[Record], policies: Option<&Policies>) -> Vec<Listed> {
    let list = |run: Run, ended| Listed {
        ended,
        connections: records.iter().filter(|r| r.policy == run.policy).count(),
        in_force: InForceNow::of(policies, run.policy, run.mode),
        without: Without::of(policies, records, run.policy, run.mode),
        run,
    };
    let live = runs::living().into_iter().map(|run| list(run, false));
    let ended = runs::ended().into_iter().map(|run| list(run, true));
    // Its last connection may have ended since the sweep: nothing is left of it.
    live.chain(ended.filter(|one| one.connections > 0 || !one.alive().is_empty())).collect()
}

impl ListedAttachment {
    fn json(&self) -> Value {
        let (a, covered) = (&self.attachment, &self.coverage);
        json!({
            "policy": a.policy,
            "target": a.target,
            "filter": a.filter,
            "rule": a.rule,
            "identity": a.identity,
            "ended": covered.ended,
            "replaced": covered.replaced,
            "linked": !covered.unlinked,
            "moved_away": covered.moved_away,
            "processes": covered.processes,
            "processes_elsewhere": covered.elsewhere,
            "mode": a.mode,
            "in_force": self.in_force == InForceNow::Yes && covered.has_any(&a.target),
            "min_bps": a.limits.min_bps,
            "max_bps": a.limits.max_bps,
            "dscp": a.handling.dscp,
            "priority": a.handling.priority,
            "receives": a.handling.receives,
            "params": a.params,
            "since_unix_s": a.since_unix_s,
            "sockets": a.sockets.len(),
            "unreached_sockets": a.unreached.sockets,
            "unreached_processes": a.unreached.processes,
            "unreached_because": a.unreached.causes(),
            "in_sight": covered.out_of_sight.is_none(),
            "half_done": a.half_done,
            "refused_connections": self.without.control,
            "left_connections": self.without.left,
        })
    }

    fn text(&self) -> String {
        let a = &self.attachment;
        if self.in_force == InForceNow::Down && !self.coverage.ended {
            return format!(
                "{}: no longer in force: `imtcp down`, or a `detach` that was ended half-way, took its \
                 orders away; {} again makes it whole, {} ends it",
                a.name(),
                a.recipe("attach"),
                a.recipe("detach")
            );
        }
        let by = a.rule.as_ref().map_or_else(String::new, |rule| format!(" (rule {rule})"));
        let command = match a.target {
            Target::Pid(pid) if !self.coverage.ended => procfs::command(pid),
            _ => None,
        };
        let command = command.map_or_else(String::new, |command| format!(" ({command})"));
        let mut text = format!("{}{command}: {}{by}", a.name(), self.in_force.text(a.orders()));
        match self.coverage.gap(a) {
            Some(gap) => text += &format!("; {gap}"),
            None => text += &format!("; {}", format::count(self.coverage.processes, "process")),
        }
        if let Some(what) = a.unreached.what() {
            text += &format!("; when it was attached, imtcp could not reach {what}");
        }
        if a.half_done && !self.coverage.unlinked {
            text += "; an `imtcp attach` of it goes on or was ended half-way: another one makes it whole";
        }
        text += &self.without.text();
        text
    }
}

impl Status {
    fn json(&self) -> Value {
        json!({
            "up": self.loaded.is_some(),
            "version": self.loaded.map(|m| m.version()),
            "programs": self.loaded.map(|m| objects::name(m.object_id)),
            "command_version": objects::VERSION,
            "same_layout": self.loaded.map(|_| self.current),
            "since_unix_s": self.loaded.map(|m| m.since_unix_s),
            "upgraded_unix_s": self.loaded.map(|m| m.upgraded_unix_s),
            "linked": self.loaded.map(|m| m.linked != 0),
            "registered": self.registered,
            "connections": self.connections_json(),
            "totals": self.totals.map(|t| json!({
                "connections_started": t.connections_started,
                "connections_ended": t.connections_ended,
                "events_sent": t.events_sent,
                "events_dropped": t.events_dropped,
                "bytes_acked_ended": t.bytes_acked_ended,
            })),
            "runs": self.runs_json(),
            "attachments": self.attachments.iter().map(ListedAttachment::json).collect::<Vec<_>>(),
        })
    }

    fn runs_json(&self) -> Vec<Value> {
        let one = |listed: &Listed| {
            let mut value = json!(listed.run);
            value["pid"] = json!(listed.run.pid_here());
            value["ended"] = json!(listed.ended);
            value["connections"] = json!(listed.connections);
            value["left_behind"] = json!(listed.alive());
            value["refused_connections"] = json!(listed.without.control);
            value["left_connections"] = json!(listed.without.left);
            value["in_force"] = json!(listed.in_force == InForceNow::Yes);
            value
        };
        self.runs.iter().map(one).collect()
    }

    fn connections_json(&self) -> Value {
        let mut counts: serde_json::Map<_, _> =
            self.of_mode.iter().map(|(name, count)| (name.to_string(), json!(count))).collect();
        counts.insert("all".into(), json!(self.connections));
        counts.into()
    }

    fn connections_text(&self) -> String {
        let used: Vec<_> = self
            .of_mode
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{count} in mode {name}"))
            .collect();
        if used.is_empty() {
            return "none".into();
        }
        used.join(", ")
    }

    /// The orders of runs and attachments, also those that `imtcp down` ended.
    fn orders_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for listed in &self.runs {
            rows.push(row("run", listed.text()));
        }
        rows.extend(self.attachments.iter().map(|a| row("attached", a.text())));
        rows
    }

    fn text(&self) -> String {
        let Some(meta) = &self.loaded else {
            let mut text = String::from("imtcp is not up (`imtcp up` loads it)\n");
            for control in &self.registered {
                text += &format!("but something else has registered {control}\n");
            }
            return text + &format::table_of_sentences(&self.orders_rows());
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut rows = vec![
            row(
                "imtcp",
                format!(
                    "{}, programs {}, up since {} ({})",
                    meta.version(),
                    objects::name(meta.object_id),
                    format::unix_time(meta.since_unix_s),
                    format::duration(now.saturating_sub(meta.since_unix_s))
                ),
            ),
            row("registered", self.registered.join(", ")),
            row("connections", self.connections_text()),
        ];
        if nocc::is_allowed() {
            rows.push(row("mode nocc", "allowed to root (`imtcp up` takes it away)".into()));
        }
        if let Some(t) = self.totals {
            rows.push(row("since then", totals_text(&t)));
            rows.push(row(
                "results",
                format!(
                    "{} written for `watch --events` and the agent, {} lost because the buffer was full",
                    t.events_sent, t.events_dropped
                ),
            ));
        }
        rows.extend(self.orders_rows());
        let mut text = format::table_of_sentences(&rows);
        if !self.current {
            text += "this command is another build than what is loaded: `imtcp up` upgrades\n";
        }
        text
    }
}

fn totals_text(t: &Totals) -> String {
    let begun = format!("{} begun", format::count(t.connections_started, "connection"));
    let sent = format::bytes(t.bytes_acked_ended);
    match t.connections_ended {
        0 => format!("{begun}, none ended"),
        1 => format!("{begun}, 1 ended (or left imtcp) after it had sent {sent}"),
        n => format!("{begun}, {n} ended (or left imtcp) after they had sent {sent}"),
    }
}

fn row(name: &str, value: String) -> Vec<String> {
    vec![name.to_string(), value]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_since_then_reads_well_with_any_number() {
        let text = |started, ended, bytes| {
            totals_text(&Totals {
                connections_started: started,
                connections_ended: ended,
                bytes_acked_ended: bytes,
                ..Default::default()
            })
        };
        assert_eq!(text(0, 0, 0), "0 connections begun, none ended");
        assert_eq!(text(1, 0, 0), "1 connection begun, none ended");
        assert_eq!(
            text(2, 1, 12_000),
            "2 connections begun, 1 ended (or left imtcp) after it had sent 12.0 kB"
        );
        assert_eq!(
            text(3, 2, 12_000),
            "3 connections begun, 2 ended (or left imtcp) after they had sent 12.0 kB"
        );
    }
}
