//! Building of segments.

use super::{Flags, HEADER_BYTES, OPTIONS_BYTES_MAX, Options, SequenceNumber};
use crate::{Addresses, BuildError, protocol};

/// The header of a segment to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
    /// The sequence number of the first byte of the payload, or of the SYN.
    pub sequence: SequenceNumber,
    /// The sequence number expected next; zero without [`Flags::ACK`].
    pub acknowledgement: SequenceNumber,
    /// Control bits.
    pub flags: Flags,
    /// The window, already shifted.
    pub window: u16,
    /// The urgent pointer; zero without [`Flags::URG`].
    pub urgent_pointer: u16,
    /// Options.
    pub options: Options,
}

impl Segment {
    /// The length of the header with its options, bytes: the offset of the payload.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        HEADER_BYTES + self.options.bytes()
    }
}

/// Writes the header at the beginning of `out`, with the checksum over header and payload; the `payload_bytes` after it
/// are already there. Returns the length of both. `out` may be longer.
pub fn build(
    segment: &Segment,
    addresses: &Addresses,
    payload_bytes: usize,
    out: &mut [u8],
) -> Result<usize, BuildError> {
    let header_bytes = segment.header_bytes();
    if header_bytes > HEADER_BYTES + OPTIONS_BYTES_MAX {
        return Err(BuildError::TooManyOptions);
    }
    let length = u16::try_from(header_bytes + payload_bytes).map_err(|_| BuildError::TooLong)?;
    let out = out.get_mut(..usize::from(length)).ok_or(BuildError::NoRoom)?;
    let header = out.first_chunk_mut::<HEADER_BYTES>().ok_or(BuildError::NoRoom)?;
    header[..2].copy_from_slice(&segment.source_port.to_be_bytes());
    header[2..4].copy_from_slice(&segment.destination_port.to_be_bytes());
    header[4..8].copy_from_slice(&segment.sequence.0.to_be_bytes());
    header[8..12].copy_from_slice(&segment.acknowledgement.0.to_be_bytes());
    header[12] = (header_bytes as u8 / 4) << 4;
    header[13] = segment.flags.0;
    header[14..16].copy_from_slice(&segment.window.to_be_bytes());
    header[16..18].copy_from_slice(&[0, 0]);
    header[18..20].copy_from_slice(&segment.urgent_pointer.to_be_bytes());
    segment.options.write(&mut out[HEADER_BYTES..header_bytes]);
    let checksum = addresses.pseudo_header(protocol::TCP, u32::from(length)).with(out).checksum();
    out[16..18].copy_from_slice(&checksum.to_be_bytes());
    Ok(usize::from(length))
}
