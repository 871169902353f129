//! The kernel's own TCP and UDP sockets (sock_diag(7)): what would lose its packets to a rule of steering.

use super::socket::messages;
use netlink_packet_core::NetlinkBuffer;
use netlink_sys::{Socket, SocketAddr as NetlinkAddress, protocols::NETLINK_SOCK_DIAG};
use rustix::io::Errno;
use rustix::net::{AddressFamily, ipproto};
use sidestep_plane::message::Protocol;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

/// States of TCP (linux/tcp_states.h) in which a socket is no connection: TIME-WAIT, closed, listening.
const NO_CONNECTION: [u8; 3] = [6, 7, 10];

/// SOCK_DIAG_BY_FAMILY, and netlink's own types.
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// NLM_F_REQUEST, alone and with NLM_F_DUMP.
const REQUEST: u16 = 1;
const DUMP: u16 = 0x301;

/// Bytes of a netlink header, of `struct inet_diag_req_v2`, and of an answer up to the user (linux/inet_diag.h).
const HEADER_BYTES: usize = 16;
const QUESTION_BYTES: usize = 56;
const ANSWER_BYTES: usize = 68;

/// A socket that the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelSocket {
    pub(crate) local: SocketAddr,
    /// Unspecified where it is not connected.
    pub(crate) remote: SocketAddr,
    state: u8,
    /// Who owns it; root, where nobody has accepted it yet.
    pub(crate) uid: u32,
}

impl KernelSocket {
    /// Whether it is a connection of TCP that still sends or receives.
    pub(crate) fn is_connection(&self) -> bool {
        !NO_CONNECTION.contains(&self.state)
    }
}

/// Which sockets are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// All with this local port. The kernel looks through its whole table, which takes milliseconds.
    Port(Protocol, u16),
    /// The one connection of TCP from here to there whose frames come by this interface, by one look into the table. A socket
    /// that is bound to another interface (SO_BINDTODEVICE) does not receive them.
    Connection(SocketAddr, SocketAddr, u32),
}

impl Wanted {
    fn protocol(self) -> Protocol {
        match self {
            Self::Port(protocol, _) => protocol,
            Self::Connection(..) => Protocol::Tcp,
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Port(_, port) => port,
            Self::Connection(local, ..) => local.port(),
        }
    }

    /// Sockets of IPv6 have connections of IPv4, too; the kernel finds those by their IPv4 addresses.
    fn families(self) -> &'static [AddressFamily] {
        match self {
            Self::Port(..) => &[AddressFamily::INET, AddressFamily::INET6],
            Self::Connection(SocketAddr::V4(_), ..) => &[AddressFamily::INET],
            Self::Connection(SocketAddr::V6(_), ..) => &[AddressFamily::INET6],
        }
    }
}

/// Whether the kernel has such a socket, in the calling thread's network namespace.
pub(crate) fn any(wanted: Wanted, is_it: &mut dyn FnMut(&KernelSocket) -> bool) -> io::Result<bool> {
    let mut found = false;
    let mut look = |socket: &KernelSocket| found |= socket.local.port() == wanted.port() && is_it(socket);
    for family in wanted.families() {
        // Without the kernel's module for it (tcp_diag, udp_diag) the same stands in /proc, slower to read.
        let asked = if is_ambiguous(wanted) { Err(Errno::NOENT.into()) } else { ask(wanted, *family, &mut look) };
        asked.or_else(|_| read(wanted.protocol(), *family, &mut look))?;
    }
    Ok(found)
}

/// "No such connection" is ENOENT, and so is "no tcp_diag": which of them it would be is found out once, by a dump.
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
                BY_FAMILY => answer(buffer.payload()).iter().for_each(&mut *look),
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

/// The negative errno that a message of type ERROR begins with.
fn errno(payload: &[u8]) -> i32 {
    payload.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes))
}

fn question(wanted: Wanted, family: AddressFamily) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + QUESTION_BYTES);
    bytes.extend(((HEADER_BYTES + QUESTION_BYTES) as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(if matches!(wanted, Wanted::Port(..)) { DUMP } else { REQUEST }.to_ne_bytes());
    bytes.extend([0; 8]);
    let number = match wanted.protocol() {
        Protocol::Tcp => ipproto::TCP,
        Protocol::Udp => ipproto::UDP,
    };
    // Family, protocol, no extras; all states.
    bytes.extend([family.as_raw() as u8, number.as_raw().get() as u8, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(wanted.port().to_be_bytes());
    // The peer's port, both addresses, the interface; no cookie.
    match wanted {
        Wanted::Port(..) => bytes.extend([0; 38]),
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

fn answer(bytes: &[u8]) -> Option<KernelSocket> {
    let bytes: &[u8; ANSWER_BYTES] = bytes.first_chunk()?;
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
        uid: u32::from_ne_bytes([bytes[64], bytes[65], bytes[66], bytes[67]]),
    })
}

/// The same from proc(5): of the thread, as this process may have threads in several namespaces.
fn read(protocol: Protocol, family: AddressFamily, look: &mut dyn FnMut(&KernelSocket)) -> io::Result<()> {
    let name = match (protocol, family == AddressFamily::INET) {
        (Protocol::Tcp, true) => "tcp",
        (Protocol::Tcp, false) => "tcp6",
        (Protocol::Udp, true) => "udp",
        (Protocol::Udp, false) => "udp6",
    };
    let file = match File::open(format!("/proc/thread-self/net/{name}")) {
        // A kernel without IPv6 has no sockets of it.
        Err(error) if error.kind() == io::ErrorKind::NotFound && family == AddressFamily::INET6 => return Ok(()),
        file => file?,
    };
    for line in BufReader::new(file).lines() {
        line_of(&line?).iter().for_each(&mut *look);
    }
    Ok(())
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid ...`; `None` for the headline.
fn line_of(line: &str) -> Option<KernelSocket> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
    Some(KernelSocket {
        local: address_of(words.get(1)?)?,
        remote: address_of(words.get(2)?)?,
        state: u8::from_str_radix(words.get(3)?, 16).ok()?,
        uid: words.get(7)?.parse().ok()?,
    })
}

/// The address as words of 32 bits in the machine's order, the port as a number.
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

    /// Of `lo`, in every network namespace.
    const LOOPBACK: u32 = 1;

    /// Both sources say the same of sockets that are there.
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
            // One that waits in the queue of the listener is a connection, too.
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
        // By one look, from either end; a listener that would take it is no connection.
        let mut is_any = |socket: &KernelSocket| socket.is_connection();
        let mut has = |local, remote| any(Wanted::Connection(local, remote, LOOPBACK), &mut is_any).unwrap();
        assert!(has(at, from) && has(from, at));
        let stranger = SocketAddr::new([198, 18, 255, 1].into(), from.port());
        assert!(!has(at, stranger) && !has(stranger, at));
        // Since Linux 5.7 everybody may bind a socket to an interface; before, it stays as it is.
        let is_bound = socket2::SockRef::from(&client).bind_device(Some(b"lo")).is_ok();
        assert!(has(from, at), "bound to the interface that its frames come by ({is_bound})");
    }

    #[test]
    fn lines_of_proc_are_read_and_what_is_none_is_passed_over() {
        let (one, port) = (u32::from_ne_bytes([198, 18, 0, 1]), 7000);
        let line =
            format!("   0: {one:08X}:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 1");
        let read = line_of(&line).unwrap();
        assert_eq!((read.local, read.uid), ("198.18.0.1:7000".parse().unwrap(), 1000));
        assert!(!read.is_connection());
        assert_eq!(line_of("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"), None);
        assert_eq!(line_of(""), None);
        assert_eq!(address_of("00:1"), None);
        assert_eq!(answer(&[0; ANSWER_BYTES - 1]), None);
    }
}
