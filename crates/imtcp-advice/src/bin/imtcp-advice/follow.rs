// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! For `imtcp run --advise`, which has neither TLS nor a token: it writes a destination on each line, and each is
//! answered by a line of JSON, as [`Said`] has it. The first two lines come without a question: that the options are
//! right, and whether the service answers.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use anyhow::Result;
use imtcp_advice::settings::Settings;
use imtcp_client::answers::{Advice, Health};
use imtcp_client::http::{Client, Failure};
use imtcp_client::service::ServiceArgs;
use imtcp_client::verdict::{Mode, Verdict};
use imtcp_common::exit;
use serde::Serialize;

/// An answer holds for so long at least.
const SHORTEST: Duration = Duration::from_secs(1);
/// Before a service that did not answer is asked again.
const RETRY: Duration = Duration::from_secs(30);

#[derive(Debug, PartialEq, Serialize)]
struct Said {
    mode: Mode,
    for_s: f64,
    /// Why the service gave no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

/// Ends when nobody asks any more.
pub fn main(args: ServiceArgs) -> Result<u8> {
    let client = Client::new(&args)?;
    say(&Said { mode: Mode::Bg, for_s: 0.0, failed: None })?;
    // Now, though there is no peer to ask for yet: the user is still looking.
    let health = client.get::<Health>("/healthz");
    let away = health.err().filter(|failure| matches!(failure, Failure::Away(_)));
    say(&Said { mode: Mode::Bg, for_s: 0.0, failed: away.map(|failure| failure.to_string()) })?;
    for destination in io::stdin().lock().lines() {
        say(&said(client.advice(&[("dst", destination?)])))?;
    }
    Ok(exit::OK)
}

fn say(said: &Said) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(said)?)?;
    Ok(out.flush()?)
}

/// The meaning of an answer, and its time. Without one it is bg.
fn said(answer: Result<Advice, Failure>) -> Said {
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) => {
            let failed = Some(failure.to_string());
            return Said { mode: Mode::Bg, for_s: RETRY.as_secs_f64(), failed };
        }
    };
    let free = answer.mode == Mode::Measure && answer.verdict == Verdict::Advice;
    // At the advised time, or sooner where the answer does not hold for so long.
    let wait_us = answer.next_advice_at.min(answer.valid_until).saturating_sub(answer.at);
    let wait = u64::try_from(wait_us).map_or(RETRY, Duration::from_micros);
    let mode = if free { Mode::Measure } else { Mode::Bg };
    Said { mode, for_s: wait.clamp(SHORTEST, longest()).as_secs_f64(), failed: None }
}

/// An answer holds for no longer, whatever it says: one wrong answer must not free a path for good. A service
/// that nobody set otherwise gives no advice for longer.
fn longest() -> Duration {
    Duration::from_secs(Settings::default().next_max_s.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(mode: &str, next: &str, valid: &str) -> Advice {
        let answer = json!({
            "at": "2026-03-20T14:00:00Z", "verdict": "advice", "congestion_control": "off", "mode": mode,
            "next_advice_at": next, "valid_until": valid,
        });
        serde_json::from_value(answer).unwrap()
    }

    fn of(answer: Result<Advice, Failure>) -> (Mode, u64) {
        let said = said(answer);
        (said.mode, said.for_s as u64)
    }

    #[test]
    fn an_answer_holds_until_the_next_is_due_or_it_ends() {
        let (early, late) = ("2026-03-20T14:05:00Z", "2026-03-20T15:00:00Z");
        assert_eq!(of(Ok(answer("measure", early, late))), (Mode::Measure, 300));
        assert_eq!(of(Ok(answer("measure", late, early))), (Mode::Measure, 300));
        assert_eq!(of(Ok(answer("bg", late, late))), (Mode::Bg, 3600));
        let mut unknown = answer("bg", late, "2026-03-20T14:01:00Z");
        unknown.verdict = Verdict::Unknown;
        assert_eq!(of(Ok(unknown)), (Mode::Bg, 60));
    }

    #[test]
    fn the_service_away_is_the_safe_mode() {
        assert_eq!(of(Err(Failure::Away("x".into()))), (Mode::Bg, 30));
        let late = "2026-03-20T15:00:00Z";
        let unknown = Advice { verdict: Verdict::Unknown, ..answer("measure", late, late) };
        assert_eq!(of(Ok(unknown)).0, Mode::Bg);
    }

    #[test]
    fn no_answer_holds_longer_than_a_day_or_before_it_was_given() {
        let (never, past) = ("9999-12-30T00:00:00Z", "0001-01-01T00:00:00Z");
        assert_eq!(of(Ok(answer("measure", never, never))), (Mode::Measure, 86_400));
        assert_eq!(of(Ok(answer("measure", never, past))), (Mode::Measure, 30));
        let born_late = Advice { at: i64::MAX, ..answer("measure", past, past) };
        assert_eq!(of(Ok(born_late)).1, 30);
        let born_early = Advice { at: i64::MIN, ..answer("measure", never, never) };
        assert_eq!(of(Ok(born_early)).1, 86_400);
    }
}
