// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The commands that give connections a mode and take it back.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueHint};
use imtcp_common::exit;

use crate::filter::{Filter, Network, Ports};
use crate::policy::OrderArgs;

/// Run a command whose TCP connections take only spare bandwidth
///
/// Every TCP connection that the command and its children make, accept or inherit uses the mode. Static
/// binaries and Go programs are covered too: imtcp works by cgroup, not by a library. The floor and
/// the ceiling hold for the sum of these connections.
///
/// If runs are nested, the innermost run decides for its connections and counts them. Its ceiling is
/// that of the run or attachment around it, or a lower one. The runs do not share the ceiling: each may have that much at once.
///
/// The last line of a run says how much the command sent and how much was available. All connections
/// together could have had the available bandwidth: the mean over their valid results, then the least and
/// the greatest. The line also says for which share of the time the mode held them to the free
/// bandwidth. In that time they sent all that was available, or a queue stood. Alone on a path, that is most
/// of the time.
///
/// The last line names traffic that imtcp saw and did not hold back: UDP, raw IP, daemons that send for the
/// command (docker, snapd, a shared ssh connection), and processes that left the run. It tells UDP from 10 kB on,
/// beside TCP from 100 kB. It also counts
/// connections that chose another congestion control or had no room for imtcp's state.
///
/// When the command ends, imtcp waits up to two seconds for data that the kernel still holds. Ctrl-C ends
/// the wait. With --quiet, or if a signal ended the command, there is none. The last line says how much was still on its way then.
///
/// Downloads yield, too: imtcp makes the window smaller that this host offers (--direction). imtcp does not hold back
/// UDP, and so not QUIC.
///
/// The run loads the programs if they are not loaded, as `imtcp up` does. They stay loaded, unless the
/// command cannot be started.
///
/// A run ends with its command. Sockets that the command inherited get back what they had. If the command
/// leaves processes running, imtcp moves them back to the cgroup that imtcp was started in. Their open
/// connections keep mode and limits. Their new connections have the default control, or that of a run or
/// attachment around them, also those that a daemon accepts. The last line names such a process, and
/// `imtcp status` lists it while it lives. `imtcp attach --pid` covers it again. After `imtcp detach` its open
/// connections have the default control too. If imtcp is killed, the next imtcp command does the same.
///
/// Everybody may read the arguments of a process, and those of the command may hold a password. Once the command has
/// started, imtcp blanks them among its own, but for the program's name. sudo shows its own all the same, and `imtcp status`
/// shows them to root.
///
/// The exit code is the command's. If a signal ended the command, imtcp tidies up and ends by the same
/// signal, so one Ctrl-C ends a shell's loop. Exit code 2 means wrong options, parameters or
/// configuration. Exit code 125 means that imtcp itself failed, 126 that the command is not executable,
/// 127 that it was not found. Output that cannot be written changes none of these. Nobody may read the last line.
/// Then TERM, INT, HUP or QUIT ends imtcp without it, with the same code.
///
/// imtcp passes on every signal but those that tell of itself (CHLD, PIPE, TTIN, TTOU, SEGV and the like). Those of
/// the terminal reach the command anyway. A signal to the whole process group reaches the command twice. Once only, if
/// a process of the run sent it and still lives: imtcp cannot ask about a sender that has ended. If the command is
/// stopped or continued, imtcp is too.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    sudo imtcp run -- rsync -a backup/ host:backup/\n  \
    sudo --preserve-env=SSH_AUTH_SOCK imtcp run --user $USER -- rsync -a a/ host:a\n\n\
    Uploads and downloads by TCP yield; UDP and QUIC do not.")]
pub struct RunArgs {
    #[command(flatten)]
    pub orders: OrderArgs,
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Run as this user, with their groups and HOME
    ///
    /// The command gets the user's USER and LOGNAME too. Without this option it runs as the caller of
    /// imtcp: under sudo, as root. For ssh to find the user's agent, sudo must keep SSH_AUTH_SOCK.
    ///
    /// `sudo --preserve-env=SSH_AUTH_SOCK imtcp run --user "$USER" -- rsync -a backup/ host:backup/`
    ///
    /// The command keeps the terminal, so it can ask for a password. It may not type into the
    /// terminal (TIOCSTI, TIOCLINUX).
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Follow advice (--advise-token-file, --advise-ca)
    ///
    /// The mode follows the advice of this service while the command runs. It is measure while the paths
    /// to all peers are free. It is bg until the service answers, for peers that the service does not know,
    /// and while the service is away. A line on standard error says when the service is away.
    #[arg(long, value_name = "URL", conflicts_with = "mode")]
    pub advise: Option<String>,
    /// Read a token for that service from this file
    #[arg(long, value_name = "FILE", requires = "advise", hide_short_help = true)]
    pub advise_token_file: Option<PathBuf>,
    /// Trust this certificate authority (PEM) for that service instead of the public ones
    #[arg(long, value_name = "FILE", requires = "advise", hide_short_help = true)]
    pub advise_ca: Option<PathBuf>,
    /// Print no last line
    #[arg(short, long, conflicts_with_all = ["json", "output"])]
    pub quiet: bool,
    /// Print the last line as JSON
    ///
    /// It goes to standard error, after all that the command and imtcp have said there. With --output it goes to
    /// the file alone. Errors are text.
    #[arg(long)]
    pub json: bool,
    /// Write the last line to FILE; - is standard output
    ///
    /// Without this option it goes to standard error. The run replaces the file at its end. The file stays as
    /// it was if the command cannot be started. If the line cannot be written, imtcp says so, and the exit
    /// code is the command's all the same.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// The command and its arguments
    #[arg(
        required = true,
        hide_short_help = true,
        trailing_var_arg = true,
        value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<std::ffi::OsString>,
}

/// A filter for the connections of a cgroup.
#[derive(Args, Clone)]
pub struct FilterArgs {
    /// Only connections of the cgroup with these networks
    ///
    /// Addresses as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32; 32 at most.
    #[arg(long, value_name = "NET", value_delimiter = ',')]
    pub to: Vec<Network>,
    /// Only connections of the cgroup with these ports
    ///
    /// Ports or ranges, as 22 or 8000-8010; 32 at most. The port is the service's: the peer's if the connection
    /// is made here, this machine's if it is accepted.
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub port: Vec<Ports>,
}

impl FilterArgs {
    pub fn of(&self, cgroup: Option<&PathBuf>) -> anyhow::Result<Option<Filter>> {
        let filter = Filter::new(self.to.clone(), self.port.clone()).map_err(exit::usage)?;
        match filter.is_none() || cgroup.is_some() {
            true => Ok(filter),
            false => {
                Err(exit::usage("--to and --port choose connections of a cgroup: add --cgroup"))
            }
        }
    }
}

#[derive(Args, Clone)]
pub struct ConfigArgs {
    /// Read parameters here, not in /etc/imtcp.conf
    ///
    /// --param goes before the file. The file is TOML with a table for each mode: [bg], and below it a
    /// line g = 0.9.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

/// Give a running process or cgroup a mode, open connections included
///
/// imtcp takes a process with its descendants. It moves them into a cgroup of their own below
/// the one that they are in, or beside that one if imtcp made it. `imtcp detach` moves them back. The limits of
/// their cgroup still hold: if no cgroup can be made there, attach fails. imtcp takes a cgroup as it is, with the
/// cgroups in it.
///
/// Attach again to the same target to change its mode, rates and parameters. Values that you do not give
/// again go back to their defaults. This also takes what `imtcp status` calls not covered any more:
/// the new cgroup of a unit that has restarted, and processes that somebody moved to another cgroup.
///
/// Exit code 1 means that imtcp could not reach some open sockets: a line counts them and names the cause.
/// New connections are covered all the same. With multipath TCP (MPTCP), the limits hold for the paths
/// that a connection has now. With --pid, paths that it adds later have the mode without the limits.
///
/// If something within the target has an attachment or an `imtcp run` of its own, it keeps that, and a
/// line says so. When that ends, this attachment takes it.
///
/// With --to or --port imtcp takes only those connections of a cgroup. A cgroup may have several such
/// attachments, and one without. A connection that several would take belongs to the first with --to or --port.
///
/// All processes descend from process 1, and all are in the root cgroup: these two targets need --force, unless
/// --to or --port names less. If
/// this command was started from the process (your shell), a line warns of what else is taken.
#[derive(Args)]
#[command(group(ArgGroup::new("target").required(true).args(["pid", "cgroup"])))]
#[command(after_help = "Examples:\n  \
    sudo imtcp attach --pid 4711 --max-rate 5M\n  \
    sudo imtcp attach --cgroup system.slice/transmission-daemon.service\n\n\
    imtcp detach undoes it. Exit code 1: some open sockets could not be reached.")]
pub struct AttachArgs {
    /// The process, with its descendants
    #[arg(long, value_parser = pid)]
    pub pid: Option<i32>,
    /// The cgroup (version 2), as a path or relative to the mount
    #[arg(long, value_name = "G")]
    pub cgroup: Option<PathBuf>,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Allow process 1 or the root cgroup: every process
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub orders: OrderArgs,
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Say in JSON what was done
    #[arg(long)]
    pub json: bool,
}

/// Undo `imtcp attach`: connections get their earlier control back
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
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Everything that is attached
    #[arg(long)]
    pub all: bool,
    /// Say in JSON what was done
    #[arg(long)]
    pub json: bool,
}

fn pid(text: &str) -> Result<i32, String> {
    let pid = text.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| "a process's number is wanted, as pgrep prints it".to_string())
}
