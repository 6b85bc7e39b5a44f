// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A file of peers: an address or a name a line.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use imtcp_client::destination::destination;
use imtcp_client::peer::{self, is_peer};

use super::lookups::{by_system, Lookups};
use super::watched_peers::{WatchedPeers, CHANGE};

/// Whoever writes the file may mean this host too.
fn may_be_peer(address: IpAddr) -> bool {
    address.is_loopback() || is_peer(address)
}

/// Begins with the addresses. Names have theirs as the resolver knows them: at a boot that may be later.
pub fn start(file: &Path) -> Result<WatchedPeers> {
    let names = names(file)?;
    let lookups = Arc::new(Lookups::start(may_be_peer, by_system));
    lookups.want(&names);
    Ok(WatchedPeers::by(lookups, CHANGE))
}

fn names(file: &Path) -> Result<Vec<String>> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let name = line.split('#').next().unwrap_or_default().trim();
        if name.is_empty() {
            continue;
        }
        let at = || format!("line {number} of {shown}");
        let name = destination(name).with_context(at)?;
        if name.parse().is_ok_and(|address| !may_be_peer(address)) {
            bail!("{}: {name}: {}", at(), peer::RULE);
        }
        all.push(name);
    }
    if all.is_empty() {
        bail!("there is no peer in {shown}: write an address or a name a line");
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from<T>(text: &str, read: fn(&Path) -> Result<T>) -> Result<T> {
        let file = std::env::temp_dir().join(format!("imtcp-peers-{}", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let all = read(&file);
        std::fs::remove_file(&file).unwrap();
        all
    }

    /// One test for all: the file is one.
    #[test]
    fn peers_are_listed_by_address_or_name_and_what_is_wrong_is_named() {
        let text =
            "# mirrors\n192.0.2.7\n\n 2001:DB8::0:1 # far\nlocalhost\nno-such-host.invalid\n";
        let all = read_from(text, start).unwrap().peers;
        assert!(all.contains("192.0.2.7") && all.contains("2001:db8::1"), "{all:?}");
        assert!(all.contains("127.0.0.1") || all.contains("::1"), "{all:?}");
        assert!(read_from("no-such-host.invalid\n", start).unwrap().peers.is_empty());
        for (text, says) in [
            ("192.0.2.7\na b\n", "line 2 of"),
            ("192.0.2.7\n224.0.0.1\n", "line 2 of"),
            ("255.255.255.255\n", "broadcast and unspecified addresses are no peers"),
            ("# nobody\n", "there is no peer in"),
        ] {
            let e = format!("{:#}", read_from(text, names).unwrap_err());
            assert!(e.contains(says), "{e}");
        }
        assert!(names(Path::new("/nonexistent")).is_err());
    }
}
