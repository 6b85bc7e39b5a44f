// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A rule as a file has it.

use std::str::FromStr;

use clap::ValueEnum;
use glob::Pattern;
use imtcp_common::alike::did_you_mean;
use imtcp_common::rate::Rate;
use serde::Deserialize;

use super::Rule;
use crate::filter::Filter;
use crate::mode::Mode;
use crate::param::{one_line, Assignment};
use crate::policy::{self, Direction, OrderArgs, Priority};

/// What a rule names. All of it together is what it covers.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub units: Vec<Pattern>,
    pub cgroups: Vec<Pattern>,
    pub containers: Vec<Pattern>,
    pub users: Vec<String>,
    pub commands: Vec<String>,
}

impl Names {
    /// All processes, where it does not say which.
    pub fn is_empty(&self) -> bool {
        self.to_string().is_empty()
    }
}

impl std::fmt::Display for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let mut all: Vec<String> = Vec::new();
        all.extend(self.units.iter().map(|u| format!("unit {u}")));
        all.extend(self.cgroups.iter().map(|c| format!("cgroup {c}")));
        all.extend(self.containers.iter().map(|c| format!("container {c}")));
        all.extend(self.users.iter().map(|u| format!("user {u}")));
        all.extend(self.commands.iter().map(|c| format!("command {c}")));
        f.write_str(&all.join(", "))
    }
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Several<T> {
    #[default]
    None,
    One(T),
    All(Vec<T>),
}

impl<T> Several<T> {
    fn list(self) -> Vec<T> {
        match self {
            Several::None => Vec::new(),
            Several::One(one) => vec![one],
            Several::All(all) => all,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u16),
    Text(String),
}

impl std::fmt::Display for NumberOrText {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            NumberOrText::Number(port) => port.fmt(f),
            NumberOrText::Text(text) => text.fmt(f),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    #[serde(default)]
    unit: Several<String>,
    #[serde(default)]
    cgroup: Several<String>,
    #[serde(default)]
    container: Several<String>,
    #[serde(default)]
    user: Several<String>,
    #[serde(default)]
    command: Several<String>,
    #[serde(default)]
    to: Several<String>,
    #[serde(default)]
    port: Several<NumberOrText>,
    mode: Option<String>,
    min_rate: Option<String>,
    max_rate: Option<String>,
    dscp: Option<NumberOrText>,
    priority: Option<String>,
    direction: Option<String>,
    #[serde(default)]
    param: toml::Table,
}

/// Reads a rule. An error says what is wrong and what to write.
pub fn parse(name: &str, text: &str) -> Result<Rule, String> {
    let written: Written = toml::from_str(text).map_err(|e| one_line(&e, text))?;
    let mode = mode(written.mode.as_deref().unwrap_or("bg"))?;
    let rate = |text: Option<String>| text.map(|t| t.parse::<Rate>()).transpose();
    let args = OrderArgs {
        mode,
        min_rate: rate(written.min_rate).map_err(|e| format!("min-rate: {e}"))?,
        max_rate: rate(written.max_rate).map_err(|e| format!("max-rate: {e}"))?,
        dscp: written
            .dscp
            .map(|t| t.to_string().parse())
            .transpose()
            .map_err(|e| format!("dscp: {e}"))?,
        priority: written.priority.as_deref().map(priority).transpose()?,
        direction: written.direction.as_deref().map(direction).transpose()?,
        params: written.param.iter().map(|(n, v)| Assignment::of_toml(mode, n, v)).collect(),
    };
    let names = Names {
        units: patterns(written.unit.list(), unit_pattern)?,
        cgroups: patterns(written.cgroup.list(), cgroup_pattern)?,
        containers: patterns(written.container.list(), container_pattern)?,
        users: written.user.list(),
        commands: written.command.list(),
    };
    let all = names.users.iter().chain(&names.commands);
    if all.into_iter().any(|name| name.trim().is_empty()) {
        return Err("a name is empty".into());
    }
    if names.users.iter().any(|user| matches!(user.as_str(), "root" | "0")) {
        return Err("user root has all services of the machine: name units instead".into());
    }
    let filter = Filter::new(
        parsed(written.to).map_err(|e| format!("to: {e}"))?,
        parsed(written.port).map_err(|e| format!("port: {e}"))?,
    )?;
    if names.is_empty() && filter.is_none() {
        return Err("it names nothing: write unit, cgroup, container, user, command, to or port, \
             as unit = \"restic.service\""
            .into());
    }
    let args = args.settle().map_err(|e| e.message)?;
    let orders = policy::orders(&args, None).map_err(|e| e.message)?;
    Ok(Rule { name: name.into(), names, filter, mode: args.mode, orders })
}

fn parsed<T: FromStr<Err = String>>(written: Several<impl ToString>) -> Result<Vec<T>, String> {
    written.list().iter().map(|text| text.to_string().parse()).collect()
}

fn mode(name: &str) -> Result<Mode, String> {
    Mode::from_str(name, false).map_err(|_| {
        let names: Vec<_> = Mode::value_variants().iter().map(|m| m.name()).collect();
        let question = did_you_mean(name, names.iter().copied());
        format!(
            "there is no mode {name}: {}",
            question.unwrap_or_else(|| format!("modes are {}", names.join(", ")))
        )
    })
}

fn priority(name: &str) -> Result<Priority, String> {
    Priority::from_str(name, false)
        .map_err(|_| format!("there is no priority {name}: write background or none"))
}

fn direction(name: &str) -> Result<Direction, String> {
    Direction::from_str(name, false)
        .map_err(|_| format!("there is no direction {name}: write both, send or receive"))
}

fn patterns(
    names: Vec<String>,
    of: fn(&str) -> Result<String, String>,
) -> Result<Vec<Pattern>, String> {
    let pattern = |name: &String| {
        let text = of(name)?;
        Pattern::new(&text).map_err(|e| format!("'{name}' is no pattern: {}", e.msg))
    };
    names.iter().map(pattern).collect()
}

/// A unit is a service where it does not say what it is, as for systemctl.
fn unit_pattern(name: &str) -> Result<String, String> {
    const KINDS: [&str; 3] = [".service", ".scope", ".slice"];
    if name.trim_matches(['*', '?']).is_empty() || name.contains('/') {
        return Err(format!("unit '{name}': write the name of a unit, as restic.service"));
    }
    Ok(if KINDS.iter().any(|kind| name.ends_with(kind)) {
        name.into()
    } else {
        format!("{name}.service")
    })
}

fn cgroup_pattern(name: &str) -> Result<String, String> {
    let path = name.strip_prefix("/sys/fs/cgroup").unwrap_or(name).trim_matches('/');
    if path.trim_matches(['*', '?', '/']).is_empty() || path.split('/').any(|part| part == "..") {
        return Err(format!(
            "cgroup '{name}': every process of this machine is in the root cgroup; write one below \
             it, as system.slice/restic.service"
        ));
    }
    Ok(path.into())
}

fn container_pattern(name: &str) -> Result<String, String> {
    match name.is_empty() || name.contains('/') {
        true => {
            Err(format!("container '{name}': write its name, as docker ps or podman ps shows it"))
        }
        false => Ok(name.into()),
    }
}

/// The file of a rule.
pub fn text(names: &[(&str, Vec<String>)], orders: &OrderArgs) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut lines = Vec::new();
    for (key, names) in names {
        let all: Vec<_> = names.iter().map(|name| quoted(name)).collect();
        match all.as_slice() {
            [] => {}
            [one] => lines.push(format!("{key} = {one}")),
            several => lines.push(format!("{key} = [{}]", several.join(", "))),
        }
    }
    lines.push(format!("mode = {}", quoted(orders.mode.name())));
    for (key, rate) in [("min-rate", orders.min_rate), ("max-rate", orders.max_rate)] {
        lines.extend(rate.map(|rate| format!("{key} = \"{}\"", rate.0)));
    }
    lines.extend(orders.dscp.map(|dscp| format!("dscp = \"{dscp}\"")));
    lines.extend(orders.priority.map(|priority| format!("priority = \"{}\"", priority.name())));
    lines.extend(orders.direction.map(|way| format!("direction = \"{}\"", way.name())));
    if !orders.params.is_empty() {
        lines.push("[param]".into());
        for param in &orders.params {
            let value = param.value();
            let is_number = value.parse::<toml::Value>().is_ok_and(|v| !v.is_str());
            let value = if is_number { value.into() } else { quoted(value) };
            lines.push(format!("{} = {value}", quoted(param.name())));
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Dscp, Handling};

    fn refused(text: &str) -> String {
        parse("a", text).unwrap_err()
    }

    #[test]
    fn a_rule_names_what_it_covers_and_what_that_has() {
        let rule = parse(
            "backup",
            "unit = [\"restic*\", \"a.scope\"]\ncgroup = \"/sys/fs/cgroup/x.slice/\"\n\
             user = \"backup\"\ncommand = \"rclone\"\nmax-rate = \"20M\"\n[param]\ng = 0.9\n",
        )
        .unwrap();
        assert_eq!(
            rule.names.to_string(),
            "unit restic*.service, unit a.scope, cgroup x.slice, user backup, command rclone"
        );
        assert_eq!(rule.told(), "bg, g=0.9, at most 20.0 Mbit/s");
        assert_eq!(parse("a", "unit = \"a\"\nmode = \"nice\"").unwrap().told(), "nice, no limits");
    }

    #[test]
    fn a_destination_alone_is_a_rule_and_ports_are_numbers_or_ranges() {
        let rule = parse("a", "to = \"192.0.2.0/24\"\nport = [873, \"8000-8010\"]").unwrap();
        assert_eq!(rule.covers(), "to 192.0.2.0/24, port 873 or 8000-8010");
        let rule = parse("a", "container = \"backup-*\"\nport = 22").unwrap();
        assert_eq!(rule.covers(), "container backup-*, port 22");
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_write() {
        for (text, says) in [
            ("", "it names nothing: write unit"),
            ("unit = []", "it names nothing: write unit"),
            ("unit = \"a\"\nmode = \"bgg\"", "there is no mode bgg: did you mean bg?"),
            ("unit = \"*\"", "unit '*': write the name of a unit"),
            ("cgroup = \"/\"", "every process of this machine is in the root cgroup"),
            ("cgroup = \"*/*\"", "every process of this machine is in the root cgroup"),
            ("cgroup = \"a/../..\"", "every process of this machine is in the root cgroup"),
            ("user = \"root\"", "user root has all services"),
            ("command = \"\"", "a name is empty"),
            ("container = \"a/b\"", "container 'a/b': write its name"),
            ("to = \"host.example.org\"", "to: 'host.example.org' is no network: write addresses"),
            ("to = [\"192.0.2.1\", \"0.0.0.0/0\"]", "to: '0.0.0.0/0' is every address"),
            ("unit = \"a\"\nport = 0", "port: '0' is no port"),
            ("unit = \"a\"\nmax-rate = \"10MB\"", "max-rate: '10MB' may mean bits or bytes"),
            ("unit = \"a\"\nmin-rate = \"9M\"\nmax-rate = \"8M\"", "is over"),
            ("unit = \"a\"\n[param]\ngama = 1", "gama"),
            (
                "unit = \"a\"\ndirection = \"up\"",
                "there is no direction up: write both, send or receive",
            ),
            ("unit = \"a\"\ndscp = \"low\"", "dscp: 'low' is not a DSCP: write none, le, cs0"),
            ("unit = \"a\"\npriority = \"7\"", "there is no priority 7: write background or none"),
            ("unit = \"a\"\nmaxrate = \"8M\"", "unknown field `maxrate`"),
            ("unit = \"a[\"", "is no pattern"),
            ("unit = a", "(line 1)"),
        ] {
            assert!(refused(text).contains(says), "{text}: {}", refused(text));
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let units = ["a \"quoted\" one".to_string(), "b".to_string()];
        let names =
            [("unit", units.to_vec()), ("cgroup", Vec::new()), ("port", vec!["22-23".into()])];
        let orders = OrderArgs {
            dscp: Some(Dscp(None)),
            priority: Some(Priority::None),
            mode: Mode::Bg,
            min_rate: None,
            max_rate: Some(Rate(20_000_000)),
            direction: Some(Direction::Send),
            params: vec![Assignment::of_toml(Mode::Bg, "g", &toml::Value::Float(0.9))],
        };
        let rule = parse("x", &text(&names, &orders)).unwrap();
        assert_eq!(rule.filter.as_ref().unwrap().to_string(), "port 22-23");
        assert_eq!(rule.names.to_string(), "unit a \"quoted\" one.service, unit b.service");
        assert_eq!(
            rule.told(),
            "bg, g=0.9, DSCP none, priority none, direction send, at most 20.0 Mbit/s"
        );
        assert_eq!(Handling::of(&rule.orders), Handling::default());
        let number = parse("x", "unit = \"a\"\ndscp = 8").unwrap();
        assert_eq!(Handling::of(&number.orders).dscp, Dscp(Some(8)));
        let received = parse("x", "unit = \"a\"\ndirection = \"receive\"").unwrap();
        assert_eq!(received.told(), "measure, direction receive, no limits");
        let orders =
            OrderArgs { dscp: Some(Dscp(Some(8))), priority: None, direction: None, ..orders };
        let handling = Handling::of(&parse("x", &text(&names, &orders)).unwrap().orders);
        let priority = Priority::Background;
        assert_eq!(handling, Handling { dscp: Dscp(Some(8)), priority, receives: true });
    }
}
