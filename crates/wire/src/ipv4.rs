//! IPv4 (RFC 791).
//!
//! ```text
//!  0         1     2              4                6                 8     9          10         12       16            20
//!  | 4 | ihl | tos | total length | identification | flags | offset | ttl | protocol | checksum | source | destination |
//! ```

use crate::{Addresses, BuildError, Refusal, checksum::Sum};
use core::net::Ipv4Addr;

/// The length of the header without options, bytes.
pub const HEADER_BYTES: usize = 20;

const MORE_FRAGMENTS: u16 = 0x2000;
const DO_NOT_FRAGMENT: u16 = 0x4000;
const OFFSET: u16 = 0x1fff;

/// A parsed packet. Its header checksum is not verified: see [`View::verify`].
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; HEADER_BYTES],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Parses a packet and removes the link's padding.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(Refusal::Ipv4Truncated)?;
        let packet = bytes.get(..total_bytes(header)).ok_or(Refusal::Ipv4Truncated)?;
        Self::split(header, packet)
    }

    /// Parses the beginning of a packet, as quoted by an ICMP error: the payload may be truncated.
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

    /// Refuses a header with a wrong checksum.
    #[inline]
    pub fn verify(&self) -> Result<(), Refusal> {
        // Mostly there are no options, and the compiler then knows that there are 20 bytes.
        let header = Sum::ZERO.with(self.header);
        let good = if self.options.is_empty() { header.is_good() } else { header.with(self.options).is_good() };
        if good { Ok(()) } else { Err(Refusal::Ipv4Checksum) }
    }

    /// Type of service: DSCP in the upper six bits, ECN in the lower two.
    pub fn type_of_service(&self) -> u8 {
        self.header[1]
    }

    /// The identification, which the fragments of one packet share.
    pub fn identification(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]])
    }

    #[inline]
    fn fragmentation(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]])
    }

    /// Returns whether routers must not fragment it.
    pub fn is_do_not_fragment(&self) -> bool {
        self.fragmentation() & DO_NOT_FRAGMENT != 0
    }

    /// Returns whether it is a fragment, the first one included.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.fragmentation() & (MORE_FRAGMENTS | OFFSET) != 0
    }

    /// Returns whether further fragments follow.
    pub fn has_more_fragments(&self) -> bool {
        self.fragmentation() & MORE_FRAGMENTS != 0
    }

    /// The offset of the fragment in the whole payload, bytes.
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.fragmentation() & OFFSET) * 8
    }

    /// The remaining time to live, hops.
    pub fn time_to_live(&self) -> u8 {
        self.header[8]
    }

    /// The protocol of the payload ([`crate::protocol`]).
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.header[9]
    }

    /// The header's checksum.
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.header[10], self.header[11]])
    }

    /// The source address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.header[12], self.header[13], self.header[14], self.header[15])
    }

    /// The destination address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.header[16], self.header[17], self.header[18], self.header[19])
    }

    /// Both addresses.
    #[inline]
    pub fn addresses(&self) -> Addresses {
        Addresses::V4 { source: self.source(), destination: self.destination() }
    }

    /// The raw options; mostly empty.
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    /// The payload, without padding.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The length of the header with its options, bytes.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        HEADER_BYTES + self.options.len()
    }
}

#[inline]
fn total_bytes(header: &[u8; HEADER_BYTES]) -> usize {
    usize::from(u16::from_be_bytes([header[2], header[3]]))
}

/// A header to write, without options and not of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The source address.
    pub source: Ipv4Addr,
    /// The destination address.
    pub destination: Ipv4Addr,
    /// The protocol of the payload ([`crate::protocol`]).
    pub protocol: u8,
    /// The time to live, hops.
    pub time_to_live: u8,
    /// DSCP and ECN.
    pub type_of_service: u8,
    /// The identification. It matters only for fragments: a packet that may not be fragmented can have any (RFC 6864
    /// section 4.1).
    pub identification: u16,
    /// True if routers must not fragment it.
    pub do_not_fragment: bool,
}

impl Header {
    /// Writes it at the beginning of `packet`, for `payload_bytes` after it; returns its length in bytes.
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
