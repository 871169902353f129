//! Proof that a port is held: the kernel's own socket, bound there under the kernel's own checks.
//!
//! Without it anybody on the list could take port 22 from sshd. The socket must be of this network namespace, too: in a
//! namespace of its own every user may bind every port.

use rustix::net::sockopt::{ipv6_v6only, socket_domain, socket_protocol, socket_type};
use rustix::net::{AddressFamily, SocketType, getsockname, ipproto};
use sidestep_plane::message::{Code, Entry, Protocol, Refusal};
use sidestep_plane::table::Link;
use sidestep_sys::socket::{bound_interface, netns_cookie};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

/// Where the traffic comes in that is to be steered.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The cookie of control's network namespace.
    pub(crate) namespace: u64,
    /// The stack's interface.
    pub(crate) interface: u32,
    /// All of them.
    pub(crate) links: &'a [Link],
}

impl Place<'_> {
    /// Whether a socket bound to `device` receives frames of this interface with this VLAN's tag. Two sockets bound to two
    /// devices may have the same port, each without leave of the other.
    fn is_reached_by(&self, device: u32, vlan: Option<u16>) -> bool {
        let is_its_vlan = |id| {
            let device = self.links.iter().find(|link| link.index == device);
            device.is_some_and(|device| device.vlan == Some((self.interface, id)))
        };
        device == 0 || vlan.map_or(device == self.interface, is_its_vlan)
    }
}

/// Refuses an entry that the socket does not prove a right to.
pub(crate) fn check(entry: &Entry, twin: BorrowedFd<'_>, place: Place<'_>) -> Result<(), Refusal> {
    let thing = || format!("cannot steer {entry}");
    let refuse = |reason: String| {
        Refusal::new(Code::TwinMismatch, thing(), reason).next("bind the kernel's socket before steering to its port")
    };
    let failed = |error: std::io::Error| Refusal::new(Code::TwinMismatch, thing(), format!("no socket: {error}"));
    if netns_cookie(twin).map_err(failed)? != place.namespace {
        return Err(Refusal::plain(Code::TwinNamespace, thing()).next("run both in one network namespace"));
    }
    let domain = socket_domain(twin).map_err(|error| failed(error.into()))?;
    let protocol = match socket_protocol(twin).map_err(|error| failed(error.into()))? {
        Some(protocol) if protocol == ipproto::TCP => Protocol::Tcp,
        Some(protocol) if protocol == ipproto::UDP => Protocol::Udp,
        _ => return Err(refuse("the kernel's socket is neither TCP nor UDP".into())),
    };
    if ![AddressFamily::INET, AddressFamily::INET6].contains(&domain) || protocol != entry.protocol() {
        return Err(refuse(format!("the kernel's socket is of another kind ({protocol})")));
    }
    // A raw socket has its protocol where others have their port.
    let kind = match protocol {
        Protocol::Tcp => SocketType::STREAM,
        Protocol::Udp => SocketType::DGRAM,
    };
    if socket_type(twin).map_err(|error| failed(error.into()))? != kind {
        return Err(refuse("the kernel's socket is a raw one".into()));
    }
    let device = bound_interface(twin).map_err(failed)?;
    if !place.is_reached_by(device, entry.vlan()) {
        return Err(refuse(format!("the kernel's socket is bound to another interface ({device})")));
    }
    let bound = getsockname(twin).map_err(|error| failed(error.into()))?;
    let bound = SocketAddr::try_from(bound).map_err(|error| failed(error.into()))?;
    let takes_both = domain == AddressFamily::INET6 && !ipv6_v6only(twin).unwrap_or(true);
    if bound.port() == entry.local().port() && covers(bound.ip(), entry, takes_both) {
        return Ok(());
    }
    Err(refuse(format!("the kernel's socket is bound to {bound}")))
}

/// Whether a socket bound to `bound` receives what is sent to the entry's address.
fn covers(bound: IpAddr, entry: &Entry, takes_both: bool) -> bool {
    let (bound, wanted) = (bound.to_canonical(), entry.local().ip().to_canonical());
    if !bound.is_unspecified() {
        // One bound to a group's address receives what is sent to the group.
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
        check(entry, twin.as_fd(), Place { namespace, interface: 2, links: &[] }).err().map(|refusal| refusal.code)
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
        // Loopback is number 1 in every namespace.
        let Ok(()) = sidestep_sys::socket::bind_to_interface(socket.as_fd(), 1) else {
            return eprintln!("skipped: needs Linux 5.7 or root");
        };
        let taken = |entry: &Entry, interface, links: &[Link]| {
            check(entry, socket.as_fd(), Place { namespace, interface, links }).is_ok()
        };
        assert!(taken(&entry(None), 1, &[]));
        assert!(!taken(&entry(None), 2, &[]), "the port of eth1 may be somebody else's");
        assert!(!taken(&entry(Some(100)), 1, &[]), "and that of a VLAN");
        let links = [vlan];
        assert!(taken(&entry(Some(100)), 2, &links), "the VLAN's own device");
        assert!(!taken(&entry(Some(101)), 2, &links) && !taken(&entry(None), 2, &links));
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
