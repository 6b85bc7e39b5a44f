// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Options of the commands that ask a service.

use std::path::PathBuf;

use clap::Args;

/// Which service.
#[derive(Args, Clone)]
pub struct ServiceArgs {
    /// The advice service
    ///
    /// imtcp asks a service on loopback directly. It asks any other one through the proxy that http_proxy,
    /// https_proxy or all_proxy names, unless no_proxy lists the host.
    #[arg(
        long,
        env = "IMTCP_ADVICE_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:8750"
    )]
    pub url: String,
    /// File with its token, for its owner alone
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate authority (PEM)
    ///
    /// Trust this one instead of the public ones.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}
