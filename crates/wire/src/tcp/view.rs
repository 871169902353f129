//! A parsed segment.

use super::options::usual_timestamps;
use super::{Flags, HEADER_BYTES, Options, SequenceNumber, Timestamps};
use crate::{Addresses, Refusal, protocol};

/// A parsed segment. Its checksum is not verified: see [`View::verify`].
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; HEADER_BYTES],
    segment: &'a [u8],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Parses the payload of an IP packet.
    #[inline]
    pub fn parse(segment: &'a [u8]) -> Result<Self, Refusal> {
        let header = segment.first_chunk::<HEADER_BYTES>().ok_or(Refusal::TcpTruncated)?;
        let offset = usize::from(header[12] >> 4) * 4;
        if offset < HEADER_BYTES {
            return Err(Refusal::TcpDataOffset);
        }
        let options = segment.get(HEADER_BYTES..offset).ok_or(Refusal::TcpTruncated)?;
        let payload = segment.get(offset..).ok_or(Refusal::TcpTruncated)?;
        Ok(Self { header, segment, options, payload })
    }

    /// Refuses a wrong checksum (RFC 9293 MUST-3).
    #[inline]
    pub fn verify(&self, addresses: &Addresses) -> Result<(), Refusal> {
        let pseudo = addresses.pseudo_header(protocol::TCP, self.segment.len() as u32);
        if pseudo.with(self.segment).is_good() { Ok(()) } else { Err(Refusal::TcpChecksum) }
    }

    /// Returns whether the checksum is that of a sender with checksum offload: the sum of the pseudo-header alone.
    #[inline]
    pub fn is_unfinished(&self, addresses: &Addresses) -> bool {
        self.checksum() == addresses.pseudo_header(protocol::TCP, self.segment.len() as u32).fold()
    }

    #[inline]
    fn u16_at<const AT: usize>(&self) -> u16 {
        u16::from_be_bytes([self.header[AT], self.header[AT + 1]])
    }

    #[inline]
    fn number_at<const AT: usize>(&self) -> SequenceNumber {
        let header = self.header;
        SequenceNumber(u32::from_be_bytes([header[AT], header[AT + 1], header[AT + 2], header[AT + 3]]))
    }

    /// The source port.
    #[inline]
    pub fn source_port(&self) -> u16 {
        self.u16_at::<0>()
    }

    /// The destination port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        self.u16_at::<2>()
    }

    /// The sequence number of the first byte of the payload, or of the SYN. SEG.SEQ
    #[inline]
    pub fn sequence(&self) -> SequenceNumber {
        self.number_at::<4>()
    }

    /// The sequence number that the sender expects next; significant only with [`Flags::ACK`]. SEG.ACK
    #[inline]
    pub fn acknowledgement(&self) -> SequenceNumber {
        self.number_at::<8>()
    }

    /// Control bits.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(self.header[13])
    }

    /// The window in the header, not yet shifted. SEG.WND
    #[inline]
    pub fn window(&self) -> u16 {
        self.u16_at::<14>()
    }

    /// Returns whether the header has no options.
    #[inline]
    pub fn has_no_options(&self) -> bool {
        self.options.is_empty()
    }

    /// The timestamps if they are the only option, laid out as RFC 7323 appendix A recommends: Linux and this stack
    /// send them so on every segment but the first.
    #[inline]
    pub fn usual_timestamps(&self) -> Option<Timestamps> {
        usual_timestamps(self.options)
    }

    /// The checksum.
    pub fn checksum(&self) -> u16 {
        self.u16_at::<16>()
    }

    /// The urgent pointer; significant only with [`Flags::URG`].
    pub fn urgent_pointer(&self) -> u16 {
        self.u16_at::<18>()
    }

    /// The options, parsed at each call.
    #[inline]
    pub fn options(&self) -> Options {
        Options::parse(self.options)
    }

    /// The payload.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The length of the header with its options, bytes.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        HEADER_BYTES + self.options.len()
    }

    /// The number of sequence numbers that it takes: its payload, and one each for SYN and FIN. SEG.LEN
    #[inline]
    pub fn sequence_length(&self) -> u32 {
        let flags = self.flags();
        self.payload.len() as u32 + u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN))
    }
}
