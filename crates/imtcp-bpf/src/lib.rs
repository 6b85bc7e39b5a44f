// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Everything that touches BPF: the embedded objects, loading and pinning them, and reading
//! what they publish. The command line (`crates/imtcp`) knows the kernel only through here.
//!
//! What is loaded lives under [`paths::dir`]; the pins are the only state, so whichever
//! process comes next finds everything there.

pub mod control;
pub mod down;
pub mod events;
pub mod in_child;
mod layout;
pub mod loaded;
pub mod meta;
pub mod mountns;
pub mod names;
pub mod netns;
pub mod objects;
mod obstacle;
pub mod paths;
pub mod policy;
pub mod probe;
mod raw;
pub mod receive;
pub mod records;
mod registrations;
pub mod rundir;
pub mod shared;
pub mod sockets;
mod staged;
pub mod tags;
pub mod totals;
pub mod uncovered;
mod unseen;
pub mod up;
pub mod verifier;
mod walk;

pub use obstacle::Obstacle;
pub use shared::imtcp_event as Event;
pub use shared::imtcp_params as Params;
pub use shared::imtcp_policy as Policy;
pub use shared::imtcp_record as Record;
pub use shared::imtcp_totals as Totals;
pub use unseen::Unseen;

/// A mode: its number in the records, its name for the user, its congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeRow {
    pub number: shared::imtcp_mode,
    pub name: &'static str,
    pub control: &'static str,
}

const fn mode(number: shared::imtcp_mode, name: &'static str, control: &'static str) -> ModeRow {
    ModeRow { number, name, control }
}

/// Every mode, in the order of their numbers.
pub const MODES: [ModeRow; 15] = [
    mode(shared::IMTCP_MODE_MEASURE, "measure", "imtcp"),
    mode(shared::IMTCP_MODE_BG, "bg", "imtcp_bg"),
    mode(shared::IMTCP_MODE_FS, "fs", "imtcp_fs"),
    mode(shared::IMTCP_MODE_LP, "lp", "imtcp_lp"),
    mode(shared::IMTCP_MODE_LPECN, "lpecn", "imtcp_lpecn"),
    mode(shared::IMTCP_MODE_NICE, "nice", "imtcp_nice"),
    mode(shared::IMTCP_MODE_LEDBAT, "ledbat", "imtcp_ledbat"),
    mode(shared::IMTCP_MODE_LEDBATPP, "ledbatpp", "imtcp_ledbatpp"),
    mode(shared::IMTCP_MODE_NOCC, "nocc", NOCC),
    mode(shared::IMTCP_MODE_PAPER, "paper", "imtcp_paper"),
    mode(shared::IMTCP_MODE_PAPER_BG, "paper-bg", "imtcp_paperbg"),
    mode(shared::IMTCP_MODE_PAPER_CAP, "paper-cap", "imtcp_papercap"),
    mode(shared::IMTCP_MODE_PAPER_FS, "paper-fs", "imtcp_paperfs"),
    mode(shared::IMTCP_MODE_PAPER_LP, "paper-lp", "imtcp_paperlp"),
    mode(shared::IMTCP_MODE_PAPER_NICE, "paper-nice", "imtcp_papernice"),
];

/// The mode of that number; `None` for [`shared::IMTCP_MODE_NONE`].
pub fn mode_of(number: shared::imtcp_mode) -> Option<&'static ModeRow> {
    MODES.iter().find(|m| m.number == number)
}

/// The control that `up` registers only where it is asked to.
pub const NOCC: &str = "imtcp_nocc";

/// The names of all.
pub fn controls() -> impl Iterator<Item = &'static str> {
    MODES.iter().map(|m| m.control)
}

/// The names that `up` always registers.
pub fn usual_controls() -> impl Iterator<Item = &'static str> {
    controls().filter(|c| *c != NOCC)
}

/// Is this one of them?
pub fn is_ours(control: &str) -> bool {
    controls().any(|c| c == control)
}

/// Sends libbpf's own messages to standard error when IMTCP_DEBUG is set, else nowhere.
pub fn set_up_logging() {
    let callback: Option<libbpf_rs::PrintCallback> =
        std::env::var_os("IMTCP_DEBUG").is_some().then_some(|_level, text| {
            // `eprint!` would panic where it cannot write, here in a call from C.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        });
    let level = libbpf_rs::PrintLevel::Info;
    libbpf_rs::set_print(callback.map(|c| (level, c)));
}
