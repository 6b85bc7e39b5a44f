// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The commands of the advice service.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use crate::amount;
use crate::rate::Rate;

/// Ask the advice service what a transfer to a host should do now, and until when
///
/// Exit code 0 when the service answered, even when its answer is that it does not know;
/// congestion control stays on then.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    imtcp advise mirror.example.org --bytes 16G\n  \
    imtcp advise 192.0.2.7 --at 2026-03-20T14:25:00Z --json")]
pub struct AdviseArgs {
    /// The transfer's destination, an address or a name
    pub host: String,
    /// How much remains to be sent: bytes, or as 16G, 512MiB
    #[arg(long, value_name = "N", value_parser = amount::bytes)]
    pub bytes: Option<u64>,
    /// Ask as of this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    #[command(flatten)]
    pub service: ServiceArgs,
    /// The service's answer in JSON
    #[arg(long)]
    pub json: bool,
}

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
    /// A file with a token for it, which others on this machine cannot open
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Trust this certificate authority (PEM) instead of the public ones
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// Keep the history of paths, and answer what a transfer should do now
///
/// A history is one file, or a PostgreSQL database (postgres://user@host/name).
#[derive(Args)]
#[command(after_help = "Example: imtcp advice serve --db history.db")]
pub struct AdviceArgs {
    #[command(subcommand)]
    pub command: AdviceCommand,
}

#[derive(Subcommand)]
pub enum AdviceCommand {
    Serve(ServeArgs),
    Import(ImportArgs),
    Export(ExportArgs),
    Clients(ClientsArgs),
    Forget(ForgetArgs),
    Set(SetArgs),
    Backtest(BacktestArgs),
    Vacuum(VacuumArgs),
}

#[derive(Args, Clone)]
pub struct DbArgs {
    /// The history: a file, or postgres://…
    #[arg(long, env = "IMTCP_ADVICE_DB", value_name = "DB", hide_env_values = true)]
    pub db: String,
}

#[derive(Args, Clone, Copy)]
pub struct KeepArgs {
    /// Days until records become means of a minute, from the newest of their series
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub keep_raw: u32,
    /// Days until minutes become hours
    #[arg(long, value_name = "DAYS", default_value_t = 400)]
    pub keep_minutes: u32,
    /// Days until hours are removed
    #[arg(long, value_name = "DAYS", default_value_t = 3660)]
    pub keep_hours: u32,
    /// Days after its last report until a path is removed with all its records; 0: never
    ///
    /// A path that was only imported stays. Where no path is reported any more, all stay.
    #[arg(long, value_name = "DAYS", default_value_t = 400)]
    pub keep_silent: u32,
}

/// Run the advice service
///
/// JSON at /v1 (described at /openapi.json), XML-RPC at /RPC2, a page at /, metrics for
/// Prometheus at /metrics. Writing needs a token of --token-file; without that file nobody
/// writes. Ends on SIGTERM and SIGINT; whenever it ends, what it acknowledged is on disk. SIGHUP reads
/// the files of tokens and of TLS again; where one of them is wrong, all stay as they were.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    imtcp advice serve --db history.db\n  \
    imtcp advice serve --db postgres://imtcp@db/imtcp --listen 0.0.0.0:8750 \
    --token-file /etc/imtcp/tokens --tls-cert cert.pem --tls-key key.pem")]
pub struct ServeArgs {
    #[command(flatten)]
    pub db: DbArgs,
    /// Where to listen; other than loopback needs a token file
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8750")]
    pub listen: SocketAddr,
    /// A name that requests may call the service by, beside loopback's; repeat it for more
    ///
    /// On loopback other names (header Host) are refused: a web page could lead its own name here
    /// and read the answers. A reverse proxy that passes the name on needs this option. Elsewhere
    /// any name will do without it.
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Tokens for writing, one a line, at least 16 characters each; a # begins a comment
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Tokens for reading; without this file everybody who connects may read
    #[arg(long, value_name = "FILE")]
    pub read_token_file: Option<PathBuf>,
    /// Listen elsewhere than on loopback without any token file
    #[arg(long)]
    pub open: bool,
    /// Certificate chain for TLS, PEM, the server's own first
    ///
    /// The service warns in its log if a certificate has expired or expires within 14 days. It serves an
    /// expired one all the same.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key, PEM, not encrypted, in a file that others cannot open
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Requests a second that one client may send; 0: any number
    ///
    /// Without this option 1000, and any number for clients on this machine.
    ///
    /// After ten wrong tokens within a minute, a client that is limited is refused until the minute is over.
    #[arg(long, value_name = "N")]
    pub rate_limit: Option<u32>,
    /// Connections that one client may have open
    ///
    /// Without this option 128, and 2048 for a client on this machine: a reverse proxy is one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub client_connections: Option<u16>,
    /// Do not ask ping(8) for the RTT of paths whose records do not tell it
    ///
    /// Otherwise a path that is asked about and has history is pinged, with one packet of 84
    /// bytes a minute at most.
    #[arg(long)]
    pub no_ping: bool,
    /// Paths that reports may make; records of further ones are refused
    ///
    /// Of each path, 1000 pairs of hop and source. The commands that open the history themselves
    /// have no such bound.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub most_paths: u32,
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// Add records from a CSV or Parquet file to the history
///
/// A file that ends in .parquet is Parquet with the same columns, any other CSV, whose first
/// line names the columns: time and available_bps, and where known capacity_bps, rtt_us, loss
/// (0 to 1), congested (true, false), source, validity (0 to 100, or valid, invalid), hop, dst.
/// Importing a file twice changes nothing.
///
/// A time is RFC 3339, or seconds, milliseconds, microseconds or nanoseconds since 1970. A comma, ;
/// or a tab separates the columns. A bandwidth is in bit/s. A number with two meanings, as 1,234, is refused without --decimal.
///
/// With --counters, the columns are time and octets: readings of a router interface's counter,
/// of 32 or 64 bits. Available is what the traffic between two readings leaves of --capacity.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    imtcp advice import --db history.db --path 192.0.2.7 trace.csv\n  \
    imtcp advice import --db history.db --path 192.0.2.7 --decimal comma sheet.csv\n  \
    imtcp advice import --db history.db --path 192.0.2.7 --counters --capacity 1G if3.csv")]
pub struct ImportArgs {
    #[command(flatten)]
    pub db: DbArgs,
    /// The destination whose history it is, where the file has no column dst
    #[arg(long, value_name = "ADDR")]
    pub path: Option<String>,
    /// Who measured, where the file has no column source
    #[arg(long, value_name = "NAME", default_value = "import")]
    pub source: String,
    /// The file has readings of a router interface's counter
    #[arg(long, requires_all = ["path", "capacity"])]
    pub counters: bool,
    /// The line's rate, for --counters
    #[arg(long, value_name = "RATE", requires = "counters")]
    pub capacity: Option<Rate>,
    /// The router, where the path has several hops, for --counters
    #[arg(long, value_name = "ADDR", requires = "counters")]
    pub hop: Option<String>,
    /// The decimal mark of the numbers in a CSV
    ///
    /// Without this option the import refuses numbers with two meanings, as 1,234.
    #[arg(long, value_enum, conflicts_with = "counters")]
    pub decimal: Option<DecimalMark>,
    /// Say in JSON what was done
    #[arg(long)]
    pub json: bool,
    /// The file; - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DecimalMark {
    /// As in 0.5
    Point,
    /// As in 0,5
    Comma,
}

/// Write history as CSV or Parquet
#[derive(Args)]
#[command(after_help = "Example: imtcp advice export --db history.db --path 192.0.2.7 > trace.csv")]
pub struct ExportArgs {
    #[command(flatten)]
    pub db: DbArgs,
    /// This destination alone
    #[arg(long, value_name = "ADDR")]
    pub path: Option<String>,
    /// Records from this time on (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Records before this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Into this file instead of standard output; as Parquet when it ends in .parquet
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Learn from access logs whom this host serves: the destinations whose paths matter
///
/// Reads the logs of nginx and Apache (combined, common or Debian's vhost_combined, with any fields
/// behind the bytes), ProFTPD (ExtendedLog, TransferLog), vsftpd (its own log and xferlog) and rsyncd
/// (with `transfer logging`), also packed by gzip. What this host sent counts, uploads do not. Lines
/// that a server does not write so, and what cannot be, are skipped and counted. A client that is named
/// by no address is not trusted. Times without an offset are of this machine's zone (TZ=Europe/Berlin
/// for another). A log may be of any size.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    imtcp advice clients --log /var/log/nginx/access.log /var/log/proftpd/xferlog\n  \
    imtcp advice clients --log /var/log/nginx/access.log --rotated --least-bytes 100M --peers >peers\n  \
    imtcp advice clients --log /var/log/nginx/access.log --trusted-proxy 10.0.0.0/24\n  \
    sudo imtcp agent --peers peers")]
pub struct ClientsArgs {
    /// The logs, or directories of logs; - for standard input
    #[arg(long, value_name = "FILE", required = true, num_args = 1.., value_hint = ValueHint::FilePath)]
    pub log: Vec<PathBuf>,
    /// Read what the logs were rotated to as well: access.log.1, access.log.2.gz, access.log-20261122
    #[arg(long)]
    pub rotated: bool,
    #[command(flatten)]
    pub lines: LogLinesArgs,
    /// Only clients who got so many bytes
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = amount::bytes)]
    pub least_bytes: u64,
    /// Write what `imtcp agent --peers` reads: an address a line, the most bytes first
    #[arg(long, conflicts_with = "json")]
    pub peers: bool,
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// How the lines of a log are read.
#[derive(Args, Clone)]
pub struct LogLinesArgs {
    /// How their lines are written
    #[arg(long, value_enum, default_value_t = LogFormat::Auto)]
    pub format: LogFormat,
    /// A reverse proxy before the server, or a network of them as 10.0.0.0/24; repeat it for more
    ///
    /// The client is then the one that this proxy names in X-Forwarded-For, which the server must log.
    /// Without this option nobody's X-Forwarded-For counts: a client may send one too.
    #[arg(long, value_name = "ADDR")]
    pub trusted_proxy: Vec<String>,
    /// Which field behind the bytes is X-Forwarded-For: 1 is the referer, 2 the user agent
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

/// Remove a path: all of its records, and what is set for it
///
/// For good, and asked about first; where nobody can answer, --yes is needed. A running service follows
/// within a second. `imtcp advice vacuum` gives the space back.
#[derive(Args)]
#[command(after_help = "Example: imtcp advice forget --db history.db --path 192.0.2.7")]
pub struct ForgetArgs {
    #[command(flatten)]
    pub db: DbArgs,
    /// The destination whose history goes
    #[arg(long, value_name = "ADDR")]
    pub path: String,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Say in JSON what was done
    #[arg(long)]
    pub json: bool,
}

/// Set or show what holds for a path, or for all
///
/// zone=Europe/Berlin, history=all|week|weekday, z=2, epsilon=10% or 5M, threshold=42M or 42%
/// (of the capacity), capacity_bps=100M, freshness_s=600, horizon_s=3600, min_days=3,
/// min_samples=2, min_span_pct=25, max_days=366, min_validity_pct=1, next_min_s=1,
/// next_max_s=86400.
/// `KEY=` takes a setting back. A wrong value is wrong usage, exit code 2. A running service follows within a second.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    imtcp advice set --db history.db zone=Europe/Berlin history=weekday\n  \
    imtcp advice set --db history.db --path 192.0.2.7 threshold=42M epsilon=5%")]
pub struct SetArgs {
    #[command(flatten)]
    pub db: DbArgs,
    /// For this destination alone
    #[arg(long, value_name = "ADDR")]
    pub path: Option<String>,
    /// Show in JSON what holds
    #[arg(long)]
    pub json: bool,
    /// What to set; nothing: show what holds
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
}

/// Compare predictors on the history: what would each have said, and what came?
///
/// Each day but the first ones is predicted at steps from what was known before, an hour ahead
/// (setting horizon_s), and compared with what was measured then. COVERED is how often that lay within
/// z standard deviations of past days; what is missing in PREDICTED is "I don't know".
#[derive(Args)]
#[command(after_help = "Example: imtcp advice backtest --db history.db --path 192.0.2.7")]
pub struct BacktestArgs {
    #[command(flatten)]
    pub db: DbArgs,
    /// This destination alone; otherwise each
    #[arg(long, value_name = "ADDR")]
    pub path: Option<String>,
    /// Days to predict, the newest
    #[arg(long, value_name = "N", default_value_t = 14, value_parser = clap::value_parser!(u32).range(1..=366))]
    pub days: u32,
    /// Predictions a day
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..=1440))]
    pub steps: u32,
    /// How far ahead, instead of the setting horizon_s
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(60..=43_200))]
    pub horizon: Option<u32>,
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Roll up and remove what is due now, and give the space back
///
/// A running service does the first two by itself each hour. It goes on meanwhile, and Ctrl-C loses
/// nothing. A file that an older imtcp made is rewritten the first time: it needs as much free space
/// again, twice, and reports wait until that is over.
#[derive(Args)]
#[command(after_help = "Example: imtcp advice vacuum --db history.db --keep-raw 7")]
pub struct VacuumArgs {
    #[command(flatten)]
    pub db: DbArgs,
    #[command(flatten)]
    pub keep: KeepArgs,
    /// Say in JSON what was done
    #[arg(long)]
    pub json: bool,
}
