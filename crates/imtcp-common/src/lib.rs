// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What the commands of imtcp share: their command line and its help, output that may fail, exit codes, numbers as
//! people read and write them, and /proc.

#![deny(clippy::print_stdout)] // out.rs

#[macro_use]
pub mod out;
pub mod alike;
pub mod amount;
pub mod completions;
pub mod descriptors;
pub mod exit;
pub mod fault;
pub mod format;
pub mod help;
pub mod man;
mod meant;
pub mod name;
pub mod procfs;
pub mod program;
pub mod rate;
pub mod shell;
