// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The parameters of a mode. What is chosen for one comes from `--param`, else from its mode's
//! section of the configuration file, else it is the default; docs/reference/parameters.md tells users.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::ValueEnum;
use imtcp_bpf::Params;
use imtcp_common::alike::did_you_mean;
use imtcp_common::exit::{Coded, USAGE};
use serde_json::{Number, Value};

use crate::mode::Mode;

mod table;

use table::{Param, MILLISECONDS, NAMED, PARAMS, PLUS1, ROUND_TRIPS};

/// Read where `--config` names no other; nobody needs to have it.
pub const CONFIG: &str = "/etc/imtcp.conf";

impl Param {
    fn name(&self) -> &'static str {
        self.key.trim_end_matches('=')
    }

    /// As people write it: with as many decimals as the programs' scale can tell apart.
    fn shown(&self, value: u32) -> f64 {
        if self.scale == PLUS1 {
            return f64::from(value) - 1.0;
        }
        let tells_apart = match self.scale {
            1 => 1.0,
            100 | 256 => 1e2,
            MILLISECONDS => 1e3,
            _ => 1e4,
        };
        (f64::from(value) / f64::from(self.scale) * tells_apart).round() / tells_apart
    }

    /// As people write it, a name or a number.
    fn text(&self, value: u32) -> String {
        match self.scale {
            NAMED => {
                ROUND_TRIPS.get((value as usize).wrapping_sub(1)).copied().unwrap_or("?").into()
            }
            _ => self.shown(value).to_string(),
        }
    }

    fn json(&self, value: u32) -> Value {
        match self.scale {
            NAMED => self.text(value).into(),
            1 => value.into(),
            PLUS1 => value.wrapping_sub(1).into(),
            _ => Number::from_f64(self.shown(value)).expect("a finite number").into(),
        }
    }

    fn unit(&self) -> &'static str {
        if self.scale == MILLISECONDS {
            " ms"
        } else {
            ""
        }
    }

    fn range(&self) -> String {
        match self.scale {
            NAMED => one_of(&ROUND_TRIPS),
            _ => format!("between {} and {}", self.text(self.least), self.text(self.most)),
        }
    }

    fn default_shown(&self) -> String {
        match self.default {
            0 => "adapts".into(),
            default => self.text(default),
        }
    }

    /// Its meaning, range, default and modes.
    fn help(&self) -> String {
        let modes: Vec<_> = self.modes.iter().map(|m| m.name()).collect();
        let default = self.default_shown();
        let (range, unit) = (self.range(), self.unit());
        format!("{}, {range}{unit} ({default}); {}", self.what, modes.join(", "))
    }

    /// The value in the programs' scale.
    fn parse(&self, text: &str) -> Result<u32, String> {
        let (name, range) = (self.name(), self.range());
        let whole = self.scale == 1 || self.scale == PLUS1;
        let kind = match self.scale {
            NAMED => "",
            _ if whole => "a whole number ",
            MILLISECONDS => "a number of milliseconds ",
            _ => "a number ",
        };
        let given = if text.is_empty() { "empty" } else { text };
        let refused = || format!("{name} must be {kind}{range}, not {given}");
        if self.scale == NAMED {
            let known = (self.least..=self.most).find(|value| self.text(*value) == text);
            return known.ok_or_else(refused);
        }
        let number = text.strip_suffix(self.unit().trim()).unwrap_or(text).trim();
        let value: f64 = number.parse().map_err(|_| refused())?;
        let ends = self.shown(self.least)..=self.shown(self.most);
        if !ends.contains(&value) || (whole && value.fract() != 0.0) {
            return Err(refused());
        }
        if self.scale == PLUS1 {
            return Ok(value as u32 + 1);
        }
        Ok(((value * f64::from(self.scale)).round() as u32).clamp(self.least, self.most))
    }
}

/// "a, b or c".
fn one_of<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<_> = names.iter().map(T::as_ref).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Those that the mode has.
fn of(mode: Mode) -> impl Iterator<Item = &'static Param> {
    PARAMS.iter().filter(move |p| p.modes.contains(&mode))
}

fn find(mode: Mode, name: &str) -> Result<&'static Param, String> {
    of(mode).find(|p| p.name() == name).ok_or_else(|| {
        let names: Vec<_> = of(mode).map(Param::name).collect();
        let mut has = match names.as_slice() {
            [] => "it has none".to_string(),
            names => format!("it has {}", names.join(", ")),
        };
        if let Some(question) = did_you_mean(name, names.into_iter()) {
            has = format!("{question} {has}");
        }
        format!("mode {} has no parameter {name}: {has}", mode.name())
    })
}

fn choose(params: &mut Params, mode: Mode, name: &str, value: &str) -> Result<(), String> {
    let param = find(mode, name)?;
    *(param.field)(params) = param.parse(value)?;
    Ok(())
}

/// The parameters in force for a connection of a mode: those chosen, and defaults for the others. Parameters
/// that adapt are left out.
pub type InForce = BTreeMap<String, Value>;

pub fn in_force(mode: Mode, params: &Params) -> InForce {
    let mut params = *params;
    let mut value = |p: &Param| match *(p.field)(&mut params) {
        0 => p.default,
        chosen => chosen,
    };
    of(mode)
        .map(|p| (p, value(p)))
        .filter(|(_, value)| *value != 0)
        .map(|(p, value)| (p.name().into(), p.json(value)))
        .collect()
}

/// `delta=1.3` for each that is not the default.
pub fn unusual(mode: Mode, in_force: &InForce) -> Vec<String> {
    those(mode, in_force, |p, value| *value != p.json(p.default))
}

/// The same for each that this machine would not have without it.
pub fn not_by_itself(mode: Mode, in_force: &InForce) -> Vec<String> {
    let plain =
        chosen(mode, &[], None).map_or_else(|_| InForce::new(), |c| self::in_force(mode, &c));
    those(mode, in_force, |p, value| plain.get(p.name()) != Some(value))
}

fn those(
    mode: Mode,
    in_force: &InForce,
    is_wanted: impl Fn(&Param, &Value) -> bool,
) -> Vec<String> {
    of(mode)
        .filter_map(|p| Some((p, in_force.get(p.name())?)))
        .filter(|(p, value)| is_wanted(p, value))
        .map(|(p, value)| match (value.as_str(), value.as_f64()) {
            (Some(name), _) => format!("{}{name}", p.key),
            // 20, not 20.0
            (None, Some(number)) => format!("{}{number}", p.key),
            (None, None) => format!("{}{value}", p.key),
        })
        .collect()
}

/// The choices of the file and the command line for the mode; 0 is "not chosen".
pub fn chosen(mode: Mode, line: &[Assignment], file: Option<&Path>) -> Result<Params, Coded> {
    let usage = |message| Coded { code: USAGE, message };
    let mut params =
        from_file(mode, file.unwrap_or(CONFIG.as_ref()), file.is_some()).map_err(usage)?;
    let mut named = BTreeSet::new();
    for Assignment { name, value } in line {
        if !named.insert(name) {
            return Err(usage(format!("--param {name} is given more than once: write it once")));
        }
        choose(&mut params, mode, name, value).map_err(usage)?;
    }
    Ok(params)
}

/// Reads a file with a table for each mode. It checks the tables of other modes too, so a mistake shows before
/// the day on which it counts.
fn from_file(wanted: Mode, path: &Path, needed: bool) -> Result<Params, String> {
    let shown = path.display();
    let text = match std::fs::read_to_string(path) {
        Err(e) if e.kind() == ErrorKind::NotFound && !needed => return Ok(Params::default()),
        other => other.map_err(|e| format!("cannot read {shown}: {e}"))?,
    };
    let tables: toml::Table =
        text.parse().map_err(|e| format!("{shown} is not TOML: {}", one_line(&e, &text)))?;
    let mut found = Params::default();
    for (section, entries) in tables {
        let mode = Mode::from_str(&section, false).ok();
        let (mode, entries) = match (mode, entries.as_table()) {
            (Some(mode), Some(entries)) => (mode, entries),
            (None, Some(_)) => {
                let names = Mode::value_variants().iter().map(|m| m.name());
                let question =
                    did_you_mean(&section, names).map_or(String::new(), |q| format!(": {q}"));
                return Err(format!("{shown}: there is no mode {section}{question}"));
            }
            (mode, None) => {
                let of = mode.map_or_else(|| "a mode".into(), |m| format!("mode {}", m.name()));
                let below = mode.map_or("bg", Mode::name);
                return Err(format!(
                    "{shown}: {section} stands outside of the modes: \
                     write the parameters of {of} below its name, as [{below}]"
                ));
            }
        };
        let mut params = Params::default();
        for (name, value) in entries {
            choose(&mut params, mode, name, &written(mode, name, value))
                .map_err(|e| format!("{shown}: [{section}]: {e}"))?;
        }
        if mode == wanted {
            found = params;
        }
    }
    Ok(found)
}

/// As on the command line; what is no number, or no name where one is needed, is refused as that by its
/// kind.
fn written(mode: Mode, name: &str, value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) if find(mode, name).is_ok_and(|p| p.scale == NAMED) => {
            text.clone()
        }
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        other => format!("a {}", other.type_str()),
    }
}

/// Where it is wrong and why, without the picture of the line.
pub(crate) fn one_line(e: &toml::de::Error, text: &str) -> String {
    let line = |at: usize| text.bytes().take(at).filter(|b| *b == b'\n').count() + 1;
    let at = e.span().map_or_else(String::new, |s| format!(" (line {})", line(s.start)));
    format!("{}{at}", e.message().replace('\n', "; "))
}

/// `NAME=VALUE` on the command line; whether the mode has it is known when the mode is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    name: String,
    value: String,
}

impl Assignment {
    /// As a file has it.
    pub fn of_toml(mode: Mode, name: &str, value: &toml::Value) -> Self {
        Assignment { name: name.into(), value: written(mode, name, value) }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn value(&self) -> &str {
        &self.value
    }
}

/// Knows the names, for help and completion.
#[derive(Clone)]
pub struct AssignmentParser;

impl TypedValueParser for AssignmentParser {
    type Value = Assignment;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        text: &OsStr,
    ) -> Result<Assignment, clap::Error> {
        let text = text.to_string_lossy();
        let split = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) = split.ok_or_else(|| {
            let message = format!("'{text}' is not NAME=VALUE, as delta=1.3\n");
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, message).with_cmd(command)
        })?;
        Ok(Assignment { name: name.trim().into(), value: value.trim().into() })
    }

    /// Each name once, with all its meanings: a shell would offer a repeated name twice.
    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let mut keys: Vec<_> = PARAMS.iter().map(|p| p.key).collect();
        let mut seen = BTreeSet::new();
        keys.retain(|key| seen.insert(*key));
        Some(Box::new(keys.into_iter().map(|key| {
            let meanings: Vec<_> =
                PARAMS.iter().filter(|p| p.key == key).map(Param::help).collect();
            PossibleValue::new(key).help(meanings.join(" | "))
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(mode: Mode, name: &str, value: &str) -> Result<Params, String> {
        let mut params = Params::default();
        choose(&mut params, mode, name, value).map(|()| params)
    }

    fn refused(mode: Mode, name: &str, value: &str) -> String {
        set(mode, name, value).unwrap_err()
    }

    fn file(text: &str) -> Result<Params, String> {
        file_for(Mode::Bg, text)
    }

    fn file_for(mode: Mode, text: &str) -> Result<Params, String> {
        let path = std::env::temp_dir().join(format!("imtcp-param-{}", crate::state::new_id()));
        std::fs::write(&path, text).unwrap();
        let read = from_file(mode, &path, true);
        std::fs::remove_file(&path).unwrap();
        read.map_err(|e| e.replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        assert_eq!(
            refused(Mode::Bg, "delta", "0.5"),
            "delta must be a number between 1.05 and 4, not 0.5"
        );
        assert_eq!(refused(Mode::Bg, "g", "0"), "g must be a number between 0.05 and 1, not 0");
        assert_eq!(
            refused(Mode::Bg, "gamma", "x"),
            "gamma must be a number between 0.01 and 1, not x"
        );
        assert_eq!(
            refused(Mode::Bg, "gamma", "nan"),
            "gamma must be a number between 0.01 and 1, not nan"
        );
        assert_eq!(
            refused(Mode::Bg, "delta", ""),
            "delta must be a number between 1.05 and 4, not empty"
        );
        let whole = "N must be a whole number between 5 and 10, not 7.5";
        assert_eq!(refused(Mode::Measure, "N", "7.5"), whole);
    }

    #[test]
    fn a_mode_without_the_parameter_says_which_it_has() {
        let said = refused(Mode::Fs, "delta", "1.2");
        assert_eq!(said, "mode fs has no parameter delta: it has gamma, N, m, T, h");
        let said = refused(Mode::Bg, "Delta", "1.2");
        assert_eq!(said, "mode bg has no parameter Delta: did you mean delta? it has gamma, N, m, T, pause, delta, g");
        let said = refused(Mode::Nocc, "g", "1");
        assert_eq!(said, "mode nocc has no parameter g: it has none");
    }

    #[test]
    fn a_name_of_several_modes_has_the_range_default_and_field_of_each() {
        let params = set(Mode::Lp, "delta", "0.3").unwrap();
        assert_eq!((params.lp_delta_pct, params.delta_q8), (30, 0));
        assert_eq!(
            refused(Mode::Lp, "delta", "1.2"),
            "delta must be a number between 0.01 and 0.99, not 1.2"
        );
        assert_eq!(
            refused(Mode::Bg, "delta", "0.3"),
            "delta must be a number between 1.05 and 4, not 0.3"
        );
        let targets = |p: &Params| (p.ledbat_target_us, p.ledbatpp_target_us);
        assert_eq!(targets(&set(Mode::Ledbat, "target", "20").unwrap()), (20_000, 0));
        assert_eq!(targets(&set(Mode::Ledbatpp, "target", "20.5").unwrap()), (0, 20_500));
        let of = |mode| in_force(mode, &Params::default())["target"].as_f64().unwrap();
        assert_eq!((of(Mode::Ledbat), of(Mode::Ledbatpp)), (100.0, 60.0));
    }

    #[test]
    fn what_the_rfc_forbids_is_refused_and_a_time_is_told_in_its_unit() {
        let said = refused(Mode::Ledbat, "target", "150");
        assert_eq!(said, "target must be a number of milliseconds between 5 and 100, not 150");
        for written in ["20", "20ms", "20 ms"] {
            assert_eq!(set(Mode::Ledbat, "target", written).unwrap().ledbat_target_us, 20_000);
        }
        let said = refused(Mode::Ledbat, "target", "0.02s");
        assert_eq!(said, "target must be a number of milliseconds between 5 and 100, not 0.02s");
        let said = refused(Mode::Ledbat, "gain", "1.5");
        assert_eq!(said, "gain must be a number between 0.06 and 1, not 1.5");
    }

    #[test]
    fn a_mode_has_each_name_once_and_a_shell_is_told_each_once() {
        for mode in Mode::value_variants() {
            let names: Vec<_> = of(*mode).map(Param::name).collect();
            assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "{names:?}");
        }
        let told: Vec<_> = AssignmentParser.possible_values().unwrap().collect();
        let keys: Vec<_> = told.iter().map(PossibleValue::get_name).collect();
        let expected = [
            "gamma=", "N=", "m=", "T=", "pause=", "delta=", "g=", "rtt=", "h=", "itt=", "t=", "f=",
            "target=", "gain=",
        ];
        assert_eq!(keys, expected);
        let target = told.iter().find(|v| v.get_name() == "target=").unwrap();
        assert_eq!(
            target.get_help().unwrap().to_string(),
            "queue to keep, between 5 and 100 ms (100); ledbat | \
             queue to keep at most, between 5 and 100 ms (60); ledbatpp"
        );
    }

    #[test]
    fn the_ends_of_each_range_are_within_it_and_read_back_as_written() {
        for p in &PARAMS {
            for end in [p.least, p.most, p.default].into_iter().filter(|end| *end != 0) {
                let written = p.text(end);
                let kept = p.parse(&written).unwrap();
                assert_eq!(p.text(kept), written, "{}", p.name());
            }
        }
        let read = in_force(Mode::Bg, &set(Mode::Bg, "delta", "1.37").unwrap());
        assert_eq!(read["delta"].to_string(), "1.37");
    }

    #[test]
    fn what_is_not_chosen_is_in_force_as_the_default() {
        let read = serde_json::to_value(in_force(Mode::Bg, &Params::default())).unwrap();
        assert_eq!(read.to_string(), r#"{"N":8,"delta":1.2,"g":1.0,"gamma":0.125}"#);
        let read = serde_json::to_value(in_force(Mode::Fs, &Params::default())).unwrap();
        assert_eq!(read.to_string(), r#"{"N":8,"gamma":0.125,"h":100}"#);
        let read = serde_json::to_value(in_force(Mode::Lpecn, &Params::default())).unwrap();
        assert_eq!(read.to_string(), r#"{"delta":0.15,"itt":3}"#);
        let read = serde_json::to_value(in_force(Mode::Nice, &Params::default())).unwrap();
        assert_eq!(read.to_string(), r#"{"f":0.5,"t":0.1}"#);
        let read = serde_json::to_value(in_force(Mode::Ledbat, &Params::default())).unwrap();
        assert_eq!(read.to_string(), r#"{"gain":1.0,"target":100.0}"#);
        assert!(in_force(Mode::Nocc, &Params::default()).is_empty());
    }

    #[test]
    fn what_adapts_is_in_force_where_it_was_chosen() {
        let params = set(Mode::Measure, "T", "4").unwrap();
        assert_eq!(params.t_us, 4_000);
        let read = in_force(Mode::Measure, &params);
        assert_eq!(read["T"].to_string(), "4.0");
        assert_eq!(unusual(Mode::Measure, &read), ["T=4"]);
        let said = refused(Mode::Fs, "T", "20000us");
        assert_eq!(said, "T must be a number of milliseconds between 1 and 50, not 20000us");
    }

    #[test]
    fn m_and_n_are_two_parameters() {
        let params = set(Mode::Measure, "m", "2").unwrap();
        assert_eq!((params.store_packets, params.stream_packets), (2, 0));
        assert_eq!(unusual(Mode::Measure, &in_force(Mode::Measure, &params)), ["m=2"]);
        let said = refused(Mode::Measure, "m", "1");
        assert_eq!(said, "m must be a whole number between 2 and 15, not 1");
    }

    #[test]
    fn a_pause_of_no_round_trips_can_be_chosen() {
        let params = set(Mode::Bg, "pause", "0").unwrap();
        assert_eq!(params.pause_plus1, 1);
        assert_eq!(unusual(Mode::Bg, &in_force(Mode::Bg, &params)), ["pause=0"]);
        assert_eq!(set(Mode::Measure, "pause", "20").unwrap().pause_plus1, 21);
        for wrong in ["-1", "101", "1.5"] {
            let said = refused(Mode::Bg, "pause", wrong);
            assert_eq!(
                said,
                format!("pause must be a whole number between 0 and 100, not {wrong}")
            );
        }
        assert!(refused(Mode::Fs, "pause", "0").starts_with("mode fs has no parameter pause"));
        assert_eq!(file("[bg]\npause = 12\n").unwrap().pause_plus1, 13);
    }

    #[test]
    fn only_what_differs_from_the_default_is_unusual() {
        let params = set(Mode::Bg, "g", "0.9").unwrap();
        assert_eq!(unusual(Mode::Bg, &in_force(Mode::Bg, &params)), ["g=0.9"]);
        let usual = set(Mode::Bg, "delta", "1.2").unwrap();
        assert!(unusual(Mode::Bg, &in_force(Mode::Bg, &usual)).is_empty());
    }

    #[test]
    fn a_round_trip_time_is_chosen_by_name_on_the_line_and_in_a_file() {
        let params = set(Mode::PaperBg, "rtt", "newest").unwrap();
        assert_eq!(params.paper_rtt, 3);
        assert_eq!(unusual(Mode::PaperBg, &in_force(Mode::PaperBg, &params)), ["rtt=newest"]);
        assert_eq!(
            file_for(Mode::PaperBg, "[paper-bg]\nrtt = \"srtt-ack\"\n").unwrap().paper_rtt,
            2
        );
        let said = refused(Mode::PaperBg, "rtt", "new");
        assert_eq!(said, "rtt must be srtt, srtt-ack or newest, not new");
        let said = file_for(Mode::PaperBg, "[paper-bg]\nrtt = 2\n").unwrap_err();
        assert_eq!(said, "FILE: [paper-bg]: rtt must be srtt, srtt-ack or newest, not 2");
    }

    #[test]
    fn a_file_has_a_table_for_each_mode_and_the_mode_takes_its_own() {
        let read = file("# ours\n[bg]\ng = 0.5\nN = 10\n[fs]\nh = 20\n").unwrap();
        assert_eq!((read.g_q8, read.stream_packets, read.h_segs), (128, 10, 0));
        assert_eq!(file("[fs]\nh = 20\n").unwrap(), Params::default());
    }

    #[test]
    fn mistakes_in_a_file_are_told_with_its_name_also_those_for_other_modes() {
        let said = |text: &str| file(text).unwrap_err();
        let range = "FILE: [bg]: delta must be a number between 1.05 and 4, not 9";
        assert_eq!(said("[bg]\ndelta = 9\n"), range);
        let kind = "FILE: [bg]: g must be a number between 0.05 and 1, not a string";
        assert_eq!(said("[bg]\ng = \"1\"\n"), kind);
        assert!(said("[fs]\ng = 1\n").contains("FILE: [fs]: mode fs has no parameter g"));
        assert_eq!(said("[quick]\nh = 1\n"), "FILE: there is no mode quick");
        let outside = "FILE: bg stands outside of the modes: \
                       write the parameters of mode bg below its name, as [bg]";
        assert_eq!(said("bg = 1\n"), outside);
        let outside = "FILE: delta stands outside of the modes: \
                       write the parameters of a mode below its name, as [bg]";
        assert_eq!(said("delta = 1.2\n"), outside);
        assert!(said("[bg]\ng = \n").ends_with("(line 2)"), "{}", said("[bg]\ng = \n"));
        assert!(said("[bg\n").starts_with("FILE is not TOML: "));
        assert!(!said("[bg\n").contains('\n'));
    }

    #[test]
    fn a_file_that_is_named_must_be_there_and_the_usual_one_need_not() {
        let nowhere = Path::new("/nowhere/imtcp.conf");
        let said = from_file(Mode::Bg, nowhere, true).unwrap_err();
        assert!(said.starts_with("cannot read /nowhere/imtcp.conf: "), "{said}");
        assert_eq!(from_file(Mode::Bg, nowhere, false), Ok(Params::default()));
    }
}
