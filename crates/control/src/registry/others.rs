//! Protection of other users' sockets: an entry takes nothing from a kernel socket that its twin gives no right to.
//!
//! A stack that does not know a TCP connection of the kernel would reset it; and with SO_REUSEADDR another user can
//! bind its port and read it. Connections within this host are never steered. A multicast group is received by every
//! socket that has joined it, but by one stack alone once it is steered. A UDP port may be bound by several users who
//! all share addresses, one of them more specifically than the other; a TCP port may be bound by several, one of whom
//! listens. In all of these the kernel selects the receiver, and a steering entry would bypass that.

use super::Host;
use crate::netlink::sockets::{KernelSocket, Wanted};
use crate::twin::Place;
use sidestep_control_api::message::{Code, Entry, Protocol, Refusal};
use std::net::IpAddr;

/// A request for an entry, with the right to it.
pub(super) struct Claim<'a> {
    pub(super) entry: &'a Entry,
    pub(super) uid: u32,
    /// The inode of the socket that proves the right to it.
    pub(super) twin: u64,
    pub(super) place: Place<'a>,
}

impl Claim<'_> {
    /// Refuses an entry that would take packets away from others: checked when an entry is made, and again when it
    /// exists.
    pub(super) fn refuse_loss(&self, host: &dyn Host) -> Result<(), Refusal> {
        let (entry, local) = (self.entry, self.entry.local());
        let wanted = match entry {
            // A frame of a VLAN comes by another interface, on top of this one.
            Entry::Flow { protocol: Protocol::Tcp, remote, vlan: None, .. } if !local.ip().is_unspecified() => {
                Wanted::Connection(local, *remote, self.place.interface)
            }
            _ => Wanted::Port(entry.protocol(), local.port()),
        };
        let (mut is_cut, mut is_others) = (false, false);
        let mut look = |socket: &KernelSocket| {
            is_cut |= self.cuts(socket, host);
            is_others |= self.is_taken_from(socket);
            is_cut
        };
        let unknown = |error: std::io::Error| Refusal::new(Code::Kernel, self.thing(), error);
        host.has_socket(wanted, &mut look).map_err(unknown)?;
        if is_cut {
            let next = format!("wait until they are over: ss -tanp sport = :{}", local.port());
            return Err(Refusal::plain(Code::KernelConnections, self.thing()).next(next));
        }
        if is_others { Err(self.taken()) } else { Ok(()) }
    }

    /// Refuses an entry whose port another user has come to hold meanwhile; `sockets` are those that listen or receive
    /// datagrams.
    pub(super) fn refuse_latecomers(&self, sockets: &[KernelSocket]) -> Result<(), Refusal> {
        if sockets.iter().any(|socket| self.is_taken_from(socket)) { Err(self.taken()) } else { Ok(()) }
    }

    /// Refuses a feed's entry if another user's socket has a part of the traffic: packets of a shared port go to one of its sockets, and the
    /// others may not read them.
    pub(super) fn refuse_reading(&self, host: &dyn Host) -> Result<(), Refusal> {
        let mut is_others = false;
        let mut look = |socket: &KernelSocket| {
            is_others |= self.is_taken_from(socket) || self.is_connection_of_other(socket);
            is_others
        };
        let unknown = |error: std::io::Error| Refusal::new(Code::Kernel, self.thing(), error);
        let wanted = Wanted::Port(self.entry.protocol(), self.entry.local().port());
        host.has_socket(wanted, &mut look).map_err(unknown)?;
        if is_others { Err(self.taken()) } else { Ok(()) }
    }

    /// Returns whether it is another user's TCP connection of this traffic. One that was not accepted yet has no inode; it is its
    /// listener's.
    fn is_connection_of_other(&self, socket: &KernelSocket) -> bool {
        let is_peer = match self.entry {
            Entry::Flow { remote, .. } => *remote == socket.remote,
            Entry::Listener { .. } | Entry::Multicast { .. } => true,
        };
        let is_own = self.uid == 0 || socket.uid == self.uid || socket.inode == self.twin || socket.inode == 0;
        !is_own && is_peer && socket.is_connection() && meets(socket, self.entry.local().ip())
    }

    fn thing(&self) -> String {
        format!("cannot steer {}", self.entry)
    }

    fn taken(&self) -> Refusal {
        let reason = match self.entry {
            Entry::Multicast { .. } => "another user's socket has this port, and would no longer receive the group",
            Entry::Listener { .. } | Entry::Flow { .. } => "another user's socket has this port, too",
        };
        let kind = if self.entry.protocol() == Protocol::Tcp { "-tlnp" } else { "-uanp" };
        let next = format!("see whose: ss {kind} sport = :{}", self.entry.local().port());
        Refusal::new(Code::Taken, self.thing(), reason).next(next)
    }

    /// Returns whether it is a connection of the kernel that the entry would break.
    fn cuts(&self, socket: &KernelSocket, host: &dyn Host) -> bool {
        let is_its = match self.entry {
            Entry::Listener { protocol: Protocol::Tcp, .. } => true,
            Entry::Flow { protocol: Protocol::Tcp, remote, .. } => *remote == socket.remote,
            _ => false,
        };
        let (local, ours) = (self.entry.local().ip(), socket.local.ip());
        let is_there = local == ours || local.is_unspecified() && local.is_ipv4() == ours.is_ipv4();
        let peer = socket.remote.ip();
        let is_outside = || !peer.is_loopback() && !host.is_local(peer);
        is_its && socket.is_connection() && is_there && is_outside()
    }

    /// Returns whether another user's socket would receive some of the traffic in the kernel. Root may take anything.
    fn is_taken_from(&self, socket: &KernelSocket) -> bool {
        let (entry, local) = (self.entry, self.entry.local());
        if self.uid == 0 || socket.uid == self.uid || socket.inode == self.twin {
            return false;
        }
        let is_its = match (entry, entry.protocol()) {
            (_, Protocol::Tcp) => socket.listens(),
            // A connected socket receives from its peer alone.
            (Entry::Flow { remote, .. }, Protocol::Udp) => socket.remote.port() == 0 || socket.remote == *remote,
            (_, Protocol::Udp) => true,
        };
        is_its
            && socket.protocol == entry.protocol()
            && socket.local.port() == local.port()
            && meets(socket, local.ip())
            && self.place.is_reached_by(socket.device, entry.vlan())
    }
}

/// Returns whether a socket can receive packets sent to `wanted`: bound to it or to any address, or if `wanted` is any
/// address.
pub(super) fn meets(socket: &KernelSocket, wanted: IpAddr) -> bool {
    let bound = socket.local.ip();
    let takes_both = bound.is_ipv6() && !socket.is_only_v6;
    match (bound.is_unspecified(), wanted.is_unspecified()) {
        (false, false) => bound == wanted,
        // This host's own packets are never steered.
        (false, true) => bound.is_ipv4() == wanted.is_ipv4() && !bound.is_loopback(),
        (true, _) => bound.is_ipv4() == wanted.is_ipv4() || takes_both,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::Guard;
    use std::net::SocketAddr;

    const OURS: u32 = 1000;
    const THEIRS: u32 = 1001;

    fn socket(protocol: Protocol, local: &str, remote: &str, uid: u32) -> KernelSocket {
        KernelSocket::sample(protocol, local.parse().unwrap(), remote.parse().unwrap(), uid)
    }

    fn is_refused(entry: &Entry, uid: u32, twin: u64, socket: KernelSocket) -> bool {
        let guard = Guard::open().unwrap();
        let place = Place { namespace: 0, guard: &guard, interface: 2, links: &[] };
        Claim { entry, uid, twin, place }.refuse_latecomers(&[socket]).is_err()
    }

    #[test]
    fn what_the_kernel_would_give_to_another_user_is_not_taken() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let udp = |local: &str| Entry::Listener { protocol: Protocol::Udp, local: at(local), vlan: None };
        let tcp = |local: &str| Entry::Listener { protocol: Protocol::Tcp, local: at(local), vlan: None };
        let nobody = "0.0.0.0:0";
        let theirs = |local: &str| socket(Protocol::Udp, local, nobody, THEIRS);
        for (entry, theirs, expected) in [
            (udp("0.0.0.0:7"), theirs("198.18.0.1:7"), true),
            (udp("198.18.0.1:7"), theirs("0.0.0.0:7"), true),
            (udp("198.18.0.1:7"), theirs("198.18.0.1:7"), true),
            (udp("198.18.0.1:7"), theirs("198.18.0.2:7"), false),
            (udp("198.18.0.1:7"), theirs("198.18.0.1:8"), false),
            (udp("0.0.0.0:7"), theirs("127.0.0.1:7"), false),
            (udp("0.0.0.0:7"), theirs("[::]:7"), true),
            (udp("0.0.0.0:7"), KernelSocket { is_only_v6: true, ..theirs("[::]:7") }, false),
            (udp("[::]:7"), KernelSocket { is_only_v6: true, ..theirs("[::]:7") }, true),
            (udp("[::]:7"), theirs("0.0.0.0:7"), false),
            (udp("0.0.0.0:7"), KernelSocket { device: 3, ..theirs("0.0.0.0:7") }, false),
            (udp("0.0.0.0:7"), KernelSocket { device: 2, ..theirs("0.0.0.0:7") }, true),
            (tcp("0.0.0.0:7"), theirs("0.0.0.0:7"), false),
            (tcp("0.0.0.0:7"), socket(Protocol::Tcp, "198.18.0.1:7", nobody, THEIRS), true),
        ] {
            assert_eq!(is_refused(&entry, OURS, 1, theirs), expected, "{entry} {theirs:?}");
            assert!(!is_refused(&entry, 0, 1, theirs), "root may");
            assert!(!is_refused(&entry, THEIRS, 1, theirs), "one's own");
            assert!(!is_refused(&entry, OURS, theirs.inode, theirs), "made by another user, handed over");
        }
        let flow = |remote: &str| Entry::Flow {
            protocol: Protocol::Udp,
            local: at("198.18.0.1:7"),
            remote: at(remote),
            vlan: None,
        };
        let connected = socket(Protocol::Udp, "198.18.0.1:7", "198.18.0.2:8", THEIRS);
        assert!(is_refused(&flow("198.18.0.2:8"), OURS, 1, connected));
        assert!(!is_refused(&flow("198.18.0.2:9"), OURS, 1, connected), "another's datagrams");
    }
}
