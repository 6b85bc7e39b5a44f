// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The few system calls that the generators need, as safe functions.
//!
//! Everything runs in one thread around epoll: the laboratory's guest has one slow processor, which
//! must also forward packets.

use std::io;
use std::mem;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Turns a C return value into a result.
fn check(value: libc::c_int) -> io::Result<libc::c_int> {
    if value < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value)
    }
}

/// CLOCK_MONOTONIC in µs: the clock of all result files, and of the kernel.
pub fn now_us() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000
}

/// Sleeps until `t_ns` of CLOCK_MONOTONIC; returns at once if that has passed.
pub fn sleep_until_ns(t_ns: u64) {
    let t = libc::timespec {
        tv_sec: (t_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (t_ns % 1_000_000_000) as libc::c_long,
    };
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &t, std::ptr::null_mut())
    };
}

/// Otherwise the kernel may wake a sleeper 50 µs late, a third of a packet's time at 70 Mbit/s.
pub fn precise_timers() {
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Raises the limit of open files, so that a run with hundreds of connections can open its sockets.
pub fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

fn to_sockaddr(address: SocketAddrV4) -> libc::sockaddr_in {
    let mut raw: libc::sockaddr_in = unsafe { mem::zeroed() };
    raw.sin_family = libc::AF_INET as libc::sa_family_t;
    raw.sin_port = address.port().to_be();
    raw.sin_addr.s_addr = u32::from(*address.ip()).to_be();
    raw
}

/// A non-blocking IPv4 socket.
pub struct Socket(OwnedFd);

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Socket {
    fn new(kind: libc::c_int) -> io::Result<Self> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let fd = check(unsafe { libc::socket(libc::AF_INET, kind | flags, 0) })?;
        Ok(Socket(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn tcp() -> io::Result<Self> {
        Self::new(libc::SOCK_STREAM)
    }

    pub fn udp() -> io::Result<Self> {
        Self::new(libc::SOCK_DGRAM)
    }

    pub fn listener(address: SocketAddrV4) -> io::Result<Self> {
        let socket = Self::tcp()?;
        socket.option(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        socket.bind(address)?;
        check(unsafe { libc::listen(socket.as_raw_fd(), 4096) })?;
        Ok(socket)
    }

    pub fn option(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        check(unsafe {
            libc::setsockopt(
                self.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                mem::size_of::<i32>() as libc::socklen_t,
            )
        })?;
        Ok(())
    }

    /// Chooses the congestion control by its kernel name.
    pub fn congestion_control(&self, name: &str) -> io::Result<()> {
        check(unsafe {
            libc::setsockopt(
                self.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                name.as_ptr().cast(),
                name.len() as libc::socklen_t,
            )
        })
        .map_err(|e| io::Error::new(e.kind(), format!("congestion control {name:?}: {e}")))?;
        Ok(())
    }

    /// Lets the kernel pace the socket to at most this rate.
    pub fn max_rate(&self, bps: u64) -> io::Result<()> {
        // The option has 32 bits, in bytes per second; all ones mean no limit.
        let bytes_per_s = i32::try_from(bps / 8).map_err(io::Error::other)?;
        self.option(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_s)
    }

    /// Makes `close` send a reset and drop unsent data, so that the flow stops at once.
    pub fn abort_on_close(&self) -> io::Result<()> {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        check(unsafe {
            libc::setsockopt(
                self.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const linger).cast(),
                mem::size_of::<libc::linger>() as libc::socklen_t,
            )
        })?;
        Ok(())
    }

    pub fn bind(&self, address: SocketAddrV4) -> io::Result<()> {
        let raw = to_sockaddr(address);
        check(unsafe {
            libc::bind(
                self.as_raw_fd(),
                (&raw const raw).cast(),
                mem::size_of_val(&raw) as libc::socklen_t,
            )
        })?;
        Ok(())
    }

    /// Starts to connect; a TCP socket becomes writable when it is connected.
    pub fn connect(&self, address: SocketAddrV4) -> io::Result<()> {
        let raw = to_sockaddr(address);
        let result = check(unsafe {
            libc::connect(
                self.as_raw_fd(),
                (&raw const raw).cast(),
                mem::size_of_val(&raw) as libc::socklen_t,
            )
        });
        match result {
            Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// The next connection and its peer, if one waits.
    pub fn accept(&self) -> io::Result<Option<(Socket, SocketAddr)>> {
        let mut raw: libc::sockaddr_in = unsafe { mem::zeroed() };
        let mut length = mem::size_of_val(&raw) as libc::socklen_t;
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let fd = check(unsafe {
            libc::accept4(self.as_raw_fd(), (&raw mut raw).cast(), &mut length, flags)
        });
        let Some(fd) = would_block(fd)? else {
            return Ok(None);
        };
        let ip = u32::from_be(raw.sin_addr.s_addr).into();
        let peer = SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)));
        Ok(Some((Socket(unsafe { OwnedFd::from_raw_fd(fd) }), peer)))
    }

    /// Writes; None if the socket is full.
    pub fn send(&self, data: &[u8]) -> io::Result<Option<usize>> {
        let n = unsafe {
            libc::send(self.as_raw_fd(), data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL)
        };
        would_block(check_size(n))
    }

    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let n =
            unsafe { libc::recv(self.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        would_block(check_size(n))
    }

    /// Takes up to `limit` bytes from a TCP socket without a copy (0: end).
    pub fn discard(&self, limit: usize) -> io::Result<Option<usize>> {
        let n =
            unsafe { libc::recv(self.as_raw_fd(), std::ptr::null_mut(), limit, libc::MSG_TRUNC) };
        would_block(check_size(n))
    }

    /// Takes one datagram: returns its length, and its beginning in `head`. The rest stays in the
    /// kernel.
    pub fn receive_head(&self, head: &mut [u8]) -> io::Result<Option<usize>> {
        let n = unsafe {
            libc::recv(self.as_raw_fd(), head.as_mut_ptr().cast(), head.len(), libc::MSG_TRUNC)
        };
        would_block(check_size(n))
    }
}

fn check_size(n: isize) -> io::Result<usize> {
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(n as usize)
    }
}

fn would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}

/// Pages of zeros that are sent again and again without a copy.
pub struct Payload {
    fd: OwnedFd,
    length: usize,
}

impl Payload {
    pub fn new() -> io::Result<Self> {
        let length = 1 << 20;
        let name = c"payload";
        let fd = check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        check(unsafe { libc::ftruncate(fd.as_raw_fd(), length as libc::off_t) })?;
        Ok(Payload { fd, length })
    }

    /// Sends up to `limit` bytes; None if the socket is full.
    pub fn send(&self, socket: &Socket, limit: u64) -> io::Result<Option<usize>> {
        let mut offset: libc::off_t = 0;
        let count = limit.min(self.length as u64) as usize;
        let n =
            unsafe { libc::sendfile(socket.as_raw_fd(), self.fd.as_raw_fd(), &mut offset, count) };
        would_block(check_size(n))
    }
}

/// An epoll instance; each descriptor has a number from the caller.
pub struct Poller(OwnedFd);

/// An event of one descriptor.
#[derive(Clone, Copy)]
pub struct Event {
    pub token: u64,
    pub writable: bool,
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Poller(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn control(&self, op: i32, socket: &Socket, token: u64, write: bool) -> io::Result<()> {
        let wanted = if write { libc::EPOLLOUT } else { libc::EPOLLIN };
        let mut event = libc::epoll_event { events: wanted as u32, u64: token };
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), op, socket.as_raw_fd(), &mut event) })?;
        Ok(())
    }

    pub fn watch_read(&self, socket: &Socket, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, token, false)
    }

    pub fn watch_write(&self, socket: &Socket, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, token, true)
    }

    pub fn change(&self, socket: &Socket, token: u64, write: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, token, write)
    }

    /// Waits until an event or until `until_us` (u64::MAX: without end).
    pub fn wait(&self, until_us: u64, events: &mut Vec<Event>) -> io::Result<()> {
        let mut raw: [libc::epoll_event; 64] = unsafe { mem::zeroed() };
        let left_us = until_us.saturating_sub(now_us()).min(3_600_000_000);
        let timeout = libc::timespec {
            tv_sec: (left_us / 1_000_000) as libc::time_t,
            tv_nsec: (left_us % 1_000_000 * 1000) as libc::c_long,
        };
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.0.as_raw_fd(),
                raw.as_mut_ptr(),
                raw.len(),
                &timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        events.clear();
        if n < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                return Ok(());
            }
            return Err(error);
        }
        let ended = (libc::EPOLLHUP | libc::EPOLLERR) as u32;
        events.extend(raw[..n as usize].iter().map(|event| Event {
            token: event.u64,
            writable: event.events & (libc::EPOLLOUT as u32 | ended) != 0,
        }));
        Ok(())
    }
}
