//! Ethernet II frames, with up to two VLAN tags.
//!
//! ```text
//!  0             6          12              12 + 4 * tags
//!  | destination |  source  | tag ... (0-2) | type | payload, perhaps padded to 46 bytes
//! ```

pub use crate::ether_type::EtherType;
use crate::vlan::{Kind, TAG_BYTES, Tag, Tags};
use crate::{BuildError, MacAddress, Refusal};

/// The length of the header without tags, bytes.
pub const HEADER_BYTES: usize = 14;

/// The length of the header with the most tags, bytes.
pub const HEADER_BYTES_MAX: usize = HEADER_BYTES + crate::vlan::TAGS_MAX * TAG_BYTES;

/// A parsed frame.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    addresses: &'a [u8; 12],
    tags: Tags,
    ether_type: EtherType,
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Parses the header and its tags. The frame has no check sequence, as the links deliver it.
    #[inline]
    pub fn parse(frame: &'a [u8]) -> Result<Self, Refusal> {
        let (addresses, rest) = frame.split_first_chunk::<12>().ok_or(Refusal::EthernetTruncated)?;
        let (mut ether_type, mut payload) = split_type(rest)?;
        let mut tags = Tags::NONE;
        while let Some(kind) = Kind::of(ether_type) {
            let (control, rest) = payload.split_first_chunk::<2>().ok_or(Refusal::EthernetTruncated)?;
            tags = tags.with(Tag::from_control(kind, u16::from_be_bytes(*control))?)?;
            (ether_type, payload) = split_type(rest)?;
        }
        Ok(Self { addresses, tags, ether_type, payload })
    }

    /// The destination address.
    #[inline]
    pub fn destination(&self) -> MacAddress {
        let [a, b, c, d, e, f, ..] = *self.addresses;
        MacAddress([a, b, c, d, e, f])
    }

    /// The source address on this link.
    #[inline]
    pub fn source(&self) -> MacAddress {
        let [.., a, b, c, d, e, f] = *self.addresses;
        MacAddress([a, b, c, d, e, f])
    }

    /// Its VLAN tags.
    #[inline]
    pub fn tags(&self) -> Tags {
        self.tags
    }

    /// The type of the payload.
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        self.ether_type
    }

    /// The bytes after the header, padding included.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The length of the header with its tags, bytes.
    pub fn header_bytes(&self) -> usize {
        HEADER_BYTES + self.tags.len() * TAG_BYTES
    }
}

#[inline]
fn split_type(bytes: &[u8]) -> Result<(EtherType, &[u8]), Refusal> {
    let (ether_type, rest) = bytes.split_first_chunk::<2>().ok_or(Refusal::EthernetTruncated)?;
    Ok((EtherType(u16::from_be_bytes(*ether_type)), rest))
}

/// A header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The destination address.
    pub destination: MacAddress,
    /// The source address.
    pub source: MacAddress,
    /// Its VLAN tags.
    pub tags: Tags,
    /// The type of the payload.
    pub ether_type: EtherType,
}

impl Header {
    /// The length of the header, bytes.
    pub fn bytes(&self) -> usize {
        HEADER_BYTES + self.tags.len() * TAG_BYTES
    }

    /// Writes it at the beginning of `frame`; returns its length in bytes.
    pub fn write(&self, frame: &mut [u8]) -> Result<usize, BuildError> {
        let header = frame.get_mut(..self.bytes()).ok_or(BuildError::NoRoom)?;
        header[..6].copy_from_slice(&self.destination.0);
        header[6..12].copy_from_slice(&self.source.0);
        let mut at = 12;
        for tag in self.tags.iter() {
            header[at..at + 2].copy_from_slice(&tag.kind().ether_type().0.to_be_bytes());
            header[at + 2..at + 4].copy_from_slice(&tag.control().to_be_bytes());
            at += TAG_BYTES;
        }
        header[at..].copy_from_slice(&self.ether_type.0.to_be_bytes());
        Ok(self.bytes())
    }
}
