//! Options that an accepted socket has from its listener (sk_clone, linux/net/core/sock.c).

use crate::table::real;
use libc::{c_int, c_void, socklen_t};
use rustix::net::{SocketType, sockopt};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The longest value: struct timeval, a name of congestion control, of an interface.
const VALUE_BYTES_MAX: usize = 16;

/// What is inherited, of both families. SO_PRIORITY is not.
const OPTIONS: [(c_int, c_int); 38] = [
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_LINGER),
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
    (libc::SOL_SOCKET, libc::SO_BROADCAST),
    (libc::SOL_SOCKET, libc::SO_DONTROUTE),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
    (libc::SOL_SOCKET, libc::SO_SNDBUF),
    (libc::SOL_SOCKET, libc::SO_RCVBUF),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
    (libc::SOL_SOCKET, libc::SO_MARK),
    (libc::SOL_SOCKET, libc::SO_BINDTODEVICE),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_CORK),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
    (libc::IPPROTO_TCP, libc::TCP_MAXSEG),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
    (libc::IPPROTO_IP, libc::IP_TOS),
    (libc::IPPROTO_IP, libc::IP_TTL),
    (libc::IPPROTO_IP, libc::IP_RECVTOS),
    (libc::IPPROTO_IP, libc::IP_RECVTTL),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
];

/// The options of a listener that a new socket does not have.
#[derive(Debug, Default)]
pub(crate) struct Inherited(Vec<Setting>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    level: c_int,
    name: c_int,
    value: [u8; VALUE_BYTES_MAX],
    length: socklen_t,
}

impl Inherited {
    /// Those of a listener; none where no other socket can be had to compare it with.
    pub(crate) fn of(listener: BorrowedFd<'_>) -> Self {
        let new =
            sockopt::socket_domain(listener).and_then(|family| rustix::net::socket(family, SocketType::STREAM, None));
        let Ok(new) = new else { return Self::default() };
        let differs = |(level, name)| {
            let setting = Setting::read(listener, level, name)?;
            (Setting::read(new.as_fd(), level, name) != Some(setting)).then_some(setting)
        };
        Self(OPTIONS.into_iter().filter_map(differs).collect())
    }

    /// Gives them to a new socket. One that cannot be set stays as it is.
    pub(crate) fn give(&self, to: BorrowedFd<'_>) {
        self.0.iter().for_each(|setting| setting.write(to));
    }
}

impl Setting {
    fn read(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> Option<Self> {
        let (mut value, mut length) = ([0_u8; VALUE_BYTES_MAX], VALUE_BYTES_MAX as socklen_t);
        let place = value.as_mut_ptr().cast::<c_void>();
        // SAFETY: the kernel writes at most `length` bytes to the place.
        let done = unsafe { real::getsockopt(socket.as_raw_fd(), level, name, place, &raw mut length) };
        (done == 0).then_some(Self { level, name, value, length })
    }

    fn write(&self, socket: BorrowedFd<'_>) {
        let Self { level, name, mut value, length } = *self;
        if level == libc::SOL_SOCKET && matches!(name, libc::SO_SNDBUF | libc::SO_RCVBUF) {
            // The kernel doubles what is set, for its own needs (socket(7)).
            let [first, second, third, fourth, ..] = value;
            let half = i32::from_ne_bytes([first, second, third, fourth]) / 2;
            value[..size_of::<i32>()].copy_from_slice(&half.to_ne_bytes());
        }
        // SAFETY: the kernel reads `length` bytes, which it has written.
        let _ = unsafe { real::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::AddressFamily;
    use std::time::Duration;

    #[test]
    fn a_new_socket_gets_what_differs() {
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            let make = || rustix::net::socket(family, SocketType::STREAM, None).unwrap();
            let (listener, accepted) = (make(), make());
            assert!(Inherited::of(listener.as_fd()).0.is_empty());
            sockopt::set_socket_recv_buffer_size(&listener, 30_000).unwrap();
            sockopt::set_tcp_nodelay(&listener, true).unwrap();
            sockopt::set_tcp_congestion(&listener, "reno").unwrap();
            let timeout = Some(Duration::from_millis(80));
            sockopt::set_socket_timeout(&listener, sockopt::Timeout::Recv, timeout).unwrap();
            let inherited = Inherited::of(listener.as_fd());
            assert_eq!(inherited.0.len(), 4);
            inherited.give(accepted.as_fd());
            assert_eq!(sockopt::socket_recv_buffer_size(&accepted), sockopt::socket_recv_buffer_size(&listener));
            assert!(Inherited::of(accepted.as_fd()).0 == inherited.0, "{inherited:?}");
        }
    }
}
