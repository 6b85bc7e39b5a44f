// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Files of tokens: the service reads them, and so do the commands that ask it.

use std::path::Path;

use crate::secret_file::read_secret;
use crate::wrong::{Result, Wrong};

const SHORTEST_TOKEN: usize = 16;

/// The tokens of a file, one a line. A # begins a comment, on a line of its own or after a blank.
pub fn read(path: &Path) -> Result<Vec<String>> {
    let shown = path.display();
    let wrong = |why: String| Wrong(format!("token file {shown}: {why}"));
    let text = String::from_utf8(read_secret(path).map_err(wrong)?)
        .map_err(|_| wrong("it is no text".into()))?;
    tokens(&text).map_err(wrong)
}

/// No error shows a token: it may end in a log.
fn tokens(text: &str) -> std::result::Result<Vec<String>, String> {
    if text.lines().any(|line| line.trim_start().starts_with("-----BEGIN ")) {
        return Err(
            "it is a key or a certificate (PEM): name a file with a token on each line".into()
        );
    }
    let mut tokens = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let token = without_comment(line).trim();
        if token.is_empty() {
            continue;
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "line {number} is no token: a token has letters, digits and signs of ASCII, and no \
                 blank; a comment begins with #"
            ));
        }
        if token.len() < SHORTEST_TOKEN {
            return Err(format!(
                "line {number}: a token is shorter than {SHORTEST_TOKEN} characters"
            ));
        }
        tokens.push(token.into());
    }
    match tokens.is_empty() {
        true => Err("there is no token in it".into()),
        false => Ok(tokens),
    }
}

/// A # inside a token is a part of it.
fn without_comment(line: &str) -> &str {
    let begins = |at: usize| line[..at].chars().next_back().is_none_or(char::is_whitespace);
    let comment = line.match_indices('#').map(|(at, _)| at).find(|at| begins(*at));
    comment.map_or(line, |at| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn comments_stand_on_lines_of_their_own_and_behind_tokens() {
        let text = format!("# ours\n\n  {TOKEN}   # host beta\n{TOKEN}#2\t#\n \t\n");
        assert_eq!(tokens(&text).unwrap(), [TOKEN.to_string(), format!("{TOKEN}#2")]);
    }

    #[test]
    fn what_is_no_token_is_refused_by_its_line_and_without_showing_it() {
        for (text, says) in [
            (format!("{TOKEN}\n{TOKEN} secret\n"), "line 2 is no token"),
            (format!("{TOKEN}ä\n"), "line 1 is no token"),
            (format!("{TOKEN}\u{1}\n"), "line 1 is no token"),
            ("# one\nsecret\n".into(), "line 2: a token is shorter than 16 characters"),
            ("# none\n".into(), "there is no token in it"),
        ] {
            let why = tokens(&text).unwrap_err();
            assert!(why.contains(says) && !why.contains("secret") && !why.contains(TOKEN), "{why}");
        }
    }

    #[test]
    fn a_key_is_no_file_of_tokens() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49\n";
        for text in [key.to_string(), format!("Bag Attributes\n{key}")] {
            assert!(tokens(&text).unwrap_err().starts_with("it is a key or a certificate (PEM)"));
        }
    }

    #[test]
    fn a_token_file_that_anybody_reads_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        std::fs::write(&path, TOKEN).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(read(&path).unwrap_err().to_string().contains("chmod o-rwx"));
        mode(0o600);
        assert_eq!(read(&path).unwrap(), [TOKEN]);
    }
}
