// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What stands in for the modules that a build without the feature `full` leaves out. The command
//! line is the same; what is not there says so.

use anyhow::{anyhow, Error};

fn missing() -> Error {
    anyhow!(
        "this imtcp was built without the advice service and the live view; \
         `make build` makes the whole one"
    )
}

/// In place of `cmd::advice`, `cmd::advise` and `cmd::agent`.
pub mod absent {
    use anyhow::Result;

    pub fn main<Args>(_: Args) -> Result<u8> {
        Err(super::missing())
    }
}

/// `run` without `--advise` is whole.
pub mod follow {
    use std::path::PathBuf;

    use anyhow::Result;

    use crate::cli::RunArgs;

    /// There is none to follow.
    pub enum Service {}

    impl Service {
        pub fn wanted(args: &RunArgs) -> Result<Option<Self>> {
            args.advise.as_ref().map_or(Ok(None), |_| Err(super::missing()))
        }

        pub fn follow(self, _: u64, _: PathBuf) -> Result<()> {
            match self {}
        }
    }
}

/// `watch` with `--once`, `--json` or `--events` is whole.
pub mod tui {
    use std::time::Duration;

    use anyhow::Result;
    use imtcp_bpf::records::Records;

    use crate::cli::SortKey;
    use crate::loaded::Loaded;

    pub fn run(_: Loaded<Records>, _: Duration, _: SortKey, _: String) -> Result<()> {
        Err(super::missing())
    }
}
