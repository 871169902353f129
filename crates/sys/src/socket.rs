//! Socket options that the socket libraries lack.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets SO_BUSY_POLL: a blocking receive polls the device for this time before it sleeps. Raising it needs
/// CAP_NET_ADMIN (socket(7)).
pub fn set_busy_poll(socket: BorrowedFd<'_>, microseconds: u32) -> io::Result<()> {
    let value = i32::try_from(microseconds).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: `value` is an int that lives for the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BUSY_POLL,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The NAPI instance that delivered the last packet of this socket (Linux 4.12). It is 0 if the device has none (veth,
/// loopback): SO_BUSY_POLL then has nothing to poll.
pub fn incoming_napi_id(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut value: u32 = 0;
    let mut size = size_of::<u32>() as libc::socklen_t;
    // SAFETY: `value` and `size` are valid for the kernel to write to.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_INCOMING_NAPI_ID,
            (&raw mut value).cast(),
            &raw mut size,
        )
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Numbers of SO_MEMINFO, and the place of the dropped packets among them (linux/sock_diag.h).
const SK_MEMINFO_VARS: usize = 9;
const SK_MEMINFO_DROPS: usize = 8;

/// Packets that the kernel has dropped since the socket was made: its receive buffer was full, or a checksum was wrong (SO_MEMINFO,
/// Linux 4.12). The number wraps.
pub fn drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut values = [0_u32; SK_MEMINFO_VARS];
    let mut size = size_of_val(&values) as libc::socklen_t;
    // SAFETY: `values` and `size` are valid for the kernel to write to, which writes no more than `size` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            (&raw mut values).cast(),
            &raw mut size,
        )
    };
    if result == 0 { Ok(values[SK_MEMINFO_DROPS]) } else { Err(io::Error::last_os_error()) }
}

/// Missing in the libc crate (asm-generic/socket.h).
const SO_NETNS_COOKIE: i32 = 71;

/// The cookie of the socket's network namespace, which is never reused (Linux 5.14).
pub fn netns_cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value: u64 = 0;
    let mut size = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `value` and `size` are valid for the kernel to write to.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, (&raw mut value).cast(), &raw mut size)
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Linux 5.0 (asm-generic/socket.h).
const SO_BINDTOIFINDEX: i32 = 62;

/// The only interface that a socket receives from (SO_BINDTODEVICE, a scoped address); 0 if it is not bound to one.
pub fn bound_interface(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut value: i32 = 0;
    let mut size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` and `size` are valid for the kernel to write to.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_BINDTOIFINDEX, (&raw mut value).cast(), &raw mut size)
    };
    if result == 0 { Ok(value.cast_unsigned()) } else { Err(io::Error::last_os_error()) }
}

/// Binds a socket to one interface; 0 unbinds it. An unbound socket needs no privilege for it (Linux 5.7).
pub fn bind_to_interface(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let value = index.cast_signed();
    // SAFETY: `value` is an int that lives for the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_BINDTOIFINDEX,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A filter that drops every packet: BPF_RET of 0 bytes (linux/bpf_common.h).
pub(crate) const NOTHING: libc::sock_filter = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };

/// Attaches a filter of classic BPF, in the place of one that is there.
pub(crate) fn attach_filter(socket: BorrowedFd<'_>, code: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
    // SAFETY: `program` names so many instructions, which the kernel reads, and both live for the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Removes the filter of a socket.
pub fn detach_filter(socket: BorrowedFd<'_>) -> io::Result<()> {
    let none: i32 = 0;
    // SAFETY: `none` is an int that lives for the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_DETACH_FILTER,
            (&raw const none).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The state of a TCP socket, as far as the rights of others depend on it (linux/tcp_states.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// Neither listening nor connected; bound or not.
    Closed,
    /// Listening.
    Listening,
    /// A connection, established or being opened: it may share its port with others.
    Connection,
}

/// The state of a TCP socket. getpeername(2) cannot tell it: it also fails while a socket is connecting (SYN-SENT).
pub fn tcp_state(socket: BorrowedFd<'_>) -> io::Result<TcpState> {
    // The first byte of `struct tcp_info`.
    let mut state: u8 = 0;
    let mut size = size_of::<u8>() as libc::socklen_t;
    // SAFETY: `state` and `size` are valid for the kernel to write to, which writes no more than `size` bytes.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut state).cast(), &raw mut size)
    };
    match (result, state) {
        (0, 7) => Ok(TcpState::Closed),
        (0, 10) => Ok(TcpState::Listening),
        (0, _) => Ok(TcpState::Connection),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The backlog of a listening TCP socket, as listen(2) has set it.
pub fn listen_backlog(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: integers only; all zeroes is valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` and `size` are valid for the kernel to write to, which writes no more than `size` bytes.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut size)
    };
    // A listening socket tells its backlog there (tcp_get_info, linux/net/ipv4/tcp.c).
    if result == 0 { Ok(info.tcpi_sacked) } else { Err(io::Error::last_os_error()) }
}

/// Missing in the libc crate (asm-generic/socket.h).
const SO_PEERGROUPS: i32 = 59;

/// Groups of one process. The kernel allows 65,536, which no process uses.
const GROUPS_MAX: usize = 4096;

/// The supplementary groups of the process that connected a Unix socket (SO_PEERGROUPS, Linux 4.13).
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; GROUPS_MAX];
    let mut size = (GROUPS_MAX * size_of::<u32>()) as libc::socklen_t;
    // SAFETY: `groups` has `size` bytes, and both are valid for the kernel to write to.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PEERGROUPS, groups.as_mut_ptr().cast(), &raw mut size)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    groups.truncate(size as usize / size_of::<u32>());
    Ok(groups)
}

/// SIOCOUTQ: of a Unix socket the memory of messages that its peer has not read yet, bytes, which counts against SO_SNDBUF and
/// exceeds their length (unix(7)); of a TCP socket the bytes that are not acknowledged, sent or not, and the FIN as one (tcp(7)).
pub fn unread_by_peer_bytes(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut value: libc::c_int = 0;
    // SAFETY: the request writes an int, and `value` is one.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut value) };
    if result == 0 { Ok(usize::try_from(value).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}

/// Joins a group for one source on an interface (RFC 3678 section 5.1, MCAST_JOIN_SOURCE_GROUP), for both families.
pub fn join_source(socket: BorrowedFd<'_>, interface: u32, group: IpAddr, source: IpAddr) -> io::Result<()> {
    source_membership(socket, MCAST_JOIN_SOURCE_GROUP, interface, group, source)
}

/// Leaves a group for one source.
pub fn leave_source(socket: BorrowedFd<'_>, interface: u32, group: IpAddr, source: IpAddr) -> io::Result<()> {
    source_membership(socket, MCAST_LEAVE_SOURCE_GROUP, interface, group, source)
}

/// linux/in.h.
const MCAST_JOIN_SOURCE_GROUP: libc::c_int = 46;
const MCAST_LEAVE_SOURCE_GROUP: libc::c_int = 47;

/// `struct group_source_req` of linux/in.h.
#[repr(C)]
struct GroupSource {
    interface: u32,
    group: libc::sockaddr_storage,
    source: libc::sockaddr_storage,
}

fn source_membership(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    interface: u32,
    group: IpAddr,
    source: IpAddr,
) -> io::Result<()> {
    let request = GroupSource { interface, group: storage(group), source: storage(source) };
    let level = if group.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
    // SAFETY: the structure is what the option takes, of the size given, and lives until after the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const request).cast(),
            size_of::<GroupSource>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn storage(address: IpAddr) -> libc::sockaddr_storage {
    // SAFETY: all-zero bytes are a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    match address {
        IpAddr::V4(address) => {
            // SAFETY: sockaddr_storage is large enough and aligned for every socket address.
            let place = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in>() };
            place.sin_family = libc::AF_INET as libc::sa_family_t;
            place.sin_addr.s_addr = u32::from_ne_bytes(address.octets());
        }
        IpAddr::V6(address) => {
            // SAFETY: as above.
            let place = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in6>() };
            place.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            place.sin6_addr.s6_addr = address.octets();
        }
    }
    storage
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn zero_busy_poll_is_always_allowed() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
        set_busy_poll(socket.as_fd(), 0).expect("lowering it needs no privilege");
        assert!(set_busy_poll(socket.as_fd(), u32::MAX).is_err(), "does not fit an int");
    }

    #[test]
    fn loopback_has_no_napi() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
        assert_eq!(incoming_napi_id(socket.as_fd()).expect("the option exists since 4.12"), 0);
    }

    #[test]
    fn what_finds_no_room_in_the_receive_buffer_is_counted() {
        let [sender, socket] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound"));
        let to = socket.local_addr().expect("bound");
        assert_eq!(drops(socket.as_fd()).expect("the option exists since 4.12"), 0);
        (0..2_000).for_each(|_| assert_eq!(sender.send_to(&[0; 1_000], to).expect("it is sent"), 1_000));
        socket.set_nonblocking(true).expect("it can be set");
        let received = std::iter::from_fn(|| socket.recv(&mut [0; 1_000]).ok()).count() as u32;
        let dropped = drops(socket.as_fd()).expect("as above");
        assert!(received > 0 && dropped > 0 && received + dropped == 2_000, "{received} {dropped}");
    }

    #[test]
    fn two_sockets_of_one_namespace_have_its_cookie() {
        let [one, two] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound"));
        let cookie = netns_cookie(one.as_fd()).expect("the option exists since 5.14");
        assert_eq!(netns_cookie(two.as_fd()).expect("as above"), cookie);
    }

    #[test]
    fn a_socket_listens_is_connected_or_is_neither() {
        use std::net::{TcpListener, TcpStream};
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        assert_eq!(tcp_state(listener.as_fd()).expect("it is TCP"), TcpState::Listening);
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        assert_eq!(tcp_state(stream.as_fd()).expect("it is TCP"), TcpState::Connection);
        // A socket that no longer listens is in neither state (inet_shutdown, Linux).
        // SAFETY: the descriptor is open for the length of the call.
        assert_eq!(unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) }, 0);
        assert_eq!(tcp_state(listener.as_fd()).expect("it is TCP"), TcpState::Closed);
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
        assert!(tcp_state(datagrams.as_fd()).is_err());
    }

    #[test]
    fn the_peer_of_a_socket_pair_has_groups() {
        let (one, _two) = std::os::unix::net::UnixStream::pair().expect("a pair");
        peer_groups(one.as_fd()).expect("the option exists since 4.13");
    }
}
