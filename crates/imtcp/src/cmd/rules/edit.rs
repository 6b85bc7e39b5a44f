// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! `imtcp rules add` and `remove`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{bail, Result};
use imtcp_bpf::{probe, Obstacle};
use imtcp_common::{exit, format};

use super::super::detach::give_up;
use super::super::undo_attachment::exit_code;
use crate::cli::rules::{AddArgs, RemoveArgs};
use crate::filter::{Network, Ports};
use crate::rules::{is_name, parse, text, Machine, Rule, Rules};
use crate::{attachment, state, user};

pub fn add(args: &AddArgs) -> Result<u8> {
    if !is_name(&args.name) {
        return Err(exit::usage("a rule's name has letters, digits, - and _ alone, 64 at most"));
    }
    let names = [
        ("unit", args.unit.clone()),
        ("cgroup", args.cgroup.clone()),
        ("container", args.container.clone()),
        ("user", args.user.clone()),
        ("command", args.command.clone()),
        ("to", args.to.iter().map(Network::to_string).collect()),
        ("port", args.port.iter().map(Ports::to_string).collect()),
    ];
    let text = text(&names, &args.orders);
    let rule = parse(&args.name, &text).map_err(exit::usage)?;
    let path = args.dir.dir.join(format!("{}.toml", args.name));
    if path.exists() && !args.replace {
        bail!("there is a rule {} ({}): --replace writes over it", args.name, path.display());
    }
    fs::create_dir_all(&args.dir.dir).map_err(|e| Obstacle::unwritable(&args.dir.dir, &e))?;
    // Nobody reads half of it.
    let new = args.dir.dir.join(format!(".{}.new", args.name));
    let write = || fs::File::create(&new).and_then(|mut file| file.write_all(text.as_bytes()));
    if let Err(e) = write().and_then(|()| fs::rename(&new, &path)) {
        let _ = fs::remove_file(&new);
        return Err(Obstacle::unwritable(&path, &e).into());
    }
    outln!("{}: {}: {}", path.display(), rule.covers(), rule.told());
    if let Some(told) = none_now(&rule) {
        outln!("{told}");
    }
    if !state::rules_are_watched() {
        outln!("{NOT_WATCHED}");
    }
    Ok(exit::OK)
}

/// Nobody else says that a name was mistyped: what it names may come later.
fn none_now(rule: &Rule) -> Option<String> {
    let is_nobody = |name: &&String| user::find(name).is_err();
    if let Some(name) = rule.names.users.iter().find(is_nobody) {
        return Some(format!("there is no user {name} now"));
    }
    let machine = Machine::look(std::iter::once(rule)).ok()?;
    let is_none = machine.named(&rule.names, &attachment::all()).is_empty();
    is_none.then(|| "nothing that it names is there now; it holds for what comes".into())
}

pub const NOT_WATCHED: &str =
    "nobody applies the rules: `systemctl enable --now imtcp-rules` does from now \
     on, `imtcp rules watch` until it ends";

pub fn remove(args: &RemoveArgs) -> Result<u8> {
    probe::require_privileges("imtcp rules remove")?;
    let path: PathBuf = args.dir.dir.join(format!("{}.toml", args.name));
    if !is_name(&args.name) || !path.exists() {
        let rules = Rules::read(&args.dir.dir);
        let names: Vec<_> = rules.in_force().map(|rule| rule.name.as_str()).collect();
        let there = match names.as_slice() {
            [] => "there is none".to_string(),
            names => format!("there are {}", names.join(", ")),
        };
        bail!("there is no rule {} in {}: {there}", args.name, args.dir.dir.display());
    }
    let lock = state::lock()?;
    fs::remove_file(&path).map_err(|e| Obstacle::unwritable(&path, &e))?;
    let its = attachment::all().into_iter();
    let its = its.filter(|a| a.rule.as_deref() == Some(&args.name)).collect();
    let done = give_up(its, &lock)?;
    let count = format::count(done.detached.len(), "target");
    outln!("rule {} is removed; {count} detached", args.name);
    Ok(exit_code(&done.faults))
}
