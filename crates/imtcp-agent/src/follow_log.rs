// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Peers from the logs of this host's servers, as its clients come: the thesis's server took its clients
//! from the FTP server's log. Where the reading stopped is kept in the spool's directory.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use imtcp_client::peer::is_peer;
use imtcp_client::peer::network;
use imtcp_client::time::{now_us, DAY_US};
use imtcp_logs::no_client;
use imtcp_logs::proxies::Forwarded;
use imtcp_logs::{Counts, Format, Transfers};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::log_tail::{Log, Position};
use super::messages::say;
use super::spool::read_own;
use super::watched_peers::{WatchedPeers, CHANGE};

/// Between looks into the logs.
const LOOK: Duration = Duration::from_secs(1);
/// Peers at most, as many as the service keeps clients. Beyond, those who got nothing for longest go.
const MOST_PEERS: usize = 10_000;
/// An address stays its network's while it gets something once a day: peers that change begin the tests'
/// round anew.
const STAYS_US: i64 = DAY_US;
/// How many go at once, so that one more client is not one search more.
const GO_AT_ONCE: usize = MOST_PEERS / 10;

/// What is kept on disk. Losing it does no harm: then the logs are read from their beginnings.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    /// The logs, and what their lines mean. Peers learnt otherwise do not count.
    #[serde(default)]
    rules: String,
    positions: HashMap<PathBuf, Position>,
    #[serde(default)]
    lines: HashMap<PathBuf, Lines>,
    /// When each got something last, in microseconds since 1970.
    clients: HashMap<IpAddr, i64>,
}

/// The outcome of a log's lines.
#[derive(Default, Serialize, Deserialize)]
struct Lines {
    counts: Counts,
    /// The first that was skipped, while the log names no peer.
    skipped: Option<String>,
}

struct Follower {
    rules: String,
    /// The field behind the bytes that names the client.
    field: usize,
    logs: Vec<Log>,
    /// The outcome of each log's lines.
    lines: Vec<Transfers>,
    /// Why a log names no peer, as it was said.
    said: Vec<HashSet<String>>,
    clients: Clients,
    kept_in: PathBuf,
    /// The last message about each log that cannot be read, so that it is said once.
    faults: HashMap<PathBuf, String>,
    cannot_keep: bool,
}

/// Begins with the clients that an earlier agent learnt, and follows the logs for as long as somebody
/// wants to know.
pub fn start(
    logs: &[PathBuf],
    format: Format,
    forwarded: Forwarded,
    kept_in: PathBuf,
) -> WatchedPeers {
    let mut follower = Follower::new(logs, format, forwarded, kept_in);
    let peers = follower.peers();
    let (changed, changes) = mpsc::channel();
    let mut before = peers.clone();
    thread::spawn(move || {
        let mut told: Option<Instant> = None;
        loop {
            let more = follower.look();
            if told.is_none_or(|at| at.elapsed() >= CHANGE) {
                let peers = follower.peers();
                if peers != before {
                    before = peers.clone();
                    told = Some(Instant::now());
                    if changed.send(peers).is_err() {
                        return;
                    }
                }
            }
            if !more {
                thread::sleep(LOOK);
            }
        }
    });
    WatchedPeers { peers, changes }
}

impl Follower {
    fn new(logs: &[PathBuf], format: Format, forwarded: Forwarded, kept_in: PathBuf) -> Self {
        let kept = read_own(&kept_in).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let mut kept: Kept = kept.unwrap_or_default();
        let rules = rules(logs, format, &forwarded);
        if kept.rules != rules {
            if !kept.positions.is_empty() {
                say!("other logs, or they are read in another way: reading them from their beginnings");
            }
            kept = Kept::default();
        }
        let mut clients = Clients::new(MOST_PEERS);
        for (address, last_us) in std::mem::take(&mut kept.clients) {
            // An older imtcp kept others too.
            if is_peer(address) {
                clients.learn(address, last_us);
            }
        }
        let log = |path: &PathBuf| Log::new(path.clone(), kept.positions.remove(path));
        let lines = |path: &PathBuf| {
            let before = kept.lines.remove(path).unwrap_or_default();
            let mut lines = Transfers::new(format, TimeZone::system(), forwarded.clone());
            (lines.counts, lines.skipped) = (before.counts, before.skipped);
            lines
        };
        Follower {
            rules,
            field: forwarded.field,
            lines: logs.iter().map(lines).collect(),
            said: vec![HashSet::new(); logs.len()],
            logs: logs.iter().map(log).collect(),
            clients,
            kept_in,
            faults: HashMap::new(),
            cannot_keep: false,
        }
    }

    fn peers(&self) -> HashSet<String> {
        self.clients.all().map(|(address, _)| address.to_string()).collect()
    }

    /// Reads what is new; says whether there is more to read at once.
    fn look(&mut self) -> bool {
        let before: Vec<_> = self.logs.iter().map(|log| log.position().cloned()).collect();
        let now = now_us();
        let mut more = false;
        for i in 0..self.logs.len() {
            let Follower { logs, lines, clients, .. } = self;
            let read = logs[i].read(&mut |line| {
                if let Some(transfer) = lines[i].take(line, now) {
                    clients.learn(transfer.address, transfer.t_us);
                }
            });
            let is_read_to_its_end = matches!(read, Ok(false));
            more |= *read.as_ref().unwrap_or(&false);
            self.tell(i, read.err());
            if is_read_to_its_end {
                self.tell_no_peer(i);
            }
        }
        let after = self.logs.iter().map(|log| log.position().cloned());
        if !after.eq(before) {
            self.keep();
        }
        more
    }

    /// Says once that a log cannot be read, and once that it can again.
    fn tell(&mut self, log: usize, fault: Option<io::Error>) {
        let path = &self.logs[log].path;
        let shown = path.display();
        match fault.map(|e| e.to_string()) {
            Some(why) if self.faults.get(path) == Some(&why) => {}
            Some(why) => {
                say!("cannot read the log {shown}: {why}; trying again each second");
                self.faults.insert(path.clone(), why);
            }
            None if self.faults.remove(path).is_some() => say!("the log {shown} can be read again"),
            None => {}
        }
    }

    /// Says once why a log names no peer, and each other reason once.
    fn tell_no_peer(&mut self, log: usize) {
        let Transfers { counts, skipped, .. } = &self.lines[log];
        let why = match (counts.lines, counts.transfers) {
            (_, 1..) => return,
            (0, _) => "it has no whole line yet".into(),
            _ => no_client::why(counts, self.field, skipped.as_deref()),
        };
        if self.said[log].insert(why.clone()) {
            say!("the log {} names no peer: {why}", self.logs[log].path.display());
        }
    }

    fn keep(&mut self) {
        let position = |log: &Log| Some((log.path.clone(), log.position()?.clone()));
        let positions = self.logs.iter().filter_map(position).collect();
        let of_log = |(log, lines): (&Log, &Transfers)| {
            let skipped = lines.skipped.clone().filter(|_| lines.counts.transfers == 0);
            (log.path.clone(), Lines { counts: lines.counts, skipped })
        };
        let lines = self.logs.iter().zip(&self.lines).map(of_log).collect();
        let (rules, clients) = (self.rules.clone(), self.clients.all().collect());
        let kept = Kept { rules, positions, lines, clients };
        let written = serde_json::to_vec(&kept).map_err(io::Error::from);
        let written = written.and_then(|text| replace(&self.kept_in, &text));
        if let (Err(e), false) = (&written, self.cannot_keep) {
            let shown = self.kept_in.display();
            say!("cannot write {shown}: {e}; the next agent would read the logs anew");
        }
        self.cannot_keep = written.is_err();
    }
}

/// The same for the same logs whose lines mean the same.
fn rules(logs: &[PathBuf], format: Format, forwarded: &Forwarded) -> String {
    let absolute = |log: &PathBuf| std::path::absolute(log).unwrap_or_else(|_| log.clone());
    let logs: BTreeSet<_> = logs.iter().map(absolute).collect();
    format!("{logs:?} {format:?} {forwarded:?}")
}

/// Whom the logs name, by network: whoever has an IPv6 network of /64 has as many addresses as it likes,
/// and is one client.
struct Clients {
    most: usize,
    by_network: HashMap<IpAddr, Client>,
}

struct Client {
    address: IpAddr,
    /// When it got something last, in microseconds since 1970.
    last_us: i64,
}

impl Clients {
    fn new(most: usize) -> Self {
        Clients { most, by_network: HashMap::new() }
    }

    /// The addresses, and when each got something last.
    fn all(&self) -> impl Iterator<Item = (IpAddr, i64)> + '_ {
        self.by_network.values().map(|client| (client.address, client.last_us))
    }

    fn learn(&mut self, address: IpAddr, t_us: i64) {
        let new = || Client { address, last_us: t_us };
        let client = self.by_network.entry(network(address)).or_insert_with(new);
        if client.address == address {
            client.last_us = client.last_us.max(t_us);
        } else if t_us.saturating_sub(client.last_us) > STAYS_US {
            *client = new();
        }
        if self.by_network.len() > self.most {
            self.forget_some();
        }
    }

    fn forget_some(&mut self) {
        let mut all: Vec<_> = self.by_network.iter().map(|(net, c)| (c.last_us, *net)).collect();
        let go = GO_AT_ONCE.clamp(1, all.len() - 1);
        all.select_nth_unstable(go);
        for (_, network) in &all[..go] {
            self.by_network.remove(network);
        }
    }
}

/// Whole or not at all, and for nobody else to read: it says whom this host serves.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    // One that was left behind may have other rights.
    let _ = fs::remove_file(&new);
    let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text)?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use imtcp_logs::proxies::FIELD;

    use super::*;

    #[test]
    fn of_too_many_clients_those_who_got_nothing_for_longest_go() {
        let mut clients = Clients::new(8);
        for i in 0..20_u8 {
            clients.learn(IpAddr::from([192, 0, 2, i]), i.into());
            assert!(clients.by_network.len() <= 8);
        }
        assert!(clients.all().any(|(address, _)| address == IpAddr::from([192, 0, 2, 19])));
    }

    #[test]
    fn the_addresses_of_an_ipv6_network_are_one_client_and_push_nobody_out() {
        let mut clients = Clients::new(MOST_PEERS);
        let (real, in_network) = (IpAddr::from([192, 0, 2, 1]), |host: u128| {
            IpAddr::from(std::net::Ipv6Addr::from((0x2001_0db8 << 96) + host))
        });
        clients.learn(real, 0);
        for host in 1..2 * MOST_PEERS as u128 {
            clients.learn(in_network(host), host as i64);
        }
        let addresses = |clients: &Clients| -> HashSet<_> { clients.all().map(|c| c.0).collect() };
        assert_eq!(addresses(&clients), HashSet::from([real, in_network(1)]));
        // Another one takes the place of an address that is no more.
        clients.learn(in_network(2), 2 * STAYS_US);
        assert_eq!(addresses(&clients), HashSet::from([real, in_network(2)]));
    }

    #[test]
    fn what_is_kept_is_for_its_owner_alone_and_is_found_again() {
        use std::os::unix::fs::PermissionsExt;
        let dir = std::env::temp_dir().join(format!("imtcp-follow-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (log, kept) = (dir.join("access.log"), dir.join("followed-logs"));
        let line = |host: &str| {
            format!(
                "{host} - - [22/Nov/2026:04:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n"
            )
        };
        let follower = || {
            let forwarded = Forwarded { proxies: Vec::new(), field: FIELD };
            Follower::new(std::slice::from_ref(&log), Format::Auto, forwarded, kept.clone())
        };
        fs::write(&log, line("192.0.2.1")).unwrap();
        let mut first = follower();
        assert!(!first.look());
        assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
        // The agent is away: the client before is known from the file, the new one from the log.
        fs::write(&log, line("192.0.2.1") + &line("192.0.2.2")).unwrap();
        let mut second = follower();
        assert_eq!(second.peers(), HashSet::from(["192.0.2.1".into()]));
        second.look();
        assert_eq!(second.peers().len(), 2);
        assert_eq!(second.lines[0].counts.lines, 2, "the first line is not read again");
        // Half a file is none, and a pipe would be waited for.
        fs::write(&kept, "{").unwrap();
        let mut third = follower();
        third.look();
        assert_eq!(third.peers().len(), 2);
        fs::remove_file(&kept).unwrap();
        nix::unistd::mkfifo(&kept, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut fourth = follower();
        fourth.look();
        assert_eq!(fourth.peers().len(), 2);
        assert!(fs::metadata(&kept).unwrap().is_file(), "a file again");
        fs::remove_dir_all(&dir).unwrap();
    }
}
