// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A program that is run for what it says, and that has to end.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{killpg, Signal};
use nix::unistd::Pid;

pub struct Said {
    pub stdout: String,
    pub stderr: String,
}

/// Why there is nothing to read.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    NotInstalled,
    /// It was ended because the agent ends.
    Stopped,
    /// In a sentence's second half.
    Other(String),
}

const LOOK: Duration = Duration::from_millis(20);
/// How long it has between SIGTERM and SIGKILL; iperf3 tells its server in that time.
const GRACE: Duration = Duration::from_millis(500);
/// Much more than either program writes.
const MOST_BYTES: u64 = 1 << 20;

/// Runs it to its end, `patience` at most; with another exit code than 0 too, it has said something.
///
/// It has a process group of its own: Ctrl-C ends the agent, which ends it, and does not make it write
/// half a result.
pub fn run(command: &mut Command, patience: Duration, stop: &AtomicBool) -> Result<Said, Failure> {
    command.env("LC_ALL", "C").process_group(0);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(not_started)?;
    let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
    let began = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(_)) => break Ok(()),
            Err(e) => break Err(Failure::Other(format!("was lost: {e}"))),
            Ok(None) if stop.load(Ordering::Relaxed) => break Err(Failure::Stopped),
            Ok(None) if began.elapsed() > patience => {
                let why = format!("did not end within {} s and was ended", patience.as_secs());
                break Err(Failure::Other(why));
            }
            Ok(None) => thread::sleep(LOOK),
        }
    };
    if ended.is_err() {
        end(&mut child);
    }
    ended?;
    // One that it left behind may still hold a pipe: no waiting for that.
    let said = |text: mpsc::Receiver<String>| text.recv_timeout(GRACE).unwrap_or_default();
    Ok(Said { stdout: said(stdout), stderr: said(stderr) })
}

fn not_started(e: io::Error) -> Failure {
    match e.kind() {
        io::ErrorKind::NotFound => Failure::NotInstalled,
        _ => Failure::Other(format!("cannot be started: {e}")),
    }
}

/// In a thread: a full pipe would stop the program.
fn read(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (done, text) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(MOST_BYTES).read_to_end(&mut bytes);
        }
        let _ = done.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

/// Ends the program and all that it may have started.
fn end(child: &mut Child) {
    let group = Pid::from_raw(child.id() as i32);
    let _ = killpg(group, Signal::SIGTERM);
    let began = Instant::now();
    while began.elapsed() < GRACE && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(LOOK);
    }
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_a_program_says_is_read_whatever_its_exit_code() {
        let never = AtomicBool::new(false);
        let said = run(&mut sh("echo out; echo err >&2; exit 3"), LONG, &never).unwrap();
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("out\n", "err\n"));
        let much = run(&mut sh("head -c 3000000 /dev/zero"), LONG, &never).unwrap();
        assert_eq!(much.stdout.len() as u64, MOST_BYTES);
    }

    #[test]
    fn a_program_that_is_not_there_is_told_from_one_that_fails() {
        let never = AtomicBool::new(false);
        let missing = run(&mut Command::new("no-such-program"), LONG, &never);
        assert_eq!(missing.err(), Some(Failure::NotInstalled));
        let denied = run(&mut Command::new("/etc/passwd"), LONG, &never).err();
        assert!(matches!(denied, Some(Failure::Other(why)) if why.contains("cannot be started")));
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children_also_when_it_ignores_being_asked() {
        for (patience, stop) in [(Duration::from_millis(300), false), (LONG, true)] {
            let began = Instant::now();
            let mark = format!("{}.{}", std::process::id(), u8::from(stop));
            let script = format!("trap '' TERM; sleep 1000{mark} & sleep 1000{mark}; wait");
            let failed = run(&mut sh(&script), patience, &AtomicBool::new(stop)).err().unwrap();
            assert_eq!(failed == Failure::Stopped, stop, "{failed:?}");
            assert!(began.elapsed() < Duration::from_secs(10));
            // The kernel ends them in its own time.
            let left = || {
                let mut pgrep = Command::new("pgrep");
                pgrep.args(["-f", &format!("sleep 1000{mark}")]).output().unwrap().stdout
            };
            while !left().is_empty() {
                assert!(began.elapsed() < Duration::from_secs(10));
            }
        }
    }
}
