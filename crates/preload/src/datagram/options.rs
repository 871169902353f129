//! Options of a UDP socket: the program sets them on its own socket, which checks them and answers for them; ours are read from it.

use libc::{c_int, c_void, socklen_t};
use rustix::io::Errno;
use rustix::net::sockopt;
use sidestep_socket::{MulticastOut, UdpOptions};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// linux/udp.h, linux/in.h, linux/in6.h, asm-generic/socket.h: those that the libc crate lacks.
const UDP_CORK: c_int = 1;
const UDP_ENCAP: c_int = 100;
const UDP_SEGMENT: c_int = 103;
const UDP_GRO: c_int = 104;
const IP_CHECKSUM: c_int = 23;
const IP_UNICAST_IF: c_int = 50;
const IP_RECVORIGDSTADDR: c_int = 20;
const IPV6_RECVORIGDSTADDR: c_int = 74;
const IPV6_MINHOPCOUNT: c_int = 73;
const IPV6_UNICAST_IF: c_int = 76;
const IPV6_MULTICAST_ALL: c_int = 29;
const IPV6_FREEBIND: c_int = 78;
const SO_TIMESTAMP_NEW: c_int = 63;
const SO_TIMESTAMPNS_NEW: c_int = 64;
const SO_TIMESTAMPING_NEW: c_int = 65;
const SO_PREFER_BUSY_POLL: c_int = 69;
const SO_BUSY_POLL_BUDGET: c_int = 70;
const SO_GET_FILTER: c_int = 26;

/// An option of int; `None` where the socket has none of this name.
pub(crate) fn int(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> Option<c_int> {
    let (mut value, mut length) = (0 as c_int, size_of::<c_int>() as socklen_t);
    let place = (&raw mut value).cast::<c_void>();
    // SAFETY: the kernel writes at most `length` bytes to the place.
    let done = unsafe { crate::table::real::getsockopt(socket.as_raw_fd(), level, name, place, &raw mut length) };
    (done == 0).then_some(value)
}

fn is_set(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> bool {
    int(socket, level, name).is_some_and(|value| value != 0)
}

/// Returns whether an option that has a length of its own is there.
pub(crate) fn has_length(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> bool {
    // SO_GET_FILTER counts instructions, of 8 bytes each.
    let (mut room, mut length) = ([0_u64; 256], 256);
    let place = room.as_mut_ptr().cast::<c_void>();
    // SAFETY: as above, however it counts.
    let done = unsafe { crate::table::real::getsockopt(socket.as_raw_fd(), level, name, place, &raw mut length) };
    // One that cannot be read is there: a filter that is too long, or of eBPF. A socket of IPv4 has none of IPv6.
    if done == 0 { length != 0 } else { ![Errno::NOPROTOOPT, Errno::OPNOTSUPP].contains(&crate::errno::last()) }
}

/// The options that the program has given its socket.
pub(super) fn of(socket: BorrowedFd<'_>, is_ipv6: bool, multicast_interface: u32) -> UdpOptions {
    let byte =
        |level, name, default: u8| int(socket, level, name).and_then(|value| value.try_into().ok()).unwrap_or(default);
    let v4 = libc::IPPROTO_IP;
    let v6 = libc::IPPROTO_IPV6;
    let default = UdpOptions::default();
    let of_family = |of_v4, of_v6| if is_ipv6 { (v6, of_v6) } else { (v4, of_v4) };
    let ((level, ttl), (_, group_ttl)) = (
        of_family(libc::IP_TTL, libc::IPV6_UNICAST_HOPS),
        of_family(libc::IP_MULTICAST_TTL, libc::IPV6_MULTICAST_HOPS),
    );
    let (_, class) = of_family(libc::IP_TOS, libc::IPV6_TCLASS);
    let (_, is_looped) = of_family(libc::IP_MULTICAST_LOOP, libc::IPV6_MULTICAST_LOOP);
    let (_, takes_all) = of_family(libc::IP_MULTICAST_ALL, IPV6_MULTICAST_ALL);
    UdpOptions {
        reuse_address: sockopt::socket_reuseaddr(socket).unwrap_or(true),
        reuse_port: sockopt::socket_reuseport(socket).unwrap_or(true),
        only_v6: is_ipv6 && is_set(socket, v6, libc::IPV6_V6ONLY),
        hop_limit: byte(level, ttl, default.hop_limit),
        multicast_hop_limit: byte(level, group_ttl, default.multicast_hop_limit),
        type_of_service: byte(level, class, 0),
        multicast_out: match multicast_interface {
            0 => multicast_out(socket, is_ipv6),
            interface => MulticastOut::Interface(interface),
        },
        // What cannot be read is the kernel's to send.
        multicast_loop: int(socket, level, is_looped).is_none_or(|is_looped| is_looped != 0),
        multicast_all: int(socket, level, takes_all).is_none_or(|takes_all| takes_all != 0),
        may_fragment: true,
        keep_errors: false,
        receive_buffer: sockopt::socket_recv_buffer_size(socket)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .unwrap_or(0),
    }
}

/// IP_MULTICAST_IF, IPV6_MULTICAST_IF.
fn multicast_out(socket: BorrowedFd<'_>, is_ipv6: bool) -> MulticastOut {
    if is_ipv6 {
        let index = int(socket, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF).and_then(|index| index.try_into().ok());
        return index.filter(|index| *index != 0).map_or(MulticastOut::Routes, MulticastOut::Interface);
    }
    // An address in network byte order.
    let address = int(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF).unwrap_or(0);
    let address = Ipv4Addr::from(address.to_ne_bytes());
    if address.is_unspecified() {
        return MulticastOut::Routes;
    }
    // An interface that is not found is none of the engine's.
    MulticastOut::Interface(super::groups::interface_of(IpAddr::V4(address)).unwrap_or(u32::MAX))
}

/// Returns whether datagrams of IPv4 from an IPv6 socket have other hop limits or classes than those of IPv6.
pub(super) fn is_mixed(socket: BorrowedFd<'_>) -> bool {
    let pairs = [
        (libc::IP_TTL, libc::IPV6_UNICAST_HOPS),
        (libc::IP_MULTICAST_TTL, libc::IPV6_MULTICAST_HOPS),
        (libc::IP_TOS, libc::IPV6_TCLASS),
    ];
    let differs = |(v4, v6)| int(socket, libc::IPPROTO_IP, v4) != int(socket, libc::IPPROTO_IPV6, v6);
    pairs.into_iter().any(differs)
}

/// Returns whether a socket has an option that we do not follow.
pub(super) fn is_unusual(socket: BorrowedFd<'_>) -> bool {
    const SOCKET: c_int = libc::SOL_SOCKET;
    const SET: [(c_int, c_int); 17] = [
        (SOCKET, libc::SO_REUSEPORT),
        (SOCKET, libc::SO_MARK),
        (SOCKET, libc::SO_NO_CHECK),
        (SOCKET, libc::SO_ZEROCOPY),
        (SOCKET, libc::SO_DONTROUTE),
        (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
        (libc::IPPROTO_IP, libc::IP_MINTTL),
        (libc::IPPROTO_IP, libc::IP_PASSSEC),
        (libc::IPPROTO_IP, IP_CHECKSUM),
        (libc::IPPROTO_IP, IP_UNICAST_IF),
        (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT),
        (libc::IPPROTO_IPV6, IPV6_MINHOPCOUNT),
        (libc::IPPROTO_IPV6, IPV6_UNICAST_IF),
        (libc::IPPROTO_UDP, UDP_CORK),
        (libc::IPPROTO_UDP, UDP_ENCAP),
        (libc::IPPROTO_UDP, UDP_SEGMENT),
        (libc::IPPROTO_UDP, UDP_GRO),
    ];
    // Some of these have a length in the place of a value.
    const LONG: [(c_int, c_int); 3] =
        [(SOCKET, libc::SO_BINDTODEVICE), (SOCKET, SO_GET_FILTER), (libc::IPPROTO_IP, libc::IP_OPTIONS)];
    SET.iter().any(|(level, name)| is_set(socket, *level, *name))
        || LONG.iter().any(|(level, name)| has_length(socket, *level, *name))
        || int(socket, SOCKET, libc::SO_PEEK_OFF).is_some_and(|offset| offset >= 0)
}

/// The effect of an option that the program has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// A membership has changed.
    Membership,
    /// The interface for what is sent to groups, of which the kernel does not tell the number.
    MulticastInterface,
    /// It is read anew, or is none of our business.
    Read,
    /// The socket is the kernel's, for we do not know the option; it can be read.
    Kernel,
    /// The same, and it cannot be read.
    KernelUnread,
}

/// The effect of an option.
pub(crate) fn follow_of(level: c_int, name: c_int) -> Follow {
    match level {
        libc::SOL_SOCKET => of_socket(name),
        libc::IPPROTO_IP => of_v4(name),
        libc::IPPROTO_IPV6 => of_v6(name),
        libc::IPPROTO_UDP => Follow::Kernel,
        _ => Follow::KernelUnread,
    }
}

fn of_socket(name: c_int) -> Follow {
    match name {
        libc::SO_DEBUG
        | libc::SO_BROADCAST
        | libc::SO_SNDBUF
        | libc::SO_RCVBUF
        | libc::SO_SNDBUFFORCE
        | libc::SO_RCVBUFFORCE
        | libc::SO_KEEPALIVE
        | libc::SO_OOBINLINE
        | libc::SO_PRIORITY
        | libc::SO_LINGER
        | libc::SO_REUSEADDR
        | libc::SO_RCVLOWAT
        | libc::SO_RCVTIMEO
        | libc::SO_SNDTIMEO
        | libc::SO_TIMESTAMP
        | libc::SO_TIMESTAMPNS
        | SO_TIMESTAMP_NEW
        | SO_TIMESTAMPNS_NEW
        | libc::SO_RXQ_OVFL
        | libc::SO_BUSY_POLL
        | SO_PREFER_BUSY_POLL
        | SO_BUSY_POLL_BUDGET
        | libc::SO_INCOMING_CPU => Follow::Read,
        libc::SO_REUSEPORT
        | libc::SO_MARK
        | libc::SO_NO_CHECK
        | libc::SO_ZEROCOPY
        | libc::SO_DONTROUTE
        | libc::SO_BINDTODEVICE
        | libc::SO_ATTACH_FILTER
        | libc::SO_DETACH_FILTER
        | libc::SO_PEEK_OFF => Follow::Kernel,
        // Time stamps of sent datagrams among them.
        libc::SO_TIMESTAMPING | SO_TIMESTAMPING_NEW => Follow::KernelUnread,
        _ => Follow::KernelUnread,
    }
}

fn of_v4(name: c_int) -> Follow {
    match name {
        libc::IP_ADD_MEMBERSHIP
        | libc::IP_DROP_MEMBERSHIP
        | libc::IP_ADD_SOURCE_MEMBERSHIP
        | libc::IP_DROP_SOURCE_MEMBERSHIP
        | libc::IP_BLOCK_SOURCE
        | libc::IP_UNBLOCK_SOURCE
        | libc::MCAST_JOIN_GROUP
        | libc::MCAST_LEAVE_GROUP
        | libc::MCAST_JOIN_SOURCE_GROUP
        | libc::MCAST_LEAVE_SOURCE_GROUP
        | libc::MCAST_BLOCK_SOURCE
        | libc::MCAST_UNBLOCK_SOURCE => Follow::Membership,
        libc::IP_MULTICAST_IF => Follow::MulticastInterface,
        libc::IP_TTL
        | libc::IP_TOS
        | libc::IP_MULTICAST_TTL
        | libc::IP_MULTICAST_LOOP
        | libc::IP_MULTICAST_ALL
        | libc::IP_PKTINFO
        | libc::IP_RECVTTL
        | libc::IP_RECVTOS
        | libc::IP_RECVOPTS
        | libc::IP_RETOPTS
        | libc::IP_RECVERR
        | libc::IP_MTU_DISCOVER
        | libc::IP_FREEBIND
        | libc::IP_BIND_ADDRESS_NO_PORT
        | IP_RECVORIGDSTADDR => Follow::Read,
        libc::IP_TRANSPARENT | libc::IP_MINTTL | libc::IP_PASSSEC | IP_CHECKSUM | IP_UNICAST_IF | libc::IP_OPTIONS => {
            Follow::Kernel
        }
        _ => Follow::KernelUnread,
    }
}

fn of_v6(name: c_int) -> Follow {
    match name {
        libc::IPV6_ADD_MEMBERSHIP
        | libc::IPV6_DROP_MEMBERSHIP
        | libc::MCAST_JOIN_GROUP
        | libc::MCAST_LEAVE_GROUP
        | libc::MCAST_JOIN_SOURCE_GROUP
        | libc::MCAST_LEAVE_SOURCE_GROUP
        | libc::MCAST_BLOCK_SOURCE
        | libc::MCAST_UNBLOCK_SOURCE => Follow::Membership,
        libc::IPV6_V6ONLY
        | libc::IPV6_UNICAST_HOPS
        | libc::IPV6_MULTICAST_HOPS
        | libc::IPV6_MULTICAST_LOOP
        | libc::IPV6_MULTICAST_IF
        | IPV6_MULTICAST_ALL
        | libc::IPV6_TCLASS
        | libc::IPV6_RECVPKTINFO
        | libc::IPV6_RECVHOPLIMIT
        | libc::IPV6_RECVTCLASS
        | libc::IPV6_RECVERR
        | libc::IPV6_MTU_DISCOVER
        | IPV6_FREEBIND
        | IPV6_RECVORIGDSTADDR => Follow::Read,
        libc::IPV6_TRANSPARENT | IPV6_MINHOPCOUNT | IPV6_UNICAST_IF => Follow::Kernel,
        _ => Follow::KernelUnread,
    }
}

macro_rules! wanted {
    ($($name:ident $bit:literal $family:ident $level:ident $option:expr,)+) => {
        /// Ancillary data that a program has asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub(super) enum Kind {
            $($name = 1 << $bit,)+
        }

        fn read(socket: BorrowedFd<'_>, is_ipv6: bool) -> u32 {
            let mut all = 0;
            $(
                if family::$family(is_ipv6) && is_set(socket, libc::$level, $option) {
                    all |= Kind::$name as u32;
                }
            )+
            all
        }
    };
}

/// The families that have an option.
mod family {
    pub(super) fn both(_: bool) -> bool {
        true
    }

    pub(super) fn v6(is_ipv6: bool) -> bool {
        is_ipv6
    }
}

wanted! {
    Timestamp 0 both SOL_SOCKET libc::SO_TIMESTAMP,
    TimestampNew 1 both SOL_SOCKET SO_TIMESTAMP_NEW,
    TimestampNs 2 both SOL_SOCKET libc::SO_TIMESTAMPNS,
    TimestampNsNew 3 both SOL_SOCKET SO_TIMESTAMPNS_NEW,
    Overflow 4 both SOL_SOCKET libc::SO_RXQ_OVFL,
    Info4 5 both IPPROTO_IP libc::IP_PKTINFO,
    TimeToLive 6 both IPPROTO_IP libc::IP_RECVTTL,
    TypeOfService 7 both IPPROTO_IP libc::IP_RECVTOS,
    Destination4 8 both IPPROTO_IP IP_RECVORIGDSTADDR,
    Info6 9 v6 IPPROTO_IPV6 libc::IPV6_RECVPKTINFO,
    HopLimit 10 v6 IPPROTO_IPV6 libc::IPV6_RECVHOPLIMIT,
    TrafficClass 11 v6 IPPROTO_IPV6 libc::IPV6_RECVTCLASS,
    Destination6 12 v6 IPPROTO_IPV6 IPV6_RECVORIGDSTADDR,
}

/// The ancillary data that a program has asked for.
#[derive(Debug, Default)]
pub(super) struct Wanted(AtomicU32);

impl Wanted {
    /// Reads it from the program's socket.
    pub(super) fn read(&self, socket: BorrowedFd<'_>, is_ipv6: bool) {
        self.0.store(read(socket, is_ipv6), Ordering::Relaxed);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    pub(super) fn has(&self, kind: Kind) -> bool {
        self.0.load(Ordering::Relaxed) & kind as u32 != 0
    }

    /// Returns whether the time of receipt is wanted.
    pub(super) fn has_time(&self) -> bool {
        [Kind::Timestamp, Kind::TimestampNew, Kind::TimestampNs, Kind::TimestampNsNew]
            .into_iter()
            .any(|kind| self.has(kind))
    }
}
