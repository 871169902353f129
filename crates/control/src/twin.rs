//! Proof that a port is held: the kernel twin, a kernel socket bound there under the kernel's own checks.
//!
//! Without it any permitted user could take port 22 from sshd. The socket must be of this network namespace: in a
//! namespace of its own every user may bind every port.
//!
//! A socket proves a right to traffic that the kernel would deliver to it, and to no other socket, if it were not
//! steered:
//!
//! | socket | proves |
//! |---|---|
//! | TCP, listening | its port: the kernel lets no other socket listen beside it |
//! | TCP, bound | connections from its port to anywhere, each by name: others may listen there if both share addresses |
//! | TCP, connected or connecting | the connection that it is: its port may be shared by thousands |
//! | UDP, bound | its port, and groups |
//! | UDP, connected | the conversation with its peer, and groups |

use crate::guard::Guard;
use rustix::net::sockopt::{ipv6_v6only, socket_domain, socket_protocol, socket_type};
use rustix::net::{AddressFamily, SocketType, getpeername, getsockname, ipproto};
use sidestep_control_api::message::{Code, Entry, Protocol, Refusal};
use sidestep_control_api::table::Link;
use sidestep_sys::socket::{TcpState, bound_interface, netns_cookie, tcp_state};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

/// The interface on which traffic is to be steered.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The cookie of control's network namespace.
    pub(crate) namespace: u64,
    /// The guard of that namespace.
    pub(crate) guard: &'a Guard,
    /// The stack's interface.
    pub(crate) interface: u32,
    /// All interfaces.
    pub(crate) links: &'a [Link],
}

impl Place<'_> {
    /// Returns whether a socket bound to `device` receives frames of this interface with this VLAN tag. Two sockets
    /// bound to two devices may have the same port, each independently of the other.
    pub(crate) fn is_reached_by(&self, device: u32, vlan: Option<u16>) -> bool {
        let is_its_vlan = |id| {
            let device = self.links.iter().find(|link| link.index == device);
            device.is_some_and(|device| device.vlan == Some((self.interface, id)))
        };
        device == 0 || vlan.map_or(device == self.interface, is_its_vlan)
    }
}

/// Refuses an entry that the socket does not prove a right to.
pub(crate) fn check(entry: &Entry, twin: BorrowedFd<'_>, place: Place<'_>) -> Result<(), Refusal> {
    let shown = ShownTwin { entry, twin, place };
    let domain = shown.check_kind()?;
    let bound = shown.check_bound(domain)?;
    shown.check_state(bound)
}

/// A socket that is shown for an entry.
struct ShownTwin<'a> {
    entry: &'a Entry,
    twin: BorrowedFd<'a>,
    place: Place<'a>,
}

impl ShownTwin<'_> {
    fn thing(&self) -> String {
        format!("cannot steer {}", self.entry)
    }

    fn refuse(&self, reason: String) -> Refusal {
        Refusal::new(Code::TwinMismatch, self.thing(), reason)
            .next("bind the kernel's socket before steering to its port")
    }

    fn failed(&self, error: &io::Error) -> Refusal {
        Refusal::new(Code::TwinMismatch, self.thing(), format!("no socket: {error}"))
    }

    /// Checks namespace, protocol and type of the socket; returns its address family.
    fn check_kind(&self) -> Result<AddressFamily, Refusal> {
        let failed = |error: io::Error| self.failed(&error);
        if netns_cookie(self.twin).map_err(failed)? != self.place.namespace {
            return Err(Refusal::plain(Code::TwinNamespace, self.thing()).next("run both in one network namespace"));
        }
        let domain = socket_domain(self.twin).map_err(|error| failed(error.into()))?;
        let (protocol, kind) = match socket_protocol(self.twin).map_err(|error| failed(error.into()))? {
            Some(protocol) if protocol == ipproto::TCP => (Protocol::Tcp, SocketType::STREAM),
            Some(protocol) if protocol == ipproto::UDP => (Protocol::Udp, SocketType::DGRAM),
            _ => return Err(self.refuse("the kernel's socket is neither TCP nor UDP".into())),
        };
        if ![AddressFamily::INET, AddressFamily::INET6].contains(&domain) || protocol != self.entry.protocol() {
            return Err(self.refuse(format!("the kernel's socket is of another kind ({protocol})")));
        }
        // A raw socket has its protocol in the place of the port.
        if socket_type(self.twin).map_err(|error| failed(error.into()))? != kind {
            return Err(self.refuse("the kernel's socket is a raw one".into()));
        }
        Ok(domain)
    }

    /// Checks that the socket is bound to the entry's port and holds it; returns the address that it is bound to.
    fn check_bound(&self, domain: AddressFamily) -> Result<SocketAddr, Refusal> {
        let Self { entry, twin, place } = *self;
        let failed = |error: io::Error| self.failed(&error);
        let device = bound_interface(twin).map_err(failed)?;
        if !place.is_reached_by(device, entry.vlan()) {
            return Err(self.refuse(format!("the kernel's socket is bound to another interface ({device})")));
        }
        let bound = name(twin).map_err(failed)?;
        let takes_both = domain == AddressFamily::INET6 && !ipv6_v6only(twin).unwrap_or(true);
        if bound.port() != entry.local().port() || !covers(bound.ip(), entry, takes_both) {
            return Err(self.refuse(format!("the kernel's socket is bound to {bound}")));
        }
        if !place.guard.holds(twin, entry.protocol(), domain).map_err(failed)? {
            return Err(self.refuse(format!("the kernel's socket was bound to {bound} and no longer holds the port")));
        }
        Ok(bound)
    }

    /// Checks that the socket's state and peer prove the traffic of the entry, and that it is still bound to `bound`.
    fn check_state(&self, bound: SocketAddr) -> Result<(), Refusal> {
        let Self { entry, twin, .. } = *self;
        let failed = |error: io::Error| self.failed(&error);
        let is_tcp = entry.protocol() == Protocol::Tcp;
        let state = if is_tcp { Some(tcp_state(twin).map_err(failed)?) } else { None };
        // A connecting socket has no peer name yet.
        let peer = getpeername(twin).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
        // Its owner may have closed that port and bound another one since: then the guard found the other one held.
        let now = name(twin).map_err(failed)?;
        if now != bound {
            return Err(self.refuse(format!("the kernel's socket was bound to {bound} and is bound to {now}")));
        }
        if is_proved(entry, state, bound, peer) {
            return Ok(());
        }
        Err(match (state, peer) {
            (Some(TcpState::Closed), _) => self
                .refuse("the kernel's socket does not listen, so others may listen on its port".into())
                .next("call listen(2) before steering to the port"),
            (_, Some(peer)) => {
                self.refuse(format!("the kernel's socket is connected to {peer}, which proves that connection alone"))
            }
            (_, None) => self.refuse("the kernel's socket is connecting, and may share its port".into()),
        })
    }
}

fn name(twin: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    SocketAddr::try_from(getsockname(twin)?).map_err(Into::into)
}

/// Returns whether a socket in this TCP `state` holds the traffic of the entry.
fn is_proved(entry: &Entry, state: Option<TcpState>, bound: SocketAddr, peer: Option<SocketAddr>) -> bool {
    let is_connection = state.map_or(peer.is_some(), |state| state == TcpState::Connection);
    match entry {
        Entry::Listener { protocol: Protocol::Tcp, .. } => state == Some(TcpState::Listening),
        Entry::Listener { protocol: Protocol::Udp, .. } => !is_connection,
        Entry::Flow { local, remote, .. } if is_connection => {
            bare(bound) == *local && peer.is_some_and(|peer| bare(peer) == *remote)
        }
        Entry::Flow { .. } => true,
        // Every user may join a group; its owner is checked elsewhere.
        Entry::Multicast { .. } => true,
    }
}

/// An address in the form of an entry: without the parts that no packet carries.
fn bare(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns whether a socket bound to `bound` receives packets to the entry's address.
fn covers(bound: IpAddr, entry: &Entry, takes_both: bool) -> bool {
    let (bound, wanted) = (bound.to_canonical(), entry.local().ip().to_canonical());
    if !bound.is_unspecified() {
        // A socket bound to a group's address receives packets to the group.
        return bound == wanted;
    }
    bound.is_ipv4() == wanted.is_ipv4() || (bound.is_ipv6() && takes_both)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsFd;

    fn listener(protocol: Protocol, local: &str) -> Entry {
        Entry::Listener { protocol, local: local.parse().unwrap(), vlan: None }
    }

    fn code(entry: &Entry, twin: impl AsFd, namespace: u64) -> Option<Code> {
        let guard = Guard::open().unwrap();
        let place = Place { namespace, guard: &guard, interface: 2, links: &[] };
        check(entry, twin.as_fd(), place).err().map(|refusal| refusal.code)
    }

    #[test]
    fn only_the_holder_of_a_port_may_have_it() {
        let any = UdpSocket::bind("0.0.0.0:0").unwrap();
        let one = UdpSocket::bind("127.0.0.1:0").unwrap();
        let here = netns_cookie(any.as_fd()).unwrap();
        let (port, other) = (any.local_addr().unwrap().port(), one.local_addr().unwrap().port());
        let udp = |local: String| listener(Protocol::Udp, &local);
        assert_eq!(code(&udp(format!("0.0.0.0:{port}")), &any, here), None);
        assert_eq!(code(&udp(format!("198.18.0.1:{port}")), &any, here), None);
        assert_eq!(code(&udp(format!("[2001:2::1]:{port}")), &any, here), Some(Code::TwinMismatch));
        assert_eq!(code(&udp(format!("198.18.0.1:{other}")), &any, here), Some(Code::TwinMismatch), "its port");
        assert_eq!(code(&udp(format!("127.0.0.1:{other}")), &one, here), None);
        assert_eq!(code(&udp(format!("0.0.0.0:{other}")), &one, here), Some(Code::TwinMismatch), "too much");
        assert_eq!(code(&udp(format!("198.18.0.1:{port}")), &any, here + 1), Some(Code::TwinNamespace));
        let tcp = listener(Protocol::Tcp, &format!("198.18.0.1:{port}"));
        assert_eq!(code(&tcp, &any, here), Some(Code::TwinMismatch), "its protocol");
        let group = Entry::Multicast { group: format!("239.1.1.1:{port}").parse().unwrap(), source: None, vlan: None };
        assert_eq!(code(&group, &any, here), None);
        assert_eq!(code(&group, &one, here), Some(Code::TwinMismatch));
        assert_eq!(code(&tcp, File::open("/dev/null").unwrap(), here), Some(Code::TwinMismatch), "no socket");
        let unbound = socket_unbound();
        assert_eq!(code(&udp(format!("0.0.0.0:{port}")), &unbound, here), Some(Code::TwinMismatch));
    }

    #[test]
    fn a_port_of_one_interface_is_no_port_of_another() {
        use crate::testing::link;
        let vlan = Link { vlan: Some((2, 100)), ..link(1, "eth1.100") };
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let namespace = netns_cookie(socket.as_fd()).unwrap();
        let local = socket.local_addr().unwrap();
        let entry = |vlan| Entry::Listener { protocol: Protocol::Udp, local, vlan };
        // Loopback has index 1 in every namespace.
        let Ok(()) = sidestep_sys::socket::bind_to_interface(socket.as_fd(), 1) else {
            return eprintln!("skipped: needs Linux 5.7 or root");
        };
        let guard = Guard::open().unwrap();
        let taken = |entry: &Entry, interface, links: &[Link]| {
            check(entry, socket.as_fd(), Place { namespace, guard: &guard, interface, links }).is_ok()
        };
        assert!(taken(&entry(None), 1, &[]));
        assert!(!taken(&entry(None), 2, &[]), "the port of eth1 may be somebody else's");
        assert!(!taken(&entry(Some(100)), 1, &[]), "and that of a VLAN");
        let links = [vlan];
        assert!(taken(&entry(Some(100)), 2, &links), "the VLAN's own device");
        assert!(!taken(&entry(Some(101)), 2, &links) && !taken(&entry(None), 2, &links));
    }

    /// With SO_REUSEADDR any user may bind a port that another server listens on later.
    #[test]
    fn a_port_of_tcp_is_proved_by_listening_and_a_connection_by_itself() {
        let here = netns_cookie(UdpSocket::bind("127.0.0.1:0").unwrap().as_fd()).unwrap();
        let twin = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&twin, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
        let at = SocketAddr::try_from(getsockname(&twin).unwrap()).unwrap();
        let port = listener(Protocol::Tcp, &at.to_string());
        let flow = |local, remote| Entry::Flow { protocol: Protocol::Tcp, local, remote, vlan: None };
        let elsewhere: SocketAddr = "198.18.0.2:9".parse().unwrap();
        assert_eq!(code(&port, &twin, here), Some(Code::TwinMismatch), "it does not listen");
        assert_eq!(code(&flow(at, elsewhere), &twin, here), None, "a connection from there");
        rustix::net::listen(&twin, 4).unwrap();
        assert_eq!(code(&port, &twin, here), None);
        assert_eq!(code(&flow(at, elsewhere), &twin, here), None, "one that it may accept");
        // A connection shares its port, with its listener or with other connections from here.
        let client = std::net::TcpStream::connect(at).unwrap();
        let from = client.local_addr().unwrap();
        let accepted = rustix::net::accept(&twin).unwrap();
        assert_eq!(code(&port, &accepted, here), Some(Code::TwinMismatch), "the port of its listener");
        assert_eq!(code(&flow(at, elsewhere), &accepted, here), Some(Code::TwinMismatch), "another's connection");
        assert_eq!(code(&flow(at, from), &accepted, here), None, "its own");
        assert_eq!(code(&flow(from, elsewhere), &client, here), Some(Code::TwinMismatch));
        rustix::net::shutdown(&twin, rustix::net::Shutdown::Both).unwrap();
        assert_eq!(code(&port, &twin, here), Some(Code::TwinMismatch), "it listens no more");
    }

    /// A connecting socket has a port and no peer yet.
    #[test]
    fn a_socket_that_is_connecting_proves_nothing() {
        let here = netns_cookie(UdpSocket::bind("127.0.0.1:0").unwrap().as_fd()).unwrap();
        let flags = rustix::net::SocketFlags::NONBLOCK;
        let full = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&full, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
        rustix::net::listen(&full, 0).unwrap();
        let at = SocketAddr::try_from(getsockname(&full).unwrap()).unwrap();
        // Linux accepts one connection more than the queue's length; the next one gets no answer.
        let connect = || {
            let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
            let _ = rustix::net::connect(&socket, &at);
            socket
        };
        let sockets: Vec<_> = (0..4).map(|_| connect()).collect();
        let last = sockets.last().unwrap();
        assert_eq!(tcp_state(last.as_fd()).unwrap(), TcpState::Connection);
        assert!(!matches!(getpeername(last), Ok(Some(_))), "it is connecting");
        let local = SocketAddr::try_from(getsockname(last).unwrap()).unwrap();
        let flow = |remote| Entry::Flow { protocol: Protocol::Tcp, local, remote, vlan: None };
        assert_eq!(code(&flow("198.18.0.2:9".parse().unwrap()), last, here), Some(Code::TwinMismatch));
        assert_eq!(code(&flow(at), last, here), Some(Code::TwinMismatch));
    }

    #[test]
    fn a_connected_socket_of_udp_proves_its_conversation_and_no_port() {
        let twin = UdpSocket::bind("127.0.0.1:0").unwrap();
        let here = netns_cookie(twin.as_fd()).unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        twin.connect(peer).unwrap();
        let local = twin.local_addr().unwrap();
        let flow = |remote| Entry::Flow { protocol: Protocol::Udp, local, remote, vlan: None };
        assert_eq!(code(&listener(Protocol::Udp, &local.to_string()), &twin, here), Some(Code::TwinMismatch));
        assert_eq!(code(&flow("198.18.0.2:9".parse().unwrap()), &twin, here), Some(Code::TwinMismatch));
        assert_eq!(code(&flow(peer), &twin, here), None);
    }

    /// The kernel releases a port that it chose itself; the socket still reports it. Another socket of this host may get
    /// the port before the test does: then another port is tried.
    #[test]
    fn a_dead_socket_proves_nothing() {
        let released = |local| TcpListener::bind(local).is_ok();
        assert!((0..20).any(|_| released(dead_socket())), "no port came free");
    }

    /// Asks with the twin of a connection that was reset; returns the port that it had.
    fn dead_socket() -> SocketAddr {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = netns_cookie(server.as_fd()).unwrap();
        let twin = std::net::TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let local = twin.local_addr().unwrap();
        let accepted = server.accept().unwrap().0;
        rustix::net::sockopt::set_socket_linger(&accepted, Some(std::time::Duration::ZERO)).unwrap();
        drop(accepted);
        assert!(io::Read::read(&mut &twin, &mut [0; 1]).is_err(), "reset");
        assert_eq!(twin.local_addr().unwrap(), local, "it names the port all the same");
        let flow = Entry::Flow { protocol: Protocol::Tcp, local, remote: "198.18.0.2:9".parse().unwrap(), vlan: None };
        assert_eq!(code(&flow, &twin, here), Some(Code::TwinMismatch));
        assert_eq!(code(&listener(Protocol::Tcp, &local.to_string()), &twin, here), Some(Code::TwinMismatch));
        local
    }

    fn socket_unbound() -> std::os::fd::OwnedFd {
        rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap()
    }

    #[test]
    fn a_socket_for_both_families_proves_both() {
        let Ok(both) = TcpListener::bind("[::]:0") else { return eprintln!("skipped: needs IPv6") };
        let here = netns_cookie(both.as_fd()).unwrap();
        let port = both.local_addr().unwrap().port();
        assert_eq!(code(&listener(Protocol::Tcp, &format!("198.18.0.1:{port}")), &both, here), None);
        assert_eq!(code(&listener(Protocol::Tcp, &format!("[2001:2::1]:{port}")), &both, here), None);
    }
}
