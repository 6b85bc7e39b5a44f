// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Which addresses may be peers: those of one host, the same wherever one asks from. Agents ping them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub const RULE: &str =
    "loopback, link-local, multicast, broadcast and unspecified addresses are no peers";

pub fn is_peer(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            // 0.0.0.0/8 is this network; from 240.0.0.0 on all is reserved, up to the broadcast.
            let is_of_hosts = (1..224).contains(&v4.octets()[0]);
            is_of_hosts && !v4.is_loopback() && !v4.is_link_local()
        }
        IpAddr::V6(v6) => {
            let is_of_nobody = v6.is_unspecified() || v6.is_multicast();
            !is_of_nobody && !v6.is_loopback() && !v6.is_unicast_link_local()
        }
    }
}

/// One client: an IPv4 address, an IPv6 network of /64, or this machine with all its loopback addresses.
pub fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        local if local.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_is_a_peer_and_a_group_this_host_and_the_link_are_none() {
        let is_peer = |text: &str| is_peer(text.parse().unwrap());
        for fine in
            ["192.0.2.7", "10.0.0.1", "1.1.1.1", "223.255.255.255", "2001:db8::7", "fd00::1"]
        {
            assert!(is_peer(fine), "{fine}");
        }
        for wrong in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "169.254.1.1",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
            "::ffff:224.0.0.1",
            "::ffff:127.0.0.1",
        ] {
            assert!(!is_peer(wrong), "{wrong}");
        }
    }
}
