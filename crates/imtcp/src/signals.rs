// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Which signals `run` passes on to its command, and how `run` and `watch` end by one.
//!
//! The command of a run stays in our process group, so what the terminal sends (Ctrl-C, Ctrl-Z, a new
//! window size) reaches it without us: passing it on would deliver it twice. Signals of the
//! terminal come from the kernel, those of kill(1) from a process.

use std::mem::MaybeUninit;
use std::ptr::null;
use std::time::Duration;

use anyhow::Result;
use imtcp_common::exit;
use nix::sys::signal::{raise, SigSet, SigmaskHow, Signal};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;

/// All that can be caught, but for those that tell of this process alone: its own faults, its children, its
/// reading and writing.
fn is_passed_on(signal: i32) -> bool {
    // Between these and the real-time signals the C library keeps some for itself.
    let is_known = (1..=libc::SIGSYS).contains(&signal)
        || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal);
    is_known && ![libc::SIGKILL, libc::SIGSTOP].contains(&signal) && !OF_OUR_OWN.contains(&signal)
}

const OF_OUR_OWN: [i32; 10] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGCHLD,
    libc::SIGPIPE,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// Timers and the like that who started us has set up for this process, and that outlive exec: for what it runs.
const FROM_THE_KERNEL: [i32; 4] = [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF, libc::SIGIO];

/// A signal that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    pub signal: i32,
    pub code: i32,
    /// 0 when it comes from the kernel.
    pub sender: i32,
    /// The value that sigqueue(3) sent with it.
    value: usize,
}

impl Arrived {
    /// The same for another process.
    pub fn send_to(self, pid: Pid) {
        let value = libc::sigval { sival_ptr: self.value as *mut libc::c_void };
        // SAFETY: the calls send a signal; the value is a number to us.
        unsafe {
            match self.code {
                libc::SI_QUEUE => libc::sigqueue(pid.as_raw(), self.signal, value),
                _ => libc::kill(pid.as_raw(), self.signal),
            };
        }
    }
}

/// Signals blocked for the wait; what the mask was before is for the command.
pub struct Blocked {
    set: SigSet,
    pub before: SigSet,
}

impl Blocked {
    pub fn new() -> Result<Self> {
        let wanted = |signal: &i32| is_passed_on(*signal) || *signal == libc::SIGCHLD;
        let mut set = MaybeUninit::uninit();
        // SAFETY: the set is made empty before anything is added and it is read.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in (1..=libc::SIGRTMAX()).filter(wanted) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            SigSet::from_sigset_t_unchecked(set.assume_init())
        };
        // An ignored SIGCHLD, inherited, would leave nothing to wait for.
        // SAFETY: sets a disposition; no handler runs.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        }
        let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(Blocked { set, before })
    }

    /// Waits for the next one.
    pub fn wait(&self) -> Arrived {
        loop {
            if let Some(arrived) = self.next(None) {
                return arrived;
            }
        }
    }

    /// The same for so long at most.
    pub fn wait_for(&self, at_most: Duration) -> Option<Arrived> {
        self.next(Some(TimeSpec::from_duration(at_most)))
    }

    /// Takes this one away if it has arrived.
    pub fn discard(&self, signal: Signal) {
        let none = TimeSpec::from_duration(Duration::ZERO);
        let set = SigSet::from(signal);
        // SAFETY: set and time are valid; nothing is to be written.
        unsafe { libc::sigtimedwait(set.as_ref(), std::ptr::null_mut(), none.as_ref()) };
    }

    fn next(&self, at_most: Option<TimeSpec>) -> Option<Arrived> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let at_most = at_most.as_ref().map_or(null(), |t| std::ptr::from_ref(t.as_ref()));
        // SAFETY: the set is valid, the time too or none, and info is written when a signal is
        // returned.
        let signal = unsafe { libc::sigtimedwait(self.set.as_ref(), info.as_mut_ptr(), at_most) };
        if signal <= 0 {
            return None;
        }
        // SAFETY: written by the call above.
        let (code, sender, value) = unsafe {
            let info = info.assume_init();
            (info.si_code, info.si_pid(), info.si_value().sival_ptr as usize)
        };
        Some(Arrived { signal, code, sender: if code > 0 { 0 } else { sender }, value })
    }
}

/// Ends this process by a signal, without a core file. Only then does a shell end its loop on Ctrl-C, and
/// systemd take SIGTERM for a clean end: an exit code of 128 + n does not do that. As process 1 of a container the
/// signal may not end it: then this returns the code.
pub fn end_by(signal: i32) -> u8 {
    // SAFETY: the calls change this process alone, and no other thread needs the disposition any more.
    unsafe {
        // A limit on core files' sizes does not hold for a core_pattern that is a pipe.
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::raise(signal);
    }
    exit::of_signal(signal)
}

/// Is it for the command and has not reached it already?
pub fn is_for_command(arrived: Arrived, leads_session: bool, sender_is_in_run: bool) -> bool {
    if !is_passed_on(arrived.signal) {
        return false;
    }
    if arrived.code > 0 {
        // The terminal tells its group, except that a hang-up goes to the session's leader.
        return FROM_THE_KERNEL.contains(&arrived.signal)
            || arrived.signal == libc::SIGHUP && leads_session;
    }
    // A command that signals its group (kill 0) has it already.
    !sender_is_in_run
}

/// Asks to end, from outside: the keyboard's Ctrl-C is a key where the terminal is raw.
pub const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];

/// One that has arrived, is blocked and would have ended this process: nohup has SIGHUP ignored.
pub fn pending_end() -> Option<Signal> {
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the kernel writes the set before it is read.
    let pending = unsafe {
        if libc::sigpending(pending.as_mut_ptr()) != 0 {
            return None;
        }
        pending.assume_init()
    };
    // SAFETY: the set is valid, and a null action changes nothing.
    let would_end = |signal: &Signal| unsafe {
        let mut now = MaybeUninit::<libc::sigaction>::zeroed();
        libc::sigismember(&pending, *signal as i32) == 1
            && libc::sigaction(*signal as i32, null(), now.as_mut_ptr()) == 0
            && now.assume_init().sa_sigaction == libc::SIG_DFL
    };
    ENDING.into_iter().find(would_end)
}

pub fn asks_to_end(arrived: Arrived) -> bool {
    ENDING.iter().any(|s| *s as i32 == arrived.signal)
}

/// Lets a signal that this thread blocks do what it does by default: end or stop this process. The
/// SIGCONT that ends a stop is taken with it.
pub fn act_by_default(signal: Signal) {
    let let_through: SigSet = [signal, Signal::SIGCONT].into_iter().collect();
    let _ = raise(signal);
    let _ = let_through.thread_unblock();
    // Only after a stop, or where there was none.
    let _ = let_through.thread_block();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(signal: i32, code: i32) -> Arrived {
        Arrived { signal, code, sender: 1, value: 0 }
    }

    #[test]
    fn kill_is_passed_on_and_ctrl_c_is_not_doubled() {
        assert!(is_for_command(arrived(libc::SIGTERM, libc::SI_USER), false, false));
        assert!(is_for_command(arrived(libc::SIGUSR1, libc::SI_TKILL), false, false));
        assert!(!is_for_command(arrived(libc::SIGINT, libc::SI_KERNEL), false, false));
        assert!(!is_for_command(arrived(libc::SIGWINCH, libc::SI_KERNEL), true, false));
    }

    #[test]
    fn a_hang_up_reaches_the_command_of_a_session_leader() {
        assert!(is_for_command(arrived(libc::SIGHUP, libc::SI_KERNEL), true, false));
        assert!(!is_for_command(arrived(libc::SIGHUP, libc::SI_KERNEL), false, false));
    }

    #[test]
    fn what_was_set_up_for_this_process_is_for_the_command_and_what_it_did_itself_is_not() {
        let kernel = |signal| is_for_command(arrived(signal, libc::SI_KERNEL), false, false);
        assert!(kernel(libc::SIGALRM) && kernel(libc::SIGPROF));
        assert!(!kernel(libc::SIGXCPU) && !kernel(libc::SIGXFSZ));
        let user = |signal| is_for_command(arrived(signal, libc::SI_USER), false, false);
        assert!(
            [libc::SIGXCPU, libc::SIGPWR, libc::SIGABRT, libc::SIGRTMIN()].map(user) == [true; 4]
        );
        assert!([libc::SIGSEGV, libc::SIGPIPE, libc::SIGTTOU, 33].map(user) == [false; 4]);
    }

    #[test]
    fn what_the_command_sends_its_group_does_not_come_back() {
        assert!(!is_for_command(arrived(libc::SIGTERM, libc::SI_USER), false, true));
        assert!(!is_for_command(arrived(libc::SIGCHLD, libc::CLD_EXITED), false, false));
    }
}
