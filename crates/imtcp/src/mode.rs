// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The modes: what the congestion control of a connection is to do.

use clap::ValueEnum;
use imtcp_bpf::{mode_of, shared, ModeRow};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Take only the bandwidth that nobody else wants
    Bg,
    /// Share as usual (Reno) and measure
    Measure,
    /// Full speed: share, and fill what is free as fast as it is measured
    Fs,
    /// TCP-LP: leave the path when one-way delays rise
    Lp,
    /// TCP-LP by the routers' marks: needs sysctl net.ipv4.tcp_ecn=1, as lp without
    Lpecn,
    /// TCP Nice: halve when round trips grow, down to a packet every 48 of them
    Nice,
    /// LEDBAT (RFC 6817): keep a queue of 100 ms, or of the parameter target
    Ledbat,
    /// LEDBAT++: keep a queue of 60 ms, or of target, with pauses in which the path is seen empty
    Ledbatpp,
    /// No congestion control: fill the receiver's window; needs `imtcp up --allow-nocc`
    Nocc,
    /// ImTCP as printed [IM §3]: for comparison, as the other paper modes
    Paper,
    /// ImTCP-bg as printed [BG §3.2]
    PaperBg,
    /// ImTCP's own background mode as printed [IM §5.1]
    PaperCap,
    /// ImTCP's full speed as printed [IM §5.2]
    PaperFs,
    /// TCP-LP as printed [LP §III]
    PaperLp,
    /// TCP Nice as printed
    PaperNice,
}

impl Mode {
    fn row(self) -> &'static ModeRow {
        let number = match self {
            Mode::Bg => shared::IMTCP_MODE_BG,
            Mode::Measure => shared::IMTCP_MODE_MEASURE,
            Mode::Fs => shared::IMTCP_MODE_FS,
            Mode::Lp => shared::IMTCP_MODE_LP,
            Mode::Lpecn => shared::IMTCP_MODE_LPECN,
            Mode::Nice => shared::IMTCP_MODE_NICE,
            Mode::Ledbat => shared::IMTCP_MODE_LEDBAT,
            Mode::Ledbatpp => shared::IMTCP_MODE_LEDBATPP,
            Mode::Nocc => shared::IMTCP_MODE_NOCC,
            Mode::Paper => shared::IMTCP_MODE_PAPER,
            Mode::PaperBg => shared::IMTCP_MODE_PAPER_BG,
            Mode::PaperCap => shared::IMTCP_MODE_PAPER_CAP,
            Mode::PaperFs => shared::IMTCP_MODE_PAPER_FS,
            Mode::PaperLp => shared::IMTCP_MODE_PAPER_LP,
            Mode::PaperNice => shared::IMTCP_MODE_PAPER_NICE,
        };
        mode_of(number).expect("every mode has a row")
    }

    /// The one of that number in a record.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::value_variants().iter().copied().find(|m| m.number() == u32::from(number))
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub fn number(self) -> shared::imtcp_mode {
        self.row().number
    }

    /// Does it measure the available bandwidth?
    pub fn measures(self) -> bool {
        use Mode::{Bg, Fs, Measure, Paper, PaperBg, PaperCap, PaperFs};
        matches!(self, Bg | Measure | Fs | Paper | PaperBg | PaperCap | PaperFs)
    }

    /// Does it leave others the path?
    pub fn holds_back(self) -> bool {
        shared::IMTCP_MODES_THAT_YIELD >> self.number() & 1 == 1
    }

    /// Is a connection in the mode of this number of a record held back less than this mode would?
    pub fn is_left_on(self, number: u8) -> bool {
        let is_held = |m: Mode| m.holds_back() || !self.holds_back();
        !Mode::of_number(number).is_none_or(is_held)
    }

    pub fn control(self) -> &'static str {
        self.row().control
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_the_names_of_the_table() {
        for mode in Mode::value_variants() {
            let name = mode.to_possible_value().unwrap();
            assert_eq!(name.get_name(), mode.name());
        }
        assert_eq!(Mode::value_variants().len(), imtcp_bpf::MODES.len());
    }
}
