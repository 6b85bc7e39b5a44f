// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Which connections of a target an attachment takes: those to some networks and ports. The program of the
//! cgroup asks the same of new connections (bpf/imtcp_ctl_filter.h).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use imtcp_bpf::shared::{
    imtcp_filter, imtcp_filter_network, imtcp_filter_ports, IMTCP_FILTER_NETWORKS,
    IMTCP_FILTER_PORTS,
};
use serde::{Deserialize, Serialize};

/// Bits of the prefix of an IPv4 address that is mapped into IPv6.
const MAPPED_BITS: u8 = 96;

/// Networks and ports; an empty list lets all pass. In an order of its own, so that the same is equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Filter {
    to: Vec<Network>,
    port: Vec<Ports>,
}

/// IPv4 is mapped into IPv6: a connection of either kind of socket has the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    address: Ipv6Addr,
    bits: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Filter {
    /// None where both lists are empty.
    pub fn new(mut to: Vec<Network>, mut port: Vec<Ports>) -> Result<Option<Self>, String> {
        to.sort_unstable();
        to.dedup();
        port.sort_unstable();
        port.dedup();
        for (count, most, what) in [
            (to.len(), IMTCP_FILTER_NETWORKS, "networks"),
            (port.len(), IMTCP_FILTER_PORTS, "ports or ranges"),
        ] {
            if count > most as usize {
                return Err(format!(
                    "{count} {what} are more than {most}: join some, or make two rules"
                ));
            }
        }
        Ok((!to.is_empty() || !port.is_empty()).then_some(Filter { to, port }))
    }

    /// Whether a connection made here has the peer's port is not known of an open one, nor whether an accepted
    /// one has ours: either counts.
    pub fn passes(&self, peer: SocketAddr, local_port: u16) -> bool {
        let address = mapped(peer.ip());
        let is_service = |p: &Ports| p.has(peer.port()) || p.has(local_port);
        (self.to.is_empty() || self.to.iter().any(|network| network.has(address)))
            && (self.port.is_empty() || self.port.iter().any(is_service))
    }

    /// As options of `imtcp attach`.
    pub fn options(&self) -> String {
        let list = |name, all: Vec<String>| match all.is_empty() {
            true => String::new(),
            false => format!(" --{name} {}", all.join(",")),
        };
        list("to", strings(&self.to)) + &list("port", strings(&self.port))
    }

    /// For the program of a cgroup.
    pub fn program(&self) -> imtcp_filter {
        let mut filter = imtcp_filter {
            networks_len: self.to.len() as u32,
            ports_len: self.port.len() as u32,
            ..Default::default()
        };
        for (entry, network) in filter.networks.iter_mut().zip(&self.to) {
            *entry = imtcp_filter_network {
                address: words(u128::from(network.address)),
                mask: words(network.mask()),
            };
        }
        for (entry, ports) in filter.ports.iter_mut().zip(&self.port) {
            *entry = imtcp_filter_ports { first: ports.first, last: ports.last };
        }
        filter
    }
}

/// In network order.
fn words(bits: u128) -> [u32; 4] {
    let bytes = bits.to_be_bytes();
    std::array::from_fn(|i| u32::from_ne_bytes(std::array::from_fn(|b| bytes[4 * i + b])))
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn strings<T: ToString>(all: &[T]) -> Vec<String> {
    all.iter().map(T::to_string).collect()
}

/// `to 192.0.2.0/24 or 2001:db8::/32, port 22`.
impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let lists = [("to", strings(&self.to)), ("port", strings(&self.port))];
        let set = lists.iter().filter(|(_, all)| !all.is_empty());
        let parts: Vec<_> = set.map(|(what, all)| format!("{what} {}", all.join(" or "))).collect();
        f.write_str(&parts.join(", "))
    }
}

impl Network {
    fn mask(&self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0)
    }

    fn has(&self, address: Ipv6Addr) -> bool {
        u128::from(address) & self.mask() == u128::from(self.address)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(format!(
                "'{text}' is no network: write addresses, as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32; \
                 `getent ahosts {address}` shows those of a name"
            ));
        };
        let (most, offset) = if address.is_ipv4() { (32, MAPPED_BITS) } else { (128, 0) };
        let bits = match bits {
            None => most,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= most)
                .ok_or_else(|| format!("'{text}': write 0 to {most} after the /"))?,
        };
        let mut network = Network { address: mapped(address), bits: offset + bits };
        network.address = Ipv6Addr::from(u128::from(network.address) & network.mask());
        let every_ipv4 = network.bits == MAPPED_BITS && network.address.to_ipv4_mapped().is_some();
        if network.bits == 0 || every_ipv4 {
            return Err(format!("'{text}' is every address: name some, or none"));
        }
        Ok(network)
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.address.to_ipv4_mapped().filter(|_| self.bits > MAPPED_BITS) {
            Some(v4) if self.bits == 128 => write!(f, "{v4}"),
            Some(v4) => write!(f, "{v4}/{}", self.bits - MAPPED_BITS),
            None if self.bits == 128 => write!(f, "{}", self.address),
            None => write!(f, "{}/{}", self.address, self.bits),
        }
    }
}

impl Ports {
    fn has(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.trim().parse().ok().filter(|port| *port > 0);
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Ports { first, last }),
            _ => Err(format!("'{text}' is no port: write 1 to 65535, or a range as 8000-8010")),
        }
    }
}

impl std::fmt::Display for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// As text in records and in JSON.
macro_rules! as_text {
    ($type:ty) => {
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    };
}

as_text!(Network);
as_text!(Ports);

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(to: &[&str], port: &[&str]) -> Filter {
        let to = to.iter().map(|t| t.parse().unwrap()).collect();
        Filter::new(to, port.iter().map(|p| p.parse().unwrap()).collect()).unwrap().unwrap()
    }

    #[test]
    fn a_connection_passes_by_the_peers_network_and_the_services_port() {
        let passes = |f: &Filter, peer: &str, local| f.passes(peer.parse().unwrap(), local);
        let both = filter(&["192.0.2.0/24", "2001:db8::/32"], &["873", "8000-8010"]);
        for (peer, local, is_passed) in [
            ("192.0.2.9:873", 40000, true),
            ("[::ffff:192.0.2.9]:8010", 40000, true),
            ("[2001:db8:7::1]:8000", 40000, true),
            ("192.0.2.9:40000", 873, true),
            ("192.0.2.9:22", 40000, false),
            ("192.0.3.9:873", 40000, false),
            ("[2001:db9::1]:873", 40000, false),
            ("192.0.2.9:8011", 40000, false),
        ] {
            assert_eq!(passes(&both, peer, local), is_passed, "{peer} {local}");
        }
        assert!(passes(&filter(&["192.0.2.7"], &[]), "192.0.2.7:1", 2));
        assert!(!passes(&filter(&["192.0.2.7"], &[]), "192.0.2.8:1", 2));
        assert!(passes(&filter(&[], &["1"]), "192.0.2.8:1", 2));
    }

    #[test]
    fn a_filter_is_told_and_kept_as_it_is_written() {
        let both = filter(&["2001:db8::1/32", "192.0.2.7/24", "192.0.2.7"], &["8000-8010", "22"]);
        assert_eq!(
            both.to_string(),
            "to 192.0.2.0/24 or 192.0.2.7 or 2001:db8::/32, port 22 or 8000-8010"
        );
        assert_eq!(
            both.options(),
            " --to 192.0.2.0/24,192.0.2.7,2001:db8::/32 --port 22,8000-8010"
        );
        let kept = serde_json::to_string(&both).unwrap();
        assert_eq!(serde_json::from_str::<Filter>(&kept).unwrap(), both);
        assert_eq!(filter(&["::ffff:192.0.2.0/120"], &[]), filter(&["192.0.2.9/24"], &[]));
        assert_eq!(filter(&["::ffff:0:0/90"], &[]).to_string(), "to ::ffc0:0:0/90");
    }

    #[test]
    fn what_is_no_network_or_port_is_refused_with_what_to_write() {
        let network = |text: &str| text.parse::<Network>().unwrap_err();
        assert!(network("backup.example.org").contains("`getent ahosts backup.example.org` shows"));
        assert!(network("192.0.2.0/33").contains("write 0 to 32 after the /"));
        assert!(network("2001:db8::/x").contains("write 0 to 128 after the /"));
        for every in ["0.0.0.0/0", "::/0", "::ffff:0:0/96"] {
            assert!(network(every).contains("is every address"), "{every}");
        }
        for wrong in ["0", "65536", "9-8", "ssh", "", "-1"] {
            assert!(wrong.parse::<Ports>().unwrap_err().contains("write 1 to 65535"), "{wrong}");
        }
        let many = (1..=33).map(|port| Ports { first: port, last: port }).collect();
        assert!(Filter::new(Vec::new(), many).unwrap_err().contains("33 ports or ranges are more"));
        assert_eq!(Filter::new(Vec::new(), Vec::new()), Ok(None));
    }

    #[test]
    fn the_program_has_addresses_in_network_order() {
        let program = filter(&["192.0.2.0/24"], &["22-23"]).program();
        let bytes = |words: [u32; 4]| words.map(u32::to_ne_bytes).concat();
        assert_eq!((program.networks_len, program.ports_len), (1, 1));
        let network = program.networks[0];
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 0];
        assert_eq!(bytes(network.address), mapped);
        assert_eq!(bytes(network.mask), [[0xff; 15].as_slice(), &[0]].concat());
        assert_eq!((program.ports[0].first, program.ports[0].last), (22, 23));
    }
}
