// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Traffic generators and samplers of the laboratory: `imtcp-load`.
//!
//! One process does one task in one thread. All times are CLOCK_MONOTONIC µs, so that the files of
//! several processes share one clock.

mod bulk;
mod first_rto;
mod netlink;
mod qdisc;
mod random;
mod run;
mod schedule;
mod sys;
mod tcp;
mod tree;
mod udp;
mod units;
mod web;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "imtcp-load", version, about = "Traffic and samples for imtcp experiments")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve web-like objects
    WebServer(web::ServerArgs),
    /// Fetch web-like objects at Poisson times and log how long each took
    WebClient(web::ClientArgs),
    /// Receive greedy TCP flows and count their bytes
    BulkServer(bulk::ServerArgs),
    /// Send greedy TCP flows
    BulkClient(bulk::ClientArgs),
    /// Send UDP at a constant rate, in steps or as a square wave
    Udp(udp::Args),
    /// Receive and count UDP
    UdpSink(udp::SinkArgs),
    /// Sample the queues of a device
    QdiscSample(qdisc::Args),
    /// Sample the TCP connections of this network namespace
    TcpSample(tcp::Args),
    /// Write a file tree that depends on the seed alone
    Tree(tree::Args),
    /// Set the first retransmission timeout of every connection in a cgroup
    FirstRto(first_rto::Args),
    /// Print CLOCK_MONOTONIC in µs
    Now,
    /// Sleep until this CLOCK_MONOTONIC time in µs
    SleepUntil { t_us: u64 },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    run::catch_signals();
    sys::raise_file_limit();
    let result = match &cli.command {
        Command::WebServer(args) => web::server(args),
        Command::WebClient(args) => web::client(args),
        Command::BulkServer(args) => bulk::server(args),
        Command::BulkClient(args) => bulk::client(args),
        Command::Udp(args) => udp::send(args),
        Command::UdpSink(args) => udp::sink(args),
        Command::QdiscSample(args) => qdisc::run(args),
        Command::TcpSample(args) => tcp::run(args),
        Command::Tree(args) => tree::run(args),
        Command::FirstRto(args) => first_rto::set(args),
        Command::Now => {
            println!("{}", sys::now_us());
            Ok(())
        }
        Command::SleepUntil { t_us } => {
            sys::sleep_until_ns(t_us * 1000);
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("imtcp-load: {error}");
            ExitCode::FAILURE
        }
    }
}
