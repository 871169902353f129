//! The entrance of received frames: IP first, then UDP or TCP.

use crate::drop_reason::{DropReason, FrameCounters};
use crate::ip::{self, Checksums, Packet};
use crate::tcp::{ConnectionId, Incoming, Instant, Output, Received, Tcp};
use crate::udp::{SocketId, Udp};
use crate::{FlowError, Host};
use sidestep_wire::vlan::Tags;
use sidestep_wire::{Addresses, icmp, protocol, tcp, udp};
use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;

/// The application's view of payload in the frame: returns the number of bytes that it has taken.
type Deliver<'a> = &'a mut dyn FnMut(ConnectionId, &[u8]) -> usize;

/// A received datagram and the sockets that get it. Its payload stays in the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram<'s> {
    /// The sockets, at least one; of a group each gets it.
    pub sockets: &'s [SocketId],
    /// The source and the destination of the IP header.
    pub addresses: Addresses,
    /// The sender's port.
    pub source_port: u16,
    /// The sockets' port.
    pub destination_port: u16,
    /// The place of the payload in the frame.
    pub payload: Range<usize>,
    /// The interface that it came by (of a tagged frame the VLAN's).
    pub interface: u32,
    /// The frame's VLAN tags.
    pub tags: Tags,
    /// DSCP and ECN.
    pub type_of_service: u8,
    /// TTL or hop limit.
    pub time_to_live: u8,
}

impl Datagram<'_> {
    /// The sender's address and port.
    pub fn source(&self) -> SocketAddr {
        SocketAddr::new(self.addresses.source(), self.source_port)
    }

    /// The address and port that it was sent to.
    pub fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.addresses.destination(), self.destination_port)
    }
}

/// The outcome of a received frame.
#[derive(Clone, Debug)]
pub enum Verdict<'s> {
    /// A datagram for these sockets.
    Deliver(Datagram<'s>),
    /// A segment of TCP. It has been processed: what became of it.
    Segment(Received),
    /// An ICMP error about a datagram that one of the sockets sent.
    Error(FlowError),
    /// Nothing for this host's sockets; it has been counted.
    Refused(DropReason),
}

/// IP, UDP and TCP of one device.
pub struct Stack {
    host: Host,
    udp: Udp,
    tcp: Tcp,
    counters: FrameCounters,
}

impl Stack {
    /// A stack without UDP sockets, with the connections and listeners of `tcp`.
    pub fn new(host: Host, tcp: Tcp) -> Self {
        Self { host, udp: Udp::default(), tcp, counters: FrameCounters::default() }
    }

    /// Replaces interfaces and addresses after a change. Sockets and connections stay as they are.
    pub fn set_host(&mut self, host: Host) {
        self.host = host;
    }

    /// The interfaces and addresses of this host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The UDP sockets, for calls of the application.
    pub fn udp(&mut self) -> &mut Udp {
        &mut self.udp
    }

    /// The connections and listeners of TCP.
    #[inline]
    pub fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    /// The connections and listeners of TCP, for calls of the application.
    #[inline]
    pub fn tcp_mut(&mut self) -> &mut Tcp {
        &mut self.tcp
    }

    /// The number of frames delivered and dropped.
    pub fn counters(&self) -> &FrameCounters {
        &self.counters
    }

    /// Takes one frame, without its check sequence.
    ///
    /// A datagram stays in the frame: the verdict names its sockets and the place of its payload. A segment of TCP is processed
    /// at once. `deliver` sees its payload in the frame, if it is in order and nothing older waits to be read, and returns the
    /// number of bytes it has taken; answers leave by `output`. `clock` is read for segments alone.
    #[inline]
    pub fn receive<'s>(
        &'s mut self,
        clock: impl FnOnce() -> Instant,
        frame: &'s [u8],
        checksums: Checksums,
        output: &mut dyn Output,
        deliver: Deliver<'_>,
    ) -> Verdict<'s> {
        let Self { host, udp, tcp, counters } = self;
        let verdict = match ip::receive(host, frame, checksums) {
            Ok(packet) if packet.protocol == protocol::UDP => datagram(udp, &packet, checksums).map(Verdict::Deliver),
            Ok(packet) if packet.protocol == protocol::TCP => {
                segment(tcp, clock, &packet, checksums, output, deliver).map(Verdict::Segment)
            }
            Ok(packet) => flow_error(host, udp, &packet).map(Verdict::Error),
            Err(reason) => Err(reason),
        };
        match &verdict {
            Ok(Verdict::Error(_)) => counters.errors += 1,
            Ok(_) => counters.delivered += 1,
            Err(reason) => counters.refuse(*reason),
        }
        verdict.unwrap_or_else(Verdict::Refused)
    }

    /// Does what is due: timers, ACKs that waited for data to ride on, segments that `output` had no room for. Returns the
    /// number of connections that had something to do. To be called after each burst of frames, and not later than
    /// [`Stack::next_poll`].
    #[inline]
    pub fn poll(&mut self, now: Instant, output: &mut dyn Output) -> usize {
        self.tcp.poll(now, output)
    }

    /// The time at which [`Stack::poll`] has something to do, if nothing else happens; `None`: never. See [`Tcp::next_poll`].
    pub fn next_poll(&self) -> Option<Instant> {
        self.tcp.next_poll()
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("connections", &self.tcp.connections()).finish_non_exhaustive()
    }
}

#[inline]
fn datagram<'s>(udp: &'s mut Udp, packet: &Packet<'_>, checksums: Checksums) -> Result<Datagram<'s>, DropReason> {
    let view = udp::View::parse(packet.payload)?;
    if !checksums.pass(|| view.is_unfinished(&packet.addresses)) {
        view.verify(&packet.addresses)?;
    }
    let (source_port, destination_port) = (view.source_port(), view.destination_port());
    let sockets = udp.receivers(packet, source_port, destination_port);
    if sockets.is_empty() {
        return Err(if packet.is_group { DropReason::NoMember } else { DropReason::NoSocket });
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
fn segment(
    tcp: &mut Tcp,
    clock: impl FnOnce() -> Instant,
    packet: &Packet<'_>,
    checksums: Checksums,
    output: &mut dyn Output,
    deliver: Deliver<'_>,
) -> Result<Received, DropReason> {
    if packet.is_group {
        return Err(DropReason::NoMember);
    }
    let segment = tcp::View::parse(packet.payload)?;
    let is_verified = checksums.pass(|| segment.is_unfinished(&packet.addresses));
    let incoming = Incoming { addresses: &packet.addresses, segment, is_verified };
    match tcp.receive(clock(), &incoming, output, deliver) {
        Received::Damaged => Err(DropReason::TcpChecksum),
        Received::Nobody => Err(DropReason::NoSocket),
        received => Ok(received),
    }
}

/// Everything but UDP and TCP. ICMP's checksum is looked at whatever the card says of others: no card does it.
#[cold]
fn flow_error(host: &Host, udp: &Udp, packet: &Packet<'_>) -> Result<FlowError, DropReason> {
    let message = match (packet.protocol, packet.addresses) {
        (protocol::ICMP, Addresses::V4 { .. }) => icmp::parse_v4(packet.payload)?,
        (protocol::ICMPV6, Addresses::V6 { .. }) => icmp::parse_v6(packet.payload, &packet.addresses)?,
        _ => return Err(DropReason::OtherProtocol),
    };
    let icmp::Message::Error { kind, quoted } = message else { return Err(DropReason::IcmpOther) };
    // Whoever makes up an error has to know addresses and ports of a flow that is open here.
    if quoted.protocol != protocol::UDP || !host.has(quoted.addresses.source()) {
        return Err(DropReason::IcmpNoFlow);
    }
    let (source_port, destination_port) = quoted.ports().ok_or(DropReason::IcmpNoFlow)?;
    let sender = udp.sender(&quoted.addresses, source_port, destination_port, packet.interface);
    let (socket, is_connected) = sender.ok_or(DropReason::IcmpNoFlow)?;
    Ok(FlowError {
        socket,
        is_connected,
        destination: SocketAddr::new(quoted.addresses.destination(), destination_port),
        reporter: packet.addresses.source(),
        kind,
    })
}
