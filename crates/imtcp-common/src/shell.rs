// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Commands in messages, as a shell takes them.

use std::path::Path;

use crate::format;

/// A word as a shell takes it: a name that others chose is one word, and no command. Nothing if it cannot be shown
/// as it is: a message escapes what commands a terminal, and a shell would take that for another name.
pub fn quoted(word: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%=".contains(c);
    if word.contains(char::REPLACEMENT_CHARACTER) || format::is_escaped(word) {
        return None;
    }
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Some(word.into()),
        false => Some(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

pub fn quoted_path(path: &Path) -> Option<String> {
    quoted(path.to_str()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_a_quoted_word_as_it_is() {
        for word in ["/a.slice/b-1.scope", "x;touch pwned", "it's $(a) `b` \"c\" \\", "", "ä *"] {
            let script = format!("printf %s {}", quoted(word).unwrap());
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word, "{script}");
        }
        assert_eq!(quoted("/a.slice/b-1.scope").unwrap(), "/a.slice/b-1.scope");
    }

    #[test]
    fn what_cannot_be_shown_as_it_is_cannot_be_quoted() {
        for word in ["a\u{1b}[2J", "a\nb", "a\tb", "a\u{202e}b", "a\u{fffd}b"] {
            assert_eq!(quoted(word), None, "{word:?}");
        }
    }
}
