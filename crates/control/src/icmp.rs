//! ICMP errors about packets that bypassed the kernel. The kernel receives them, and finds no socket for them.

use rustix::event::{PollFd, PollFlags};
use sidestep_control_api::message::{IcmpError, IcmpErrorKind, Protocol, Unreachable};
use sidestep_sys::icmp::ErrorSocket;
use sidestep_sys::problem::say;
use sidestep_wire::icmp::{Kind, Message, Quoted, parse_v4, parse_v6};
use sidestep_wire::{Addresses, ipv4, protocol};
use std::net::{Ipv6Addr, SocketAddr};

/// The part of a message that is read: routers send at most 576 or 1280 bytes (RFC 1812 section 4.3.2.3, RFC 4443
/// section 2.4).
const MESSAGE_BYTES_MAX: usize = 1500;

/// The most messages read per iteration: a flood must not delay the applications. The kernel drops the rest.
const MESSAGES_PER_TURN: usize = 64;

/// The sockets that receive them, of both families.
pub(crate) struct Errors(Vec<ErrorSocket>);

impl Errors {
    /// Opens the sockets. If that is not permitted, accelerated connections lack ICMP errors: the path MTU is then the
    /// interface's.
    pub(crate) fn open() -> Self {
        let open = |is_v6| {
            let opened = ErrorSocket::open(is_v6);
            if let (Err(error), false) = (&opened, is_v6) {
                say(format!("cannot receive ICMP, so accelerated TCP does not learn the path MTU: {error}"));
            }
            opened.ok()
        };
        Self([false, true].into_iter().filter_map(open).collect())
    }

    /// The descriptors to poll.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.iter().map(|socket| PollFd::new(socket, PollFlags::IN))
    }

    /// The errors since the last iteration.
    pub(crate) fn take(&self) -> Vec<IcmpError> {
        let (mut errors, mut buffer) = (Vec::new(), [0; MESSAGE_BYTES_MAX]);
        for socket in &self.0 {
            for _ in 0..MESSAGES_PER_TURN {
                let Ok((count, from)) = socket.receive(&mut buffer) else { break };
                let read = from.map_or_else(|| of_v4(&buffer[..count]), |from| of_v6(&buffer[..count], from));
                errors.extend(read);
            }
        }
        errors
    }
}

fn of_v4(packet: &[u8]) -> Option<IcmpError> {
    match parse_v4(ipv4::View::parse(packet).ok()?.payload()).ok()? {
        Message::Error { kind, quoted } => icmp_error(kind, &quoted),
        Message::Other { .. } => None,
    }
}

/// Parses an ICMPv6 error. It is sent to the source of the packet that it is about, whose address is therefore in the
/// checksum.
fn of_v6(message: &[u8], from: Ipv6Addr) -> Option<IcmpError> {
    /// The ICMP header, and the bytes before the source address in the IPv6 header.
    const QUOTED_SOURCE: usize = 8 + 8;
    let ours: [u8; 16] = message.get(QUOTED_SOURCE..QUOTED_SOURCE + 16)?.try_into().ok()?;
    let addresses = Addresses::V6 { source: from, destination: ours.into() };
    match parse_v6(message, &addresses).ok()? {
        Message::Error { kind, quoted } => icmp_error(kind, &quoted),
        Message::Other { .. } => None,
    }
}

fn unreachable(why: Unreachable) -> IcmpErrorKind {
    IcmpErrorKind::Unreachable { why }
}

fn icmp_error(kind: Kind, quoted: &Quoted<'_>) -> Option<IcmpError> {
    let kind = match kind {
        Kind::PacketTooBig { mtu } => IcmpErrorKind::TooBig { mtu },
        Kind::NetworkUnreachable => unreachable(Unreachable::Network),
        Kind::HostUnreachable => unreachable(Unreachable::Host),
        Kind::ProtocolUnreachable => unreachable(Unreachable::Protocol),
        Kind::PortUnreachable => unreachable(Unreachable::Port),
        // Precedence violation and cutoff (RFC 1812 section 5.2.7.1) also come from a filter.
        Kind::Prohibited | Kind::OtherUnreachable { .. } => unreachable(Unreachable::Prohibited),
        Kind::HopLimitExceeded | Kind::SourceRouteFailed => unreachable(Unreachable::HopLimit),
        Kind::ReassemblyTimeExceeded | Kind::ParameterProblem { .. } => return None,
    };
    let (local_port, remote_port) = quoted.ports()?;
    Some(IcmpError {
        protocol: if quoted.protocol == protocol::TCP { Protocol::Tcp } else { Protocol::Udp },
        local: SocketAddr::new(quoted.addresses.source(), local_port),
        remote: SocketAddr::new(quoted.addresses.destination(), remote_port),
        sequence: quoted.sequence().map(|sequence| sequence.0),
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_wire::icmp::write;

    /// TCP from port 7 to port 8, sequence number 9, in a packet of IPv6.
    fn sent() -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
        packet.extend([0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        packet.extend([0x20, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        packet.extend([0, 7, 0, 8, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        packet
    }

    #[test]
    fn a_router_is_understood_and_a_damaged_message_is_not() {
        let router: Ipv6Addr = "fe80::1".parse().unwrap();
        let addresses = Addresses::V6 { source: router, destination: "2001:2::1".parse().unwrap() };
        let mut message = [0; 256];
        let count = write(Kind::PacketTooBig { mtu: 1400 }, &sent(), &addresses, &mut message).unwrap();
        let error = of_v6(&message[..count], router).unwrap();
        assert_eq!((error.protocol, error.sequence), (Protocol::Tcp, Some(9)));
        assert_eq!((error.local, error.remote), ("[2001:2::1]:7".parse().unwrap(), "[2001:9::2]:8".parse().unwrap()));
        assert_eq!(error.kind, IcmpErrorKind::TooBig { mtu: 1400 });
        message[7] ^= 1;
        assert_eq!(of_v6(&message[..count], router), None, "its checksum is wrong");
        for end in 0..count {
            // However short, nothing panics.
            let _ = (of_v6(&message[..end], router), of_v4(&message[..end]));
        }
    }
}
