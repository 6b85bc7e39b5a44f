// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
include!("generate/mod.rs");

/// Whatever rustfmt does with line breaks, trailing commas and braces must not matter here.
fn words(text: &str) -> String {
    let dense: String = text.split_whitespace().collect();
    dense.replace([',', ';'], "").replace("{{", "{").replace("}}", "}")
}

#[test]
fn the_committed_layouts_are_those_of_the_headers() {
    let (committed, generated) = (words(include_str!("../src/shared.rs")), words(&generate()));
    let same = committed.bytes().zip(generated.bytes()).take_while(|(a, b)| a == b).count();
    assert!(
        committed == generated,
        "src/shared.rs is out of date: run scripts/gen-shared.sh\ncommitted: …{:.80}\nneeded:    …{:.80}",
        &committed[same..],
        &generated[same..]
    );
}
