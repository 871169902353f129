//! Proof that a socket holds its port.
//!
//! getsockname(2) is no proof: a TCP socket whose port the kernel chose at connect keeps reporting the port after a
//! reset, when any other process may have it. bind(2) is: it refuses a socket that has a port (EINVAL), whatever the address. But
//! it would bind a socket without a port, with the caller's rights, and control may bind every port. So control tries
//! to bind it to a port that is not available: one that a socket of control's own holds exclusively. A socket without a
//! port then stays without one (EADDRINUSE).

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, ipproto, socket_with};
use sidestep_control_api::message::Protocol;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

/// A port of each protocol that is exclusively ours, at any address. Nothing is received there.
#[derive(Debug)]
pub(crate) struct Guard {
    tcp: Held,
    udp: Held,
}

#[derive(Debug)]
struct Held {
    #[expect(dead_code, reason = "it is held, not used")]
    socket: OwnedFd,
    port: u16,
}

impl Guard {
    /// Opens the guard in the network namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self { tcp: hold(Protocol::Tcp)?, udp: hold(Protocol::Udp)? })
    }

    /// Returns whether a socket of this protocol and family, of the same network namespace, holds its port. Changes
    /// nothing.
    pub(crate) fn holds(&self, socket: BorrowedFd<'_>, protocol: Protocol, family: AddressFamily) -> io::Result<bool> {
        let port = match protocol {
            Protocol::Tcp => self.tcp.port,
            Protocol::Udp => self.udp.port,
        };
        match bind(socket, &any(family, port)) {
            Err(Errno::INVAL) => Ok(true),
            // It cannot be bound there; if it were, it would hold that port and not the one in question.
            Ok(()) | Err(Errno::ADDRINUSE) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn any(family: AddressFamily, port: u16) -> SocketAddr {
    let address: IpAddr =
        if family == AddressFamily::INET { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(address, port)
}

/// Binds without SO_REUSEADDR and SO_REUSEPORT, so that no other socket can share the port; a dual-stack IPv6 socket holds it
/// for both families.
fn hold(protocol: Protocol) -> io::Result<Held> {
    let (kind, number) = match protocol {
        Protocol::Tcp => (SocketType::STREAM, ipproto::TCP),
        Protocol::Udp => (SocketType::DGRAM, ipproto::UDP),
    };
    let open = |family| socket_with(family, kind, SocketFlags::CLOEXEC, Some(number));
    let (family, socket) = match open(AddressFamily::INET6) {
        Ok(socket) => {
            // The host's default may be different (net.ipv6.bindv6only).
            rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
            (AddressFamily::INET6, socket)
        }
        // A kernel without IPv6 has no such sockets to check.
        Err(Errno::AFNOSUPPORT) => (AddressFamily::INET, open(AddressFamily::INET)?),
        Err(error) => return Err(error.into()),
    };
    bind(&socket, &any(family, 0))?;
    let port = SocketAddr::try_from(getsockname(&socket)?).map_err(io::Error::from)?.port();
    Ok(Held { socket, port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::{set_socket_linger, set_socket_reuseaddr, set_socket_reuseport};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::Duration;

    fn families() -> Vec<(AddressFamily, &'static str)> {
        let has_v6 = UdpSocket::bind("[::1]:0").is_ok();
        let v6 = has_v6.then_some((AddressFamily::INET6, "[::1]:0"));
        [(AddressFamily::INET, "127.0.0.1:0")].into_iter().chain(v6).collect()
    }

    #[test]
    fn what_is_bound_listens_or_is_connected_holds_its_port() {
        let guard = Guard::open().unwrap();
        for (family, at) in families() {
            let holds = |socket: BorrowedFd<'_>, protocol| guard.holds(socket, protocol, family).unwrap();
            let udp = UdpSocket::bind(at).unwrap();
            assert!(holds(udp.as_fd(), Protocol::Udp));
            udp.connect(udp.local_addr().unwrap()).unwrap();
            assert!(holds(udp.as_fd(), Protocol::Udp), "connected");
            let listener = TcpListener::bind(at).unwrap();
            assert!(holds(listener.as_fd(), Protocol::Tcp));
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert!(holds(stream.as_fd(), Protocol::Tcp), "by connecting");
        }
    }

    /// The kernel releases a port that it chose itself when the connection ends; the socket still reports it.
    #[test]
    fn a_dead_connection_holds_nothing_and_gets_nothing() {
        let guard = Guard::open().unwrap();
        for (family, at) in families() {
            let listener = TcpListener::bind(at).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let port = stream.local_addr().unwrap().port();
            let accepted = listener.accept().unwrap().0;
            set_socket_linger(&accepted, Some(Duration::ZERO)).unwrap();
            drop(accepted);
            assert!(io::Read::read(&mut &stream, &mut [0; 1]).is_err(), "reset");
            assert_eq!(stream.local_addr().unwrap().port(), port, "which it had");
            // Checked twice: the first check has not bound it.
            for _ in 0..2 {
                assert!(!guard.holds(stream.as_fd(), Protocol::Tcp, family).unwrap());
            }
        }
    }

    #[test]
    fn an_unbound_socket_stays_unbound_however_willing_to_share_it_is() {
        let guard = Guard::open().unwrap();
        for (family, _) in families() {
            for (protocol, kind) in [(Protocol::Tcp, SocketType::STREAM), (Protocol::Udp, SocketType::DGRAM)] {
                let socket = rustix::net::socket(family, kind, None).unwrap();
                set_socket_reuseaddr(&socket, true).unwrap();
                set_socket_reuseport(&socket, true).unwrap();
                for _ in 0..2 {
                    assert!(!guard.holds(socket.as_fd(), protocol, family).unwrap());
                }
                assert_eq!(SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap().port(), 0);
            }
        }
    }
}
