// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
include!("generate/mod.rs");

/// Whatever rustfmt does with line breaks must not matter here.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<String>().replace(",)", ")").replace(",}", "}")
}

#[test]
fn the_committed_layouts_are_those_of_the_headers() {
    let committed = include_str!("../src/shared.rs");
    assert!(
        words(committed) == words(&generate()),
        "src/shared.rs is out of date: run scripts/gen-shared.sh"
    );
}
