// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! For `imtcp doctor`: a run with ourselves in the place of the command, begun and ended.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{bail, Result};
use clap::Parser;
use imtcp_bpf::Obstacle;
use nix::sys::socket::{setsockopt, sockopt};

use super::Session;
use crate::cli::{Cli, Command};
use crate::mode::Mode;
use crate::{cgroup, policy, socket, state};

/// Where nothing was loaded before, nothing is afterwards.
pub fn rehearse() -> Result<()> {
    let words = ["imtcp", "run", "--quiet", "--", "imtcp", "doctor"];
    let Command::Run(args) = Cli::parse_from(words).command else { unreachable!() };
    let orders = policy::orders(&args.orders, args.config.config.as_deref())?;
    let mut session = Session::start(&args, orders, &state::lock()?)?;
    let connected = connect_within(&session, args.orders.mode);
    // A process still in it at its end would count as left behind.
    let moved_back = cgroup::move_pid(std::process::id() as i32, &session.refuge)
        .map_err(|e| unwritable(&session.refuge, &e));
    session.undo()?;
    connected?;
    moved_back?;
    if session.cgroup.exists() {
        bail!("the cgroup {} cannot be removed", session.cgroup.display());
    }
    Ok(())
}

/// Has a connection that is made in the run's cgroup the mode's congestion control?
fn connect_within(session: &Session, mode: Mode) -> Result<()> {
    let moved = session.own()?.take(std::process::id() as i32);
    moved.map_err(|e| unwritable(&session.cgroup, &e))?;
    // Without a loopback device there is nothing to be tried.
    let Ok((client, server)) = connection_to_self() else { return Ok(()) };
    let control = socket::control(client.as_fd())?;
    for end in [client, server] {
        // Closed at once, or the run would still have a connection at its end.
        setsockopt(&end, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
    }
    if control == mode.control() {
        return Ok(());
    }
    let found =
        format!("a connection of the run has the control {control}, not {}", mode.control());
    let remedy = "`bpftool cgroup tree` lists the programs that may have changed it";
    Err(Obstacle::new(found, remedy).into())
}

fn unwritable(cgroup: &Path, error: &io::Error) -> Obstacle {
    Obstacle::unwritable(&cgroup.join("cgroup.procs"), error)
}

fn connection_to_self() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    Ok((client, listener.accept()?.0))
}
