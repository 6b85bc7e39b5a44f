// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp run --advise`: the run's mode follows the advice for its peers. Without advice it is the safe one, bg: before the
//! first answer, for a peer that nobody knows, with the service away. `imtcp-advice follow` asks the service: a program
//! that loads others into the kernel has no TLS and no tokens, and reads no answers from outside.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Result};
use imtcp_bpf::is_ours;
use imtcp_bpf::policy::Policies;
use imtcp_bpf::records::Records;
use imtcp_common::{exit, procfs};
use serde::Deserialize;

use crate::cgroup;
use crate::cli::RunArgs;
use crate::each_socket::{self, Part, Pass};
use crate::mode::Mode;
use crate::policy::OrderArgs;
use crate::socket::{self, Thread};

/// Between looks at who the peers are.
const LOOK: Duration = Duration::from_secs(1);
/// No answer holds for longer.
const LONGEST: Duration = Duration::from_secs(86_400);
/// The program that asks.
const ASKS: &str = "imtcp-advice";

/// The last answer about one peer.
struct Held {
    mode: Mode,
    until: Instant,
}

/// Was the last answer one? Its loss is told once, not at each question.
struct Heard(bool);

impl Heard {
    /// Why there is no answer any more, when there was one before.
    fn change(&mut self, failed: Option<String>) -> Option<String> {
        let before = std::mem::replace(&mut self.0, failed.is_none());
        failed.filter(|_| before)
    }
}

/// What `imtcp-advice follow` says on a line.
#[derive(Deserialize)]
struct Said {
    mode: String,
    for_s: f64,
    failed: Option<String>,
}

/// `imtcp-advice follow` while it runs. It ends when this is dropped: nobody asks it any more.
struct Asking {
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Asking {
    /// Refuses where its options are wrong; it has said why on standard error.
    fn start(args: &[OsString]) -> Result<Self> {
        // Beside this program, or where others are.
        let own = std::env::current_exe().ok().map(|exe| exe.with_file_name(ASKS));
        let program = own.filter(|own| own.exists()).unwrap_or(ASKS.into());
        let mut command = Command::new(program);
        command.arg("follow").args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for the command that is run.
        command.process_group(0);
        let mut child = command.spawn().map_err(|e| {
            anyhow!("--advise needs the program {ASKS}, which comes with imtcp: {e}")
        })?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("{ASKS} has no pipes")
        };
        let mut asking = Asking { questions, answers: BufReader::new(answers) };
        if asking.hear().is_err() {
            let wrong = format!("{ASKS} does not begin with these options of --advise");
            return Err(match child.wait()?.code() {
                Some(code) if code == i32::from(exit::USAGE) => exit::usage(wrong),
                _ => anyhow!(wrong),
            });
        }
        Ok(asking)
    }

    fn ask(&mut self, peer: IpAddr) -> Result<Said> {
        writeln!(self.questions, "{peer}")?;
        self.hear()
    }

    fn hear(&mut self) -> Result<Said> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            bail!("{ASKS} has ended");
        }
        Ok(serde_json::from_str(&line)?)
    }
}

/// The service whose advice is to be followed.
pub struct Service {
    asking: Asking,
    url: String,
    quiet: bool,
}

impl Service {
    /// The one that the arguments name, if they do.
    pub fn wanted(args: &RunArgs) -> Result<Option<Self>> {
        let Some(url) = args.advise.clone() else { return Ok(None) };
        let mut options: Vec<OsString> = vec!["--url".into(), url.clone().into()];
        for (option, value) in
            [("--token-file", &args.advise_token_file), ("--ca", &args.advise_ca)]
        {
            options.extend(value.iter().flat_map(|value| [option.into(), value.clone().into()]));
        }
        let quiet = args.quiet || args.json;
        Ok(Some(Service { asking: Asking::start(&options)?, url, quiet }))
    }

    /// Follows for as long as this process lives. The thread keeps the privileges that the
    /// caller has now; it needs them to change sockets of the command.
    /// `orders` says how each mode that is advised marks packets.
    pub fn follow(self, policy: u64, cgroup: PathBuf, orders: OrderArgs) -> Result<()> {
        let Service { asking, url, quiet } = self;
        Follower { asking, url, quiet, policy, cgroup, orders }.start()
    }
}

struct Follower {
    asking: Asking,
    url: String,
    quiet: bool,
    policy: u64,
    cgroup: PathBuf,
    orders: OrderArgs,
}

impl Follower {
    fn start(mut self) -> Result<()> {
        let (policies, records) = (Policies::open()?, Records::open()?);
        thread::Builder::new().name("advice".into()).spawn(move || {
            let mut held = BTreeMap::new();
            let mut mode = Mode::Bg;
            let mut heard = Heard(true);
            let answers = self.asking.hear();
            self.tell(heard.change(failed(answers)));
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
        &mut self,
        records: &Records,
        held: &mut BTreeMap<IpAddr, Held>,
        heard: &mut Heard,
    ) -> Mode {
        let records = records.read().unwrap_or_default();
        let mine = records.iter().filter(|r| r.policy == self.policy);
        let peers: Vec<_> = mine.map(|r| r.dst().ip()).collect();
        held.retain(|peer, _| peers.contains(peer));
        for peer in peers {
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

    fn ask(&mut self, peer: IpAddr, heard: &mut Heard) -> Held {
        let said = self.asking.ask(peer);
        let (mode, wait) = match &said {
            Ok(said) if said.mode == Mode::Measure.name() => (Mode::Measure, said.for_s),
            Ok(said) => (Mode::Bg, said.for_s),
            Err(_) => (Mode::Bg, f64::INFINITY),
        };
        self.tell(heard.change(failed(said)));
        let wait = Duration::try_from_secs_f64(wait).unwrap_or(LONGEST);
        Held { mode, until: Instant::now() + wait.clamp(LOOK, LONGEST) }
    }

    fn tell(&self, lost: Option<String>) {
        if let Some(why) = lost.filter(|_| !self.quiet) {
            eprintln!("imtcp: {}: {why}; going on without advice, as bg", self.url);
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
            self.orders.give_mode(mode, &mut orders);
            let _ = policies.replace_orders(self.policy, &orders);
        }
    }

    /// Moves the open sockets that have another of our controls.
    fn switch(&self, mode: Mode) {
        let threads = cgroup::procs(&self.cgroup).into_iter().flat_map(procfs::descriptor_tables);
        let threads: Vec<i32> = threads.collect();
        let switch = |pass: &mut Pass<()>| {
            for thread in &threads {
                let Ok(held) = Thread::open(*thread) else { continue };
                for (fd, inode) in procfs::sockets(*thread) {
                    let part = Part::Socket(inode);
                    let Ok(copy) = held.descriptor(fd) else { continue };
                    if !socket::is_tcp(copy.as_fd()) || pass.has(part) {
                        continue;
                    }
                    pass.begins(part)?;
                    let other = socket::control(copy.as_fd())
                        .is_ok_and(|control| is_ours(&control) && control != mode.control());
                    if other {
                        let _ = socket::set_control(copy.as_fd(), mode.control());
                    }
                    pass.done(part, ())?;
                }
            }
            Ok(())
        };
        // One that is locked keeps its control until it is not.
        let _ = each_socket::pass(&[], switch, |_, ()| ());
    }
}

fn failed(said: Result<Said>) -> Option<String> {
    said.map_or_else(|e| Some(e.to_string()), |said| said.failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_told_when_it_begins() {
        let mut heard = Heard(true);
        let away = || Some("x".to_string());
        assert_eq!(heard.change(away()), away());
        assert_eq!(heard.change(away()), None);
        assert_eq!(heard.change(None), None);
        assert_eq!(heard.change(away()), away());
    }
}
