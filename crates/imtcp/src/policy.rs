// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What a run or attachment orders: mode, floor, ceiling, marking, parameters.

use std::path::Path;
use std::str::FromStr;

use clap::Args;
use imtcp_bpf::{netns, Policy};
use imtcp_common::exit::{Coded, USAGE};
use imtcp_common::format;
use imtcp_common::rate::{self, Rate};
use serde::{Deserialize, Serialize};

use crate::mode::Mode;
use crate::param::{self, Assignment, AssignmentParser, InForce};

/// A differentiated services code point, 0…63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(pub u8);

impl FromStr for Dscp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.to_ascii_lowercase();
        let digit = |i: usize, range: std::ops::RangeInclusive<u8>| {
            let d = name.as_bytes().get(i)?.checked_sub(b'0')?;
            range.contains(&d).then_some(d)
        };
        let value = match name.as_bytes() {
            b"le" => Some(1),  // RFC 8622
            b"ef" => Some(46), // RFC 3246
            [b'c', b's', _] => digit(2, 0..=7).map(|c| c * 8),
            [b'a', b'f', _, _] => {
                digit(2, 1..=4).zip(digit(3, 1..=3)).map(|(class, drop)| class * 8 + drop * 2)
            }
            _ => name.parse().ok().filter(|v| *v < 64),
        };
        value.map(Dscp).ok_or_else(|| {
            format!("'{text}' is not a DSCP: write le, cs0 to cs7, af11 to af43, ef, or 0 to 63")
        })
    }
}

/// Floor and ceiling of a run or attachment, bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub min_bps: Option<u64>,
    pub max_bps: Option<u64>,
}

impl Limits {
    pub fn of(orders: &Policy) -> Self {
        let set = |bps: u64| (bps > 0).then_some(bps);
        Limits { min_bps: set(orders.min_bps), max_bps: set(orders.max_bps) }
    }
}

impl std::fmt::Display for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match (self.min_bps, self.max_bps) {
            (None, None) => f.write_str("no limits"),
            (None, Some(max)) => write!(f, "at most {}", format::rate(max)),
            (Some(min), None) => write!(f, "at least {}", format::rate(min)),
            (Some(min), Some(max)) => write!(f, "{} to {}", format::rate(min), format::rate(max)),
        }
    }
}

/// The orders in words: `bg, g=0.9, at most 10.0 Mbit/s`.
pub fn told(mode: Mode, params: &InForce, limits: &Limits) -> String {
    let mut parts = vec![mode.name().to_string()];
    parts.extend(param::unusual(mode, params));
    parts.push(limits.to_string());
    parts.join(", ")
}

/// The same as options of `imtcp attach`, each behind a blank. The defaults of the mode and of its section of
/// /etc/imtcp.conf hold without.
pub fn options(mode: Mode, params: &InForce, limits: &Limits) -> String {
    let mut options = String::new();
    if mode != Mode::Bg {
        options += &format!(" --mode {}", mode.name());
    }
    for (name, bps) in [("min", limits.min_bps), ("max", limits.max_bps)] {
        options += &bps.map_or_else(String::new, |bps| format!(" --{name}-rate {}", written(bps)));
    }
    for param in param::not_by_itself(mode, params) {
        options += &format!(" --param {param}");
    }
    options
}

/// A rate to the bit per second, as --max-rate takes it.
fn written(bps: u64) -> String {
    match bps {
        _ if bps.is_multiple_of(1_000_000) => format!("{}M", bps / 1_000_000),
        _ if bps.is_multiple_of(1000) => format!("{}k", bps / 1000),
        _ => bps.to_string(),
    }
}

/// Connections whose control the kernel refused to set, in words; nothing where there are none.
pub fn refused_control(connections: u64) -> Option<String> {
    (connections > 0).then(|| {
        let refused = format::count(connections, "connection");
        format!(
            "{refused} not held back, because the kernel refused them the mode's control: \
             `imtcp up` loads it again"
        )
    })
}

/// Connections whose program chose another control than that of the mode.
pub fn chose_another(connections: u64, consequence: &str) -> Option<String> {
    (connections > 0).then(|| {
        let chose = format::count(connections, "connection");
        format!("{chose} chose another congestion control, {consequence} meanwhile")
    })
}

/// The same of the DSCP.
pub fn unmarked(connections: u64) -> Option<String> {
    (connections > 0).then(|| {
        let unmarked = format::count(connections, "connection");
        format!(
            "{unmarked} without the DSCP: this kernel lets imtcp mark no IPv4 on an IPv6 socket"
        )
    })
}

#[derive(Args, Clone)]
pub struct OrderArgs {
    /// How connections behave; rarely needed
    ///
    /// For example --mode measure shares the path as usual and measures.
    #[arg(long, value_enum, default_value_t = Mode::Bg)]
    pub mode: Mode,
    /// Lower limit of their sum, as 500k (bit/s)
    ///
    /// The sum does not go below it while there is data to send. Rates are bits per second: 500k, 10M,
    /// 1.5Gbit/s, 800000 (k = 1000). For bytes per second write the unit: 1.25MB/s is 10M. 10MB is
    /// refused, because it may mean either. The last line of a run has the limits in bit/s.
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub min_rate: Option<Rate>,
    /// Upper limit of their sum, as 10M (bit/s)
    ///
    /// Rates are written as for --min-rate. Retransmissions and headers count. Linux does not pace the first ten
    /// segments of a connection, so a command that makes nothing but short ones may exceed the limit. A low limit may leave too little data to measure with. The mode
    /// yields to a queue all the same.
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub max_rate: Option<Rate>,
    /// Set a parameter of the mode; may be repeated
    ///
    /// For example --param g=0.7 --param delta=1.1.
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = AssignmentParser)]
    pub params: Vec<Assignment>,
}

/// The part of a policy that user space writes.
pub fn orders(
    args: &OrderArgs,
    config: Option<&Path>,
    dscp: Option<Dscp>,
) -> Result<Policy, Coded> {
    rate::check_order(args.min_rate, args.max_rate)
        .map_err(|message| Coded { code: USAGE, message })?;
    Ok(Policy {
        min_bps: args.min_rate.map_or(0, |r| r.0),
        max_bps: args.max_rate.map_or(0, |r| r.0),
        mode: args.mode.number(),
        dscp_plus1: dscp.map_or(0, |d| u32::from(d.0) + 1),
        params: param::chosen(args.mode, &args.params, config)?,
        ..Default::default()
    })
}

/// Warns, in a line, of what the mode does not find in the calling thread's network namespace.
pub fn warn_of_missing_ecn(mode: Mode) {
    if mode != Mode::Lpecn {
        return;
    }
    if let Some(value) = netns::ecn_not_asked_for() {
        eprintln!(
            "imtcp: net.ipv4.tcp_ecn is {value} here: connections made from this host do not ask \
             for ECN, and lpecn is lp without it; `sysctl -w net.ipv4.tcp_ecn=1` lets them ask"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_have_their_names() {
        let value = |t: &str| t.parse::<Dscp>().map(|d| d.0);
        assert_eq!(value("le"), Ok(1));
        assert_eq!(value("CS1"), Ok(8));
        assert_eq!(value("af43"), Ok(38));
        assert_eq!(value("ef"), Ok(46));
        assert_eq!(value("10"), Ok(10));
        for wrong in ["64", "-1", "cs8", "af44", "low", ""] {
            assert!(value(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn orders_are_told_as_the_options_that_give_them() {
        let of = |mode: Mode, min_bps, max_bps, line: &[Assignment]| {
            let chosen = param::chosen(mode, line, None).unwrap();
            let params = param::in_force(mode, &chosen);
            options(mode, &params, &Limits { min_bps, max_bps })
        };
        assert_eq!(of(Mode::Bg, None, None, &[]), "");
        assert_eq!(
            of(Mode::Lp, Some(150_500), Some(5_000_000), &[]),
            " --mode lp --min-rate 150500 --max-rate 5M"
        );
        assert_eq!(of(Mode::Bg, None, Some(400_000), &[]), " --max-rate 400k");
        let target = Assignment::of_toml(Mode::Ledbat, "target", &toml::Value::Integer(20));
        let told = of(Mode::Ledbat, None, None, &[target]);
        assert_eq!(told, " --mode ledbat --param target=20");
    }

    #[test]
    fn limits_are_said_and_none_is_said() {
        let said = |min_bps, max_bps| {
            Limits::of(&Policy { min_bps, max_bps, ..Default::default() }).to_string()
        };
        assert_eq!(said(0, 0), "no limits");
        assert_eq!(said(0, 10_000_000), "at most 10.0 Mbit/s");
        assert_eq!(said(1_000_000, 0), "at least 1.00 Mbit/s");
        assert_eq!(said(1_000_000, 10_000_000), "1.00 Mbit/s to 10.0 Mbit/s");
    }
}
