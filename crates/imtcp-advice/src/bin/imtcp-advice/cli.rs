// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The commands of the advice service.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use imtcp_client::service::ServiceArgs;
use imtcp_common::amount;
use imtcp_common::completions::CompletionsArgs;
use imtcp_common::man::ManArgs;
use imtcp_common::rate::Rate;
use imtcp_logs::args::ClientsArgs;
use imtcp_logs::proxies::Proxy;

/// Ask the advice service what a transfer to a host should do now
///
/// The answer also says until when it holds. Exit code 0 means that the service answered, even if it
/// does not know. If it does not know, congestion control stays on.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    imtcp-advice ask mirror.example.org --bytes 16G\n  \
    imtcp-advice ask 192.0.2.7 --at 2026-03-20T14:25:00Z --json")]
pub struct AskArgs {
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

/// Keep the history of paths, and answer what a transfer should do now
///
/// A history is one file, or a PostgreSQL database (postgres://user@host/name).
#[derive(Parser)]
#[command(name = "imtcp-advice", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Examples:\n  \
    imtcp-advice serve --db history.db\n  \
    imtcp-advice ask mirror.example.org --bytes 16G")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Serve(ServeArgs),
    Ask(AskArgs),
    Import(ImportArgs),
    Export(ExportArgs),
    Clients(ClientsArgs),
    Forget(ForgetArgs),
    Set(SetArgs),
    Backtest(BacktestArgs),
    Vacuum(VacuumArgs),
    #[command(hide = true)]
    Follow(ServiceArgs),
    #[command(
        after_help = "Example: imtcp-advice completions bash > /etc/bash_completion.d/imtcp-advice"
    )]
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Man(ManArgs),
}

#[derive(Args, Clone)]
pub struct DbArgs {
    /// The history: a file, or postgres://…
    #[arg(long, env = "IMTCP_ADVICE_DB", value_name = "DB", hide_env_values = true)]
    pub db: String,
}

#[derive(Args, Clone, Copy)]
pub struct KeepArgs {
    /// Days until records become means of a minute
    ///
    /// Days count from the newest record of the series.
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    pub keep_raw: u32,
    /// Days until minutes become hours
    #[arg(long, value_name = "DAYS", default_value_t = 400)]
    pub keep_minutes: u32,
    /// Days until hours are removed
    #[arg(long, value_name = "DAYS", default_value_t = 3660)]
    pub keep_hours: u32,
    /// Days until a silent path is removed; 0: never
    ///
    /// A path is silent if nobody reports it. It goes with all its records. A path that was only imported
    /// stays. If nobody reports any path any more, all stay.
    #[arg(long, value_name = "DAYS", default_value_t = 400)]
    pub keep_silent: u32,
}

/// Run the advice service
///
/// The service has JSON at /v1 (described at /openapi.json), XML-RPC at /RPC2, a page at /, and metrics for
/// Prometheus at /metrics. Writing needs a token of --token-file; without that file nobody
/// writes.
///
/// SIGTERM and SIGINT end the service. All records that it acknowledged are on disk, whenever it ends.
/// SIGHUP reads the files of tokens and of TLS again. If one of them is wrong, all stay as they were.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    imtcp-advice serve --db history.db\n  \
    imtcp-advice serve --db postgres://imtcp@db/imtcp --listen 0.0.0.0:8750 \\\n      \
    --token-file /etc/imtcp/tokens --tls-cert cert.pem --tls-key key.pem")]
pub struct ServeArgs {
    #[command(flatten)]
    pub db: DbArgs,
    /// Where to listen
    ///
    /// An address other than loopback needs a token file, or --open.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8750", value_parser = listen)]
    pub listen: SocketAddr,
    /// Another name of the service; may be repeated
    ///
    /// The service refuses requests by other names (header Host) than loopback's and these. Otherwise a web page
    /// could lead its own name here and read the answers. A reverse proxy that passes the name on needs
    /// this option. Beyond loopback, without it, the service takes any address, this machine's own name and
    /// those of the certificate.
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Tokens for writing, one a line
    ///
    /// A token has at least 16 characters. A # begins a comment.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Tokens for reading
    ///
    /// Without this file everybody who connects may read.
    #[arg(long, value_name = "FILE")]
    pub read_token_file: Option<PathBuf>,
    /// Listen beyond loopback without a token file
    #[arg(long)]
    pub open: bool,
    /// Certificate chain for TLS (PEM)
    ///
    /// The server's own certificate comes first.
    ///
    /// The service warns in its log if a certificate has expired or expires within 14 days. It serves an
    /// expired one all the same.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    ///
    /// The key is not encrypted, and others cannot open its file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Requests a second from one client; 0: no limit
    ///
    /// Without this option the limit is 1000, and clients on this machine have none. After ten wrong
    /// tokens within a minute, the service refuses a limited client until the minute is over.
    #[arg(long, value_name = "N")]
    pub rate_limit: Option<u32>,
    /// A reverse proxy, or a network of them
    ///
    /// Repeat the option for more of them. The client is then the one that this proxy names in the header X-Forwarded-For, and has
    /// limits and turns of its own. Without this option all who come through a proxy are one client.
    #[arg(long, value_name = "ADDR")]
    pub trusted_proxy: Vec<Proxy>,
    /// Open connections of one client
    ///
    /// Without this option the limit is 128. For a client on this machine it is 2048: a reverse proxy is
    /// one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub client_connections: Option<u16>,
    /// Do not ping paths to learn their RTT
    ///
    /// Otherwise the service asks ping(8) for the RTT if no record has it. It pings only a path that has
    /// history and that somebody asks about: at most one packet of 84 bytes a minute.
    #[arg(long)]
    pub no_ping: bool,
    /// Paths that reports may make
    ///
    /// The service refuses records of further paths. A path may have 1000 pairs of hop and source.
    /// Commands that open the history themselves have no such bound.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub most_paths: u32,
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// Add records from a CSV or Parquet file to the history
///
/// The first line of a CSV names its columns: time and available_bps. Further columns are capacity_bps,
/// rtt_us, loss (0 to 1), congested (true, false), source, validity (0 to 100, or valid, invalid), hop and
/// dst. A file that ends in .parquet is Parquet with the same columns. Importing a file twice changes
/// nothing.
///
/// A time is RFC 3339, or seconds, milliseconds, microseconds or nanoseconds since 1970. A comma, ;
/// or a tab separates the columns. A bandwidth is in bit/s. A number with two meanings, as 1,234, is refused without --decimal.
///
/// With --counters, the columns are time and octets: readings of a router interface's counter, of 32 or 64
/// bits. The available bandwidth is --capacity less the traffic between two readings.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    imtcp-advice import --db history.db --path 192.0.2.7 trace.csv\n  \
    imtcp-advice import --db history.db --path 192.0.2.7 --decimal comma sheet.csv\n  \
    imtcp-advice import --db history.db --path 192.0.2.7 --counters --capacity 1G if3.csv")]
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
    /// The decimal mark of the numbers in a CSV: point, comma
    ///
    /// Without this option the import refuses numbers with two meanings, as 1,234.
    #[arg(long, value_enum, conflicts_with = "counters")]
    pub decimal: Option<DecimalMark>,
    /// Take a file whose greatest bandwidth is below 100 kbit/s
    ///
    /// Without this option such a file is refused: it probably has Mbit/s.
    #[arg(long, conflicts_with = "counters")]
    pub slow: bool,
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
#[command(after_help = "Example: imtcp-advice export --db history.db --path 192.0.2.7 > trace.csv")]
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

/// Remove a path: all of its records, and what is set for it
///
/// The path is gone for good, so the command asks first; if nobody can answer, it needs --yes. A running
/// service follows within a second. `imtcp-advice vacuum` gives the space back.
#[derive(Args)]
#[command(after_help = "Example: imtcp-advice forget --db history.db --path 192.0.2.7")]
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
/// Settings are `zone=Europe/Berlin`, `history=all|week|weekday`, `z=2`, `freshness_s=600`.
/// Further ones are `horizon_s=3600`, `min_days=3`, `max_days=366`, `min_samples=2`, `min_span_pct=25`.
/// Also `epsilon=10%` or `5M`, `threshold=42M` or `42%` of the capacity, `capacity_bps=100M`.
/// And `min_validity_pct=1`, `next_min_s=1`, `next_max_s=86400`.
///
/// `KEY=` takes a setting back. A wrong value is wrong usage, exit code 2. A running service follows within a
/// second.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    imtcp-advice set --db history.db zone=Europe/Berlin history=weekday\n  \
    imtcp-advice set --db history.db --path 192.0.2.7 threshold=42M epsilon=5%")]
pub struct SetArgs {
    #[command(flatten)]
    pub db: DbArgs,
    /// For this destination alone
    #[arg(long, value_name = "ADDR")]
    pub path: Option<String>,
    /// Show in JSON what holds
    #[arg(long)]
    pub json: bool,
    /// Settings; without any, show what holds
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
}

/// Compare predictors on the history: what would each have said, and what came?
///
/// It predicts each day but the first ones, at steps, from earlier records. It predicts an hour ahead
/// (setting horizon_s), and compares the prediction with the measurement. COVERED is how often the
/// measurement lay within z standard deviations of past days. PREDICTED is how often there was a prediction; the
/// rest is "I don't know".
#[derive(Args)]
#[command(after_help = "Example: imtcp-advice backtest --db history.db --path 192.0.2.7")]
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
/// nothing. Ten million records take one to two minutes, in which a report may wait for a second or
/// two. The first time, vacuum rewrites a file that an older imtcp made. This needs as much free
/// space again, twice, and reports wait until it is over.
#[derive(Args)]
#[command(after_help = "Example: imtcp-advice vacuum --db history.db --keep-raw 7")]
pub struct VacuumArgs {
    #[command(flatten)]
    pub db: DbArgs,
    #[command(flatten)]
    pub keep: KeepArgs,
    /// Say in JSON what was done
    #[arg(long)]
    pub json: bool,
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an address and a port, as 127.0.0.1:8750 or [::]:8750".into())
}
