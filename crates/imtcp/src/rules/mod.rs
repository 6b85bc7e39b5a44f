// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Lasting rules: what is background on this machine, a file for each rule.

mod containers;
mod found;
mod written;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use imtcp_bpf::Policy;

use crate::filter::Filter;
use crate::mode::Mode;
use crate::param;
use crate::policy::{self, Handling, Limits};

pub use found::Machine;
pub use written::{parse, text, Names};

pub const DIR: &str = "/etc/imtcp.d";
/// Bytes of one file, and files: more is a mistake.
const MOST_BYTES: u64 = 64 << 10;
const MOST_RULES: usize = 1000;

#[derive(Clone, Debug)]
pub struct Rule {
    pub name: String,
    pub names: Names,
    pub filter: Option<Filter>,
    pub mode: Mode,
    pub orders: Policy,
}

impl Rule {
    /// What it names, for people.
    pub fn covers(&self) -> String {
        let names = Some(self.names.to_string()).filter(|names| !names.is_empty());
        let parts: Vec<_> =
            names.into_iter().chain(self.filter.as_ref().map(Filter::to_string)).collect();
        parts.join(", ")
    }

    /// What is ordered, for people.
    pub fn told(&self) -> String {
        policy::told(
            self.mode,
            &param::in_force(self.mode, &self.orders.params),
            &Limits::of(&self.orders),
            Handling::of(&self.orders),
        )
    }
}

/// May a rule have this name? It is that of a file, and stands in lists.
pub fn is_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !name.is_empty() && name.len() <= 64 && name.chars().all(is_fine)
}

/// A directory's rules, as they were read last.
#[derive(Clone)]
pub struct Rules {
    dir: PathBuf,
    files: BTreeMap<String, File>,
    /// Why the directory could not be read.
    fault: Option<String>,
}

#[derive(Clone)]
struct File {
    state: Option<State>,
    /// The last one that was right.
    rule: Option<Rule>,
    /// The fault of the file as it is now.
    wrong: Option<String>,
}

/// Changes with a file's content, as far as the file system tells.
#[derive(Clone, PartialEq, Eq)]
struct State {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl State {
    fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let found = fs::metadata(path)?;
        Ok(State {
            inode: found.ino(),
            bytes: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

impl Rules {
    /// A directory that is not there has no rules.
    pub fn read(dir: &Path) -> Self {
        let mut rules = Rules { dir: dir.into(), files: BTreeMap::new(), fault: None };
        rules.look();
        rules
    }

    /// Reads what has changed.
    pub fn look(&mut self) {
        let found = self.listed();
        self.fault =
            found.as_ref().err().map(|e| format!("cannot read {}: {e}", self.dir.display()));
        let Ok(found) = found else { return };
        self.files.retain(|name, _| found.iter().any(|(found, _)| found == name));
        for (name, path) in found {
            let file = self.files.entry(name.clone());
            let file = file.or_insert(File { state: None, rule: None, wrong: None });
            let state = State::of(&path).ok();
            if state.is_some() && state == file.state {
                continue;
            }
            match read_rule(&name, &path) {
                Ok(rule) => (file.rule, file.wrong) = (Some(rule), None),
                Err(why) => file.wrong = Some(why),
            }
            file.state = state;
        }
    }

    fn listed(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if path.extension().is_some_and(|e| e == "toml") && !name.starts_with('.') {
                found.push((name, path));
            }
        }
        found.sort();
        found.truncate(MOST_RULES);
        Ok(found)
    }

    /// In the order of their names: of two that name the same, the first holds.
    pub fn in_force(&self) -> impl Iterator<Item = &Rule> + Clone {
        self.files.values().filter_map(|file| file.rule.as_ref())
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The faults, each a sentence that names the file.
    pub fn faults(&self) -> Vec<&str> {
        let of_files = self.files.values().filter_map(|file| file.wrong.as_deref());
        self.fault.as_deref().into_iter().chain(of_files).collect()
    }
}

fn read_rule(name: &str, path: &Path) -> Result<Rule, String> {
    let shown = path.display();
    if !is_name(name) {
        return Err(format!("{shown}: a rule's name has letters, digits, - and _ alone"));
    }
    let found = fs::metadata(path).map_err(|e| format!("cannot read {shown}: {e}"))?;
    if !found.is_file() || found.len() > MOST_BYTES {
        return Err(format!("{shown} is no file of {} kB at most", MOST_BYTES >> 10));
    }
    let text = fs::read_to_string(path).map_err(|e| format!("cannot read {shown}: {e}"))?;
    parse(name, &text).map_err(|why| format!("{shown}: {why}"))
}
