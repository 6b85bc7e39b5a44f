// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The command line, and with it the help texts and man pages.

pub mod rules;
mod run;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use imtcp_common::completions::CompletionsArgs;
use imtcp_common::man::ManArgs;

pub use run::{AttachArgs, ConfigArgs, DetachArgs, RunArgs};

/// nice(1) for the network: transfers that take only the bandwidth that nobody else wants
///
/// imtcp loads TCP congestion controls into the running kernel, as BPF programs. It patches nothing.
/// These controls measure the available bandwidth of a path from their own data and ACK packets.
/// Use `imtcp run` to give them to a command, and `imtcp watch` to see what they measure. The advice
/// service (`imtcp-advice`) keeps the history of paths and says what a transfer should do now; `imtcp-agent`
/// feeds it, and monitoring.
///
/// Exit codes: 0 done, 1 failed, 2 wrong usage. After a failure one sentence on standard error says why and
/// what to do. `imtcp run` passes on the exit code of its command. `imtcp status` has 3 while imtcp is not
/// up.
#[derive(Parser)]
#[command(name = "imtcp", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Examples:\n  \
    sudo imtcp doctor\n  \
    sudo imtcp run -- rsync -a backup/ host:backup/\n  \
    sudo imtcp watch\n\n\
    Doctor checks this machine. Run needs nothing else: no rate and no mode. Watch shows the\n\
    connections live. `imtcp COMMAND --help` explains each command.")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Run(RunArgs),
    Watch(WatchArgs),
    Doctor(DoctorArgs),
    Attach(AttachArgs),
    Detach(DetachArgs),
    Rules(rules::RulesArgs),
    Status(StatusArgs),
    Up(UpArgs),
    Down(DownArgs),
    Version(VersionArgs),
    #[command(after_help = "Example: imtcp completions bash > /etc/bash_completion.d/imtcp")]
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Man(ManArgs),
}

impl Command {
    /// Must a reader who leaves not end it? A daemon works for others than who reads its log, and a run
    /// ends as its command does.
    pub fn goes_on_unread(&self) -> bool {
        match self {
            Command::Run(_) => true,
            Command::Rules(rules) => matches!(rules.command, rules::RulesCommand::Watch(_)),
            _ => false,
        }
    }
}

/// Load the programs into the kernel; run and attach do it themselves
///
/// The programs are the congestion controls imtcp, imtcp_bg and those of the other modes. They stay until `imtcp down` or a reboot. Any program may choose them by name (setsockopt
/// TCP_CONGESTION, sysctl net.ipv4.tcp_congestion_control), but imtcp_fs,
/// imtcp_paperfs and imtcp_nocc need CAP_NET_ADMIN.
///
/// You may do it twice: a newer imtcp replaces the programs in place. The names are never absent; on
/// kernels before 6.4 they are, for an instant. Connections keep the program that they began with.
/// If the BPF file system is missing, imtcp mounts it at /sys/fs/bpf.
///
/// The kernel charges the state of all connections, 4 KB each, to the memory cgroup of the command that loads the programs.
/// Call up outside a cgroup with a limit.
#[derive(Args)]
#[command(after_help = "Example: sudo imtcp up\n\n\
    They stay until `imtcp down` or a reboot.")]
pub struct UpArgs {
    /// Allow mode nocc, no congestion control, too
    ///
    /// Without this option imtcp takes the permission away. Mode nocc sends whatever the receiver's window takes and
    /// harms everybody else on the path. Use it only on networks that are yours alone.
    ///
    /// The system's log records each `run` and `attach` with nocc, each refusal, this permission and its
    /// end. If nothing listens on /dev/log, the kernel's log (dmesg) does. A program that chooses nocc by
    /// setsockopt is not recorded; it needs CAP_NET_ADMIN.
    #[arg(long)]
    pub allow_nocc: bool,
    /// Replace the programs even when the same ones are loaded
    #[arg(long)]
    pub force: bool,
    /// Say in JSON what was done
    #[arg(long)]
    pub json: bool,
}

/// Unload; open connections go on with the kernel's default control
///
/// It detaches all that `imtcp attach` attached. It moves open connections and listeners of every
/// network namespace to the default control of that namespace. Then it removes all that `imtcp up` made.
///
/// If the default was one of imtcp's, it becomes cubic, or reno if there is no cubic. A line says so:
/// imtcp does not know the default from before. Commands of `imtcp run` go on without their mode, floor and
/// ceiling, also after a later `imtcp up`. A line for each says so. You may do it twice.
#[derive(Args)]
#[command(after_help = "Example: sudo imtcp down\n\n\
    It also ends attachments, and the mode and limits of each `imtcp run`.")]
pub struct DownArgs {
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

/// Show the connections live: own rate and available bandwidth
///
/// The own rate counts the bytes that were acknowledged since the look before. With --once it counts them over
/// half a second, or over --interval if that is shorter.
///
/// With --json, each interval prints one line with a JSON object for each connection. Unknown
/// values are null, as rate_bps is at the first look.
///
/// With --events, each measurement that ends prints one line: seconds since boot, the cookie of the
/// connection (a column of --once), the outcome, and the available bandwidth. With --json too, each line
/// is an object, and a line {"dropped": n} says how many results were lost before it.
///
/// After `imtcp down` it waits for the next `imtcp up` and goes on; a line on standard error says
/// so. Ctrl-Z stops the live view, and fg brings it back.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sudo imtcp watch\n  \
    sudo imtcp watch --once --sort avail --filter rsync\n  \
    sudo imtcp watch --json --interval 0.1 > connections.jsonl\n\n\
    q ends the live view.")]
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
    /// With --events, begin with unread earlier results
    #[arg(long, requires = "events")]
    pub from_start: bool,
    /// Seconds between looks
    #[arg(short, long, value_parser = interval, default_value = "1")]
    pub interval: Duration,
    /// Order: rate, avail, bytes, rtt, command or peer
    #[arg(short, long, value_enum, default_value_t = SortKey::Rate)]
    pub sort: SortKey,
    /// Only where address, pid, command or mode contains this
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub filter: String,
}

/// Say what is loaded, since when, and who uses it
///
/// The exit code is 0 while imtcp is up and 3 while it is not, as for `systemctl status`.
#[derive(Args)]
#[command(after_help = "Example: sudo imtcp status --json\n\n\
    The exit code is 0 while imtcp is up and 3 while it is not.")]
pub struct StatusArgs {
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Check this machine, and say what to change
///
/// It looks for what imtcp needs and for what spoils measurement. It tries a whole run and undoes it. It loads the programs if they are not loaded, makes a cgroup,
/// connects to itself in there, and removes all of it again. Exit code 1 means that something is
/// missing that imtcp needs.
#[derive(Args)]
#[command(after_help = "Example: sudo imtcp doctor\n\n\
    It tries a whole run and undoes it. Exit code 1: something is missing.")]
pub struct DoctorArgs {
    /// Only count what each program costs this kernel's verifier
    ///
    /// It counts instructions on all paths, of which the kernel allows a million, and bytes of stack. It
    /// registers nothing and leaves nothing behind. This is for whoever ports to a kernel or changes the
    /// programs: sudo imtcp doctor --verifier
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
    use imtcp_common::help;

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

    #[test]
    fn each_help_has_fewer_than_250_words() {
        for (name, help) in help::all(Cli::command()) {
            let words = help.split_whitespace().count();
            assert!(words < 250, "{name} has {words} words: {help}");
        }
    }

    #[test]
    fn the_help_of_run_fits_a_terminal_of_24_lines_and_80_columns() {
        let helps = help::all(Cli::command());
        let (_, help) = helps.iter().find(|(name, _)| name == "run").unwrap();
        let help = help.trim_end();
        assert!(help.lines().count() <= 24, "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    }

    #[test]
    fn examples_come_before_options() {
        for (name, help) in help::all(Cli::command()) {
            let Some(options) = help.find("Options:") else { continue };
            let example = help.find("Example");
            assert!(name == "help" || example.is_some_and(|at| at < options), "{name}: {help}");
        }
    }
}
