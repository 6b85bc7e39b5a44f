// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp run --advise`: the run's mode follows the advice for its peers, and is the safe one
//! (bg) whenever there is none: before the first answer, for a peer that nobody knows, with
//! the service away.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use imtcp_advice::advice::answer::{self, Verdict};
use imtcp_advice::settings::Settings;
use imtcp_bpf::is_ours;
use imtcp_bpf::policy::Policies;
use imtcp_bpf::records::Records;

use crate::answers::{Advice, Health};
use crate::cli::advice::ServiceArgs;
use crate::cli::RunArgs;
use crate::http::{Client, Failure};
use crate::policy::Mode;
use crate::socket::{self, Thread};
use crate::view::Connection;
use crate::{cgroup, procfs};

/// Between looks at who the peers are.
const LOOK: Duration = Duration::from_secs(1);
/// Before a service that did not answer is asked again.
const RETRY: Duration = Duration::from_secs(30);

/// The last answer about one peer.
struct Held {
    mode: Mode,
    until: Instant,
}

/// Was the last answer one? Its loss is told once, not at each question.
struct Heard(bool);

impl Heard {
    /// Why there is no answer any more, when there was one before.
    fn change(&mut self, answer: Result<(), &Failure>) -> Option<String> {
        let before = std::mem::replace(&mut self.0, answer.is_ok());
        answer.err().filter(|_| before).map(Failure::to_string)
    }
}

/// The service whose advice is to be followed.
pub struct Service {
    client: Client,
    quiet: bool,
}

impl Service {
    /// The one that the arguments name, if they do.
    pub fn wanted(args: &RunArgs) -> Result<Option<Self>> {
        let Some(url) = args.advise.clone() else { return Ok(None) };
        let (token_file, ca) = (args.advise_token_file.clone(), args.advise_ca.clone());
        let client = Client::new(&ServiceArgs { url, token_file, ca })?;
        Ok(Some(Service { client, quiet: args.quiet || args.json }))
    }

    /// Follows for as long as this process lives. The thread keeps the privileges that the
    /// caller has now; it needs them to change sockets of the command.
    pub fn follow(self, policy: u64, cgroup: PathBuf) -> Result<()> {
        Follower { client: self.client, quiet: self.quiet, policy, cgroup }.start()
    }
}

struct Follower {
    client: Client,
    quiet: bool,
    policy: u64,
    cgroup: PathBuf,
}

impl Follower {
    fn start(self) -> Result<()> {
        let (policies, records) = (Policies::open()?, Records::open()?);
        thread::Builder::new().name("advice".into()).spawn(move || {
            let mut held = BTreeMap::new();
            let mut mode = Mode::Bg;
            let mut heard = Heard(true);
            // Now, though there is no peer to ask for yet: the user is still looking.
            if let Err(away @ Failure::Away(_)) = self.client.get::<Health>("/healthz") {
                self.tell(heard.change(Err(&away)));
            }
            loop {
                thread::sleep(LOOK);
                if !policies.is_loaded() {
                    // `imtcp down` has ended it: orders now would begin it again.
                    self.tell_down();
                    return;
                }
                let now = self.advised(&records, &mut held, &mut heard);
                if now != mode {
                    if !self.quiet {
                        let why = if heard.0 { "by" } else { "without" };
                        eprintln!("imtcp: {why} advice the mode is now {}", now.name());
                    }
                    mode = now;
                    self.order(&policies, mode);
                }
                // Each time: a connection may have been made under the mode before.
                self.switch(mode);
            }
        })?;
        Ok(())
    }

    /// The mode for all peers: only when each may share as usual, all do.
    fn advised(
        &self,
        records: &Records,
        held: &mut BTreeMap<IpAddr, Held>,
        heard: &mut Heard,
    ) -> Mode {
        let records = records.read().unwrap_or_default();
        let mine = records.iter().filter(|r| r.policy == self.policy);
        let peers: Vec<_> = mine.map(|r| Connection::new(r, None)).collect();
        held.retain(|peer, _| peers.iter().any(|c| c.dst.ip() == *peer));
        for connection in &peers {
            let peer = connection.dst.ip();
            if held.get(&peer).is_none_or(|h| Instant::now() >= h.until) {
                held.insert(peer, self.ask(peer, heard));
            }
        }
        let free = !held.is_empty() && held.values().all(|h| h.mode == Mode::Measure);
        if free {
            Mode::Measure
        } else {
            Mode::Bg
        }
    }

    fn ask(&self, peer: IpAddr, heard: &mut Heard) -> Held {
        let answer = self.client.advice(&[("dst", peer.to_string())]);
        self.tell(heard.change(answer.as_ref().map(drop)));
        held(answer, Instant::now())
    }

    fn tell(&self, lost: Option<String>) {
        if let Some(why) = lost.filter(|_| !self.quiet) {
            eprintln!("imtcp: {}: {why}; going on without advice, as bg", self.client.url());
        }
    }

    fn tell_down(&self) {
        if !self.quiet {
            eprintln!(
                "imtcp: it was taken down: the run goes on without advice and without a mode"
            );
        }
    }

    fn order(&self, policies: &Policies, mode: Mode) {
        if let Ok(Some(mut orders)) = policies.get(self.policy) {
            orders.mode = mode.number() as _;
            let _ = policies.replace_orders(self.policy, &orders);
        }
    }

    /// Moves the open sockets that have another of our controls.
    fn switch(&self, mode: Mode) {
        for thread in cgroup::procs(&self.cgroup).into_iter().flat_map(procfs::descriptor_tables) {
            let Ok(held) = Thread::open(thread) else { continue };
            for (fd, _) in procfs::sockets(thread) {
                let Ok(copy) = held.descriptor(fd) else { continue };
                let copy = copy.as_fd();
                let Ok(control) = socket::control(copy) else { continue };
                let ours = socket::is_tcp(copy) && is_ours(&control);
                if ours && control != mode.control() {
                    let _ = socket::set_control(copy, mode.control());
                }
            }
        }
    }
}

/// The meaning of an answer, and its time. Without one it is bg.
fn held(answer: Result<Advice, Failure>, now: Instant) -> Held {
    let Ok(answer) = answer else { return Held { mode: Mode::Bg, until: now + RETRY } };
    let free = answer.mode == answer::Mode::Measure && answer.verdict == Verdict::Advice;
    // At the advised time, or sooner where the answer does not hold for so long.
    let wait_us = answer.next_advice_at.min(answer.valid_until).saturating_sub(answer.at);
    let wait = u64::try_from(wait_us).map_or(RETRY, Duration::from_micros);
    let wait = wait.clamp(LOOK, longest());
    Held { mode: if free { Mode::Measure } else { Mode::Bg }, until: now + wait }
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
        let now = Instant::now();
        let held = held(answer, now);
        (held.mode, (held.until - now).as_secs())
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
    fn silence_is_told_when_it_begins() {
        let mut heard = Heard(true);
        let away = Failure::Away("x".into());
        assert!(heard.change(Err(&away)).is_some_and(|why| why.ends_with("x")));
        assert_eq!(heard.change(Err(&away)), None);
        assert_eq!(heard.change(Ok(())), None);
        assert!(heard.change(Err(&away)).is_some());
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
