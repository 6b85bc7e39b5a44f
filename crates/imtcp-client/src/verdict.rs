// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What advice says, in the words of the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    On,
    Off,
}

/// Mode of `imtcp run` for this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Take only spare bandwidth.
    Bg,
    /// Share as usual.
    Measure,
}

/// Is it advice, or "I don't know"?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Advice,
    Unknown,
}
