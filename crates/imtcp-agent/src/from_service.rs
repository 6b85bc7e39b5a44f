// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Peers that the advice service names: its clients (GET /v1/clients), asked for again each minute.
//! What it said last is kept in a file, for an agent that starts while the service is away.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::Duration;

use anyhow::{bail, Result};
use imtcp_client::answers::Clients;
use imtcp_client::destination::destination;
use imtcp_client::http::Client;
use imtcp_client::peer::is_peer;

use super::lookups::{by_system, Lookups};
use super::messages::say;
use super::spool::{create_private, read_own};
use super::watched_peers::{WatchedPeers, CHANGE};

pub const EVERY: Duration = Duration::from_secs(60);
/// As many as a service keeps.
const MOST_PEERS: usize = 10_000;

/// The agent starts with what the service has said by then, else with what it said last.
const START: Duration = Duration::from_secs(1);

/// Asks now, and again and again for as long as somebody wants to know.
pub fn start(client: Client, kept: PathBuf, every: Duration) -> WatchedPeers {
    let lookups = Arc::new(Lookups::start(is_peer, by_system));
    lookups.want(&last_told(&kept));
    let mut asker = Asker { client, kept, failed: None };
    let (asked, first) = mpsc::sync_channel(1);
    let wanted = Arc::downgrade(&lookups);
    thread::spawn(move || loop {
        let names = asker.ask();
        let Some(lookups) = wanted.upgrade() else { return };
        if let Some(names) = names {
            lookups.want(&names);
        }
        drop(lookups);
        let _ = asked.try_send(());
        thread::sleep(every);
    });
    let _ = first.recv_timeout(START);
    WatchedPeers::by(lookups, CHANGE.min(every))
}

struct Asker {
    client: Client,
    kept: PathBuf,
    /// The last message about its silence, so that it is said once.
    failed: Option<String>,
}

impl Asker {
    /// `None`: there is no answer, and what was known holds on.
    fn ask(&mut self) -> Option<Vec<String>> {
        let names = match self.names() {
            Ok(names) => names,
            Err(e) => {
                let why = format!("{e:#}");
                if self.failed.as_ref() != Some(&why) {
                    let url = self.client.url();
                    say!("{url}: {why}; the peers stay as they were last");
                    self.failed = Some(why);
                }
                return None;
            }
        };
        self.failed = None;
        if let Err(e) = keep(&self.kept, &names) {
            say!("cannot write {}: {e}", self.kept.display());
        }
        Some(names)
    }

    fn names(&self) -> Result<Vec<String>> {
        let Clients { clients } = self.client.get("/v1/clients")?;
        if clients.len() > MOST_PEERS {
            bail!("it names {} clients: at most {MOST_PEERS} are taken", clients.len());
        }
        clients.iter().map(|client| Ok(destination(&client.dst)?)).collect()
    }
}

fn last_told(kept: &Path) -> Vec<String> {
    let text = read_own(kept).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(String::from).collect()
}

/// Whole or not at all.
fn keep(file: &Path, names: &[String]) -> std::io::Result<()> {
    let new = file.with_extension("new");
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    create_private(&new)?.write_all(text.as_bytes())?;
    fs::rename(&new, file)
}
