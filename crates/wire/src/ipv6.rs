//! IPv6 (RFC 8200). Extension headers are walked and not interpreted.
//!
//! ```text
//!  0                              4                6             7           8           24            40
//!  | 6 | traffic class | flow label | payload length | next header | hop limit |  source   | destination |
//! ```

use crate::{Addresses, BuildError, Refusal};
use core::net::Ipv6Addr;

/// The length of the header without extensions, bytes.
pub const HEADER_BYTES: usize = 40;

/// The most extension headers that are walked: RFC 8200 section 4.1 lists seven places, and mobility makes eight.
pub(crate) const EXTENSIONS_MAX: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;

/// The content of a fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The offset of the fragment in the whole, bytes.
    pub offset: usize,
    /// True if further fragments follow.
    pub more: bool,
    /// The identification, which the fragments of one packet share.
    pub identification: u32,
}

impl Fragment {
    /// Returns whether the fragment is the whole packet: it is treated as if it had no such header (RFC 6946).
    pub fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// A parsed packet.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; HEADER_BYTES],
    extensions: &'a [u8],
    fragment: Option<Fragment>,
    protocol: u8,
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Parses a packet, walks its extension headers and removes the link's padding.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Refusal::Ipv6Truncated)?;
        let rest = rest.get(..payload_bytes(header)).ok_or(Refusal::Ipv6Truncated)?;
        Self::split(header, rest)
    }

    /// Parses the beginning of a packet, as quoted by an ICMP error: the payload may be truncated.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Refusal::Ipv6Truncated)?;
        let rest = rest.get(..payload_bytes(header)).unwrap_or(rest);
        Self::split(header, rest)
    }

    #[inline]
    fn split(header: &'a [u8; HEADER_BYTES], rest: &'a [u8]) -> Result<Self, Refusal> {
        if header[0] >> 4 != 6 {
            return Err(Refusal::Ipv6Version);
        }
        let plain = Self { header, extensions: &[], fragment: None, protocol: header[6], payload: rest };
        if is_extension(header[6]) { plain.walk() } else { Ok(plain) }
    }

    /// Walks the extension headers up to the payload. In a later fragment it stops after the fragment header, because
    /// the data after it is from the middle of the packet.
    fn walk(mut self) -> Result<Self, Refusal> {
        let all = self.payload;
        let mut walked = 0;
        while is_extension(self.protocol) {
            if walked == EXTENSIONS_MAX {
                return Err(Refusal::Ipv6TooManyExtensions);
            }
            walked += 1;
            let head = self.payload.first_chunk::<8>().ok_or(Refusal::Ipv6ExtensionTruncated)?;
            let bytes = extension_bytes(self.protocol, head[1]);
            if self.protocol == FRAGMENT {
                self.fragment = Some(fragment(head));
            }
            self.protocol = head[0];
            self.payload = self.payload.get(bytes..).ok_or(Refusal::Ipv6ExtensionTruncated)?;
            if self.fragment.is_some_and(|fragment| fragment.offset != 0) {
                break;
            }
        }
        self.extensions = &all[..all.len() - self.payload.len()];
        Ok(self)
    }

    /// DSCP in the upper six bits, ECN in the lower two.
    pub fn traffic_class(&self) -> u8 {
        self.header[0] << 4 | self.header[1] >> 4
    }

    /// The flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.header[1] & 0xf, self.header[2], self.header[3]])
    }

    /// The remaining hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.header[7]
    }

    /// The protocol of the payload, after all extension headers ([`crate::protocol`]).
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The content of the fragment header, if there is one (the last one counts).
    #[inline]
    pub fn fragment(&self) -> Option<Fragment> {
        self.fragment
    }

    /// The raw extension headers; mostly empty.
    #[inline]
    pub fn extensions(&self) -> &'a [u8] {
        self.extensions
    }

    /// The source address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.header[8..24]);
        Ipv6Addr::from(octets)
    }

    /// The destination address.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.header[24..40]);
        Ipv6Addr::from(octets)
    }

    /// Both addresses.
    #[inline]
    pub fn addresses(&self) -> Addresses {
        Addresses::V6 { source: self.source(), destination: self.destination() }
    }

    /// The payload after the extension headers, without padding.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The length of the header with its extensions, bytes.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        HEADER_BYTES + self.extensions.len()
    }
}

#[inline]
fn payload_bytes(header: &[u8; HEADER_BYTES]) -> usize {
    usize::from(u16::from_be_bytes([header[4], header[5]]))
}

#[inline]
fn is_extension(next: u8) -> bool {
    let known = [HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS, MOBILITY, HOST_IDENTITY, SHIM6];
    known.contains(&next)
}

/// The length of an extension header, bytes. Its field counts 8 bytes beyond the first 8; for authentication, 4 bytes
/// beyond the first 8 (RFC 4302 section 2.2). A fragment header has no length field.
fn extension_bytes(kind: u8, length: u8) -> usize {
    match kind {
        FRAGMENT => 8,
        AUTHENTICATION => 8 + usize::from(length) * 4,
        _ => 8 + usize::from(length) * 8,
    }
}

fn fragment(header: &[u8; 8]) -> Fragment {
    let place = u16::from_be_bytes([header[2], header[3]]);
    Fragment {
        offset: usize::from(place & 0xfff8),
        more: place & 1 != 0,
        identification: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
    }
}

/// A header to write, without extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The source address.
    pub source: Ipv6Addr,
    /// The destination address.
    pub destination: Ipv6Addr,
    /// The protocol of the payload ([`crate::protocol`]).
    pub protocol: u8,
    /// The hop limit.
    pub hop_limit: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The flow label; its low 20 bits are written.
    pub flow_label: u32,
}

impl Header {
    /// Writes it at the beginning of `packet`, for `payload_bytes` after it; returns its length in bytes.
    pub fn write(&self, payload_bytes: usize, packet: &mut [u8]) -> Result<usize, BuildError> {
        let length = u16::try_from(payload_bytes).map_err(|_| BuildError::TooLong)?;
        let header = packet.first_chunk_mut::<HEADER_BYTES>().ok_or(BuildError::NoRoom)?;
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[6] = self.protocol;
        header[7] = self.hop_limit;
        header[8..24].copy_from_slice(&self.source.octets());
        header[24..40].copy_from_slice(&self.destination.octets());
        Ok(HEADER_BYTES)
    }
}
