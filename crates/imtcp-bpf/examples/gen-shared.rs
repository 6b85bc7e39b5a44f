// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Prints src/shared.rs, generated from the headers in bpf/. Run by scripts/gen-shared.sh.

include!("../tests/generate/mod.rs");

fn main() {
    print!("{}", generate());
}
