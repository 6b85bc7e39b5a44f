// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Work that a socket of somebody else can hold up for ever, done in a child process.
//!
//! Whoever sends from memory whose pages never come keeps the socket's lock, and the kernel lets nobody who waits
//! for that lock be killed. So a child waits in our place. This process leaves the child behind once the child is
//! held up, and goes on without the result.

use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use imtcp_common::procfs;

/// How long the kernel may keep a child from running. ours: swapped pages come back in less.
const HELD: Duration = Duration::from_secs(1);
/// How long a child may wait for something else.
const IDLE: Duration = Duration::from_secs(20);
/// How often a child that says nothing is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Children that this process may have left behind at once: each costs `HELD`. ours: others wait for the change
/// lock meanwhile.
const MOST_LEFT: usize = 3;

/// The network namespace that work is about, where it is about one. No other work about it begins while a child of
/// it is left behind.
pub type About = Option<u64>;

/// Those that were left behind, until they end.
static LEFT: Mutex<Vec<(About, libc::pid_t)>> = Mutex::new(Vec::new());

const DATA: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;
const HEAD_BYTES: usize = 5;

/// A socket's lock is held: by a program that sends from memory which does not come.
pub fn held_up() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "a program keeps a TCP socket locked")
}

pub fn is_held_up(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::TimedOut
}

/// Where the child says what it found: each write is a message.
pub struct Messages(File);

impl Messages {
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.put(DATA, message)
    }

    fn put(&mut self, kind: u8, message: &[u8]) -> io::Result<()> {
        let length = (message.len() as u32).to_ne_bytes();
        let mut frame = Vec::with_capacity(HEAD_BYTES + message.len());
        frame.push(kind);
        frame.extend_from_slice(&length);
        frame.extend_from_slice(message);
        self.0.write_all(&frame)
    }
}

/// Runs `work` in a child and hands over its messages, as far as they came. The child has no descriptors but `keep`. So
/// a child that is left behind holds no lock and nobody's output.
///
/// # Errors
/// [`held_up`], the failure of `work`, or why there is no child.
pub fn run(
    about: About,
    keep: &[BorrowedFd],
    work: impl FnOnce(&mut Messages) -> io::Result<()>,
    mut take: impl FnMut(&[u8]),
) -> io::Result<()> {
    if !may_begin(about) {
        return Err(held_up());
    }
    let (read, write) = io::pipe()?;
    // SAFETY: the child uses nothing that another thread may have locked but the allocator, which fork() keeps
    // usable, and ends without running what the parent has registered.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let done = catch_unwind(AssertUnwindSafe(|| as_child(write.into(), keep, work)));
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        child => {
            drop(write);
            let done = follow(child, read, &mut take);
            let left = done.as_ref().is_err_and(is_held_up);
            end(child, about, left);
            done
        }
    }
}

/// Not while a child is held up by the same, or too many are by anything.
pub fn may_begin(about: About) -> bool {
    let mut left = LEFT.lock().unwrap_or_else(|e| e.into_inner());
    left.retain(|(_, child)| !has_ended(*child));
    left.len() < MOST_LEFT && (about.is_none() || left.iter().all(|(of, _)| *of != about))
}

fn has_ended(child: libc::pid_t) -> bool {
    // SAFETY: asks for a child of ours; no status is wanted.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) != 0 }
}

fn end(child: libc::pid_t, about: About, left: bool) {
    if left {
        // It goes when the kernel lets go of it.
        // SAFETY: a child that we have not waited for.
        unsafe { libc::kill(child, libc::SIGKILL) };
        LEFT.lock().unwrap_or_else(|e| e.into_inner()).push((about, child));
        return;
    }
    loop {
        // SAFETY: as above.
        let rc = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        if rc >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

fn as_child(
    write: OwnedFd,
    keep: &[BorrowedFd],
    work: impl FnOnce(&mut Messages) -> io::Result<()>,
) {
    // SAFETY: takes integers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let kept = keep.iter().map(AsRawFd::as_raw_fd).chain([write.as_raw_fd()]);
    close_others(kept.collect());
    let mut messages = Messages(File::from(write));
    let _ = match work(&mut messages) {
        Ok(()) => messages.put(DONE, &[]),
        Err(e) => {
            let mut failure = e.raw_os_error().unwrap_or(0).to_ne_bytes().to_vec();
            failure.extend_from_slice(e.to_string().as_bytes());
            messages.put(FAILED, &failure)
        }
    };
}

fn close_others(mut kept: Vec<RawFd>) {
    kept.sort_unstable();
    let mut first = 0;
    for fd in kept {
        if fd > first {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, i32::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: in the child, which uses none of these any more.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Hands over the messages of a child until it is done.
fn follow(
    child: libc::pid_t,
    mut from: PipeReader,
    take: &mut impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut buffer = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    let (mut ran, mut free) = (Instant::now(), Instant::now());
    loop {
        if !is_readable(from.as_fd())? {
            match procfs::state(child).unwrap_or('?') {
                'R' => (ran, free) = (Instant::now(), Instant::now()),
                // The kernel lets nobody end what it waits for.
                'D' if free.elapsed() > HELD => return Err(held_up()),
                'D' => {}
                _ => free = Instant::now(),
            }
            if ran.elapsed() > IDLE {
                return Err(held_up());
            }
            continue;
        }
        let read = match from.read(&mut chunk) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Err(io::Error::other("a child process of imtcp was ended"));
        }
        (ran, free) = (Instant::now(), Instant::now());
        buffer.extend_from_slice(&chunk[..read]);
        let mut taken = 0;
        while let Some((kind, message)) = first_message(&buffer[taken..]) {
            match kind {
                DATA => take(message),
                DONE => return Ok(()),
                _ => return Err(failure(message)),
            }
            taken += HEAD_BYTES + message.len();
        }
        buffer.drain(..taken);
    }
}

fn first_message(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first_chunk()?;
    Some((*kind, rest.get(..u32::from_ne_bytes(*length) as usize)?))
}

fn failure(message: &[u8]) -> io::Error {
    let (errno, text) = message.split_first_chunk().unwrap_or((&[0; 4], message));
    match i32::from_ne_bytes(*errno) {
        0 => io::Error::other(String::from_utf8_lossy(text)),
        errno => io::Error::from_raw_os_error(errno),
    }
}

/// Within `LOOK`.
fn is_readable(from: BorrowedFd) -> io::Result<bool> {
    let mut wanted = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure is there.
    match unsafe { libc::poll(&mut wanted, 1, LOOK.as_millis() as i32) } {
        -1 => match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => Ok(false),
            e => Err(e),
        },
        ready => Ok(ready > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_child_and_its_failure_come_whole() {
        let mut found = Vec::new();
        let long = vec![7; 200_000];
        let done = run(
            None,
            &[],
            |out| {
                out.send(b"one")?;
                out.send(&long)?;
                Err(io::Error::from_raw_os_error(libc::ENOSPC))
            },
            |message| found.push(message.len()),
        );
        assert_eq!(found, [3, long.len()]);
        assert_eq!(done.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        run(None, &[], |_| Ok(()), |_| ()).unwrap();
    }

    #[test]
    fn a_child_has_only_what_it_is_to_keep() {
        let kept = File::open("/dev/null").unwrap();
        let mut found = Vec::new();
        let count = |out: &mut Messages| {
            // SAFETY: asks only.
            let is_open = |fd: &i32| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0;
            out.send(&[(0..1000).filter(is_open).count() as u8])
        };
        run(None, &[kept.as_fd()], count, |message| found.push(message[0])).unwrap();
        assert_eq!(found, [2], "the pipe and what is kept");
    }

    #[test]
    fn a_child_that_ends_early_is_told() {
        // SAFETY: in the child.
        let done = run(None, &[], |_| unsafe { libc::_exit(0) }, |_| ());
        assert!(done.unwrap_err().to_string().contains("was ended"));
    }
}
