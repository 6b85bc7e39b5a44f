// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The RTT at the request [EN §3.3.1], where no record tells it: one packet of ping(8), at most
//! once a minute for a path that is asked about. Strangers are not pinged: only paths that
//! have history are.

use std::collections::HashMap;
use std::net::IpAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use imtcp_client::peer::is_peer;
use imtcp_client::ping;
use tokio::process::Command;
use tokio::sync::watch;

use super::names::Names;
use super::shares::Shares;

/// An answer waits no longer than this for a ping; the RTT is not known where it takes longer.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a result is used, also that there was none.
const KEEP: Duration = Duration::from_secs(60);
/// Results kept, some 100 bytes each.
const MOST_KEPT: usize = 10_000;
/// Pings at once, of different paths: each is a process. With PATIENCE they are 64 a second at
/// least; the answers of further paths tell no RTT until a place is free. A client has a quarter of them.
const MOST_AT_ONCE: usize = 32;

/// Shares one ping among all who ask about a path. Cheap to clone.
#[derive(Clone)]
pub struct Pinger {
    enabled: bool,
    program: Arc<str>,
    patience: Duration,
    names: Arc<Names>,
    places: Arc<Shares>,
    pings: Arc<Mutex<HashMap<String, Ping>>>,
}

enum Ping {
    /// The channel ends with the result, or without one when the task fails.
    UnderWay(watch::Receiver<Option<Rtt>>),
    Done(Instant, Rtt),
}

/// `None` when there was no answer.
pub type Rtt = Option<u64>;

impl Pinger {
    pub fn new(enabled: bool, names: Arc<Names>) -> Self {
        Pinger {
            enabled,
            names,
            program: "ping".into(),
            patience: PATIENCE,
            places: Arc::new(Shares::new(MOST_AT_ONCE)),
            pings: Arc::default(),
        }
    }

    /// A result of the last minute, without waiting; `None` when there is none.
    pub fn recent(&self, dst: &str) -> Option<Rtt> {
        if !self.enabled {
            return Some(None);
        }
        match self.pings().get(dst) {
            Some(Ping::Done(at, rtt_us)) if at.elapsed() < KEEP => Some(*rtt_us),
            _ => None,
        }
    }

    /// Waits for a ping: the one that is under way, or a new one. Nothing may be locked meanwhile that
    /// others need.
    pub async fn rtt_us(&self, client: IpAddr, dst: &str) -> Rtt {
        if let Some(rtt_us) = self.recent(dst) {
            return rtt_us;
        }
        let mut under_way = self.under_way(client, dst)?;
        let done = under_way.wait_for(Option::is_some).await;
        done.ok().and_then(|rtt_us| *rtt_us).flatten()
    }

    /// `None` where too many are under way, of all or of the client.
    fn under_way(&self, client: IpAddr, dst: &str) -> Option<watch::Receiver<Option<Rtt>>> {
        let mut pings = self.pings();
        if let Some(Ping::UnderWay(result)) = pings.get(dst) {
            if result.has_changed().is_ok() {
                return Some(result.clone());
            }
        }
        let place = self.places.take(client, 1)?;
        if pings.len() >= MOST_KEPT {
            pings.retain(|_, ping| matches!(ping, Ping::UnderWay(_)));
        }
        let (tell, result) = watch::channel(None);
        pings.insert(dst.into(), Ping::UnderWay(result.clone()));
        let (this, dst) = (self.clone(), dst.to_string());
        // A task: who asked may go away, and others wait for it too.
        tokio::spawn(async move {
            let rtt_us = this.least_rtt_us(&dst).await;
            this.pings().insert(dst, Ping::Done(Instant::now(), rtt_us));
            tell.send_replace(Some(rtt_us));
            drop(place);
        });
        Some(result)
    }

    /// A record may name any destination: one host is pinged, and nobody's group or link.
    async fn address(&self, dst: &str) -> Option<IpAddr> {
        let found = match dst.parse() {
            Ok(address) => Some(address),
            Err(_) => self.names.addresses(dst).await.first().and_then(|a| a.parse().ok()),
        };
        found.filter(|address| is_peer(*address))
    }

    async fn least_rtt_us(&self, dst: &str) -> Rtt {
        let address = self.address(dst).await?.to_string();
        let mut command = Command::new(&*self.program);
        command.args(["-n", "-q", "-c", "1", "-W", "1", "--", &address]).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(self.patience, command.output()).await.ok()?.ok()?;
        let summary = ping::summary(&String::from_utf8_lossy(&output.stdout))?;
        summary.rtt.map(|rtt| rtt.least_us)
    }

    fn pings(&self) -> MutexGuard<'_, HashMap<String, Ping>> {
        self.pings.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    use std::os::unix::fs::PermissionsExt;

    /// A program in place of ping that writes a line into `log` and then does what `then` says.
    pub fn instead_of_ping(dir: &std::path::Path, then: &str) -> Pinger {
        let program = dir.join("ping");
        let text = format!("#!/bin/sh\necho $8 >>'{}/log'\n{then}\n", dir.display());
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let patience = Duration::from_secs(20);
        let program = program.to_str().unwrap().into();
        Pinger { program, patience, ..Pinger::new(true, Arc::default()) }
    }

    pub fn pinged(dir: &std::path::Path) -> Vec<String> {
        let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        log.lines().map(str::to_string).collect()
    }

    #[tokio::test]
    async fn switched_off_it_sends_nothing_and_a_result_is_kept() {
        assert_eq!(Pinger::new(false, Arc::default()).rtt_us(CLIENT, "192.0.2.7").await, None);
        let pinger = Pinger::new(true, Arc::default());
        pinger.pings().insert("x".into(), Ping::Done(Instant::now(), Some(7)));
        assert_eq!(pinger.rtt_us(CLIENT, "x").await, Some(7));
    }

    #[tokio::test]
    async fn all_who_ask_about_a_path_share_one_ping() {
        let dir = tempfile::tempdir().unwrap();
        let answer = "echo '1 packets transmitted, 1 received, 0% packet loss, time 0ms'\n\
            echo 'rtt min/avg/max/mdev = 7.000/7.000/7.000/0.000 ms'";
        let pinger = instead_of_ping(dir.path(), answer);
        let asking = (0..50).map(|_| {
            let pinger = pinger.clone();
            tokio::spawn(async move { pinger.rtt_us(CLIENT, "192.0.2.7").await })
        });
        for one in asking.collect::<Vec<_>>() {
            assert_eq!(one.await.unwrap(), Some(7000));
        }
        assert_eq!(pinger.recent("192.0.2.7"), Some(Some(7000)));
        assert_eq!(pinged(dir.path()), ["192.0.2.7"]);
    }

    #[tokio::test]
    async fn only_so_many_pings_are_under_way_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pinger = instead_of_ping(dir.path(), "exec sleep 30");
        let of = |client: u8, i: usize| {
            let client = IpAddr::from([198, 51, 100, client]);
            pinger.under_way(client, &format!("192.0.2.{i}"))
        };
        let a_quarter = MOST_AT_ONCE / 4;
        for client in 0..4 {
            let from = usize::from(client) * a_quarter;
            assert!((from..from + a_quarter).all(|i| of(client, i).is_some()));
            assert!(of(client, 99).is_none());
        }
        assert_eq!(pinger.rtt_us(CLIENT, "192.0.2.99").await, None);
        // It is asked about again, as soon as there is a place.
        assert_eq!(pinger.recent("192.0.2.99"), None);
    }

    #[tokio::test]
    async fn groups_this_host_and_the_link_are_not_pinged_whatever_a_record_names() {
        let dir = tempfile::tempdir().unwrap();
        let pinger = instead_of_ping(dir.path(), "");
        for dst in ["224.0.0.1", "255.255.255.255", "0.0.0.0", "169.254.169.254", "ff02::1", "::1"]
        {
            assert_eq!(pinger.rtt_us(CLIENT, dst).await, None);
        }
        assert_eq!(pinger.rtt_us(CLIENT, "localhost").await, None, "nor by a name");
        assert_eq!(pinger.rtt_us(CLIENT, "192.0.2.7").await, None);
        assert_eq!(pinged(dir.path()), ["192.0.2.7"]);
    }
}
