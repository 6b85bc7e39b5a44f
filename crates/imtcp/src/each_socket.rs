// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Work on TCP sockets of other programs. Most options wait for the socket's lock, which its program may keep for
//! ever: a child waits, and is left behind (imtcp_bpf::in_child).

use std::collections::HashSet;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

use imtcp_bpf::in_child::{self, is_held_up, Messages};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Part {
    /// By its inode.
    Socket(u64),
    Process(i32),
}

#[derive(Serialize, Deserialize)]
enum Message<T> {
    Begins(Part),
    Done(Part, T),
}

/// One go through the sockets, in the child.
pub struct Pass<'p, T> {
    out: &'p mut Messages,
    passed: &'p HashSet<Part>,
    result: PhantomData<T>,
}

impl<T: Serialize> Pass<'_, T> {
    /// Was it done, or found locked, by a child before?
    pub fn has(&self, part: Part) -> bool {
        self.passed.contains(&part)
    }

    /// Before anything that may wait for the socket.
    pub fn begins(&mut self, part: Part) -> io::Result<()> {
        self.send(&Message::Begins(part))
    }

    pub fn done(&mut self, part: Part, result: T) -> io::Result<()> {
        self.send(&Message::Done(part, result))
    }

    fn send(&mut self, message: &Message<T>) -> io::Result<()> {
        self.out.send(&serde_json::to_vec(message)?)
    }
}

/// How it went.
pub struct Passed {
    /// Sockets that are locked, and were left as they are.
    pub locked: usize,
    /// Why not all others were reached.
    pub fault: Option<io::Error>,
}

/// Has children do `work`, each without the socket that held the last one up, and hands over the results. A child
/// has the descriptors `keep` and those that it opens.
pub fn pass<T: Serialize + DeserializeOwned>(
    keep: &[BorrowedFd],
    work: impl Fn(&mut Pass<T>) -> io::Result<()>,
    mut take: impl FnMut(Part, T),
) -> Passed {
    let (mut passed, mut locked) = (HashSet::new(), 0);
    loop {
        let (mut at, mut done) = (None, Vec::new());
        let result = in_child::run(
            None,
            keep,
            |out| work(&mut Pass { out, passed: &passed, result: PhantomData }),
            |message| match serde_json::from_slice(message) {
                Ok(Message::Begins(part)) => at = Some(part),
                Ok(Message::Done(part, result)) => {
                    at = at.filter(|at| *at != part);
                    done.push(part);
                    take(part, result);
                }
                // The child is of this program.
                Err(_) => {}
            },
        );
        passed.extend(done);
        match (result, at) {
            (Err(e), Some(socket)) if is_held_up(&e) => {
                locked += 1;
                passed.insert(socket);
            }
            (result, _) => return Passed { locked, fault: result.err() },
        }
    }
}

/// Does something to each of our copies of sockets. Hands over what came of each; nothing of one that is locked.
pub fn on_each<T: Serialize + DeserializeOwned>(
    sockets: &[BorrowedFd],
    keep: &[BorrowedFd],
    work: impl Fn(usize, BorrowedFd) -> T,
) -> (Vec<Option<T>>, Passed) {
    let mut results: Vec<Option<T>> = sockets.iter().map(|_| None).collect();
    if sockets.is_empty() {
        return (results, Passed { locked: 0, fault: None });
    }
    let passed = pass(
        &[sockets, keep].concat(),
        |pass| {
            for (index, socket) in sockets.iter().enumerate() {
                let part = Part::Socket(index as u64);
                if !pass.has(part) {
                    pass.begins(part)?;
                    pass.done(part, work(index, *socket))?;
                }
            }
            Ok(())
        },
        |part, result| {
            if let Part::Socket(index) = part {
                results[index as usize] = Some(result);
            }
        },
    );
    (results, passed)
}
