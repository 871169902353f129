//! Proof that a port is held: the kernel's own socket, bound there under the kernel's own checks.
//!
//! Without it anybody on the list could take port 22 from sshd. The socket must be of this network namespace, too: in a
//! namespace of its own every user may bind every port.

use rustix::net::sockopt::{ipv6_v6only, socket_domain, socket_protocol};
use rustix::net::{AddressFamily, getsockname, ipproto};
use sidestep_plane::message::{Code, Entry, Protocol, Refusal};
use sidestep_sys::socket::netns_cookie;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

/// Refuses an entry that the socket does not prove a right to. `namespace` is the cookie of control's namespace.
pub(crate) fn check(entry: &Entry, twin: BorrowedFd<'_>, namespace: u64) -> Result<(), Refusal> {
    let thing = || format!("cannot steer {entry}");
    let refuse = |reason: String| {
        Refusal::new(Code::TwinMismatch, thing(), reason).next("bind the kernel's socket before steering to its port")
    };
    let failed = |error: std::io::Error| Refusal::new(Code::TwinMismatch, thing(), format!("no socket: {error}"));
    if netns_cookie(twin).map_err(failed)? != namespace {
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
        check(entry, twin.as_fd(), namespace).err().map(|refusal| refusal.code)
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

    fn socket_unbound() -> std::os::fd::OwnedFd {
        rustix::net::socket(AddressFamily::INET, rustix::net::SocketType::DGRAM, None).unwrap()
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
