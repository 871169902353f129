//! UDP (RFC 768; over IPv6 RFC 8200 section 8.1).
//!
//! ```text
//!  0             2                  4        6          8
//!  | source port | destination port | length | checksum | payload
//! ```

use crate::checksum::udp_form;
use crate::{Addresses, BuildError, Refusal, protocol};

/// The length of the header, bytes.
pub const HEADER_BYTES: usize = 8;

/// A parsed datagram. Its checksum is not verified: see [`View::verify`].
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; HEADER_BYTES],
    datagram: &'a [u8],
}

impl<'a> View<'a> {
    /// Parses the payload of an IP packet. Bytes after the datagram are ignored, as in Linux.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(Refusal::UdpTruncated)?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if length < HEADER_BYTES {
            return Err(Refusal::UdpLength);
        }
        let datagram = bytes.get(..length).ok_or(Refusal::UdpTruncated)?;
        Ok(Self { header, datagram })
    }

    /// Refuses a wrong checksum, and over IPv6 a missing one.
    #[inline]
    pub fn verify(&self, addresses: &Addresses) -> Result<(), Refusal> {
        if self.checksum() == 0 {
            return match addresses {
                Addresses::V4 { .. } => Ok(()),
                Addresses::V6 { .. } => Err(Refusal::UdpChecksumAbsent),
            };
        }
        let pseudo = addresses.pseudo_header(protocol::UDP, self.datagram.len() as u32);
        if pseudo.with(self.datagram).is_good() { Ok(()) } else { Err(Refusal::UdpChecksum) }
    }

    /// Returns whether the checksum is that of a sender with checksum offload: the sum of the pseudo-header alone.
    #[inline]
    pub fn is_unfinished(&self, addresses: &Addresses) -> bool {
        self.checksum() == addresses.pseudo_header(protocol::UDP, self.datagram.len() as u32).fold()
    }

    /// The source port; zero if the sender expects no answer.
    #[inline]
    pub fn source_port(&self) -> u16 {
        u16::from_be_bytes([self.header[0], self.header[1]])
    }

    /// The destination port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// The checksum; zero if the sender computed none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]])
    }

    /// The payload.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        // The length was checked to be at least the header's.
        self.datagram.get(HEADER_BYTES..).unwrap_or_default()
    }
}

/// The checksum of a datagram to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// Computed over pseudo-header, header and payload.
    #[default]
    Computed,
    /// Zero: the receiver cannot detect damage. Over IPv4 only.
    Elided,
}

/// A header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
}

impl Header {
    /// Writes it at the beginning of `datagram`, where the `payload_bytes` after it already are; returns the length of
    /// both.
    pub fn write(
        &self,
        addresses: &Addresses,
        payload_bytes: usize,
        checksum: Checksum,
        datagram: &mut [u8],
    ) -> Result<usize, BuildError> {
        let length = u16::try_from(HEADER_BYTES + payload_bytes).map_err(|_| BuildError::TooLong)?;
        if checksum == Checksum::Elided && matches!(addresses, Addresses::V6 { .. }) {
            return Err(BuildError::ChecksumRequired);
        }
        let datagram = datagram.get_mut(..usize::from(length)).ok_or(BuildError::NoRoom)?;
        datagram[..2].copy_from_slice(&self.source_port.to_be_bytes());
        datagram[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        datagram[4..6].copy_from_slice(&length.to_be_bytes());
        datagram[6..8].copy_from_slice(&[0, 0]);
        if checksum == Checksum::Computed {
            let sum = addresses.pseudo_header(protocol::UDP, u32::from(length)).with(datagram);
            datagram[6..8].copy_from_slice(&udp_form(sum.checksum()).to_be_bytes());
        }
        Ok(usize::from(length))
    }
}
