//! The header of a flow, built once and patched for every datagram.

use crate::route::Resolved;
use sidestep_wire::checksum::{Sum, udp_form};
use sidestep_wire::ethernet::{self, EtherType};
use sidestep_wire::udp::{self, Checksum};
use sidestep_wire::vlan::{Tag, Tags};
use sidestep_wire::{Addresses, BuildError, MacAddress, ipv4, ipv6, protocol};
use std::fmt;

/// The longest header: Ethernet with two tags, IPv6, UDP.
const HEADER_BYTES_MAX: usize = ethernet::HEADER_BYTES_MAX + ipv6::HEADER_BYTES + udp::HEADER_BYTES;

/// Ethernet without tags, IPv4, UDP: what nearly every datagram has.
const HEADER_BYTES_V4: usize = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES + udp::HEADER_BYTES;

/// Hops that a packet may make unless told otherwise (RFC 1700; Linux has the same).
pub const HOP_LIMIT_DEFAULT: u8 = 64;

/// Everything that the datagrams of a flow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The source and the destination.
    pub addresses: Addresses,
    /// Our port.
    pub source_port: u16,
    /// The peer's port.
    pub destination_port: u16,
    /// The interface's Ethernet address.
    pub source_mac: MacAddress,
    /// The next hop's Ethernet address.
    pub next_hop_mac: MacAddress,
    /// VLAN tags.
    pub tags: Tags,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Hops that the datagrams may make.
    pub hop_limit: u8,
    /// DSCP and ECN.
    pub type_of_service: u8,
    /// True if datagrams get a checksum; over IPv6 they must.
    pub checksum: Checksum,
    /// True if routers must not cut the datagrams (over IPv6 none does).
    pub do_not_fragment: bool,
}

impl Flow {
    /// A flow along a resolved route, with the defaults of Linux. `None` if the destination is of another family than the route.
    pub fn along(way: &Resolved, source_port: u16, destination: std::net::SocketAddr) -> Option<Self> {
        Some(Self {
            addresses: Addresses::new(way.source, destination.ip())?,
            source_port,
            destination_port: destination.port(),
            source_mac: way.source_mac,
            next_hop_mac: way.next_hop_mac,
            tags: way.vlan.map_or(Tags::NONE, |vlan| Tags::one(Tag::customer(vlan))),
            mtu: way.mtu,
            hop_limit: if destination.ip().is_multicast() { 1 } else { HOP_LIMIT_DEFAULT },
            type_of_service: 0,
            checksum: Checksum::Computed,
            do_not_fragment: true,
        })
    }
}

/// The reason why a datagram was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The payload does not fit the path: EMSGSIZE.
    TooLong {
        /// The longest that does.
        payload_max: usize,
        /// The path's MTU, bytes of the whole IP packet.
        mtu: u32,
    },
    /// The frame's buffer ends before the payload does.
    NoRoom,
}

impl fmt::Display for SendError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { payload_max, mtu } => {
                write!(formatter, "the path takes {payload_max} bytes in one datagram (MTU {mtu})")
            }
            Self::NoRoom => formatter.write_str("the frame's buffer is shorter than its header and payload"),
        }
    }
}

impl std::error::Error for SendError {}

/// The header of a flow's datagrams: lengths, identification and checksums are all that is written per datagram.
///
/// The sums over what never changes are kept unfolded, so a datagram adds its lengths and payload to them: cheaper than an
/// update by differences (RFC 1624), which would first take the old values out.
#[derive(Clone, Debug)]
pub struct FlowHeader {
    template: [u8; HEADER_BYTES_MAX],
    bytes: usize,
    is_v6: bool,
    checksum: Checksum,
    do_not_fragment: bool,
    identification: u16,
    /// The IPv4 header without total length and identification.
    ip_sum: Sum,
    /// Pseudo header and ports, without the lengths.
    udp_sum: Sum,
    mtu: u32,
    payload_max: usize,
    /// The bytes that a frame of the sender holds.
    frame_bytes_max: usize,
}

impl FlowHeader {
    /// Builds it. Refused: no checksum over IPv6.
    pub fn new(flow: &Flow) -> Result<Self, BuildError> {
        let mut template = [0; HEADER_BYTES_MAX];
        let is_v6 = matches!(flow.addresses, Addresses::V6 { .. });
        let ether_type = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let (destination, source, tags) = (flow.next_hop_mac, flow.source_mac, flow.tags);
        let ip_at = ethernet::Header { destination, source, tags, ether_type }.write(&mut template)?;
        let udp_at = ip_at + write_ip(flow, &mut template[ip_at..])?;
        let header = udp::Header { source_port: flow.source_port, destination_port: flow.destination_port };
        header.write(&flow.addresses, 0, flow.checksum, &mut template[udp_at..])?;
        template[udp_at + 4..udp_at + 8].fill(0);
        if !is_v6 {
            template[ip_at + 2..ip_at + 6].fill(0);
            template[ip_at + 10..ip_at + 12].fill(0);
        }
        let mut built = Self {
            template,
            bytes: udp_at + udp::HEADER_BYTES,
            is_v6,
            checksum: flow.checksum,
            do_not_fragment: flow.do_not_fragment,
            identification: flow.source_port,
            ip_sum: Sum::ZERO.with(&template[ip_at..udp_at]),
            udp_sum: flow.addresses.pseudo_header(protocol::UDP, 0).with(&template[udp_at..udp_at + 4]),
            mtu: 0,
            payload_max: 0,
            frame_bytes_max: usize::MAX,
        };
        built.set_mtu(flow.mtu);
        Ok(built)
    }

    /// Bytes in front of the payload: where the caller puts it into the frame.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The longest payload of one datagram: what the path takes, and a frame of the sender holds.
    #[inline]
    pub fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// The longest payload that the path takes in one packet, whatever a frame holds.
    pub fn path_payload_max(&self) -> usize {
        let ip_bytes = if self.is_v6 { ipv6::HEADER_BYTES } else { ipv4::HEADER_BYTES };
        // IPv4 counts its header into a length of 16 bits, UDP its own.
        let most = usize::from(u16::MAX) - if self.is_v6 { 0 } else { ip_bytes };
        let room = (self.mtu as usize).saturating_sub(ip_bytes).min(most);
        room.saturating_sub(udp::HEADER_BYTES)
    }

    /// The sender's frames hold no more than this, header and payload, however large the path's MTU is.
    pub fn set_frame_bytes_max(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
        self.set_mtu(self.mtu);
    }

    /// The path's MTU, bytes of the whole IP packet.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// After the path's MTU has changed.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.mtu = mtu;
        self.payload_max = self.path_payload_max().min(self.frame_bytes_max.saturating_sub(self.bytes));
    }

    /// Writes the header in front of `payload_bytes` that stand in `frame` from [`FlowHeader::bytes`] on; gives the frame's
    /// length. Whoever puts it on a wire pads it to what the wire needs.
    #[inline]
    pub fn write(&mut self, frame: &mut [u8], payload_bytes: usize) -> Result<usize, SendError> {
        if payload_bytes > self.payload_max {
            return Err(SendError::TooLong { payload_max: self.payload_max, mtu: self.mtu });
        }
        let total = self.bytes + payload_bytes;
        let (header, payload) =
            frame.get_mut(..total).and_then(|frame| frame.split_at_mut_checked(self.bytes)).ok_or(SendError::NoRoom)?;
        self.copy_template(header);
        let Some((front, udp)) = header.split_last_chunk_mut::<{ udp::HEADER_BYTES }>() else {
            return Err(SendError::NoRoom);
        };
        // Bounded by `payload_max`, so it fits 16 bits.
        let length = (udp::HEADER_BYTES + payload_bytes) as u16;
        let [high, low] = length.to_be_bytes();
        (udp[4], udp[5]) = (high, low);
        if self.checksum == Checksum::Computed {
            let sum = self.udp_sum.with_u16(length).with_u16(length).with(payload);
            [udp[6], udp[7]] = udp_form(sum.checksum()).to_be_bytes();
        }
        self.patch_ip(front, length);
        Ok(total)
    }

    /// A copy of a length that the compiler knows is a few moves, of any other a call.
    #[inline]
    fn copy_template(&self, header: &mut [u8]) {
        match header.first_chunk_mut::<HEADER_BYTES_V4>() {
            Some(header) if self.bytes == HEADER_BYTES_V4 => {
                let (template, _) = self.template.split_at(HEADER_BYTES_V4);
                header.copy_from_slice(template);
            }
            _ => header.copy_from_slice(&self.template[..self.bytes]),
        }
    }

    #[inline]
    fn patch_ip(&mut self, front: &mut [u8], udp_bytes: u16) {
        if self.is_v6 {
            if let Some(ip) = front.last_chunk_mut::<{ ipv6::HEADER_BYTES }>() {
                [ip[4], ip[5]] = udp_bytes.to_be_bytes();
            }
        } else if let Some(ip) = front.last_chunk_mut::<{ ipv4::HEADER_BYTES }>() {
            let total = ipv4::HEADER_BYTES as u16 + udp_bytes;
            let sum = self.ip_sum.with_u16(total).with_u16(self.identification);
            [ip[2], ip[3]] = total.to_be_bytes();
            [ip[4], ip[5]] = self.identification.to_be_bytes();
            [ip[10], ip[11]] = sum.checksum().to_be_bytes();
            // Only what may be cut needs a number of its own (RFC 6864 section 4.1).
            self.identification = self.identification.wrapping_add(u16::from(!self.do_not_fragment));
        }
    }
}

fn write_ip(flow: &Flow, packet: &mut [u8]) -> Result<usize, BuildError> {
    match flow.addresses {
        Addresses::V4 { source, destination } => ipv4::Header {
            source,
            destination,
            protocol: protocol::UDP,
            time_to_live: flow.hop_limit,
            type_of_service: flow.type_of_service,
            identification: 0,
            do_not_fragment: flow.do_not_fragment,
        }
        .write(0, packet),
        Addresses::V6 { source, destination } => ipv6::Header {
            source,
            destination,
            protocol: protocol::UDP,
            hop_limit: flow.hop_limit,
            traffic_class: flow.type_of_service,
            flow_label: 0,
        }
        .write(0, packet),
    }
}
