// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The command line of the agent.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use imtcp_client::service::ServiceArgs;
use imtcp_common::amount;
use imtcp_common::completions::CompletionsArgs;
use imtcp_common::man::ManArgs;
use imtcp_logs::args::LogLinesArgs;

/// Report what this host's connections measure, to an advice service and to Prometheus
///
/// It needs root, to read what the kernel has.
#[derive(Parser)]
#[command(name = "imtcp-agent", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Examples:\n  \
    sudo imtcp-agent metrics\n  \
    sudo imtcp-agent feed --token-file /etc/imtcp/token")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Feed(Box<FeedArgs>),
    Metrics(MetricsArgs),
    #[command(
        after_help = "Example: imtcp-agent completions bash > /etc/bash_completion.d/imtcp-agent"
    )]
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Man(ManArgs),
}

/// Send the results of this host's connections to an advice service
///
/// The agent takes results from the kernel as measurements end. It sends the valid ones in batches, as a
/// mean of ten seconds for each peer. While the service is away, batches wait in the spool, on disk.
/// Each batch is sent once. A line at the start says where the agent sends, and how often.
///
/// It needs `imtcp up`. Run one agent on a machine, and no `imtcp watch --events` beside it. After `imtcp
/// down` it waits for the next `imtcp up`.
///
/// These results cost the network nothing. Active tests of listed peers do cost something: only --ping
/// and --iperf3 start them. Lines at the start say the greatest cost of a test and of a day: bytes of IP
/// packets in both directions, without retransmissions. Results of tests go the same way, with the sources
/// NAME/ping and NAME/iperf3.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sudo imtcp-agent feed --url https://advice.example.org:8750 --token-file /etc/imtcp/token\n  \
    sudo imtcp-agent feed --log /var/log/proftpd/xferlog\n  \
    imtcp-agent feed --no-connections --peers peers --spool spool --ping 60")]
pub struct FeedArgs {
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Where batches wait
    #[arg(long, value_name = "DIR", default_value = "/var/lib/imtcp/spool")]
    pub spool: PathBuf,
    /// Largest spool in megabytes
    ///
    /// When the spool is full, the oldest batches go first.
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..1_000_000))]
    pub spool_mb: u64,
    /// Seconds between batches
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..3600))]
    pub interval: u64,
    /// Seconds in one mean; 0: no means
    ///
    /// The agent sends the results of a peer within this time as their mean, with 0 each result.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..3600))]
    pub every: u64,
    /// This host's name in the history
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Say in JSON where it sends
    ///
    /// It also says how often it sends.
    #[arg(long)]
    pub json: bool,
    /// Only for the peers in this file
    ///
    /// A line is an address or a name; a # begins a comment. The agent looks names up beside its work, and
    /// again every ten minutes. It leaves out a name without an address, says so once, and tries it again:
    /// after 5 s, then each time twice as late.
    #[arg(long, value_name = "FILE", group = "listed")]
    pub peers: Option<PathBuf>,
    /// Only for the service's clients
    ///
    /// The agent asks for them (/v1/clients) each minute. While the service is away, the last ones stay.
    /// It looks up names as those of --peers.
    /// When they change, lines say the cost of tests again. The agent tests as many as --test-budget allows.
    #[arg(long, group = "listed")]
    pub peers_from_service: bool,
    /// Network namespace: own, all, a PID or a PATH
    ///
    /// The agent leaves out the results of other namespaces. Whoever makes a namespace gives it any
    /// addresses, and could write any host's history. With `all`, you trust everybody who may make one.
    #[arg(long, value_name = "NETNS", default_value = "own")]
    pub netns: String,
    /// Only for the clients in this log
    ///
    /// Repeat the option for more logs. The server may be one for HTTP, FTP or rsync; the formats are those of
    /// `imtcp-advice clients`. The agent takes clients as the log grows. It goes on where the last agent stopped,
    /// also after a rotation: the spool keeps the place. With other logs, or with another --format,
    /// --trusted-proxy or --forwarded-field, it reads them from their beginnings. If a log names no peer, the
    /// agent says why. It keeps at most 10000 peers, and drops those who got nothing for longest. When the peers
    /// change, lines say the cost of tests again. The agent tests as many as --test-budget allows.
    #[arg(long, value_name = "FILE", group = "listed", value_hint = ValueHint::FilePath)]
    pub log: Vec<PathBuf>,
    #[command(flatten)]
    pub lines: LogLinesArgs,
    #[command(flatten)]
    pub tests: ActiveTestArgs,
}

/// Show what this host's connections do to Prometheus
///
/// It looks at all connections that use imtcp, and adds up what they did since its last look. It sums by mode, and by
/// who chose the mode: run, attach, a rule's name, or the program itself. It misses what a connection did between the
/// last look and its end. If a look takes more than a tenth of the interval, it looks less often.
///
/// While imtcp is not up, it waits and shows imtcp_loaded 0. It answers 16 connections at once at most, without a token
/// and without TLS: let no stranger reach the address.
#[derive(Args)]
#[command(after_help = "Example: sudo imtcp-agent metrics --listen 127.0.0.1:9750\n\n\
    The metrics are at http://127.0.0.1:9750/metrics.")]
pub struct MetricsArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9750")]
    pub listen: SocketAddr,
    /// Another name that is asked for; may be repeated
    ///
    /// Requests by other names (header Host) than loopback's and these are refused. Beyond loopback, without
    /// it, any address and this machine's own name will do.
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Seconds between looks
    #[arg(short, long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub interval: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "seconds, as 1 or 0.5".to_string())?;
    match (0.1..=60.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("between 0.1 and 60 seconds".into()),
    }
}

/// What `imtcp-agent feed` sends packets for.
#[derive(Args)]
#[command(next_help_heading = "Active tests")]
pub struct ActiveTestArgs {
    /// Ping listed peers every S seconds
    ///
    /// The results are RTT and loss. S is 5 to 86400. A test sends 5 packets each way, together 840 bytes (1040 with IPv6). Each peer costs
    /// 1.21 MB a day if S is 60. The first test comes after S seconds. It needs ping of iputils.
    #[arg(long, value_name = "S", requires = "listed", value_parser = clap::value_parser!(u64).range(5..=86_400))]
    pub ping: Option<u64>,
    /// Run iperf3 to listed peers every S seconds
    ///
    /// S is 10 to 86400. The result is the throughput. A test is one TCP connection that takes bandwidth from
    /// others, until --iperf3-bytes are sent or --iperf3-seconds are over. With their defaults it costs up
    /// to 11.0 MB. Each peer costs 265 MB a day if S is 3600. The first test comes after S seconds. It needs
    /// iperf3 here and `iperf3 -s` there.
    #[arg(long, value_name = "S", requires = "listed", value_parser = clap::value_parser!(u64).range(10..=86_400))]
    pub iperf3: Option<u64>,
    /// Port of the iperf3 servers
    #[arg(long, value_name = "PORT", default_value_t = 5201, value_parser = clap::value_parser!(u16).range(1..))]
    pub iperf3_port: u16,
    /// Longest test in seconds
    ///
    /// A test with iperf3 lasts 1 to 60 seconds.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub iperf3_seconds: u64,
    /// Largest test in bytes
    ///
    /// A test with iperf3 sends 100 kB to 100 GB of data.
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = amount::bytes_within(100_000..=100_000_000_000))]
    pub iperf3_bytes: u64,
    /// Most bytes a day for tests
    ///
    /// If the tests could cost more, the agent refuses to begin. For example --ping 60 --iperf3 3600
    /// --test-budget 500000000.
    #[arg(long, value_name = "N", value_parser = amount::bytes)]
    pub test_budget: Option<u64>,
    /// Only active tests; needs no root
    ///
    /// The agent then sends nothing of this host's connections, and needs no `imtcp up`.
    #[arg(long, requires = "listed")]
    pub no_connections: bool,
}
