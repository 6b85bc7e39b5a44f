// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The agent that feeds the advice service.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::advice::{LogLinesArgs, ServiceArgs};
use crate::amount;

/// Send the results of this host's connections to an advice service
///
/// Takes the results of measurements from the kernel as they end, and sends the valid ones in
/// batches, as a mean of ten seconds for each peer. While the service is away they wait in the
/// spool, on disk; each is sent once. A line at the start says where it sends, and how often.
/// Needs `imtcp up`; one agent a machine, and no `imtcp watch --events` beside it. After `imtcp down`
/// it waits for the next `imtcp up`.
///
/// These results cost the network nothing. Active tests of listed peers do, and are made only with
/// --ping or --iperf3; lines at the start say what they cost at most, a test and a day, in bytes of IP
/// packets of both directions, retransmissions aside. Their results go the same way, with the
/// sources NAME/ping and NAME/iperf3.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sudo imtcp agent --url https://advice.example.org:8750 --token-file /etc/imtcp/token\n  \
    sudo imtcp agent --log /var/log/proftpd/xferlog\n  \
    imtcp agent --no-connections --peers peers --spool spool --ping 60 --iperf3 3600 \
    --test-budget 500000000")]
pub struct AgentArgs {
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Where batches wait
    #[arg(long, value_name = "DIR", default_value = "/var/lib/imtcp/spool")]
    pub spool: PathBuf,
    /// Megabytes in the spool at most; the oldest batches go first
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..1_000_000))]
    pub spool_mb: u64,
    /// Seconds between batches
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..3600))]
    pub interval: u64,
    /// Seconds whose results of a peer are sent as their mean; 0: each result
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..3600))]
    pub every: u64,
    /// This host's name in the history
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Say in JSON where it sends, and how often
    #[arg(long)]
    pub json: bool,
    /// Of these peers alone: a file with an address or a name a line
    ///
    /// What follows a # does not count. A name stands for the addresses that it has when the agent
    /// starts.
    #[arg(long, value_name = "FILE", group = "listed")]
    pub peers: Option<PathBuf>,
    /// Of the service's clients alone (/v1/clients), asked for again each minute
    ///
    /// While the service is away those that it named last stay. When they change, the cost of tests is
    /// told again. As many are tested as --test-budget allows.
    #[arg(long, group = "listed")]
    pub peers_from_service: bool,
    /// Of connections in this network namespace: own, all, a process (PID) or a file (PATH)
    ///
    /// The results of other namespaces are left out: whoever makes a namespace gives it any addresses, and
    /// could write any host's history. With `all`, trust everybody who may make one.
    #[arg(long, value_name = "NETNS", default_value = "own")]
    pub netns: String,
    /// Of the clients in this log alone, as they come: an HTTP, FTP or rsync server's; repeat it for more
    ///
    /// The formats are those of `imtcp advice clients`. The agent reads on from the last line that an
    /// agent with this spool has read, also after a rotation. With other logs, or with another --format,
    /// --trusted-proxy or --forwarded-field, it reads them from their beginnings. If a log names no peer,
    /// it says why. At most 10000 peers: beyond, those who got nothing for
    /// longest go. When the peers change, the cost of tests is told again. As many are tested as
    /// --test-budget allows.
    #[arg(long, value_name = "FILE", group = "listed", value_hint = ValueHint::FilePath)]
    pub log: Vec<PathBuf>,
    #[command(flatten)]
    pub lines: LogLinesArgs,
    #[command(flatten)]
    pub tests: ActiveTestArgs,
}

/// What `imtcp agent` sends packets for.
#[derive(Args)]
#[command(next_help_heading = "Active tests")]
pub struct ActiveTestArgs {
    /// Ping each listed peer every S seconds, 5 to 86400: RTT and loss of 5 packets
    ///
    /// A test is 5 packets each way, 840 bytes (1040 with IPv6): every 60 s 1.21 MB a day for each
    /// peer. The first comes after S seconds. Needs ping of iputils.
    #[arg(long, value_name = "S", requires = "listed", value_parser = clap::value_parser!(u64).range(5..=86_400))]
    pub ping: Option<u64>,
    /// Send to an iperf3 server at each listed peer every S seconds, 10 to 86400: throughput
    ///
    /// A test is one TCP connection that takes what it gets from others, until --iperf3-bytes are sent or
    /// --iperf3-seconds are over. With their defaults it costs up to 11.0 MB: every 3600 s 265 MB a
    /// day for each peer. The first comes after S seconds. Needs iperf3 here and `iperf3 -s` there.
    #[arg(long, value_name = "S", requires = "listed", value_parser = clap::value_parser!(u64).range(10..=86_400))]
    pub iperf3: Option<u64>,
    /// The port of the iperf3 servers
    #[arg(long, value_name = "PORT", default_value_t = 5201, value_parser = clap::value_parser!(u16).range(1..))]
    pub iperf3_port: u16,
    /// Seconds that a test with iperf3 sends at most, 1 to 60
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub iperf3_seconds: u64,
    /// Bytes of data that a test with iperf3 sends at most, 100 kB to 100 GB
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = amount::bytes_within(100_000..=100_000_000_000))]
    pub iperf3_bytes: u64,
    /// Refuse to begin when the tests could cost more bytes a day
    #[arg(long, value_name = "N", value_parser = amount::bytes)]
    pub test_budget: Option<u64>,
    /// Only active tests, nothing of this host's connections: needs neither root nor `imtcp up`
    #[arg(long, requires = "listed")]
    pub no_connections: bool,
}
