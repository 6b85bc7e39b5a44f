// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Sockets of other processes: a copy of the descriptor, and options set through it.

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use imtcp_bpf::probe;
use imtcp_bpf::tags::Unmarked;

/// A thread, held so that its number cannot come to mean another.
pub struct Thread(OwnedFd);

impl Thread {
    pub fn open(thread: i32) -> io::Result<Self> {
        // linux/pidfd.h
        const PIDFD_THREAD: i32 = libc::O_EXCL;
        // SAFETY: plain system call; the descriptor returned is new and ours.
        let open = |flags: i32| unsafe { own(libc::syscall(libc::SYS_pidfd_open, thread, flags)) };
        match open(0) {
            // Another than the first of its process.
            Err(e) if !matches!(e.raw_os_error(), Some(libc::ESRCH | libc::EMFILE)) => {
                open(PIDFD_THREAD).map(Thread).map_err(|e| match e.raw_os_error() {
                    Some(libc::EINVAL) => io::Error::other(
                        "only Linux 6.9 and later give away the descriptors of one thread",
                    ),
                    _ => e,
                })
            }
            first => first.map(Thread),
        }
    }

    /// A copy of a descriptor.
    pub fn descriptor(&self, fd: i32) -> io::Result<OwnedFd> {
        // SAFETY: as above. Copies are close-on-exec.
        unsafe { own(libc::syscall(libc::SYS_pidfd_getfd, self.0.as_raw_fd(), fd, 0)) }
    }
}

/// # Safety
/// The value is the result of a system call that gives a new descriptor.
unsafe fn own(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: by the contract above.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

fn get<T: Copy>(fd: BorrowedFd, level: i32, option: i32, mut value: T) -> io::Result<T> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: value is as long as len says and only integers are asked for.
    let rc = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &mut len)
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value)
}

fn protocol(fd: BorrowedFd) -> Option<i32> {
    get(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, 0).ok()
}

/// TCP, or multipath TCP, whose subflows follow its options.
pub fn is_tcp(fd: BorrowedFd) -> bool {
    protocol(fd) == Some(libc::IPPROTO_TCP) || is_multipath(fd)
}

pub fn is_multipath(fd: BorrowedFd) -> bool {
    protocol(fd) == Some(libc::IPPROTO_MPTCP)
}

/// The peer's address, and the port here. None while it is not connected.
pub fn ends(fd: BorrowedFd) -> Option<(SocketAddr, u16)> {
    let copy = TcpStream::from(fd.try_clone_to_owned().ok()?);
    Some((copy.peer_addr().ok()?, copy.local_addr().ok()?.port()))
}

pub fn is_listener(fd: BorrowedFd) -> bool {
    matches!(get(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, 0), Ok(1))
}

/// net/tcp_states.h
const TCP_SYN_SENT: u8 = 2;
const TCP_CLOSE: u8 = 7;
const TCP_LISTEN: u8 = 10;

fn tcp_info(fd: BorrowedFd) -> io::Result<libc::tcp_info> {
    // SAFETY: integers only, for which zero is a value.
    get(fd, libc::IPPROTO_TCP, libc::TCP_INFO, unsafe { std::mem::zeroed() })
}

/// How many connections wait until the program accepts them. None where it is no listener.
pub fn unaccepted(fd: BorrowedFd) -> u32 {
    match tcp_info(fd) {
        // The kernel has the queue's length of a listener there.
        Ok(info) if info.tcpi_state == TCP_LISTEN => info.tcpi_unacked,
        _ => 0,
    }
}

/// Is it connecting, or was it never connected? The kernel keeps what one has sent whose connection is over.
pub fn may_yet_connect(fd: BorrowedFd) -> bool {
    tcp_info(fd).is_ok_and(|info| match info.tcpi_state {
        TCP_CLOSE => info.tcpi_segs_out == 0,
        state => state == TCP_SYN_SENT,
    })
}

/// The kernel's name for the protocol of a process's socket: `TCP`, `TCPv6`, `MPTCP`, `UNIX`… Needs fewer rights
/// than a copy of its descriptor. Empty if the kernel does not tell.
pub fn protocol_name(pid: i32, fd: i32) -> String {
    let Ok(path) = CString::new(format!("/proc/{pid}/fd/{fd}")) else { return String::new() };
    let mut name = [0u8; 32];
    // SAFETY: both strings end with NUL, and the kernel writes no more than the length given.
    let length = unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"system.sockprotoname".as_ptr(),
            name.as_mut_ptr().cast(),
            name.len(),
        )
    };
    let name = &name[..usize::try_from(length).unwrap_or(0)];
    String::from_utf8_lossy(name).trim_end_matches('\0').to_string()
}

/// Why this process would be refused the descriptors of others, where that can be told.
pub fn obstacle() -> Option<String> {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if scope.trim() == "3" {
        return Some(
            "kernel.yama.ptrace_scope is 3, which nobody can change until a reboot".into(),
        );
    }
    let may_trace = probe::capabilities() & (1 << probe::CAP_SYS_PTRACE) != 0;
    (!may_trace).then(|| "CAP_SYS_PTRACE is missing".into())
}

pub fn cookie(fd: BorrowedFd) -> io::Result<u64> {
    get(fd, libc::SOL_SOCKET, libc::SO_COOKIE, 0u64)
}

pub fn control(fd: BorrowedFd) -> io::Result<String> {
    let name = get(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, [0u8; 16])?;
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

pub fn set_control(fd: BorrowedFd, name: &str) -> io::Result<()> {
    // SAFETY: the name's bytes live through the call and their length is given.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Handling its packets as before imtcp did. IP_TOS sets the socket's priority as well, which is the program's.
pub fn unmark(fd: BorrowedFd, before: Unmarked) -> io::Result<()> {
    let set = |level: i32, option: i32, value: i32| {
        // SAFETY: an integer, which lives through the call.
        let rc = unsafe {
            let length = size_of::<i32>() as libc::socklen_t;
            libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), length)
        };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    if let Some(tos) = before.tos {
        let priority = get(fd, libc::SOL_SOCKET, libc::SO_PRIORITY, 0)?;
        set(libc::IPPROTO_IP, libc::IP_TOS, tos.into())?;
        set(libc::SOL_SOCKET, libc::SO_PRIORITY, priority)?;
    }
    before.tclass.map_or(Ok(()), |class| set(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsFd;

    #[test]
    fn a_socket_of_a_process_can_be_read_and_changed_by_copy() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = Thread::open(std::process::id() as i32).unwrap();
        let copy = own.descriptor(listener.as_raw_fd()).unwrap();
        assert!(is_tcp(copy.as_fd()));
        assert_eq!(protocol_name(std::process::id() as i32, listener.as_raw_fd()), "TCP");
        assert_eq!(cookie(copy.as_fd()).unwrap(), cookie(listener.as_fd()).unwrap());
        set_control(copy.as_fd(), "reno").unwrap();
        assert_eq!(control(listener.as_fd()).unwrap(), "reno");
    }

    #[test]
    fn a_socket_may_yet_connect_before_its_connection_and_not_after() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!may_yet_connect(listener.as_fd()));
        // SAFETY: plain system call; the descriptor returned is new and ours.
        let unconnected = unsafe { own(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0).into()) };
        assert!(may_yet_connect(unconnected.unwrap().as_fd()));

        let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!may_yet_connect(connected.as_fd()));
        let (accepted, _) = listener.accept().unwrap();
        accepted.shutdown(std::net::Shutdown::Both).unwrap();
        connected.shutdown(std::net::Shutdown::Both).unwrap();
        let info = || tcp_info(connected.as_fd()).unwrap();
        assert_eq!(info().tcpi_state, TCP_CLOSE);
        assert!(!may_yet_connect(connected.as_fd()) && ends(connected.as_fd()).is_none());
    }

    #[test]
    fn udp_is_not_tcp() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(!is_tcp(udp.as_fd()));
        assert_eq!(protocol_name(std::process::id() as i32, udp.as_raw_fd()), "UDP");
    }
}
