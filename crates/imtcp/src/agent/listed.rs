// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A file of peers: an address or a name a line.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;

use anyhow::{bail, Context, Result};
use imtcp_advice::peer::{self, is_peer};
use imtcp_advice::record::destination;

/// Their addresses, as records have them.
pub fn peers(file: &Path) -> Result<HashSet<String>> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let mut all = HashSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let name = line.split('#').next().unwrap_or_default().trim();
        if name.is_empty() {
            continue;
        }
        let at = || format!("line {number} of {shown}");
        let name = destination(name).with_context(at)?;
        // Whoever writes the file may mean this host too.
        let found = addresses(&name, |address| address.is_loopback() || is_peer(address));
        all.extend(found.with_context(|| format!("{}: no address of {name}", at()))?);
    }
    if all.is_empty() {
        bail!("there is no peer in {shown}: write an address or a name a line");
    }
    Ok(all)
}

/// Those of an address or a name that may be peers, as records have them.
pub fn addresses(name: &str, may: impl Fn(IpAddr) -> bool) -> io::Result<Vec<String>> {
    let found = (name, 0).to_socket_addrs()?.map(|address| address.ip().to_canonical());
    let peers: Vec<_> = found.filter(|address| may(*address)).map(|a| a.to_string()).collect();
    match peers.is_empty() {
        true => Err(io::Error::other(peer::RULE)),
        false => Ok(peers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed_in(text: &str) -> Result<HashSet<String>> {
        let file = std::env::temp_dir().join(format!("imtcp-peers-{}", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let all = peers(&file);
        std::fs::remove_file(&file).unwrap();
        all
    }

    /// One test for all: the file is one.
    #[test]
    fn peers_are_listed_by_address_or_name_and_what_is_wrong_is_named() {
        let all = listed_in("# mirrors\n192.0.2.7\n\n 2001:DB8::0:1 # far\nlocalhost\n").unwrap();
        assert!(all.contains("192.0.2.7") && all.contains("2001:db8::1"), "{all:?}");
        assert!(all.contains("127.0.0.1") || all.contains("::1"), "{all:?}");
        for (text, says) in [
            ("192.0.2.7\na b\n", "line 2 of"),
            ("192.0.2.7\n224.0.0.1\n", "line 2 of"),
            ("255.255.255.255\n", "broadcast and unspecified addresses are no peers"),
            ("no-such-host.invalid\n", "no address of no-such-host.invalid"),
            ("# nobody\n", "there is no peer in"),
        ] {
            let e = format!("{:#}", listed_in(text).unwrap_err());
            assert!(e.contains(says), "{e}");
        }
        assert!(peers(Path::new("/nonexistent")).is_err());
    }
}
