// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The command line, and with it the help texts and man pages.

pub mod advice;
pub mod agent;
mod meant;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum, ValueHint};

pub use self::meant::parse;
use crate::param::{Assignment, AssignmentParser};
use crate::policy::{Dscp, Mode};
use crate::rate::Rate;

/// nice(1) for the network: transfers that take only the bandwidth that nobody else wants
///
/// imtcp loads TCP congestion controls into the running kernel (as BPF programs; nothing is
/// patched) that measure the available bandwidth of a path from their own data and ACK
/// packets. `imtcp run` gives them to a command, `imtcp watch` shows what they see, and
/// `imtcp advice` keeps the history of paths and tells what a transfer should do now.
///
/// Exit codes: 0 done, 1 failed (one sentence on standard error says why and what to do),
/// 2 wrong usage. `imtcp run` passes its command's exit code on; `imtcp status` has 3 while
/// imtcp is not up.
#[derive(Parser)]
#[command(name = "imtcp", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Example: sudo imtcp run -- rsync -a backup/ host:backup/")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Up(UpArgs),
    Down(DownArgs),
    Run(RunArgs),
    Attach(AttachArgs),
    Detach(DetachArgs),
    Watch(WatchArgs),
    Status(StatusArgs),
    Doctor(DoctorArgs),
    Advise(advice::AdviseArgs),
    Advice(advice::AdviceArgs),
    Agent(agent::AgentArgs),
    Version(VersionArgs),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Man(ManArgs),
}

impl Command {
    /// Must a reader who leaves not end it? A daemon works for others than who reads its log, and a run
    /// ends as its command does.
    pub fn goes_on_unread(&self) -> bool {
        match self {
            Command::Agent(_) | Command::Run(_) => true,
            Command::Advice(advice) => matches!(advice.command, advice::AdviceCommand::Serve(_)),
            _ => false,
        }
    }
}

/// Load the congestion controls into the kernel: imtcp, imtcp_bg and the other modes'
///
/// They stay until `imtcp down` or a reboot, and any program may choose them by name
/// (setsockopt TCP_CONGESTION, sysctl net.ipv4.tcp_congestion_control). Doing it twice is
/// fine: a newer imtcp replaces the programs in place, without a moment in which the names
/// are absent (on kernels before 6.4, for an instant); connections keep the program that
/// they began with. Mounts the BPF file system at /sys/fs/bpf where it is missing.
#[derive(Args)]
#[command(after_help = "Example: sudo imtcp up")]
pub struct UpArgs {
    /// Allow mode nocc, no congestion control, too; without this it is taken away
    ///
    /// It sends whatever the receiver's window takes and harms everybody else on the path. Only
    /// for networks that are yours alone. Each `run` and `attach` with it, each refusal, and this permission
    /// and its end, are told to the system's log, or to the kernel's (dmesg) where nothing listens on
    /// /dev/log. A program that chooses it by setsockopt is not; who lacks CAP_NET_ADMIN cannot choose it.
    #[arg(long)]
    pub allow_nocc: bool,
    /// Replace the programs even when the same ones are loaded
    #[arg(long)]
    pub force: bool,
    /// Say in JSON what was done
    #[arg(long)]
    pub json: bool,
}

/// Unload; connections in progress go on with the kernel's default congestion control
///
/// Detaches whatever `imtcp attach` attached, moves open connections and listeners of every
/// network namespace to the namespace's default control, and removes all that `imtcp up`
/// made. Where that default was one of imtcp's it becomes cubic (reno where there is no cubic), and a
/// line says so: what it was before somebody set it is not known. Commands of `imtcp run` go on
/// without their mode, floor and ceiling, also after a later `imtcp up`: a line for each says so. Doing
/// it twice is fine.
#[derive(Args)]
#[command(after_help = "Example: sudo imtcp down")]
pub struct DownArgs {
    /// Say in JSON what was done
    #[arg(long)]
    pub json: bool,
}

/// Run a command whose TCP connections take only spare bandwidth
///
/// Every TCP connection that the command and its children make, accept or inherit uses the mode:
/// static binaries and Go programs too, for it works by cgroup and not by a library. The
/// floor and the ceiling hold for the sum of these connections. Where the command itself uses
/// `imtcp run`, the inner run decides for its connections and counts them. Its ceiling is the outer's or a
/// lower one. They do not share it: the outer run and each run inside may have that much at once.
///
/// The line at the end tells what was sent and what was available: what all connections together could
/// have had, as the mean over their valid results, the least and the greatest. It tells for which share
/// of the time the mode held them to what was free: they sent all that is available, or a queue stood.
/// Alone on a path that is most of the time. It names what it saw that imtcp does not hold back: UDP,
/// raw IP, daemons that send for the command (docker, snapd, a shared ssh connection), processes that left the
/// run, connections that chose another congestion control or had no room for imtcp's state.
/// What the command has left to the kernel when it ends is waited for up to two seconds (Ctrl-C ends
/// the wait, and --quiet does without); the line says how much was still on its way then.
///
/// What it does not do: it yields for what this host SENDS. A download is paced by its
/// sender, so run imtcp there. UDP, and with it QUIC, is not touched.
///
/// Loads the programs when they are not loaded (as `imtcp up`) and leaves them loaded, unless the
/// command cannot be started.
///
/// A run ends with its command. Sockets that the command inherited get back what they had. Processes that the command leaves running are moved back to the cgroup that
/// imtcp was started in. Their open connections keep mode and limits. Their new ones have the default
/// control, or that of a run or attachment around them, those that a daemon accepts too. The line at the end names such a process, and `imtcp status`
/// lists it while it lives; `imtcp attach --pid` covers it again. When imtcp is killed the next imtcp command
/// does this.
///
/// The exit code is the command's. Where a signal ended the command, the same signal ends imtcp, after it has
/// tidied up: a shell's loop then ends on one Ctrl-C. 2 is for wrong options, parameters or configuration, 125
/// when imtcp itself failed, 126 when the command is not executable, 127 when it was not found. Output
/// that cannot be written changes none of these. Signals sent to imtcp are passed on; those of the terminal
/// reach the command anyway. Where the command is stopped or continued, imtcp is.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sudo imtcp run -- rsync -a backup/ host:backup/\n  \
    sudo --preserve-env=SSH_AUTH_SOCK imtcp run --user \"$USER\" -- rsync -a backup/ host:backup/\n  \
    sudo imtcp run --max-rate 20M --user $USER -- curl -T image.iso https://host/upload\n  \
    sudo imtcp run --param g=0.7 --param delta=1.1 -- restic backup /home\n  \
    sudo imtcp run --mode measure -- iperf3 -c host")]
pub struct RunArgs {
    #[command(flatten)]
    pub orders: OrderArgs,
    /// Mark the packets with this DSCP: le (RFC 8622), cs0…cs7, af11…af43, ef, or 0…63
    ///
    /// IPv4 connections on IPv6 sockets cannot be marked.
    #[arg(long, value_name = "DSCP")]
    pub dscp: Option<Dscp>,
    /// Run the command as this user, with their groups, HOME, USER and LOGNAME
    ///
    /// Without it the command runs as the caller of imtcp, under sudo as root. ssh finds the user's
    /// agent if sudo keeps SSH_AUTH_SOCK: sudo --preserve-env=SSH_AUTH_SOCK imtcp run --user ...
    ///
    /// The command keeps the terminal, to ask for a password, but may not type into it (TIOCSTI, TIOCLINUX).
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Let the mode follow the advice of this service while the command runs
    ///
    /// bg until it answers, for peers that it does not know, and when it is away, which a line
    /// on standard error tells; measure while the paths to all peers are free.
    #[arg(long, value_name = "URL", conflicts_with = "mode")]
    pub advise: Option<String>,
    /// A file with a token for that service
    #[arg(long, value_name = "FILE", requires = "advise")]
    pub advise_token_file: Option<PathBuf>,
    /// Trust this certificate authority (PEM) for that service instead of the public ones
    #[arg(long, value_name = "FILE", requires = "advise")]
    pub advise_ca: Option<PathBuf>,
    /// Leave out the line at the end
    #[arg(short, long, conflicts_with_all = ["json", "output"])]
    pub quiet: bool,
    /// Write the line at the end as JSON
    ///
    /// On standard error, after what the command and imtcp have said there; with --output alone in a
    /// file. Errors are text.
    #[arg(long)]
    pub json: bool,
    /// Write the line at the end to this file instead of standard error; - is standard output
    ///
    /// What the file had is replaced at the end, and stays where the command cannot be started. Where the
    /// line cannot be written that is told, and the exit code is the command's all the same.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Args, Clone)]
pub struct OrderArgs {
    /// How the connections behave
    #[arg(long, value_enum, default_value_t = Mode::Bg)]
    pub mode: Mode,
    /// Do not go below this sum while there is data to send
    ///
    /// Bits per second: 500k, 10M, 1.5Gbit/s, 800000 (k = 1000). For bytes a second say so:
    /// 1.25MB/s is 10M. 10MB is refused, for it may be meant as either. The line at the end of a
    /// run has the limits in bit/s.
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub min_rate: Option<Rate>,
    /// Do not go above this sum
    ///
    /// A rate as for --min-rate. What a low one lets by may be too little to measure with; the mode
    /// yields to a queue all the same.
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub max_rate: Option<Rate>,
    /// Choose a parameter of the mode; may be repeated
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = AssignmentParser)]
    pub params: Vec<Assignment>,
    /// Take what --param does not choose from this file instead of /etc/imtcp.conf
    ///
    /// TOML, a table for each mode: [bg], and below it a line g = 0.9.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

/// Change the mode of what runs already, open connections included
///
/// A process is taken with its descendants: they are moved into a cgroup of their own below
/// the one they are in (beside it where imtcp made that), and moved back by `imtcp detach`. Their limits
/// go on: where no cgroup can be made there, attach fails. A cgroup is taken as it is, with the cgroups in it.
///
/// Attaching again to the same target changes its mode, rates and parameters: those that are not given
/// again go back to their defaults. It also takes what `imtcp status` says is not covered any more: the
/// new cgroup of a unit that has restarted, and processes that somebody has moved to another cgroup.
///
/// Exit code 1 when open sockets could not be reached: a line counts them and names the cause. New
/// connections are covered all the same. Of multipath TCP (MPTCP), the limits hold for the paths that a
/// connection has; with --pid, paths that it adds later have the mode without the limits.
///
/// What is within the target and has an attachment or `imtcp run` of its own keeps that, which a line
/// tells; when that ends, this one has it.
///
/// From process 1 all others descend, and in the root cgroup they all are: these need --force. Where the
/// process is one that this command was started from (your shell), a line warns of what else is taken.
#[derive(Args)]
#[command(group(ArgGroup::new("target").required(true).args(["pid", "cgroup"])))]
#[command(after_help = "Examples:\n  \
    sudo imtcp attach --pid 4711 --max-rate 5M\n  \
    sudo imtcp attach --pid 4711 --mode fs --param h=20\n  \
    sudo imtcp attach --cgroup system.slice/transmission-daemon.service")]
pub struct AttachArgs {
    /// The process, with its descendants
    #[arg(long, value_parser = pid)]
    pub pid: Option<i32>,
    /// The cgroup (version 2), as a path or relative to the mount
    #[arg(long, value_name = "G")]
    pub cgroup: Option<PathBuf>,
    /// Take process 1 or the root cgroup too, and with it every process of the machine
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub orders: OrderArgs,
    /// Say in JSON what was done
    #[arg(long)]
    pub json: bool,
}

/// Undo `imtcp attach`: connections get the congestion control back that they had
#[derive(Args)]
#[command(group(ArgGroup::new("target").required(true).args(["pid", "cgroup", "all"])))]
#[command(after_help = "Example: sudo imtcp detach --pid 4711")]
pub struct DetachArgs {
    /// The process that was attached
    #[arg(long, value_parser = pid)]
    pub pid: Option<i32>,
    /// The cgroup that was attached
    #[arg(long, value_name = "G")]
    pub cgroup: Option<PathBuf>,
    /// Everything that is attached
    #[arg(long)]
    pub all: bool,
    /// Say in JSON what was done
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// Own rate, highest first
    Rate,
    /// Available bandwidth, highest first
    Avail,
    /// Bytes acknowledged, most first
    Bytes,
    /// Round-trip time, longest first
    Rtt,
    /// Command
    Command,
    /// Peer's address
    Peer,
}

/// Show the connections live: own rate against the available bandwidth
///
/// The own rate is what was acknowledged since the look before, with --once within half a
/// second (or --interval, where that is shorter).
///
/// With --json, one JSON object per connection and line at each interval. Values that are
/// not known are null, as rate_bps is at the first look.
///
/// With --events, one line per measurement that ends: seconds since boot, the connection's
/// cookie (a column of --once), the outcome, and what is available. With --json too, an
/// object each; a line {"dropped": n} tells how many were lost before it.
///
/// After `imtcp down` it waits for the next `imtcp up` and goes on; a line on standard error says
/// so. Ctrl-Z stops the live view, and fg brings it back.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sudo imtcp watch\n  \
    sudo imtcp watch --once --sort avail --filter rsync\n  \
    sudo imtcp watch --json --interval 0.1 > connections.jsonl")]
pub struct WatchArgs {
    /// Print once and end
    #[arg(long)]
    pub once: bool,
    /// JSON, one object a line
    #[arg(long)]
    pub json: bool,
    /// Stream the results of measurements instead of connections
    #[arg(long, conflicts_with_all = ["once", "sort", "filter"])]
    pub events: bool,
    /// With --events, begin with the results from before that nobody has read
    #[arg(long, requires = "events")]
    pub from_start: bool,
    /// Seconds between looks
    #[arg(short, long, value_parser = interval, default_value = "1")]
    pub interval: Duration,
    /// Order of the lines
    #[arg(short, long, value_enum, default_value_t = SortKey::Rate)]
    pub sort: SortKey,
    /// Only connections whose addresses, pid, command or mode contain this
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub filter: String,
}

/// Say what is loaded, since when, and who uses it
///
/// The exit code is 0 while imtcp is up and 3 while it is not, as that of `systemctl status`.
#[derive(Args)]
#[command(after_help = "Example: sudo imtcp status --json")]
pub struct StatusArgs {
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Check this machine for what imtcp needs and for what spoils measurement
///
/// Tries a whole run and undoes it: loads the programs where they are not loaded, makes a cgroup,
/// connects to itself within it, and removes all of it again. Exit code 1 when something that imtcp
/// needs is missing.
#[derive(Args)]
#[command(after_help = "Examples: sudo imtcp doctor\n          sudo imtcp doctor --verifier")]
pub struct DoctorArgs {
    /// Instead, have this kernel's verifier go through each program, and say what it counted
    ///
    /// Instructions on all paths, of which the kernel allows a million, and bytes of stack. Nothing
    /// is registered or left behind. For those who port to a kernel, or change the programs.
    #[arg(long)]
    pub verifier: bool,
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Print the version
#[derive(Args)]
#[command(after_help = "Example: imtcp version --json")]
pub struct VersionArgs {
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Print completions for a shell
#[derive(Args)]
#[command(after_help = "Example: imtcp completions bash > /etc/bash_completion.d/imtcp")]
pub struct CompletionsArgs {
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Write the man pages into a directory
#[derive(Args)]
pub struct ManArgs {
    pub dir: PathBuf,
}

fn pid(text: &str) -> Result<i32, String> {
    let pid = text.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| "a process's number is wanted, as pgrep prints it".to_string())
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "seconds, as 1 or 0.1".to_string())?;
    if !(0.01..=86_400.0).contains(&seconds) {
        return Err("between 0.01 and 86400 seconds".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        let command = Cli::command();
        let all =
            command.get_subcommands().flat_map(|s| std::iter::once(s).chain(s.get_subcommands()));
        for sub in all.filter(|s| !s.is_hide_set()) {
            let help = sub.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{} has no example", sub.get_name());
        }
    }

    #[test]
    fn the_commands_own_options_are_left_to_it() {
        let cli = Cli::try_parse_from(["imtcp", "run", "-q", "--", "curl", "--json", "-q"]);
        let Command::Run(run) = cli.unwrap().command else { panic!() };
        assert!(run.quiet && !run.json);
        assert_eq!(run.command, ["curl", "--json", "-q"]);
        let cli = Cli::try_parse_from(["imtcp", "run", "curl", "--json"]);
        let Command::Run(run) = cli.unwrap().command else { panic!() };
        assert!(!run.json);
    }
}
