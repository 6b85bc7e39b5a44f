// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! As much of netlink as a dump request and its answer need.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const NLM_F_REQUEST_DUMP: u16 = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
const HEADER: usize = 16;

pub struct Netlink {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    pub fn open(protocol: i32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Netlink { fd, sequence: 0, buffer: vec![0; 1 << 16] })
    }

    /// Asks for a dump and calls `each(message type, payload)` for every answer.
    pub fn dump(
        &mut self,
        kind: u16,
        body: &[u8],
        mut each: impl FnMut(u16, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.sequence += 1;
        let mut request = Vec::with_capacity(HEADER + body.len());
        request.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
        request.extend_from_slice(&kind.to_ne_bytes());
        request.extend_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
        request.extend_from_slice(&self.sequence.to_ne_bytes());
        request.extend_from_slice(&0u32.to_ne_bytes());
        request.extend_from_slice(body);
        let fd = self.fd.as_raw_fd();
        let sent = unsafe { libc::send(fd, request.as_ptr().cast(), request.len(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        loop {
            let n =
                unsafe { libc::recv(fd, self.buffer.as_mut_ptr().cast(), self.buffer.len(), 0) };
            if n < 0 {
                return Err(io::Error::last_os_error());
            }
            let mut rest = &self.buffer[..n as usize];
            while rest.len() >= HEADER {
                let length = read_u32(rest, 0) as usize;
                if length < HEADER || length > rest.len() {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                let message_kind = read_u16(rest, 4);
                match i32::from(message_kind) {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => {
                        let code = -(read_u32(rest, HEADER) as i32);
                        return Err(io::Error::from_raw_os_error(code));
                    }
                    _ => each(message_kind, &rest[HEADER..length])?,
                }
                rest = &rest[length.next_multiple_of(4).min(rest.len())..];
            }
        }
    }
}

/// Calls `each(type, value)` for the attributes in `data`.
pub fn attributes(mut data: &[u8], mut each: impl FnMut(u16, &[u8])) {
    while data.len() >= 4 {
        let length = usize::from(read_u16(data, 0));
        if length < 4 || length > data.len() {
            return;
        }
        // The upper two bits are flags (nested, network byte order).
        each(read_u16(data, 2) & 0x3fff, &data[4..length]);
        data = &data[length.next_multiple_of(4).min(data.len())..];
    }
}

/// A number at `offset`; 0 if the kernel's structure is shorter.
pub fn read_u16(data: &[u8], offset: usize) -> u16 {
    data.get(offset..offset + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]))
}

pub fn read_u32(data: &[u8], offset: usize) -> u32 {
    data.get(offset..offset + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

pub fn read_u64(data: &[u8], offset: usize) -> u64 {
    data.get(offset..offset + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_walked_over_their_padding() {
        let mut data = Vec::new();
        data.extend_from_slice(&5u16.to_ne_bytes());
        data.extend_from_slice(&7u16.to_ne_bytes());
        data.extend_from_slice(&[9, 0, 0, 0]);
        data.extend_from_slice(&8u16.to_ne_bytes());
        data.extend_from_slice(&(0x8000u16 | 3).to_ne_bytes());
        data.extend_from_slice(&42u32.to_ne_bytes());
        let mut seen = Vec::new();
        attributes(&data, |kind, value| seen.push((kind, value.to_vec())));
        assert_eq!(seen, [(7, vec![9]), (3, 42u32.to_ne_bytes().to_vec())]);
    }

    #[test]
    fn a_cut_attribute_ends_the_walk() {
        attributes(&[200, 0, 1, 0, 1], |_, _| panic!("read past the end"));
    }

    #[test]
    fn fields_beyond_the_structure_read_as_zero() {
        assert_eq!(read_u64(&[1, 2, 3], 0), 0);
    }
}
