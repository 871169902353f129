//! IPv4 (RFC 791).
//!
//! ```text
//!  0         1     2              4                6                 8     9          10         12       16            20
//!  | 4 | ihl | tos | total length | identification | flags | offset | ttl | protocol | checksum | source | destination |
//! ```

use crate::{Addresses, BuildError, Refusal, checksum::Sum};
use core::net::Ipv4Addr;

/// Bytes of the header without options.
pub const HEADER_BYTES: usize = 20;

const MORE_FRAGMENTS: u16 = 0x2000;
const DO_NOT_FRAGMENT: u16 = 0x4000;
const OFFSET: u16 = 0x1fff;

/// A packet that has been looked at. Its checksum has not: [`View::verify`] does.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; HEADER_BYTES],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Reads a packet and cuts off what the link padded.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(Refusal::Ipv4Truncated)?;
        let packet = bytes.get(..total_bytes(header)).ok_or(Refusal::Ipv4Truncated)?;
        Self::split(header, packet)
    }

    /// Reads the beginning of a packet, as an ICMP error quotes it: the payload may be cut short.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(Refusal::Ipv4Truncated)?;
        let packet = bytes.get(..total_bytes(header)).unwrap_or(bytes);
        Self::split(header, packet)
    }

    #[inline]
    fn split(header: &'a [u8; HEADER_BYTES], packet: &'a [u8]) -> Result<Self, Refusal> {
        if header[0] >> 4 != 4 {
            return Err(Refusal::Ipv4Version);
        }
        let header_bytes = usize::from(header[0] & 0xf) * 4;
        let options = packet.get(HEADER_BYTES..header_bytes).ok_or(Refusal::Ipv4HeaderLength)?;
        let payload = packet.get(header_bytes..).ok_or(Refusal::Ipv4HeaderLength)?;
        Ok(Self { header, options, payload })
    }

    /// Refuses a header whose checksum is wrong.
    #[inline]
    pub fn verify(&self) -> Result<(), Refusal> {
        // Mostly there are no options, and of 20 bytes the compiler knows that they are 20.
        let header = Sum::ZERO.with(self.header);
        let good = if self.options.is_empty() { header.is_good() } else { header.with(self.options).is_good() };
        if good { Ok(()) } else { Err(Refusal::Ipv4Checksum) }
    }

    /// Type of service: DSCP in the upper six bits, ECN in the lower two.
    pub fn type_of_service(&self) -> u8 {
        self.header[1]
    }

    /// The number that the fragments of one packet share.
    pub fn identification(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }

    #[inline]
    fn fragmentation(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]])
    }

    /// Whether routers must not cut it.
    pub fn is_do_not_fragment(&self) -> bool {
        self.fragmentation() & DO_NOT_FRAGMENT != 0
    }

    /// Whether it is a piece of a larger packet, the first one included.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.fragmentation() & (MORE_FRAGMENTS | OFFSET) != 0
    }

    /// Whether further pieces follow.
    pub fn has_more_fragments(&self) -> bool {
        self.fragmentation() & MORE_FRAGMENTS != 0
    }

    /// Where the piece begins in the whole payload, bytes.
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.fragmentation() & OFFSET) * 8
    }

    /// Hops it may still make.
    pub fn time_to_live(&self) -> u8 {
        self.header[8]
    }

    /// What the payload is ([`crate::protocol`]).
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.header[9]
    }

    /// The header's checksum.
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.header[10], self.header[11]])
    }

    /// Who sent it.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.header[12], self.header[13], self.header[14], self.header[15])
    }

    /// Whom it is for.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.header[16], self.header[17], self.header[18], self.header[19])
    }

    /// Both addresses.
    #[inline]
    pub fn addresses(&self) -> Addresses {
        Addresses::V4 { source: self.source(), destination: self.destination() }
    }

    /// The options, as they stand; mostly empty.
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    /// The payload, without padding.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Bytes of the header with its options.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        HEADER_BYTES + self.options.len()
    }
}

#[inline]
fn total_bytes(header: &[u8; HEADER_BYTES]) -> usize {
    usize::from(u16::from_be_bytes([header[2], header[3]]))
}

/// A header to write. Options and fragments are not made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who sends it.
    pub source: Ipv4Addr,
    /// Whom it is for.
    pub destination: Ipv4Addr,
    /// What the payload is ([`crate::protocol`]).
    pub protocol: u8,
    /// Hops it may make.
    pub time_to_live: u8,
    /// DSCP and ECN.
    pub type_of_service: u8,
    /// Only looked at if the packet is cut: a packet that must not be may have any (RFC 6864 section 4.1).
    pub identification: u16,
    /// Whether routers must not cut it.
    pub do_not_fragment: bool,
}

impl Header {
    /// Writes it at the beginning of `packet`, for `payload_bytes` behind it; gives the bytes it takes.
    pub fn write(&self, payload_bytes: usize, packet: &mut [u8]) -> Result<usize, BuildError> {
        let total = u16::try_from(HEADER_BYTES + payload_bytes).map_err(|_| BuildError::TooLong)?;
        let header = packet.first_chunk_mut::<HEADER_BYTES>().ok_or(BuildError::NoRoom)?;
        let fragmentation = if self.do_not_fragment { DO_NOT_FRAGMENT } else { 0 };
        header[0] = 0x45;
        header[1] = self.type_of_service;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[4..6].copy_from_slice(&self.identification.to_be_bytes());
        header[6..8].copy_from_slice(&fragmentation.to_be_bytes());
        header[8] = self.time_to_live;
        header[9] = self.protocol;
        header[10..12].copy_from_slice(&[0, 0]);
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        let checksum = Sum::ZERO.with(header).checksum();
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        Ok(HEADER_BYTES)
    }
}
