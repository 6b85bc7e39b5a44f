// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Open sockets of processes that run already, given to a policy.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use anyhow::Result;
use imtcp_bpf::sockets::Held;
use imtcp_bpf::tags::Tags;
use imtcp_bpf::{control, is_ours, netns};
use imtcp_common::{format, procfs};
use serde::{Deserialize, Serialize};

use crate::each_socket::{self, Part, Pass, Passed};
use crate::filter::Filter;
use crate::in_no_table;
use crate::mode::Mode;
use crate::opened_inside::OpenedInside;
use crate::socket::{self, Thread};

/// A control that every kernel has and every user may choose, and that leaves the window as it is.
pub const NEUTRAL: &str = "reno";

const IO_URING: &str = "io_uring holds them without a descriptor";
const OPENED_ELSEWHERE: &str =
    "a listener was opened in another cgroup, before its program came here: what it \
                                accepts is not covered until the program opens it again";
const IN_NO_TABLE: &str =
    "no process has a descriptor of them, as of one that a Unix socket carries: once a process \
                           has it, attach again";
const UNCONNECTED: &str =
    "one that is not connected yet was opened in another cgroup, before its program came here: \
                           once it is connected, attach again";
const UNACCEPTED: &str =
    "a listener has not handed them to its program yet; once it has, attach again";
const LOCKED: &str = "their programs keep them locked; once they do not, attach again";

/// Sockets that could not be changed, and why.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Unreached {
    #[serde(rename = "unreached_sockets")]
    pub sockets: usize,
    /// Processes whose open sockets nobody can list.
    #[serde(rename = "unreached_processes")]
    pub processes: usize,
    #[serde(rename = "unreached_because")]
    pub because: BTreeSet<String>,
}

impl Unreached {
    fn note(&mut self, e: &io::Error) {
        let because = || match (e.kind(), socket::obstacle()) {
            (io::ErrorKind::PermissionDenied, Some(obstacle)) => obstacle,
            (io::ErrorKind::PermissionDenied, None) => {
                "a security module or a filter of system calls refuses pidfd_getfd".into()
            }
            _ => e.to_string(),
        };
        self.because.insert(because());
    }

    fn note_sockets(&mut self, count: usize, because: &str) {
        if count > 0 {
            self.sockets += count;
            self.because.insert(because.into());
        }
    }

    /// All causes in one line; nothing where all was reached.
    pub fn causes(&self) -> Option<String> {
        let causes: Vec<&str> = self.because.iter().map(String::as_str).collect();
        (!causes.is_empty()).then(|| causes.join("; "))
    }

    pub fn note_socket(&mut self, e: &io::Error) {
        self.sockets += 1;
        self.note(e);
    }

    pub fn is_empty(&self) -> bool {
        self.sockets == 0 && self.processes == 0
    }

    /// Names them and the cause; `None` if all were reached.
    pub fn what(&self) -> Option<String> {
        let sockets = (self.sockets > 0).then(|| format::count(self.sockets, "open socket"));
        let processes = (self.processes > 0)
            .then(|| format!("what {} opened", format::count(self.processes, "process")));
        let what: Vec<_> = sockets.into_iter().chain(processes).collect();
        let because = self.causes().unwrap_or_else(|| "the kernel refuses".into());
        (!self.is_empty()).then(|| format!("{} ({because})", what.join(" and ")))
    }

    /// In a sentence; nothing where all was reached.
    pub fn text(&self) -> Option<String> {
        let what = self.what()?;
        Some(format!(
            "could not reach {what}: these keep their congestion control; new connections are covered"
        ))
    }
}

/// Gives sockets to a policy, and keeps what they had before.
pub struct Taking {
    policy: u64,
    mode: Mode,
    filter: Option<Filter>,
    /// Policies whose sockets stay theirs.
    before: BTreeSet<u64>,
    opened_inside: OpenedInside,
    tags: Tags,
    /// The control of each socket, by its cookie.
    pub saved: BTreeMap<u64, String>,
    pub multipath: usize,
    pub unreached: Unreached,
}

/// The result for one socket or process.
#[derive(Default, Serialize, Deserialize)]
struct Gain {
    saved: Option<(u64, String)>,
    multipath: usize,
    unreached: Unreached,
}

/// The descriptor was closed or its process has ended since we looked.
fn is_gone(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EBADF | libc::ESRCH | libc::ENOENT))
}

impl Taking {
    pub fn new(policy: u64, mode: Mode, saved: BTreeMap<u64, String>) -> Result<Self> {
        let tags = Tags::open()?;
        let (filter, before, unreached) = Default::default();
        let opened_inside = OpenedInside::of(&[]);
        Ok(Taking {
            policy,
            mode,
            filter,
            before,
            opened_inside,
            tags,
            saved,
            multipath: 0,
            unreached,
        })
    }

    /// In these cgroups only those that pass.
    pub fn filtered(self, filter: Option<Filter>, cgroups: &[PathBuf]) -> Self {
        Taking { filter, opened_inside: OpenedInside::of(cgroups), ..self }
    }

    /// Not those of these policies.
    pub fn after(self, before: BTreeSet<u64>) -> Self {
        Taking { before, ..self }
    }

    /// Changes the open sockets of processes.
    pub fn of_processes(&mut self, pids: &BTreeSet<i32>) {
        if pids.is_empty() {
            return;
        }
        let mut left = pids.clone();
        let (mut gains, taking) = (Vec::new(), &*self);
        let passed = each_socket::pass(
            &[taking.tags.as_fd()],
            |pass| {
                let mut taker = Taker::new(taking);
                pids.iter().try_for_each(|pid| taker.of_process(*pid, pass))
            },
            |part, gain| {
                if let Part::Process(pid) = part {
                    left.remove(&pid);
                }
                gains.push(gain);
            },
        );
        gains.into_iter().for_each(|gain| self.add(gain));
        self.note_passed(&passed, left.len());
    }

    /// Changes sockets that this process has, and says which it took.
    pub fn of_copies(&mut self, copies: &[OwnedFd]) -> Vec<bool> {
        let (taking, own) = (&*self, std::process::id() as i32);
        let sockets: Vec<_> = copies.iter().map(AsFd::as_fd).collect();
        let take = |_, copy: BorrowedFd| {
            let mut taker = Taker::new(taking);
            let done = taker.take(own, copy);
            if let Err(e) = &done {
                taker.gain.unreached.note_socket(e);
            }
            (done.is_ok(), taker.gain)
        };
        let (results, passed) = each_socket::on_each(&sockets, &[taking.tags.as_fd()], take);
        let taken = results.iter().map(|r| r.as_ref().is_some_and(|(is_taken, _)| *is_taken));
        let taken = taken.collect();
        results.into_iter().flatten().for_each(|(_, gain)| self.add(gain));
        self.note_passed(&passed, 1);
        taken
    }

    /// Notes connections whose sockets were opened in cgroups with these ids and that no process has a descriptor of.
    pub fn note_those_in_no_table(&mut self, opened_in: &BTreeSet<u64>) {
        let passes = |held: &Held| {
            let passes = |filter: &Filter| filter.passes(held.peer, held.local_port);
            self.filter.as_ref().is_none_or(passes)
        };
        let has_it = |held: &Held| {
            held.policy == self.policy && held.control == self.mode.control()
                || self.before.contains(&held.policy)
        };
        let asked_for =
            |held: &Held| opened_in.contains(&held.cgroup) && passes(held) && !has_it(held);
        let unknown = match in_no_table::count(asked_for) {
            Ok((count, unseen)) => {
                self.unreached.note_sockets(count, IN_NO_TABLE);
                unseen.text()
            }
            Err(e) => Some(format!("{e:#}")),
        };
        if let Some(why) = unknown {
            eprintln!("imtcp: connections without a descriptor are not known: {why}");
        }
    }

    fn add(&mut self, gain: Gain) {
        if let Some((cookie, control)) = gain.saved {
            self.saved.entry(cookie).or_insert(control);
        }
        self.multipath += gain.multipath;
        self.unreached.sockets += gain.unreached.sockets;
        self.unreached.processes += gain.unreached.processes;
        self.unreached.because.extend(gain.unreached.because);
    }

    fn note_passed(&mut self, passed: &Passed, processes_left: usize) {
        self.unreached.note_sockets(passed.locked, LOCKED);
        if let Some(fault) = &passed.fault {
            self.unreached.processes += processes_left;
            self.unreached.note(fault);
        }
    }
}

/// The part of it that a child does.
struct Taker<'t> {
    taking: &'t Taking,
    opened_inside: OpenedInside,
    gain: Gain,
}

impl<'t> Taker<'t> {
    fn new(taking: &'t Taking) -> Self {
        Taker { taking, opened_inside: taking.opened_inside.clone(), gain: Gain::default() }
    }

    fn of_process(&mut self, pid: i32, pass: &mut Pass<Gain>) -> io::Result<()> {
        if pass.has(Part::Process(pid)) {
            return Ok(());
        }
        let mut seen = HashSet::new();
        for thread in procfs::descriptor_tables(pid) {
            match self.of_table(thread, &mut seen, pass)? {
                // /proc says "permission denied" for a thread that ends meanwhile.
                Err(e) if !is_gone(&e) && procfs::exists(thread) => {
                    self.gain.unreached.processes += 1;
                    self.gain.unreached.note(&e);
                    return pass.done(Part::Process(pid), std::mem::take(&mut self.gain));
                }
                _ => {}
            }
        }
        let held = procfs::sockets_of_io_uring(pid);
        self.gain.unreached.note_sockets(held.difference(&seen).count(), IO_URING);
        pass.done(Part::Process(pid), std::mem::take(&mut self.gain))
    }

    /// Changes the sockets in a thread's table of descriptors, and notes which they are. The outer failure is that
    /// of the child.
    fn of_table(
        &mut self,
        thread: i32,
        seen: &mut HashSet<u64>,
        pass: &mut Pass<Gain>,
    ) -> io::Result<io::Result<()>> {
        let sockets = match procfs::read_sockets(thread) {
            Ok(sockets) if sockets.is_empty() => return Ok(Ok(())),
            Ok(sockets) => sockets,
            Err(e) => return Ok(Err(e)),
        };
        let held = match Thread::open(thread) {
            Ok(held) => held,
            Err(e) => return Ok(Err(e)),
        };
        for (fd, inode) in sockets {
            if !seen.insert(inode) || pass.has(Part::Socket(inode)) {
                continue;
            }
            let taken = match held.descriptor(fd) {
                Ok(copy) if !socket::is_tcp(copy.as_fd()) => continue,
                Ok(copy) => {
                    pass.begins(Part::Socket(inode))?;
                    let taken = self.take(thread, copy.as_fd());
                    // Afterwards: those to come have the listener's control.
                    let waiting = socket::unaccepted(copy.as_fd()) as usize;
                    self.gain.unreached.note_sockets(waiting, UNACCEPTED);
                    taken
                }
                Err(_) if !is_tcp_name(&socket::protocol_name(thread, fd)) => continue,
                refused => refused.map(drop),
            };
            if let Err(e) = taken.or_else(|e| if is_gone(&e) { Ok(()) } else { Err(e) }) {
                self.gain.unreached.note_socket(&e);
            }
            pass.done(Part::Socket(inode), std::mem::take(&mut self.gain))?;
        }
        Ok(Ok(()))
    }

    /// Changes one socket, by a copy of its descriptor in a thread.
    fn take(&mut self, thread: i32, copy: BorrowedFd) -> io::Result<()> {
        let Taking { policy, mode, filter, before, tags, .. } = self.taking;
        let is_before = tags.get(copy).is_some_and(|policy| before.contains(&policy));
        if socket::is_listener(copy) && (is_before || filter.is_some()) {
            // A program with a filter does not see connections that a listener from elsewhere accepts.
            match (self.opened_inside.has(copy)?, filter) {
                (true, Some(_)) if !is_before => return self.take_listener(thread, copy),
                (true, _) => return Ok(()),
                (false, Some(_)) => {
                    self.gain.unreached.note_sockets(1, OPENED_ELSEWHERE);
                    return Ok(());
                }
                (false, None) => {}
            }
        } else if is_before {
            return Ok(());
        }
        if let Some(filter) = filter {
            match socket::ends(copy) {
                Some((peer, port)) if filter.passes(peer, port) => {}
                Some(_) => return Ok(()),
                // The programs of the cgroup that it was opened in see it connect.
                None => {
                    if socket::may_yet_connect(copy) && !self.opened_inside.has(copy)? {
                        self.gain.unreached.note_sockets(1, UNCONNECTED);
                    }
                    return Ok(());
                }
            }
        }
        let (cookie, before) = (socket::cookie(copy)?, socket::control(copy)?);
        // The control's init reads the tag, so the tag comes first. A socket that has the control already gets it
        // anew, so that init runs. It does not pass through the default: after BBR's init ours would begin with
        // slow start.
        tags.set(copy, *policy).map_err(io::Error::other)?;
        let tagged = match socket::is_multipath(copy) {
            true => self.tag_subflows(thread, cookie),
            false => Ok(()),
        };
        let (ours, had_it) = (is_ours(&before), before == mode.control());
        let back = if ours { default_control(thread) } else { before };
        if had_it {
            let _ = socket::set_control(copy, NEUTRAL);
        }
        let set = tagged.and_then(|()| socket::set_control(copy, mode.control()));
        match &set {
            Ok(()) => self.gain.saved = Some((cookie, back)),
            Err(_) => tags.clear(copy),
        }
        set
    }

    /// A filter is asked of each connection that is accepted, and the tag says whose. No control is passed on.
    fn take_listener(&mut self, thread: i32, copy: BorrowedFd) -> io::Result<()> {
        self.taking.tags.set(copy, self.taking.policy).map_err(io::Error::other)?;
        match is_ours(&socket::control(copy)?) {
            true => socket::set_control(copy, &default_control(thread)),
            false => Ok(()),
        }
    }

    fn tag_subflows(&mut self, thread: i32, master_cookie: u64) -> io::Result<()> {
        self.gain.multipath += 1;
        let ns = netns::of_pid(thread)?;
        let policy = self.taking.policy;
        control::tag_subflows(&ns, master_cookie, policy).map_err(io::Error::other)
    }
}

/// That of the network namespace.
fn default_control(thread: i32) -> String {
    let found = netns::of_pid(thread).and_then(|ns| ns.run(netns::fallback_cc));
    found.unwrap_or_else(|_| "cubic".into())
}

fn is_tcp_name(name: &str) -> bool {
    name.starts_with("TCP") || name.starts_with("MPTCP")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_reached_is_said_with_the_cause() {
        assert_eq!(Unreached::default().text(), None);
        let because = ["CAP_SYS_PTRACE is missing".to_string()].into();
        let text = Unreached { sockets: 1, processes: 2, because }.text().unwrap();
        let wanted = "could not reach 1 open socket and what 2 processes opened \
                      (CAP_SYS_PTRACE is missing): ";
        assert!(text.starts_with(wanted), "{text}");
    }
}
