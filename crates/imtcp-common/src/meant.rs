// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! "A similar … exists": clap does not see two letters the wrong way round in a short word.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, Error};
use clap::Command;

use crate::alike::is_transposed;

/// Each kind of thing that clap did not know, and where a similar one is told.
const KINDS: [(ContextKind, ContextKind); 3] = [
    (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
    (ContextKind::InvalidArg, ContextKind::SuggestedArg),
    (ContextKind::InvalidValue, ContextKind::SuggestedValue),
];

/// clap's message, with what it did not see.
pub fn with_what_was_meant(mut error: Error, root: &Command, args: &[OsString]) -> Error {
    for (given, suggested) in KINDS {
        let Some(ContextValue::String(word)) = error.get(given) else { continue };
        if error.get(suggested).is_some() {
            continue;
        }
        let known = match (given, error.get(ContextKind::ValidValue)) {
            (ContextKind::InvalidValue, Some(ContextValue::Strings(values))) => values.clone(),
            (ContextKind::InvalidValue, _) => Vec::new(),
            _ => known_names(root, args, given == ContextKind::InvalidSubcommand),
        };
        let meant = known.into_iter().find(|name| is_transposed(word, name));
        let value = meant.map(|name| match given {
            ContextKind::InvalidSubcommand => ContextValue::Strings(vec![name]),
            _ => ContextValue::String(name),
        });
        if let Some(value) = value {
            error.insert(suggested, value);
        }
    }
    error
}

/// The commands, or the options, of the innermost command that was named.
fn known_names(root: &Command, args: &[OsString], commands: bool) -> Vec<String> {
    let words = args.iter().skip(1).filter_map(|a| a.to_str());
    let named = words.fold(root, |at: &Command, word| at.find_subcommand(word).unwrap_or(at));
    match commands {
        true => named.get_subcommands().map(|c| c.get_name().to_string()).collect(),
        false => {
            named.get_arguments().filter_map(|a| Some(format!("--{}", a.get_long()?))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction};

    fn said(args: &[&str]) -> String {
        let args: Vec<OsString> = args.iter().map(|a| a.into()).collect();
        let mode = Arg::new("mode").long("mode").value_parser(["bg", "fs"]);
        let pid = Arg::new("pid").long("pid").action(ArgAction::SetTrue);
        let root = Command::new("imtcp")
            .subcommand(Command::new("run").arg(mode))
            .subcommand(Command::new("attach").arg(pid));
        let error = root.clone().try_get_matches_from(&args).err().unwrap();
        with_what_was_meant(error, &root, &args).to_string()
    }

    #[test]
    fn two_letters_the_wrong_way_round_are_understood() {
        for (args, meant) in [
            (&["imtcp", "rnu"][..], "'run'"),
            (&["imtcp", "run", "--mode", "gb"], "'bg'"),
            (&["imtcp", "attach", "--pdi"], "'--pid'"),
        ] {
            let said = said(args);
            assert!(said.contains(&format!("exists: {meant}")), "{args:?}: {said}");
        }
        assert!(!said(&["imtcp", "xyz"]).contains("exists"));
    }
}
