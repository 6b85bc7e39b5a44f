// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp doctor`: what this machine lacks, what spoils measurement, and what to do.

mod needs;
mod tuning;
use anyhow::Result;
use imtcp_bpf::{probe, verifier, Obstacle};
use imtcp_common::out::print_json;
use imtcp_common::{exit, format};
use serde::Serialize;
use serde_json::json;

use crate::cli::DoctorArgs;

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
    /// The remedy; null if all is well.
    advice: Option<String>,
}

fn ok(check: &str, found: impl Into<String>) -> Finding {
    Finding { check: check.into(), verdict: Verdict::Ok, found: found.into(), advice: None }
}

fn warn(check: &str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    let advice = Some(advice.into());
    Finding { check: check.into(), verdict: Verdict::Warn, found: found.into(), advice }
}

fn fail(check: &str, obstacle: Obstacle) -> Finding {
    let Obstacle { found, remedy } = obstacle;
    Finding { check: check.into(), verdict: Verdict::Fail, found, advice: Some(remedy) }
}

pub fn main(args: DoctorArgs) -> Result<u8> {
    if args.verifier {
        return verifier(args.json);
    }
    let findings = match probe::check_proc() {
        // Nothing else can be told without it.
        Err(obstacle) => vec![fail("/proc", obstacle)],
        Ok(()) => needs::findings().into_iter().chain(tuning::findings()).collect(),
    };
    if args.json {
        print_json(&findings)?;
    } else {
        out!("{}", text(&findings));
    }
    Ok(if has_failed(&findings) { exit::FAILURE } else { exit::OK })
}

fn has_failed(findings: &[Finding]) -> bool {
    findings.iter().any(|f| f.verdict == Verdict::Fail)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_need_is_told_apart_from_a_wish() {
        let findings = [ok("a", "x"), warn("b", "y", "do z")];
        assert!(text(&findings).contains("1 could be better"));
        let findings = [fail("c", Obstacle::new("y", "do z"))];
        assert!(text(&findings).contains("must be mended"));
    }
}
