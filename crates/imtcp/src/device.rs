// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Network devices of the default routes: queue, offloads, interrupt coalescing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub struct Device {
    pub name: String,
    /// Kind of the root queue.
    pub qdisc: Option<String>,
    /// Offloads that are on, of those that matter.
    pub offloads: Vec<&'static str>,
    pub rx_coalesce_us: Option<u32>,
}

impl Device {
    pub fn segmentation_offload(&self) -> bool {
        self.offloads.iter().any(|o| matches!(*o, "tso" | "gso"))
    }
}

pub fn of_default_routes() -> Vec<Device> {
    let v4 = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    let mut names = default_v4(&v4);
    names.extend(default_v6(&v6));
    names.remove("lo");
    let qdiscs = root_qdiscs().unwrap_or_default();
    names.into_iter().map(|name| look(name, &qdiscs)).collect()
}

fn default_v4(table: &str) -> BTreeSet<String> {
    let default = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is_default = fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000");
        is_default.then(|| fields[0].to_string())
    };
    table.lines().skip(1).filter_map(default).collect()
}

fn default_v6(table: &str) -> BTreeSet<String> {
    let default = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is_default = fields.first().is_some_and(|d| d.bytes().all(|b| b == b'0'))
            && fields.get(1) == Some(&"00");
        is_default.then(|| fields.last().map(|f| f.to_string())).flatten()
    };
    table.lines().filter_map(default).collect()
}

const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
const FLAG_LRO: u32 = 1 << 15;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

fn look(name: String, qdiscs: &[(u32, String)]) -> Device {
    let index = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))
        .ok()
        .and_then(|t| t.trim().parse::<u32>().ok());
    let qdisc = qdiscs.iter().find(|(of, _)| Some(*of) == index).map(|(_, kind)| kind.to_string());
    let flag = |command, mask| ethtool(&name, command).is_ok_and(|v| v[1] & mask != 0);
    let all = [
        ("tso", flag(ETHTOOL_GTSO, u32::MAX)),
        ("gso", flag(ETHTOOL_GGSO, u32::MAX)),
        ("gro", flag(ETHTOOL_GGRO, u32::MAX)),
        ("lro", flag(ETHTOOL_GFLAGS, FLAG_LRO)),
    ];
    let offloads = all.into_iter().filter_map(|(name, on)| on.then_some(name)).collect();
    let rx_coalesce_us = ethtool(&name, ETHTOOL_GCOALESCE).ok().map(|v| v[1]);
    Device { name, qdisc, offloads, rx_coalesce_us }
}

/// The words that a command gives: its own number, then values. `ethtool_coalesce` is the
/// longest asked for (23 words).
fn ethtool(name: &str, command: u32) -> io::Result<[u32; 32]> {
    let mut value = [0u32; 32];
    value[0] = command;
    // SAFETY: the request holds the device's name and points to more room than is written.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = OwnedFd::from_raw_fd(fd);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()).take(libc::IFNAMSIZ - 1) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        if libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL, &mut request) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(value)
}

const RTM_GETQDISC: u16 = 38;
const NLMSG_DONE: u16 = 3;
const NLMSG_ERROR: u16 = 2;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_REQUEST: u16 = 1;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TCA_KIND: u16 = 1;
const HEADER: usize = 16;
/// struct tcmsg: family and padding, ifindex, handle, parent, info.
const TCMSG: usize = 20;

/// (ifindex, kind) of every device's root queue.
fn root_qdiscs() -> io::Result<Vec<(u32, String)>> {
    let mut request = Vec::new();
    request.extend_from_slice(&((HEADER + TCMSG) as u32).to_ne_bytes());
    request.extend_from_slice(&RTM_GETQDISC.to_ne_bytes());
    request.extend_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    request.resize(HEADER + TCMSG, 0);
    let mut found = Vec::new();
    // SAFETY: buffers and their lengths agree in each call.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let fd = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = OwnedFd::from_raw_fd(fd);
        if libc::send(fd.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut buffer = vec![0u8; 64 * 1024];
        loop {
            let n = libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0);
            if n <= 0 {
                return Err(io::Error::last_os_error());
            }
            if parse_qdiscs(&buffer[..n as usize], &mut found) {
                return Ok(found);
            }
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + size_of::<u32>())?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + size_of::<u16>())?.try_into().ok()?))
}

/// Takes what one datagram has; true when it was the last.
fn parse_qdiscs(mut bytes: &[u8], found: &mut Vec<(u32, String)>) -> bool {
    while let (Some(len), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let len = len as usize;
        if kind == NLMSG_DONE || kind == NLMSG_ERROR || len < HEADER || len > bytes.len() {
            return true;
        }
        let message = &bytes[HEADER..len];
        let (index, parent) = (u32_at(message, 4), u32_at(message, 12));
        if let (Some(index), Some(TC_H_ROOT)) = (index, parent) {
            found.extend(attribute(&message[TCMSG..], TCA_KIND).map(|kind| (index, kind)));
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

fn attribute(mut bytes: &[u8], wanted: u16) -> Option<String> {
    while let (Some(len), Some(kind)) = (u16_at(bytes, 0), u16_at(bytes, 2)) {
        let len = usize::from(len);
        let value = bytes.get(4..len)?;
        if kind == wanted {
            let text = value.strip_suffix(&[0]).unwrap_or(value);
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_name_their_devices() {
        let v4 = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                  eth0 00000000 0101A8C0 0003 0 0 0 00000000 0 0 0\n\
                  eth1 0001A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n";
        assert_eq!(default_v4(v4).into_iter().collect::<Vec<_>>(), ["eth0"]);
        let zero = "0".repeat(32);
        let v6 = format!("{zero} 00 {zero} 00 fe80 00000400 1 0 00450003 eth0\n");
        assert_eq!(default_v6(&v6).into_iter().collect::<Vec<_>>(), ["eth0"]);
        assert!(default_v6(&v6.replacen(" 00", " 40", 1)).is_empty());
    }

    #[test]
    fn the_loopback_device_has_a_queue() {
        let found = root_qdiscs().unwrap();
        assert!(found.iter().all(|(_, kind)| !kind.is_empty()));
    }
}
