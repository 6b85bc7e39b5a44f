// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The terminal while `watch` has it. A signal that ends or stops us gives it back first, and when we go
//! on we take it again.

use std::io::stdout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::Result;
use crossterm::cursor::Show;
use crossterm::execute;
use crossterm::terminal::{enable_raw_mode, EnterAlternateScreen};
use nix::sys::signal::{kill, SigSet, Signal};
use nix::unistd::{getpid, Pid};
use ratatui::{DefaultTerminal, Frame};

use crate::signals;

pub struct Screen {
    terminal: DefaultTerminal,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Whoever holds it writes to the terminal: nothing is drawn while it is given back.
    writing: Mutex<()>,
    /// What was drawn before is not there any more.
    is_blank: AtomicBool,
}

impl Screen {
    /// Before there is another thread, which signals would still end or stop.
    pub fn take() -> Result<Self> {
        let mut handled: SigSet = signals::ENDING.into_iter().collect();
        handled.add(Signal::SIGTSTP);
        handled.add(Signal::SIGCONT);
        handled.thread_block()?;
        let shared = Arc::new(Shared::default());
        let terminal = ratatui::init();
        let ours = Arc::clone(&shared);
        thread::Builder::new().name("signals".into()).spawn(move || {
            while let Ok(signal) = handled.wait() {
                ours.handle(signal);
            }
        })?;
        Ok(Screen { terminal, shared })
    }

    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> Result<()> {
        let _writing = self.shared.writing.lock();
        if self.shared.is_blank.swap(false, Ordering::Relaxed) {
            self.terminal.clear()?;
        }
        self.terminal.draw(draw)?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _writing = self.shared.writing.lock();
        give_back();
    }
}

impl Shared {
    fn handle(&self, signal: Signal) {
        let _writing = self.writing.lock();
        give_back();
        if signal != Signal::SIGCONT {
            signals::act_by_default(signal);
        }
        // Here again after a stop, or where nobody is there to continue us, and the kernel did not stop us.
        let _ = enable_raw_mode();
        let _ = execute!(stdout(), EnterAlternateScreen);
        self.is_blank.store(true, Ordering::Relaxed);
        // Whoever waits for a key draws anew, as for another size.
        let _ = kill(getpid(), Signal::SIGWINCH);
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
