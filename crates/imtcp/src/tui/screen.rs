// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The terminal while `watch` has it. A signal that ends or stops us gives it back first, and when we go
//! on we take it again.
//!
//! One thread alone has to do with the terminal. If another one gave it back meanwhile, the first could
//! see a key, be stopped before it reads it, and wait for ever for what the shell has read.

use std::io::stdout;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use crossterm::cursor::Show;
use crossterm::terminal::{enable_raw_mode, EnterAlternateScreen};
use crossterm::{event, execute};
use nix::sys::signal::{kill, SigSet, Signal};
use nix::unistd::{getpid, Pid};
use ratatui::{DefaultTerminal, Frame};

use crate::signals;

pub struct Screen {
    terminal: DefaultTerminal,
    arrived: mpsc::Receiver<Signal>,
}

impl Screen {
    /// Before there is another thread, which signals would still end or stop.
    pub fn take() -> Result<Self> {
        let mut handled: SigSet = signals::ENDING.into_iter().collect();
        handled.add(Signal::SIGTSTP);
        handled.add(Signal::SIGCONT);
        handled.thread_block()?;
        let terminal = ratatui::init();
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

    fn act_on(&mut self, signal: Signal) -> Result<()> {
        give_back();
        if signal != Signal::SIGCONT {
            signals::act_by_default(signal);
        }
        // Here again after a stop, or where nobody is there to continue us, and the kernel did not stop us.
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen)?;
        Ok(self.terminal.clear()?)
    }
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
