// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A file of peers: an address or a name a line.

use std::collections::HashSet;
use std::io;
use std::net::ToSocketAddrs;
use std::path::Path;

use anyhow::{bail, Context, Result};
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
        let found = addresses(&name);
        all.extend(found.with_context(|| format!("{}: no address of {name}", at()))?);
    }
    if all.is_empty() {
        bail!("there is no peer in {shown}: write an address or a name a line");
    }
    Ok(all)
}

/// Those of an address or a name, as records have them.
pub fn addresses(name: &str) -> io::Result<impl Iterator<Item = String>> {
    let found = (name, 0).to_socket_addrs()?;
    Ok(found.map(|address| address.ip().to_canonical().to_string()))
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
            ("no-such-host.invalid\n", "no address of no-such-host.invalid"),
            ("# nobody\n", "there is no peer in"),
        ] {
            let e = format!("{:#}", listed_in(text).unwrap_err());
            assert!(e.contains(says), "{e}");
        }
        assert!(peers(Path::new("/nonexistent")).is_err());
    }
}
