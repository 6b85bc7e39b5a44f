// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Everything that touches BPF: the embedded objects, loading and pinning them, and reading
//! what they publish. The command line (`crates/imtcp`) knows the kernel only through here.
//!
//! What is loaded lives under [`paths::dir`]; the pins are the only state, so whichever
//! process comes next finds everything there.

pub mod control;
pub mod down;
pub mod events;
mod layout;
pub mod meta;
pub mod netns;
pub mod objects;
pub mod paths;
pub mod policy;
pub mod probe;
mod raw;
pub mod records;
pub mod shared;
pub mod tags;
pub mod totals;
pub mod up;

pub use shared::imtcp_event as Event;
pub use shared::imtcp_policy as Policy;
pub use shared::imtcp_record as Record;
pub use shared::imtcp_totals as Totals;

/// The congestion control of a mode; `None` for [`shared::IMTCP_MODE_NONE`].
pub fn cc_of_mode(mode: shared::imtcp_mode) -> Option<&'static str> {
    match mode {
        shared::IMTCP_MODE_MEASURE => Some("imtcp"),
        shared::IMTCP_MODE_BG => Some("imtcp_bg"),
        _ => None,
    }
}

/// The names that `up` registers.
pub const CONTROLS: [&str; 2] = ["imtcp", "imtcp_bg"];

/// Sends libbpf's own messages to standard error when IMTCP_DEBUG is set, else nowhere.
pub fn set_up_logging() {
    let callback: Option<libbpf_rs::PrintCallback> =
        std::env::var_os("IMTCP_DEBUG").is_some().then_some(|_level, text| eprint!("{text}"));
    let level = libbpf_rs::PrintLevel::Info;
    libbpf_rs::set_print(callback.map(|c| (level, c)));
}

/// Are the loaded maps of the shape that this build knows?
pub fn layout_matches(loaded: &meta::Meta) -> bool {
    layout::own().is_ok_and(|own| own == loaded.layout_id)
}
