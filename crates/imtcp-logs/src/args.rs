// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Logs of servers, from which the advice service and its agent learn whose paths matter.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum, ValueHint};
use imtcp_common::{amount, exit};

use crate::proxies::{Forwarded, Proxy};
use crate::Format;

/// Learn from access logs whom this host serves: the destinations whose paths matter
///
/// It reads these logs, also packed by gzip and of any size. Web servers are nginx and Apache: combined,
/// common or Debian's vhost_combined, with any fields behind the bytes. FTP servers are ProFTPD
/// (ExtendedLog, TransferLog) and vsftpd (its own log and xferlog). It also reads rsyncd's log with
/// `transfer logging`.
///
/// Only bytes that this host sent count, uploads do not. It skips and counts lines in another form and
/// impossible values. It does not trust a client that has a name instead of an address. Times without an
/// offset are of this machine's zone (TZ=Europe/Berlin for another).
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    imtcp-advice clients --log /var/log/nginx/access.log /var/log/proftpd/xferlog\n  \
    imtcp-advice clients --log /var/log/nginx/access.log --rotated --least-bytes 100M --peers >peers\n  \
    imtcp-advice clients --log /var/log/nginx/access.log --trusted-proxy 10.0.0.0/24\n  \
    sudo imtcp-agent feed --peers peers")]
pub struct ClientsArgs {
    /// The logs, or directories of logs; - for standard input
    #[arg(long, value_name = "FILE", required = true, num_args = 1.., value_hint = ValueHint::FilePath)]
    pub log: Vec<PathBuf>,
    /// Read rotated logs too
    ///
    /// Their names are as access.log.1, access.log.2.gz, access.log-20261122.
    #[arg(long)]
    pub rotated: bool,
    #[command(flatten)]
    pub lines: LogLinesArgs,
    /// Only clients who got so many bytes
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = amount::bytes)]
    pub least_bytes: u64,
    /// Write what `imtcp-agent feed --peers` reads: an address a line, the most bytes first
    #[arg(long, conflicts_with = "json")]
    pub peers: bool,
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// How the lines of a log are read.
#[derive(Args, Clone)]
pub struct LogLinesArgs {
    /// auto, combined, xferlog, vsftpd or rsync
    ///
    /// How the lines of the log are written.
    #[arg(long, value_enum, default_value_t = LogFormat::Auto)]
    pub format: LogFormat,
    /// A reverse proxy, or a network of them
    ///
    /// Repeat the option for more of them. A network is written as 10.0.0.0/24. The client is then the one that this proxy names in
    /// X-Forwarded-For, which the server must log. Without this option no X-Forwarded-For counts: a
    /// client may send one too.
    #[arg(long, value_name = "ADDR")]
    pub trusted_proxy: Vec<String>,
    /// Field of X-Forwarded-For
    ///
    /// Fields behind the bytes count. Field 1 is the referer, 2 the user agent.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "trusted_proxy", value_parser = clap::value_parser!(u64).range(1..100))]
    pub forwarded_field: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Each line as it looks
    Auto,
    /// Combined or common log: nginx, Apache, ProFTPD's ExtendedLog (also: nginx, apache, proftpd)
    #[value(aliases = ["nginx", "apache", "proftpd"])]
    Combined,
    /// FTP servers' transfer log: ProFTPD's TransferLog, vsftpd's xferlog_std_format
    Xferlog,
    /// vsftpd's own log
    Vsftpd,
    /// The log of rsyncd
    Rsync,
}

impl From<LogFormat> for Format {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Auto => Format::Auto,
            LogFormat::Combined => Format::Combined,
            LogFormat::Xferlog => Format::Xferlog,
            LogFormat::Vsftpd => Format::Vsftpd,
            LogFormat::Rsync => Format::Rsync,
        }
    }
}

/// Whose X-Forwarded-For counts.
pub fn forwarded(args: &LogLinesArgs) -> Result<Forwarded> {
    let proxies = args.trusted_proxy.iter().map(|proxy| proxy.parse::<Proxy>());
    let proxies = proxies.collect::<Result<_, _>>();
    let proxies = proxies.map_err(|e| exit::usage(format!("--trusted-proxy: {e}")))?;
    Ok(Forwarded { proxies, field: args.forwarded_field as usize })
}
