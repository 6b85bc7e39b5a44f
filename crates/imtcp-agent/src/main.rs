// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
use std::process::ExitCode;

fn main() -> ExitCode {
    imtcp_agent::main()
}
