// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Wrong input: its author's to correct.

/// One sentence that says what is wrong, and how to write it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);

pub type Result<T> = std::result::Result<T, Wrong>;
