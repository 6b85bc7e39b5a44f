// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What a run or attachment orders: mode, floor, ceiling, marking, parameters.

use std::path::Path;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use imtcp_bpf::control::Programs;
use imtcp_bpf::{netns, Policy};
use imtcp_common::exit::{Coded, USAGE};
use imtcp_common::format;
use imtcp_common::rate::{self, Rate};
use serde::{Deserialize, Serialize};

use crate::mode::Mode;
use crate::param::{self, Assignment, AssignmentParser, InForce};

/// A differentiated services code point, 0…63, or none: the packets keep what they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dscp(pub Option<u8>);

impl Dscp {
    /// Lower effort (RFC 8622).
    const LE: Self = Dscp(Some(1));

    fn plus1(self) -> u32 {
        self.0.map_or(0, |code| u32::from(code) + 1)
    }
}

/// As --dscp takes it.
impl std::fmt::Display for Dscp {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.0 {
            Some(code) => code.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// Where packets stand in the queues of this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Behind others: the lowest band, and Wi-Fi's background class
    Background,
    /// As the program says
    #[default]
    None,
}

impl Priority {
    /// As --priority takes it.
    pub fn name(self) -> &'static str {
        match self {
            Priority::Background => "background",
            Priority::None => "none",
        }
    }
}

/// The direction of a connection that yields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Sent data by the mode, and received data by the window that this host offers
    Both,
    /// Sent data
    #[default]
    Send,
    /// Received data; sent data is measured
    Receive,
}

impl Direction {
    /// As --direction takes it.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Both => "both",
            Direction::Send => "send",
            Direction::Receive => "receive",
        }
    }

    fn receives(self) -> bool {
        self != Direction::Send
    }
}

/// Marks and direction: what imtcp does to packets and windows beside the mode's control. An older imtcp has none
/// stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Handling {
    pub dscp: Dscp,
    pub priority: Priority,
    /// Do downloads yield?
    pub receives: bool,
}

impl Handling {
    /// Where nobody chooses others.
    fn of_mode(mode: Mode) -> Self {
        let receives = mode == Mode::Bg;
        match mode.holds_back() {
            true => Handling { dscp: Dscp::LE, priority: Priority::Background, receives },
            false => Handling::default(),
        }
    }

    pub fn programs(self) -> Programs {
        Programs {
            keep_dscp: self.dscp.0.is_some(),
            set_priority: self.priority == Priority::Background,
            receive: self.receives,
        }
    }

    /// As --direction names it.
    fn direction(self, mode: Mode) -> Direction {
        match (self.receives, mode) {
            (false, _) => Direction::Send,
            (true, Mode::Measure) => Direction::Receive,
            (true, _) => Direction::Both,
        }
    }

    pub fn of(orders: &Policy) -> Self {
        let code = orders.dscp_plus1.checked_sub(1).and_then(|code| u8::try_from(code).ok());
        let priority = if orders.is_behind == 0 { Priority::None } else { Priority::Background };
        Handling { dscp: Dscp(code), priority, receives: orders.receives != 0 }
    }
}

impl FromStr for Dscp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.to_ascii_lowercase();
        if name == "none" {
            return Ok(Dscp(None));
        }
        let digit = |i: usize, range: std::ops::RangeInclusive<u8>| {
            let d = name.as_bytes().get(i)?.checked_sub(b'0')?;
            range.contains(&d).then_some(d)
        };
        let value = match name.as_bytes() {
            b"le" => Dscp::LE.0,
            b"ef" => Some(46), // RFC 3246
            [b'c', b's', _] => digit(2, 0..=7).map(|c| c * 8),
            [b'a', b'f', _, _] => {
                digit(2, 1..=4).zip(digit(3, 1..=3)).map(|(class, drop)| class * 8 + drop * 2)
            }
            _ => name.parse().ok().filter(|v| *v < 64),
        };
        value.map(|code| Dscp(Some(code))).ok_or_else(|| {
            format!(
                "'{text}' is not a DSCP: write none, le, cs0 to cs7, af11 to af43, ef, or 0 to 63"
            )
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
pub fn told(mode: Mode, params: &InForce, limits: &Limits, handling: Handling) -> String {
    let mut parts = vec![mode.name().to_string()];
    parts.extend(param::unusual(mode, params));
    let usual = Handling::of_mode(mode);
    if handling.dscp != usual.dscp {
        parts.push(format!("DSCP {}", handling.dscp));
    }
    if handling.priority != usual.priority {
        parts.push(format!("priority {}", handling.priority.name()));
    }
    if handling.receives != usual.receives {
        parts.push(format!("direction {}", handling.direction(mode).name()));
    }
    parts.push(limits.to_string());
    parts.join(", ")
}

/// The same as options of `imtcp attach`, each behind a blank. The defaults of the mode and of its section of
/// /etc/imtcp.conf hold without.
pub fn options(mode: Mode, params: &InForce, limits: &Limits, handling: Handling) -> String {
    let mut options = String::new();
    if mode != Mode::Bg {
        options += &format!(" --mode {}", mode.name());
    }
    for (name, bps) in [("min", limits.min_bps), ("max", limits.max_bps)] {
        options += &bps.map_or_else(String::new, |bps| format!(" --{name}-rate {}", written(bps)));
    }
    let usual = Handling::of_mode(mode);
    if handling.dscp != usual.dscp {
        options += &format!(" --dscp {}", handling.dscp);
    }
    if handling.priority != usual.priority {
        options += &format!(" --priority {}", handling.priority.name());
    }
    if handling.receives != usual.receives {
        options += &format!(" --direction {}", handling.direction(mode).name());
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

/// Those of a run without options.
#[cfg(test)]
pub(crate) fn usual_orders() -> Policy {
    Policy {
        mode: Mode::Bg.number(),
        dscp_plus1: Dscp::LE.plus1(),
        is_behind: 1,
        receives: 1,
        ..Default::default()
    }
}

/// Nobody may have asked for that one.
pub fn has_default_dscp(orders: &Policy) -> bool {
    orders.dscp_plus1 == Dscp::LE.plus1()
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
    /// Mark the packets with a DSCP; none does not [le]
    ///
    /// Names are le, ef, cs0 to cs7 and af11 to af43. A number is 0 to 63. The name le is the lower effort of
    /// RFC 8622, which CAKE and other queues serve after the rest. It is the default of the modes that yield. Others have none.
    /// Some kernels let imtcp mark no IPv4 on an IPv6 socket.
    #[arg(long, value_name = "DSCP")]
    pub dscp: Option<Dscp>,
    /// Queue the packets on this host: background, none [background]
    ///
    /// With background they wait behind others in the queues of this host. Those are the lowest band of pfifo_fast and
    /// prio, and Wi-Fi's background class. UDP of the command, as QUIC, waits too. TCP through fq does not: flows take
    /// turns there. It is the default of the modes that yield. Others have none.
    #[arg(
        long,
        value_enum,
        value_name = "PRIORITY",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub priority: Option<Priority>,
    /// Yield with sent data, received data or both [both]
    ///
    /// Sent data goes by the mode. Received data yields by the window that this host offers. For that the sender needs
    /// TCP timestamps, which all but Windows hosts use by default. With receive, sent data is measured and shares the
    /// path as usual. The default is both in mode bg, and send in the other modes.
    #[arg(
        long,
        value_enum,
        value_name = "DIRECTION",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub direction: Option<Direction>,
    /// Set a parameter of the mode; may be repeated
    ///
    /// For example --param g=0.7 --param delta=1.1.
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = AssignmentParser)]
    pub params: Vec<Assignment>,
}

/// The part of a policy that user space writes.
pub fn orders(args: &OrderArgs, config: Option<&Path>) -> Result<Policy, Coded> {
    rate::check_order(args.min_rate, args.max_rate)
        .map_err(|message| Coded { code: USAGE, message })?;
    let mut orders = Policy {
        min_bps: args.min_rate.map_or(0, |r| r.0),
        max_bps: args.max_rate.map_or(0, |r| r.0),
        params: param::chosen(args.mode, &args.params, config)?,
        ..Default::default()
    };
    args.give_mode(args.mode, &mut orders);
    Ok(orders)
}

impl OrderArgs {
    /// With --direction receive the mode holds for sent data.
    pub fn settle(mut self) -> Result<Self, Coded> {
        if self.direction == Some(Direction::Receive) {
            if !matches!(self.mode, Mode::Bg | Mode::Measure) {
                let message = format!(
                    "--direction receive leaves what is sent alone, and --mode {} is of that: \
                     leave one out",
                    self.mode.name()
                );
                return Err(Coded { code: USAGE, message });
            }
            self.mode = Mode::Measure;
        }
        Ok(self)
    }

    /// The mode, and what is done beside its control.
    pub fn give_mode(&self, mode: Mode, orders: &mut Policy) {
        let usual = Handling::of_mode(mode);
        orders.mode = mode.number();
        orders.dscp_plus1 = self.dscp.unwrap_or(usual.dscp).plus1();
        orders.is_behind = (self.priority.unwrap_or(usual.priority) == Priority::Background).into();
        orders.receives = self.direction.map_or(usual.receives, Direction::receives).into();
    }
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
        assert_eq!(value("le"), Ok(Some(1)));
        assert_eq!(value("CS1"), Ok(Some(8)));
        assert_eq!(value("af43"), Ok(Some(38)));
        assert_eq!(value("ef"), Ok(Some(46)));
        assert_eq!(value("10"), Ok(Some(10)));
        assert_eq!(value("none"), Ok(None));
        for wrong in ["64", "-1", "cs8", "af44", "low", ""] {
            assert!(value(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_yields_is_marked_so_unless_another_mark_is_chosen() {
        let of = |mode: Mode, dscp: Option<&str>, priority: Option<Priority>| {
            let mut orders = Policy::default();
            let dscp = dscp.map(|d| d.parse().unwrap());
            let (min_rate, max_rate) = (None, None);
            let (direction, params) = (None, Vec::new());
            OrderArgs { mode, min_rate, max_rate, dscp, priority, direction, params }
                .give_mode(mode, &mut orders);
            (orders.dscp_plus1, orders.is_behind)
        };
        assert_eq!(of(Mode::Bg, None, None), (2, 1));
        assert_eq!(of(Mode::Lp, None, None), (2, 1));
        assert_eq!(of(Mode::Measure, None, None), (0, 0));
        assert_eq!(of(Mode::Fs, None, None), (0, 0));
        assert_eq!(of(Mode::Bg, Some("none"), Some(Priority::None)), (0, 0));
        assert_eq!(of(Mode::Measure, Some("cs1"), Some(Priority::Background)), (9, 1));
    }

    #[test]
    fn orders_are_told_as_the_options_that_give_them() {
        let of = |mode: Mode, min_bps, max_bps, line: &[Assignment]| {
            let chosen = param::chosen(mode, line, None).unwrap();
            let params = param::in_force(mode, &chosen);
            options(mode, &params, &Limits { min_bps, max_bps }, Handling::of_mode(mode))
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
        let none = options(Mode::Bg, &InForce::default(), &Limits::default(), Handling::default());
        assert!(none.starts_with(" --dscp none --priority none"), "{none}");
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
