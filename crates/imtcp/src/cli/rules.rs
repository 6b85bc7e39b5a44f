// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use crate::filter::{Network, Ports};
use crate::policy::OrderArgs;
use crate::rules::DIR;

/// Say once what is background: services, users, programs, destinations
///
/// A rule is a file NAME.toml in /etc/imtcp.d. It names systemd units, cgroups, containers, users, programs or
/// destinations, and gives them a mode and rates. `imtcp rules watch` attaches what the rules name, as `imtcp attach` does. The service
/// imtcp-rules runs it. It follows within a second or two: a unit that restarts, a program that starts, a file
/// that changes.
///
///   unit = "restic*.service"    # one or several: ["a.service", "b.service"]
///   cgroup = "system.slice/x"   # below /sys/fs/cgroup; * stands for a part of a name
///   container = "backup"        # of docker or podman, by name
///   user = "backup"             # sessions and processes of a user
///   command = "rclone"          # a program: its path, or its name as ps shows it
///   to = "192.0.2.0/24"         # of what is named, or of all: connections with these networks
///   port = [873, "8000-8010"]   # and with these ports
///   mode = "bg"                 # the default
///   max-rate = "20M"            # and min-rate, as for imtcp run
///   [param]
///   g = 0.9
///
/// Names need no systemd: a unit is a cgroup of that name. Where two rules name the same, the first in the order
/// of their names holds. What was attached by hand, or is within an `imtcp run`, keeps what it has.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:\n  \
    sudo imtcp rules add backup --unit 'restic*.service' --max-rate 20M\n  \
    sudo imtcp rules test\n  \
    sudo systemctl enable --now imtcp-rules    (or: sudo imtcp rules watch)\n  \
    sudo imtcp rules list"
)]
pub struct RulesArgs {
    #[command(subcommand)]
    pub command: RulesCommand,
}

#[derive(Subcommand)]
pub enum RulesCommand {
    List(ListArgs),
    Test(TestArgs),
    Add(Box<AddArgs>),
    Remove(RemoveArgs),
    Watch(WatchArgs),
}

/// Say of each rule what it covers now
#[derive(Args)]
#[command(after_help = "Example: sudo imtcp rules list\n\n\
    The exit code is 1 if a rule is wrong, or covers less than it names.")]
pub struct ListArgs {
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub dir: DirArgs,
}

/// Check the rules, and say what they name now; changes nothing
#[derive(Args)]
#[command(after_help = "Example: imtcp rules test\n\n\
    The exit code is 1 if a rule is wrong.")]
pub struct TestArgs {
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub dir: DirArgs,
}

/// Write a rule
///
/// Rates hold for the sum of each target's connections.
#[derive(Args)]
#[command(after_help = "Example: sudo imtcp rules add backup --unit restic.service --max-rate 20M")]
pub struct AddArgs {
    /// Its name: letters, digits, - and _
    pub name: String,
    /// A systemd unit, as restic.service; * stands for a part of a name
    #[arg(long, value_name = "UNIT")]
    pub unit: Vec<String>,
    /// A cgroup below the mount, as system.slice/restic.service
    #[arg(long, value_name = "CGROUP")]
    pub cgroup: Vec<String>,
    /// A container of docker or podman, by name; * stands for a part
    #[arg(long, value_name = "NAME")]
    pub container: Vec<String>,
    /// A user, by name or number
    #[arg(long, value_name = "USER")]
    pub user: Vec<String>,
    /// A program, by its path or its name
    // Its own id: --help leaves out what is called "command" (cli/help.rs).
    #[arg(id = "program", long = "command", value_name = "PROGRAM")]
    pub command: Vec<String>,
    /// Only connections with these networks; of all processes if nothing else is named
    ///
    /// Addresses as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32, not names; 32 at most.
    #[arg(long, value_name = "NET", value_delimiter = ',')]
    pub to: Vec<Network>,
    /// Only connections with these ports
    ///
    /// Ports or ranges, as 22 or 8000-8010; 32 at most. The port is the service's: the peer's if the connection
    /// is made here, this machine's if it is accepted.
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub port: Vec<Ports>,
    #[command(flatten)]
    pub orders: OrderArgs,
    /// Write over a rule of this name
    #[arg(long)]
    pub replace: bool,
    #[command(flatten)]
    pub dir: DirArgs,
}

/// Remove a rule; what it covers gets its earlier control back
#[derive(Args)]
#[command(after_help = "Example: sudo imtcp rules remove backup")]
pub struct RemoveArgs {
    pub name: String,
    #[command(flatten)]
    pub dir: DirArgs,
}

/// Attach what the rules name, and follow it until this ends
///
/// It looks once a second and reads a file again when it changes. While a file is wrong, the rule from before
/// holds, and a line says so. After `imtcp down` it waits for the next `imtcp up`. When it ends by SIGTERM or
/// Ctrl-C, what it attached is detached. After a crash the next one goes on with what is attached.
#[derive(Args)]
#[command(after_help = "Example: sudo imtcp rules watch\n\n\
    As a service: systemctl enable --now imtcp-rules")]
pub struct WatchArgs {
    #[command(flatten)]
    pub dir: DirArgs,
}

#[derive(Args)]
pub struct DirArgs {
    /// Where the rules are
    #[arg(long, value_name = "DIR", default_value = DIR, value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}
