// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Can the service read and write its history? The writing task notes how each try went; `/healthz`
//! tells, and while the history is another one than was opened, no request is answered from memory.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;

use super::problem::Problem;
use super::Shared;
use crate::error::Error;

/// A look at the history or a write that takes longer counts as failing: another process holds the database.
const SLOW: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct Health(Mutex<Outcomes>);

#[derive(Default)]
struct Outcomes {
    /// Why the last try to read failed.
    reading: Option<String>,
    /// Why the last try to write failed.
    writing: Option<String>,
    /// The history was removed or replaced.
    replaced: bool,
    /// The last read found it damaged.
    damaged: bool,
    writing_since: Option<Instant>,
    reading_since: Option<Instant>,
}

impl Health {
    fn state(&self) -> MutexGuard<'_, Outcomes> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn begin_read(&self) {
        self.state().reading_since = Some(Instant::now());
    }

    /// How a try to read went.
    pub fn read(&self, tried: Result<(), &Error>) {
        let mut state = self.state();
        state.reading_since = None;
        state.replaced = matches!(tried, Err(Error::Replaced(_)));
        state.damaged = matches!(tried, Err(Error::Corrupt(_)));
        log("read", &mut state.reading, tried);
    }

    pub fn begin_write(&self) {
        self.state().writing_since = Some(Instant::now());
    }

    /// How the write went that began last.
    pub fn wrote(&self, tried: Result<(), &Error>) {
        if let Err(Error::Replaced(_)) = tried {
            self.read(tried);
        }
        let mut state = self.state();
        state.writing_since = None;
        // Where the history went is known above, and ends when it is back.
        if !state.replaced {
            log("written", &mut state.writing, tried);
        }
    }

    /// Did the last write fail?
    pub fn cannot_write(&self) -> bool {
        self.state().writing.is_some()
    }

    /// Did the last read find the history damaged? Anything written into it then is lost.
    pub fn is_damaged(&self) -> bool {
        self.state().damaged
    }

    /// Is the history another one than was opened?
    pub fn is_replaced(&self) -> bool {
        self.state().replaced
    }

    /// Refuses to answer from a history that was removed or replaced.
    pub fn check_history(&self) -> Result<(), Problem> {
        if !self.is_replaced() {
            return Ok(());
        }
        let detail =
            "the history was removed or replaced: nothing is read or stored until it is back; \
                      see the service's log";
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail))
    }

    /// Refuses if reading or writing fails.
    pub fn check(&self) -> Result<(), Problem> {
        self.check_history()?;
        let state = self.state();
        let is_slow = |since: Option<Instant>| since.is_some_and(|at| at.elapsed() > SLOW);
        let detail = match (&state.reading, &state.writing) {
            (Some(_), _) => "the history cannot be read: see the service's log",
            (None, Some(_)) => "reports cannot be stored: see the service's log",
            (None, None) if is_slow(state.reading_since) => "the history does not answer",
            (None, None) if is_slow(state.writing_since) => {
                "a write waits for a database that another process holds"
            }
            (None, None) => return Ok(()),
        };
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail))
    }
}

/// Refuses while the history was removed or replaced, also what could be answered from memory.
pub async fn with_history(
    State(service): State<Shared>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let Err(problem) = service.health.check_history() {
        if request.uri().path() == "/v1/reports" {
            service.metrics.batches.with_label_values(&["failed"]).inc();
        }
        return Err(problem);
    }
    Ok(next.run(request).await)
}

/// Each trouble is said once, and its end.
fn log(what: &str, before: &mut Option<String>, tried: Result<(), &Error>) {
    let now = tried.err().map(Error::to_string);
    match (&before, &now) {
        (_, Some(why)) if before.as_ref() != Some(why) => {
            tracing::error!("the history cannot be {what}: {why}");
        }
        (Some(_), None) => tracing::info!("the history can be {what} again"),
        _ => {}
    }
    *before = now;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_is_told_until_one_succeeds() {
        let health = Health::default();
        assert!(health.check().is_ok());
        health.wrote(Err(&Error::Full));
        assert!(health.cannot_write());
        assert_eq!(health.check().unwrap_err().status, 503);
        // Reading goes on.
        assert!(health.check_history().is_ok());
        health.wrote(Ok(()));
        assert!(health.check().is_ok());
    }

    #[test]
    fn a_history_that_is_back_can_be_read_and_written_at_once() {
        let health = Health::default();
        health.wrote(Err(&Error::Replaced("the file x".into())));
        assert!(health.check_history().is_err() && !health.cannot_write());
        health.read(Ok(()));
        assert!(health.check().is_ok());
    }

    #[test]
    fn a_damaged_history_is_written_to_no_more_until_it_can_be_read() {
        let health = Health::default();
        health.read(Err(&Error::Corrupt("x".into())));
        assert!(health.is_damaged() && health.check().is_err());
        health.read(Ok(()));
        assert!(!health.is_damaged());
    }

    #[test]
    fn a_write_or_a_look_that_waits_for_long_is_told() {
        let health = Health::default();
        health.begin_write();
        assert!(health.check().is_ok());
        health.state().writing_since = Instant::now().checked_sub(SLOW * 2);
        assert!(health.check().unwrap_err().detail.contains("another process"));
        health.wrote(Ok(()));
        health.begin_read();
        assert!(health.check().is_ok());
        health.state().reading_since = Instant::now().checked_sub(SLOW * 2);
        assert!(health.check().unwrap_err().detail.contains("does not answer"));
        health.read(Ok(()));
        assert!(health.check().is_ok());
    }
}
