//! The way of a frame to the sockets.

use crate::ip::{self, Checksums, Packet};
use crate::reason::{Counters, Reason};
use crate::udp::{SocketId, Udp};
use crate::{FlowError, Host};
use sidestep_wire::vlan::Tags;
use sidestep_wire::{Addresses, icmp, protocol, tcp, udp};
use std::net::SocketAddr;
use std::ops::Range;

/// A datagram and whom it is for. Its payload stays where it is, in the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram<'s> {
    /// The sockets, at least one; of a group each gets it.
    pub sockets: &'s [SocketId],
    /// From and to.
    pub addresses: Addresses,
    /// The sender's port.
    pub source_port: u16,
    /// The sockets' port.
    pub destination_port: u16,
    /// Where the payload stands in the frame.
    pub payload: Range<usize>,
    /// The interface that it came by (of a tagged frame the VLAN's).
    pub interface: u32,
    /// The frame's VLAN tags.
    pub tags: Tags,
    /// DSCP and ECN.
    pub type_of_service: u8,
    /// Hops it might still have made.
    pub time_to_live: u8,
}

impl Datagram<'_> {
    /// Who sent it.
    pub fn source(&self) -> SocketAddr {
        SocketAddr::new(self.addresses.source(), self.source_port)
    }

    /// What it was sent to.
    pub fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.addresses.destination(), self.destination_port)
    }
}

/// A segment of TCP for this host: what [`crate::tcp::Tcp::receive`] takes. Whose it is, is not decided yet.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'f> {
    /// From and to.
    pub addresses: Addresses,
    /// The segment, where it stands in the frame.
    pub view: tcp::View<'f>,
    /// Whether its checksum was vouched for; else it is still to be verified.
    pub is_verified: bool,
    /// The interface that it came by (of a tagged frame the VLAN's).
    pub interface: u32,
}

/// What became of a frame.
#[derive(Clone, Debug)]
pub enum Verdict<'s> {
    /// It is for these sockets.
    Deliver(Datagram<'s>),
    /// It is a segment of TCP.
    Segment(Segment<'s>),
    /// It says that a datagram of this socket did not arrive.
    Error(FlowError),
    /// It is for nobody here; it has been counted.
    Refused(Reason),
}

/// IP and UDP of one device.
#[derive(Debug, Default)]
pub struct Stack {
    host: Host,
    udp: Udp,
    counters: Counters,
}

impl Stack {
    /// A stack without sockets.
    pub fn new(host: Host) -> Self {
        Self { host, udp: Udp::default(), counters: Counters::default() }
    }

    /// After interfaces or addresses have changed. Sockets stay as they are.
    pub fn set_host(&mut self, host: Host) {
        self.host = host;
    }

    /// Who we are.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The sockets.
    pub fn udp(&mut self) -> &mut Udp {
        &mut self.udp
    }

    /// What has been done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes one frame, without check sequence.
    #[inline]
    pub fn receive<'s>(&'s mut self, frame: &'s [u8], checksums: Checksums) -> Verdict<'s> {
        let Self { host, udp, counters } = self;
        let verdict = match ip::receive(host, frame, checksums) {
            Ok(packet) if packet.protocol == protocol::UDP => datagram(udp, &packet, checksums).map(Verdict::Deliver),
            Ok(packet) if packet.protocol == protocol::TCP => segment(&packet, checksums).map(Verdict::Segment),
            Ok(packet) => flow_error(host, udp, &packet).map(Verdict::Error),
            Err(reason) => Err(reason),
        };
        match verdict {
            Ok(delivered @ (Verdict::Deliver(_) | Verdict::Segment(_))) => {
                counters.delivered += 1;
                delivered
            }
            Ok(told) => {
                counters.errors += 1;
                told
            }
            Err(reason) => {
                counters.refuse(reason);
                Verdict::Refused(reason)
            }
        }
    }
}

#[inline]
fn datagram<'s>(udp: &'s mut Udp, packet: &Packet<'_>, checksums: Checksums) -> Result<Datagram<'s>, Reason> {
    let view = udp::View::parse(packet.payload)?;
    if !checksums.pass(|| view.is_unfinished(&packet.addresses)) {
        view.verify(&packet.addresses)?;
    }
    let (source_port, destination_port) = (view.source_port(), view.destination_port());
    let sockets = udp.receivers(packet, source_port, destination_port);
    if sockets.is_empty() {
        return Err(if packet.is_group { Reason::NoMember } else { Reason::NoSocket });
    }
    let start = packet.payload_at + udp::HEADER_BYTES;
    Ok(Datagram {
        sockets,
        addresses: packet.addresses,
        source_port,
        destination_port,
        payload: start..start + view.payload().len(),
        interface: packet.interface,
        tags: packet.tags,
        type_of_service: packet.type_of_service,
        time_to_live: packet.time_to_live,
    })
}

/// RFC 9293 MUST-57: what is addressed to a group is no segment of anybody's connection.
#[inline]
fn segment<'f>(packet: &Packet<'f>, checksums: Checksums) -> Result<Segment<'f>, Reason> {
    if packet.is_group {
        return Err(Reason::NoMember);
    }
    let view = tcp::View::parse(packet.payload)?;
    let is_verified = checksums.pass(|| view.is_unfinished(&packet.addresses));
    Ok(Segment { addresses: packet.addresses, view, is_verified, interface: packet.interface })
}

/// Everything but UDP and TCP. ICMP's checksum is looked at whatever the card says of others: no card does it.
#[cold]
fn flow_error(host: &Host, udp: &Udp, packet: &Packet<'_>) -> Result<FlowError, Reason> {
    let message = match (packet.protocol, packet.addresses) {
        (protocol::ICMP, Addresses::V4 { .. }) => icmp::parse_v4(packet.payload)?,
        (protocol::ICMPV6, Addresses::V6 { .. }) => icmp::parse_v6(packet.payload, &packet.addresses)?,
        _ => return Err(Reason::OtherProtocol),
    };
    let icmp::Message::Error { kind, quoted } = message else { return Err(Reason::IcmpOther) };
    // Whoever makes up an error has to know addresses and ports of a flow that is open here.
    if quoted.protocol != protocol::UDP || !host.has(quoted.addresses.source()) {
        return Err(Reason::IcmpNoFlow);
    }
    let (source_port, destination_port) = quoted.ports().ok_or(Reason::IcmpNoFlow)?;
    let sender = udp.sender(&quoted.addresses, source_port, destination_port, packet.interface);
    let (socket, is_connected) = sender.ok_or(Reason::IcmpNoFlow)?;
    Ok(FlowError {
        socket,
        is_connected,
        destination: SocketAddr::new(quoted.addresses.destination(), destination_port),
        reporter: packet.addresses.source(),
        kind,
    })
}
