//! Options of TCP sockets that our stack does not follow: a socket that has one is the kernel's.
//!
//! They are read from the socket where a connection or a listener begins, but only in a process that has set one, or was started with
//! sockets of TCP: others make no system call for it.

use super::{congestion, note_congestion};
use crate::datagram::{has_length, int, is_told_odd, remember};
use libc::c_int;
use sidestep_sys::stream_options::has_filter;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// linux/in.h, linux/in6.h, linux/tcp.h, asm-generic/socket.h: those that the libc crate lacks.
const SO_BINDTOIFINDEX: c_int = 62;
const SO_TIMESTAMP_NEW: c_int = 63;
const SO_TIMESTAMPNS_NEW: c_int = 64;
const SO_TIMESTAMPING_NEW: c_int = 65;
const SO_ATTACH_BPF: c_int = 50;
const SO_ATTACH_REUSEPORT_CBPF: c_int = 51;
const SO_ATTACH_REUSEPORT_EBPF: c_int = 52;
const IP_UNICAST_IF: c_int = 50;
const IP_LOCAL_PORT_RANGE: c_int = 51;
const IPV6_MINHOPCOUNT: c_int = 73;
const IPV6_UNICAST_IF: c_int = 76;
const TCP_MD5SIG_EXT: c_int = 32;
const TCP_INQ: c_int = 36;
const TCP_TX_DELAY: c_int = 37;
const TCP_AO_ADD_KEY: c_int = 38;

const SOCKET: c_int = libc::SOL_SOCKET;
const V4: c_int = libc::IPPROTO_IP;
const V6: c_int = libc::IPPROTO_IPV6;
const TCP: c_int = libc::IPPROTO_TCP;

/// Those that are set where they are not 0.
const NOT_0: [(c_int, c_int); 22] = [
    (SOCKET, libc::SO_MARK),
    (SOCKET, libc::SO_ZEROCOPY),
    (SOCKET, libc::SO_DONTROUTE),
    (SOCKET, SO_BINDTOIFINDEX),
    (SOCKET, libc::SO_TIMESTAMP),
    (SOCKET, libc::SO_TIMESTAMPNS),
    (SOCKET, libc::SO_TIMESTAMPING),
    (SOCKET, SO_TIMESTAMP_NEW),
    (SOCKET, SO_TIMESTAMPNS_NEW),
    (SOCKET, SO_TIMESTAMPING_NEW),
    (V4, libc::IP_TRANSPARENT),
    (V4, libc::IP_MINTTL),
    (V4, IP_UNICAST_IF),
    (V4, IP_LOCAL_PORT_RANGE),
    (V6, libc::IPV6_TRANSPARENT),
    (V6, IPV6_MINHOPCOUNT),
    (V6, IPV6_UNICAST_IF),
    (TCP, libc::TCP_SAVE_SYN),
    (TCP, TCP_INQ),
    (TCP, TCP_TX_DELAY),
    (SOCKET, libc::SO_TXTIME),
    (TCP, libc::TCP_REPAIR),
];

/// Those that are set where they are not -1.
const NOT_MINUS_1: [(c_int, c_int); 2] = [(SOCKET, libc::SO_PEEK_OFF), (SOCKET, libc::SO_MAX_PACING_RATE)];

/// Those that have a length of their own.
const LONG: [(c_int, c_int); 5] = [
    (SOCKET, libc::SO_BINDTODEVICE),
    (V4, libc::IP_OPTIONS),
    (V6, libc::IPV6_HOPOPTS),
    (V6, libc::IPV6_DSTOPTS),
    (V6, libc::IPV6_RTHDR),
];

/// Those of which SO_GET_FILTER tells.
const FILTERS: [(c_int, c_int); 2] = [(SOCKET, libc::SO_ATTACH_FILTER), (SOCKET, SO_ATTACH_BPF)];

/// Those that cannot be read.
const UNREADABLE: [(c_int, c_int); 5] = [
    (SOCKET, SO_ATTACH_REUSEPORT_CBPF),
    (SOCKET, SO_ATTACH_REUSEPORT_EBPF),
    (TCP, libc::TCP_MD5SIG),
    (TCP, TCP_MD5SIG_EXT),
    (TCP, TCP_AO_ADD_KEY),
];

/// A socket of this process may have one.
static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Sockets have to be looked at from now on.
pub(crate) fn note_any() {
    IS_ANY.store(true, Ordering::Relaxed);
    note_congestion();
}

/// Notes that the program has set an option of a TCP socket. Returns whether the socket is the kernel's for it.
pub(crate) fn note(socket: BorrowedFd<'_>, option: (c_int, c_int)) -> bool {
    if option == (TCP, libc::TCP_CONGESTION) {
        return congestion::is_kernels(socket);
    }
    if UNREADABLE.contains(&option) {
        remember(socket, |early| early.is_odd = true);
    } else if ![&NOT_0[..], &NOT_MINUS_1, &LONG, &FILTERS].iter().any(|list| list.contains(&option)) {
        return false;
    }
    note_any();
    has_one(socket)
}

/// Returns whether a socket has an option that we do not follow.
pub(crate) fn has_one(socket: BorrowedFd<'_>) -> bool {
    let is_not = |list: &[(c_int, c_int)], value| {
        list.iter().any(|(level, name)| int(socket, *level, *name).is_some_and(|is| is != value))
    };
    congestion::is_kernels(socket)
        || IS_ANY.load(Ordering::Relaxed)
            && (is_told_odd(socket)
                || has_filter(socket)
                || is_not(&NOT_0, 0)
                || is_not(&NOT_MINUS_1, -1)
                || LONG.iter().any(|(level, name)| has_length(socket, *level, *name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::{AsFd, AsRawFd};

    fn set(socket: BorrowedFd<'_>, (level, name): (c_int, c_int), value: c_int) {
        let length = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: the value has that length.
        let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length) };
        assert_eq!(done, 0, "{level}, {name}");
    }

    #[test]
    fn a_new_socket_has_none_and_one_that_was_told_has() {
        note_any();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            assert!(!has_one(listener.as_fd()), "{address}");
        }
        let on = [
            ((SOCKET, libc::SO_ZEROCOPY), 1, 0),
            ((SOCKET, libc::SO_TIMESTAMPING), libc::SOF_TIMESTAMPING_RX_SOFTWARE as c_int, 0),
            ((SOCKET, libc::SO_TIMESTAMPNS), 1, 0),
            ((SOCKET, libc::SO_MAX_PACING_RATE), 1000, -1),
            ((V4, libc::IP_MINTTL), 255, 0),
        ];
        for (option, value, off) in on {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            set(listener.as_fd(), option, value);
            assert!(note(listener.as_fd(), option), "{option:?}");
            set(listener.as_fd(), option, off);
            assert!(!note(listener.as_fd(), option), "{option:?}");
            assert!(!note(listener.as_fd(), (SOCKET, libc::SO_KEEPALIVE)));
        }
    }

    #[test]
    fn what_cannot_be_read_is_remembered() {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        assert!(note(one.as_fd(), (TCP, libc::TCP_MD5SIG)));
        assert!(is_told_odd(one.as_fd()) && is_told_odd(one.as_fd()) && !is_told_odd(other.as_fd()));
    }
}
