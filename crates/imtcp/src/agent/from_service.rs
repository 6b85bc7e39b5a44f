// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Peers that the advice service names: its clients (GET /v1/clients), asked for again each minute.
//! What it said last is kept in a file, for an agent that starts while the service is away.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use imtcp_advice::peer::is_peer;
use imtcp_advice::record::destination;

use super::listed;
use super::messages::say;
use super::spool::{create_private, read_own};
use crate::http::Client;

pub const EVERY: Duration = Duration::from_secs(60);
/// As many as a service keeps.
const MOST_PEERS: usize = 10_000;

/// The peers as of now, and what becomes of them.
pub struct Named {
    pub peers: HashSet<String>,
    /// Comes when they are others.
    pub changes: mpsc::Receiver<HashSet<String>>,
}

impl Named {
    /// Asks now, and again and again for as long as somebody wants to know.
    pub fn start(client: Client, kept: PathBuf, every: Duration) -> Self {
        let mut asker = Asker { client, kept, failed: None, known: HashMap::new() };
        let peers = asker.ask().unwrap_or_else(|| asker.kept());
        let (changed, changes) = mpsc::channel();
        let mut before = peers.clone();
        thread::spawn(move || loop {
            thread::sleep(every);
            if let Some(peers) = asker.ask().filter(|peers| *peers != before) {
                before = peers.clone();
                if changed.send(peers).is_err() {
                    return;
                }
            }
        });
        Named { peers, changes }
    }
}

struct Asker {
    client: Client,
    kept: PathBuf,
    /// The last message about its silence, so that it is said once.
    failed: Option<String>,
    /// The last addresses of each name: a resolver may be away for a while.
    known: HashMap<String, Vec<String>>,
}

impl Asker {
    /// `None`: there is no answer, and what was known holds on.
    fn ask(&mut self) -> Option<HashSet<String>> {
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
        Some(self.addresses(&names))
    }

    fn names(&self) -> Result<Vec<String>> {
        let answer = self.client.get_list("/v1/clients")?;
        let clients = answer["clients"].as_array();
        let clients = clients.context("what it answers are no clients: is it too old for them?")?;
        if clients.len() > MOST_PEERS {
            bail!("it names {} clients: at most {MOST_PEERS} are taken", clients.len());
        }
        let name = |c: &serde_json::Value| Ok(destination(c["dst"].as_str().unwrap_or_default())?);
        clients.iter().map(name).collect()
    }

    fn kept(&mut self) -> HashSet<String> {
        let text = read_own(&self.kept).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let names: Vec<_> = text.lines().map(String::from).collect();
        self.addresses(&names)
    }

    fn addresses(&mut self, names: &[String]) -> HashSet<String> {
        let mut all = HashSet::new();
        for name in names {
            match listed::addresses(name, is_peer) {
                Ok(found) => drop(self.known.insert(name.clone(), found)),
                Err(_) if self.known.contains_key(name) => {}
                Err(e) => {
                    say!("no address of the client {name}: {e}; it is left out until there is");
                    self.known.insert(name.clone(), Vec::new());
                }
            }
            all.extend(self.known[name].iter().cloned());
        }
        all
    }
}

/// Whole or not at all.
fn keep(file: &Path, names: &[String]) -> std::io::Result<()> {
    let new = file.with_extension("new");
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    create_private(&new)?.write_all(text.as_bytes())?;
    fs::rename(&new, file)
}
