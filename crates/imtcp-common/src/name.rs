// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The name of this program, with which its messages begin.

use std::sync::OnceLock;

static NAME: OnceLock<String> = OnceLock::new();

pub fn of_program() -> &'static str {
    NAME.get().map_or("imtcp", String::as_str)
}

pub(crate) fn set(name: &str) {
    NAME.get_or_init(|| name.into());
}
