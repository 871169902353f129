//! The kernel's own TCP and UDP sockets (sock_diag(7)), which a steering entry could deprive of their packets.

use super::socket::messages;
use netlink_packet_core::NetlinkBuffer;
use netlink_sys::{Socket, SocketAddr as NetlinkAddress, protocols::NETLINK_SOCK_DIAG};
use rustix::io::Errno;
use rustix::net::{AddressFamily, ipproto};
use sidestep_control_api::message::Protocol;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

/// States of TCP (linux/tcp_states.h) in which a socket is not a connection: TIME-WAIT, closed, listening.
const NO_CONNECTION: [u8; 3] = [6, 7, 10];

/// SOCK_DIAG_BY_FAMILY, and netlink's own types.
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// NLM_F_REQUEST, alone and with NLM_F_DUMP.
const REQUEST: u16 = 1;
const DUMP: u16 = 0x301;

/// The sizes of a netlink header, of `struct inet_diag_req_v2`, and of `struct inet_diag_msg` (linux/inet_diag.h),
/// bytes.
const HEADER_BYTES: usize = 16;
const QUESTION_BYTES: usize = 56;
const ANSWER_BYTES: usize = 72;

/// INET_DIAG_SKV6ONLY: reported for IPv6 sockets without a peer.
const ONLY_V6: u16 = 11;

/// The TCP state of a listening socket.
const LISTENS: u8 = 10;

/// A socket of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelSocket {
    pub(crate) protocol: Protocol,
    pub(crate) local: SocketAddr,
    /// Unspecified if it is not connected.
    pub(crate) remote: SocketAddr,
    /// The state of linux/tcp_states.h; for UDP 1 if it is connected, else 7.
    pub(crate) state: u8,
    /// Its owner; root, if it is not accepted yet.
    pub(crate) uid: u32,
    /// Its inode as of fstat(2); 0 if it is not accepted yet.
    pub(crate) inode: u64,
    /// The interface that it is bound to; 0 for none, and if only /proc is available.
    pub(crate) device: u32,
    /// True if it is IPv6-only; false as well if only /proc is available.
    pub(crate) is_only_v6: bool,
}

impl KernelSocket {
    /// Returns whether it is a TCP connection that still sends or receives.
    pub(crate) fn is_connection(&self) -> bool {
        self.protocol == Protocol::Tcp && !NO_CONNECTION.contains(&self.state)
    }

    /// Returns whether it listens for TCP connections.
    pub(crate) fn listens(&self) -> bool {
        self.protocol == Protocol::Tcp && self.state == LISTENS
    }

    /// A socket that listens, or receives datagrams.
    #[cfg(test)]
    pub(crate) fn sample(protocol: Protocol, local: SocketAddr, remote: SocketAddr, uid: u32) -> Self {
        Self { protocol, local, remote, state: LISTENS, uid, inode: 4711, device: 0, is_only_v6: false }
    }
}

/// The sockets to search for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// All UDP sockets, or all listening TCP sockets.
    Receivers(Protocol),
    /// All with this local port. The kernel searches its whole table, which takes milliseconds.
    Port(Protocol, u16),
    /// The one TCP connection between these addresses whose frames come by this interface, by one lookup. A socket that
    /// is bound to another interface (SO_BINDTODEVICE) does not receive them.
    Connection(SocketAddr, SocketAddr, u32),
}

impl Wanted {
    fn protocol(self) -> Protocol {
        match self {
            Self::Port(protocol, _) | Self::Receivers(protocol) => protocol,
            Self::Connection(..) => Protocol::Tcp,
        }
    }

    /// `None` for any.
    fn port(self) -> Option<u16> {
        match self {
            Self::Receivers(_) => None,
            Self::Port(_, port) => Some(port),
            Self::Connection(local, ..) => Some(local.port()),
        }
    }

    /// The states to search for, a bit for each. For listeners alone, the kernel skips connections.
    fn states(self) -> u32 {
        if let Self::Receivers(Protocol::Tcp) = self { 1 << LISTENS } else { u32::MAX }
    }

    /// IPv6 sockets can have IPv4 connections; the kernel finds those by their IPv4 addresses.
    fn families(self) -> &'static [AddressFamily] {
        match self {
            Self::Port(..) | Self::Receivers(_) => &[AddressFamily::INET, AddressFamily::INET6],
            Self::Connection(SocketAddr::V4(_), ..) => &[AddressFamily::INET],
            Self::Connection(SocketAddr::V6(_), ..) => &[AddressFamily::INET6],
        }
    }
}

/// Returns whether the kernel has such a socket, in the calling thread's network namespace.
pub(crate) fn any(wanted: Wanted, is_it: &mut dyn FnMut(&KernelSocket) -> bool) -> io::Result<bool> {
    let mut found = false;
    let is_there = |socket: &KernelSocket| {
        wanted.port().is_none_or(|port| socket.local.port() == port) && 1_u32 << socket.state & wanted.states() != 0
    };
    let mut look = |socket: &KernelSocket| found |= is_there(socket) && is_it(socket);
    for family in wanted.families() {
        // Without the kernel's module (tcp_diag, udp_diag) the same data is in /proc, slower to read.
        let asked = if is_ambiguous(wanted) { Err(Errno::NOENT.into()) } else { ask(wanted, *family, &mut look) };
        asked.or_else(|_| read(wanted.protocol(), *family, &mut look))?;
    }
    Ok(found)
}

/// Returns whether ENOENT is ambiguous: it means "no such connection", and also "no tcp_diag". One dump finds out
/// which.
fn is_ambiguous(wanted: Wanted) -> bool {
    static HAS_TCP_DIAG: OnceLock<bool> = OnceLock::new();
    let dump = || ask(Wanted::Port(Protocol::Tcp, 0), AddressFamily::INET, &mut |_| ()).is_ok();
    matches!(wanted, Wanted::Connection(..)) && !HAS_TCP_DIAG.get_or_init(dump)
}

fn ask(wanted: Wanted, family: AddressFamily, look: &mut dyn FnMut(&KernelSocket)) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&NetlinkAddress::new(0, 0))?;
    socket.send(&question(wanted, family), 0)?;
    let is_one = matches!(wanted, Wanted::Connection(..));
    loop {
        let (packet, _) = socket.recv_from_full()?;
        for message in messages(&packet) {
            let buffer = NetlinkBuffer::new(message);
            match buffer.message_type() {
                BY_FAMILY => answer(wanted.protocol(), buffer.payload()).iter().for_each(&mut *look),
                DONE => return Ok(()),
                ERROR if is_one && errno(buffer.payload()) == -Errno::NOENT.raw_os_error() => return Ok(()),
                ERROR => return Err(io::Error::other("the kernel does not list its sockets")),
                _ => continue,
            }
            if is_one {
                return Ok(());
            }
        }
    }
}

/// The negative errno at the start of an ERROR message.
fn errno(payload: &[u8]) -> i32 {
    payload.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes))
}

fn question(wanted: Wanted, family: AddressFamily) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + QUESTION_BYTES);
    bytes.extend(((HEADER_BYTES + QUESTION_BYTES) as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(if matches!(wanted, Wanted::Connection(..)) { REQUEST } else { DUMP }.to_ne_bytes());
    bytes.extend([0; 8]);
    let number = match wanted.protocol() {
        Protocol::Tcp => ipproto::TCP,
        Protocol::Udp => ipproto::UDP,
    };
    // Family, protocol, no extras; states.
    bytes.extend([family.as_raw() as u8, number.as_raw().get() as u8, 0, 0]);
    bytes.extend(wanted.states().to_ne_bytes());
    bytes.extend(wanted.port().unwrap_or(0).to_be_bytes());
    // The peer's port, both addresses, the interface; no cookie.
    match wanted {
        Wanted::Port(..) | Wanted::Receivers(_) => bytes.extend([0; 38]),
        Wanted::Connection(local, remote, interface) => {
            bytes.extend(remote.port().to_be_bytes());
            bytes.extend(words(local.ip()));
            bytes.extend(words(remote.ip()));
            bytes.extend(interface.to_ne_bytes());
        }
    }
    bytes.extend([0xff; 8]);
    bytes
}

/// An address in four words, of which IPv4 takes the first.
fn words(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => std::array::from_fn(|index| address.octets().get(index).copied().unwrap_or(0)),
        IpAddr::V6(address) => address.octets(),
    }
}

fn answer(protocol: Protocol, bytes: &[u8]) -> Option<KernelSocket> {
    let (bytes, attributes) = bytes.split_first_chunk::<ANSWER_BYTES>()?;
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let is_v6 = i32::from(bytes[0]) == i32::from(AddressFamily::INET6.as_raw());
    let address = |at: usize| -> IpAddr {
        let words: [u8; 16] = std::array::from_fn(|index| bytes[at + index]);
        if is_v6 {
            Ipv6Addr::from(words).to_canonical()
        } else {
            IpAddr::from([words[0], words[1], words[2], words[3]])
        }
    };
    Some(KernelSocket {
        local: SocketAddr::new(address(8), port(4)),
        remote: SocketAddr::new(address(24), port(6)),
        state: bytes[1],
        uid: word(64),
        inode: word(68).into(),
        device: word(40),
        is_only_v6: attribute(attributes, ONLY_V6).is_some_and(|value| value.first() == Some(&1)),
        protocol,
    })
}

/// The value of the first attribute of this type (netlink(7): length, type, value, all padded to four bytes).
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some((header, _)) = bytes.split_first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = bytes.get(4..length)?;
        if u16::from_ne_bytes([header[2], header[3]]) == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
    None
}

/// Reads the sockets from proc(5), of the thread, as this process may have threads in several namespaces.
fn read(protocol: Protocol, family: AddressFamily, look: &mut dyn FnMut(&KernelSocket)) -> io::Result<()> {
    let name = match (protocol, family == AddressFamily::INET) {
        (Protocol::Tcp, true) => "tcp",
        (Protocol::Tcp, false) => "tcp6",
        (Protocol::Udp, true) => "udp",
        (Protocol::Udp, false) => "udp6",
    };
    let file = match File::open(format!("/proc/thread-self/net/{name}")) {
        // A kernel without IPv6 has no IPv6 sockets.
        Err(error) if error.kind() == io::ErrorKind::NotFound && family == AddressFamily::INET6 => return Ok(()),
        file => file?,
    };
    for line in BufReader::new(file).lines() {
        line_of(protocol, &line?).iter().for_each(&mut *look);
    }
    Ok(())
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...`; `None` for the headline.
fn line_of(protocol: Protocol, line: &str) -> Option<KernelSocket> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    Some(KernelSocket {
        protocol,
        local: address_of(words.get(1)?)?,
        remote: address_of(words.get(2)?)?,
        state: u8::from_str_radix(words.get(3)?, 16).ok()?,
        uid: words.get(7)?.parse().ok()?,
        inode: words.get(9)?.parse().ok()?,
        device: 0,
        is_only_v6: false,
    })
}

/// The address as 32-bit words in the machine's order, the port as a number.
fn address_of(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = [0; 16];
    for (place, word) in bytes.chunks_exact_mut(4).zip(address.as_bytes().chunks(8)) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        place.copy_from_slice(&word.to_ne_bytes());
    }
    let address = match address.len() {
        8 => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
        32 => Ipv6Addr::from(bytes).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    /// The index of `lo`, in every network namespace.
    const LOOPBACK: u32 = 1;

    /// Both sources agree about existing sockets.
    #[test]
    fn the_kernel_tells_of_connections_and_of_who_has_a_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let is_connection = |socket: &KernelSocket| socket.is_connection();
        let port = Wanted::Port(Protocol::Tcp, at.port());
        assert!(!any(port, &mut { is_connection }).unwrap(), "nobody has connected");
        let client = TcpStream::connect(at).unwrap();
        let from = client.local_addr().unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        type Source = fn(Wanted, AddressFamily, &mut dyn FnMut(&KernelSocket)) -> io::Result<()>;
        let sources: [Source; 2] = [ask, |wanted, family, look| read(wanted.protocol(), family, look)];
        for (number, source) in sources.into_iter().enumerate() {
            let mut seen = Vec::new();
            let asked = source(port, AddressFamily::INET, &mut |socket| seen.push(*socket));
            if number == 0 && asked.is_err() {
                eprintln!("skipped: this kernel has no tcp_diag");
                continue;
            }
            assert!(asked.is_ok());
            // A connection in the listener's queue counts, too.
            let accepted = seen.iter().find(|socket| socket.local == at && socket.remote == from).unwrap();
            assert!(accepted.is_connection());
            assert!(seen.iter().any(|socket| socket.local == at && !socket.is_connection()), "the listener");
            let (mut uid, wanted) = (None, udp.local_addr().unwrap());
            let mut look = |socket: &KernelSocket| {
                if socket.local == wanted {
                    uid = Some(socket.uid);
                }
            };
            source(Wanted::Port(Protocol::Udp, wanted.port()), AddressFamily::INET, &mut look).unwrap();
            assert_eq!(uid, Some(rustix::process::geteuid().as_raw()));
        }
        assert!(any(port, &mut |socket| socket.remote == from && socket.is_connection()).unwrap());
        assert!(!any(port, &mut |socket| socket.remote.port() == 1).unwrap());
        // By one lookup, from either end; a listener that would accept it is not a connection.
        let mut is_any = |socket: &KernelSocket| socket.is_connection();
        let mut has = |local, remote| any(Wanted::Connection(local, remote, LOOPBACK), &mut is_any).unwrap();
        assert!(has(at, from) && has(from, at));
        let stranger = SocketAddr::new([198, 18, 255, 1].into(), from.port());
        assert!(!has(at, stranger) && !has(stranger, at));
        // Since Linux 5.7 every user may bind a socket to an interface; before, it stays unbound.
        let is_bound = socket2::SockRef::from(&client).bind_device(Some(b"lo")).is_ok();
        assert!(has(from, at), "bound to the interface that its frames come by ({is_bound})");
    }

    #[test]
    fn lines_of_proc_are_read_and_what_is_none_is_passed_over() {
        let (one, port) = (u32::from_ne_bytes([198, 18, 0, 1]), 7000);
        let line =
            format!("   0: {one:08X}:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 1");
        let read = line_of(Protocol::Tcp, &line).unwrap();
        assert_eq!((read.local, read.uid, read.inode), ("198.18.0.1:7000".parse().unwrap(), 1000, 1));
        assert!(!read.is_connection() && read.listens());
        let headline =
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        assert_eq!(line_of(Protocol::Tcp, headline), None);
        assert_eq!(line_of(Protocol::Tcp, ""), None);
        assert_eq!(address_of("00:1"), None);
        assert_eq!(answer(Protocol::Tcp, &[0; ANSWER_BYTES - 1]), None);
    }

    #[test]
    fn attributes_are_found_and_broken_ones_end_the_search() {
        let bytes = [[5, 0, 8, 0], [7, 0, 0, 0], [5, 0, 11, 0], [1, 0, 0, 0]].concat();
        assert_eq!((attribute(&bytes, 8), attribute(&bytes, ONLY_V6)), (Some(&[7][..]), Some(&[1][..])));
        assert_eq!(attribute(&bytes, 3), None);
        assert_eq!(attribute(&[0; 16], 3), None, "one that has no length");
        assert_eq!(attribute(&[200, 0, 3, 0], 3), None, "one longer than there is");
    }

    /// Receivers are reported with the facts that distinguish sockets on one port.
    #[test]
    fn receivers_are_told_with_their_inode_device_and_families() {
        use rustix::net::sockopt::set_ipv6_v6only;
        use std::os::fd::AsFd;
        let Ok(both) = TcpListener::bind("[::]:0") else { return eprintln!("skipped: needs IPv6") };
        let only = rustix::net::socket(AddressFamily::INET6, rustix::net::SocketType::DGRAM, None).unwrap();
        set_ipv6_v6only(&only, true).unwrap();
        rustix::net::bind(&only, &"[::]:0".parse::<SocketAddr>().unwrap()).unwrap();
        let device = sidestep_sys::socket::bind_to_interface(only.as_fd(), LOOPBACK).map_or(0, |()| LOOPBACK);
        let inode = |fd: std::os::fd::BorrowedFd<'_>| rustix::fs::fstat(fd).unwrap().st_ino;
        let mut seen = Vec::new();
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let asked = ask(Wanted::Receivers(protocol), AddressFamily::INET6, &mut |socket| seen.push(*socket));
            if asked.is_err() {
                return eprintln!("skipped: this kernel has no sock_diag");
            }
        }
        let of = |fd: std::os::fd::BorrowedFd<'_>| *seen.iter().find(|socket| socket.inode == inode(fd)).unwrap();
        assert!(of(both.as_fd()).listens() && !of(both.as_fd()).is_only_v6);
        assert_eq!((of(only.as_fd()).is_only_v6, of(only.as_fd()).device), (true, device));
        assert!(seen.iter().all(|socket| socket.protocol == Protocol::Udp || socket.listens()));
    }
}
