// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The terminal while `watch` has it. A signal that ends or stops us gives it back first, and when we go
//! on we take it again.
//!
//! One thread alone has to do with the terminal. If another one gave it back meanwhile, the first could
//! see a key, be stopped before it reads it, and wait for ever for what the shell has read.

use std::io::stdout;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use crossterm::cursor::Show;
use crossterm::terminal::{enable_raw_mode, EnterAlternateScreen};
use crossterm::{event, execute};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{kill, SigSet, Signal};
use nix::sys::termios::{tcgetattr, tcsetattr, SetArg, SpecialCharacterIndices};
use nix::unistd::{getpid, Pid};
use ratatui::layout::Rect;
use ratatui::{DefaultTerminal, Frame};

use crate::signals;

/// How late a signal is noticed that comes just before a wait.
const LOOK: Duration = Duration::from_millis(500);

pub struct Screen {
    terminal: DefaultTerminal,
    arrived: mpsc::Receiver<Signal>,
}

/// How long crossterm may read, of a key of which half has come: with no time at all it reads nothing.
const READING: Duration = Duration::from_millis(1);

impl Screen {
    /// Before there is another thread, which signals would still end or stop.
    pub fn take() -> Result<Self> {
        let mut handled: SigSet = signals::ENDING.into_iter().collect();
        handled.add(Signal::SIGTSTP);
        handled.add(Signal::SIGCONT);
        handled.thread_block()?;
        let terminal = ratatui::init();
        read_what_is_there();
        // From the first look on it hears of SIGWINCH: a signal may come before we wait for a key.
        let _ = event::poll(Duration::ZERO);
        let (arrives, arrived) = mpsc::channel();
        thread::Builder::new().name("signals".into()).spawn(move || {
            while let Ok(signal) = handled.wait() {
                if arrives.send(signal).is_err() {
                    return;
                }
                // Whoever waits for a key draws anew, as for another size.
                let _ = kill(getpid(), Signal::SIGWINCH);
            }
        })?;
        Ok(Screen { terminal, arrived })
    }

    /// Does what signals have asked for, then draws.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> Result<()> {
        while let Ok(signal) = self.arrived.try_recv() {
            self.act_on(signal)?;
        }
        self.terminal.draw(draw)?;
        Ok(())
    }

    /// Waits for a key, another size or a signal. crossterm alone would read a terminal that hung up for ever,
    /// and no signal would end that.
    pub fn has_event(&mut self, wait: Duration) -> Result<bool> {
        if is_gone(Duration::ZERO) || (!event::poll(Duration::ZERO)? && is_gone(wait.min(LOOK))) {
            self.act_on(Signal::SIGHUP)?;
        }
        Ok(event::poll(READING)?)
    }

    fn act_on(&mut self, signal: Signal) -> Result<()> {
        give_back();
        if signal != Signal::SIGCONT {
            signals::act_by_default(signal);
        }
        // Here again after a stop, or where nobody is there to continue us, and the kernel did not stop us.
        enable_raw_mode()?;
        read_what_is_there();
        execute!(stdout(), EnterAlternateScreen)?;
        // Draws all anew. Terminal::clear would ask the terminal where its cursor is, and read keys as the answer.
        let size = self.terminal.size()?;
        Ok(self.terminal.resize(Rect::new(0, 0, size.width, size.height))?)
    }
}

/// A read returns with what there is, if nothing: of a key of which half has come, crossterm would wait for the
/// rest, whatever signals came meanwhile.
fn read_what_is_there() {
    let stdin = std::io::stdin();
    if let Ok(mut terminal) = tcgetattr(&stdin) {
        terminal.control_chars[SpecialCharacterIndices::VMIN as usize] = 0;
        terminal.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        let _ = tcsetattr(&stdin, SetArg::TCSANOW, &terminal);
    }
}

/// Waits until there is something to read, or a signal came. Has the terminal gone?
fn is_gone(wait: Duration) -> bool {
    let stdin = std::io::stdin();
    let mut terminal = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let _ = poll(&mut terminal, PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO));
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    terminal[0].revents().is_some_and(|events| events.intersects(gone))
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// After a hang-up there is no terminal any more, and nobody to tell.
fn give_back() {
    let _ = ratatui::try_restore();
    let _ = execute!(stdout(), Show);
}

/// Ctrl-Z, which is a key here: what a terminal would do, for sudo and a pipeline too.
pub fn stop_job() {
    let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
}
