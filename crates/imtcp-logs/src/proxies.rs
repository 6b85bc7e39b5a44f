// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Whom a reverse proxy served: it names its client in the request's X-Forwarded-For, which the HTTP
//! server may write into its log. Anybody can send such a header, so only that of a trusted proxy counts.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::formats::until_quote;

/// The addresses of trusted proxies: one, or all that begin as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proxy {
    address: IpAddr,
    prefix: u32,
}

impl Proxy {
    fn is(&self, address: IpAddr) -> bool {
        let (ours, theirs) = (bits(self.address), bits(address));
        let (Some(length), true) = (self.length(), ours.1 == theirs.1) else { return false };
        // A shift by all bits is none.
        (ours.0 ^ theirs.0).checked_shr(ours.1 - length).unwrap_or(0) == 0
    }

    fn length(&self) -> Option<u32> {
        (self.prefix <= bits(self.address).1).then_some(self.prefix)
    }
}

/// An address and how many bits it has.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u32::from(v4).into(), 32),
        IpAddr::V6(v6) => (v6.into(), 128),
    }
}

impl FromStr for Proxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
        let address: Option<IpAddr> = address.parse().ok();
        let proxy = address.map(|a: IpAddr| a.to_canonical()).and_then(|address| {
            let prefix = match prefix {
                "" => bits(address).1,
                prefix => prefix.parse().ok()?,
            };
            let proxy = Proxy { address, prefix };
            proxy.length().map(|_| proxy)
        });
        proxy.ok_or_else(|| format!("'{text}' is no address: write 10.0.0.2 or 10.0.0.0/24"))
    }
}

/// The trusted proxies, and the place of the header in the log.
#[derive(Clone, Debug)]
pub struct Forwarded {
    pub proxies: Vec<Proxy>,
    /// Counts the fields behind the bytes: 1 is the referer, 2 the user agent.
    pub field: usize,
}

/// Behind referer and user agent, where nginx's packages have it.
pub const FIELD: usize = 3;

#[derive(Debug, PartialEq, Eq)]
pub enum Behind {
    /// The request came from it.
    Client(IpAddr),
    /// Proxies alone are named.
    Proxies,
    /// A trusted proxy's field holds no address, or the field is another one.
    NoAddress,
}

impl Forwarded {
    /// Of a line of a log: `host` is who connected, `more` what follows the bytes.
    pub fn behind(&self, host: IpAddr, more: &str) -> Behind {
        behind(&self.proxies, host, || field(more, self.field))
    }
}

/// The client whose request came from `host`, with this header X-Forwarded-For. From the right, for on the left a
/// client may have written what it liked: the first that is no trusted proxy.
pub fn behind<'a>(
    proxies: &[Proxy],
    host: IpAddr,
    header: impl FnOnce() -> Option<&'a str>,
) -> Behind {
    let is_trusted = |address| proxies.iter().any(|proxy| proxy.is(address));
    let host = host.to_canonical();
    if !is_trusted(host) {
        return Behind::Client(host);
    }
    let Some(header) = header() else { return Behind::Proxies };
    for name in header.rsplit(',').map(str::trim) {
        match address(name) {
            Some(address) if is_trusted(address) => {}
            Some(address) => return Behind::Client(address),
            None if matches!(name, "" | "-") => return Behind::Proxies,
            None => return Behind::NoAddress,
        }
    }
    Behind::Proxies
}

/// `192.0.2.7`, and with a port, as some proxies write it.
fn address(name: &str) -> Option<IpAddr> {
    let with_port = || name.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().ok().or_else(with_port).map(|address| address.to_canonical())
}

/// The n-th field, in quotes or a word.
fn field(mut more: &str, n: usize) -> Option<&str> {
    for i in 1.. {
        more = more.trim_start_matches(' ');
        let (field, after) = match more.strip_prefix('"') {
            Some(quoted) => until_quote(quoted)?,
            None if more.is_empty() => return None,
            None => more.split_once(' ').unwrap_or((more, "")),
        };
        if i == n {
            return Some(field);
        }
        more = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(host: &str, more: &str) -> Behind {
        let proxies = ["192.0.2.0/24", "2001:db8:ffff::/48"].map(|p| p.parse().unwrap()).to_vec();
        Forwarded { proxies, field: FIELD }.behind(host.parse().unwrap(), more)
    }

    fn client(address: &str) -> Behind {
        Behind::Client(address.parse().unwrap())
    }

    #[test]
    fn the_client_is_the_last_that_no_trusted_proxy_has() {
        for (host, header, wanted) in [
            ("192.0.2.1", "203.0.113.50", client("203.0.113.50")),
            ("192.0.2.1", "10.1.1.1, 203.0.113.51, 192.0.2.33", client("203.0.113.51")),
            ("192.0.2.1", "203.0.113.50:4711", client("203.0.113.50")),
            ("192.0.2.1", "[2001:db8::7]:4711", client("2001:db8::7")),
            ("2001:db8:ffff::1", "2001:db8::99", client("2001:db8::99")),
            ("192.0.2.1", "-", Behind::Proxies),
            ("192.0.2.1", "192.0.2.2", Behind::Proxies),
            ("192.0.2.1", "203.0.113.50, unknown", Behind::NoAddress),
            // Who is no proxy of ours may write what it likes.
            ("198.51.100.8", "203.0.113.50", client("198.51.100.8")),
            ("2001:db8:fffe::1", "203.0.113.50", client("2001:db8:fffe::1")),
        ] {
            let more = format!(r#""-" "an \"agent\"" "{header}" 0.003"#);
            assert_eq!(behind(host, &more), wanted, "{host} {header}");
        }
        assert_eq!(behind("192.0.2.1", r#""-" "agent""#), Behind::Proxies);
    }

    #[test]
    fn proxies_are_addresses_or_begin_as_one() {
        for wrong in ["", "proxy", "10.0.0.0/33", "::/129", "10.0.0.0/x"] {
            assert!(wrong.parse::<Proxy>().unwrap_err().contains("10.0.0.0/24"), "{wrong}");
        }
        let all: Proxy = "0.0.0.0/0".parse().unwrap();
        assert!(all.is([203, 0, 113, 9].into()) && !all.is("::1".parse().unwrap()));
        let every: Proxy = "::/0".parse().unwrap();
        assert!(every.is("2001:db8::1".parse().unwrap()));
    }
}
