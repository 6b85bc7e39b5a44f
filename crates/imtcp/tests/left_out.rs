// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A build without the feature `full`, as the demo's: what is left out says so.
#![cfg(not(feature = "full"))]

mod support;

use support::*;

#[test]
fn what_was_left_out_says_in_a_sentence_where_the_whole_one_comes_from() {
    for command in
        [&["advice", "serve", "--db", "history.db"][..], &["advise", "192.0.2.7"], &["agent"]]
    {
        let output = imtcp(command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        let said = text(&output.stderr);
        assert!(said.contains("`make build` makes the whole one"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn the_command_line_is_the_same_as_in_the_whole_one() {
    assert!(imtcp_ok(&["run", "--help"]).contains("--advise"));
    assert!(imtcp_ok(&["advice", "serve", "--help"]).contains("--tls-cert"));
}
