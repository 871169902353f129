//! pcap (draft-ietf-opsawg-pcap).
//!
//! ```text
//!  file:    0       4       6       8          16          20          24
//!           | magic | major | minor | reserved | snaplen   | link type |  records
//!  record:  0       4                  8                 12                16
//!           | s     | us, or ns        | captured bytes  | original bytes  |  the packet
//! ```

use super::source::Source;
use super::{CaptureError, Interface, LinkType, PACKET_BYTES_MAX, Packet};
use std::io::Read;

/// The first bytes of a capture with times in microseconds, and in nanoseconds, big-endian.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

pub(super) struct Pcap<R> {
    source: Source<R>,
    is_big_endian: bool,
    interface: Interface,
}

impl<R: Read> Pcap<R> {
    pub(super) fn is_magic(bytes: [u8; 4]) -> bool {
        let known = |magic| magic == MICROSECONDS || magic == NANOSECONDS;
        known(u32::from_be_bytes(bytes)) || known(u32::from_le_bytes(bytes))
    }

    /// Reads the file's header.
    pub(super) fn new(mut source: Source<R>) -> Result<Self, CaptureError> {
        let header = source.chunk::<24>()?;
        let magic = [header[0], header[1], header[2], header[3]];
        let is_big_endian = [MICROSECONDS, NANOSECONDS].contains(&u32::from_be_bytes(magic));
        let word = |at| word(is_big_endian, &header, at);
        let decimals = if word(0) == NANOSECONDS { 9 } else { 6 };
        let major = if is_big_endian { word(4) >> 16 } else { word(4) & 0xffff };
        if major != 2 {
            return source.malformed("its major version is not 2");
        }
        // Above are the length of the frame check sequence and reserved bits.
        let link = LinkType(word(20) as u16);
        Ok(Self { source, is_big_endian, interface: Interface::new(link, word(16), decimals) })
    }

    pub(super) fn interface(&self) -> &Interface {
        &self.interface
    }

    pub(super) fn try_next(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        if !self.source.begin()? {
            return Ok(None);
        }
        let header = self.source.chunk::<16>()?;
        let [s, fraction, captured, original_bytes] = [0, 4, 8, 12].map(|at| word(self.is_big_endian, &header, at));
        if captured as usize > PACKET_BYTES_MAX {
            return self.source.malformed("a packet is longer than any capture has");
        }
        let ns = u64::from(fraction) * if self.interface.resolution == 9 { 1 } else { 1000 };
        let (time_ns, link) = (Some(u64::from(s) * 1_000_000_000 + ns), self.interface.link);
        let bytes = self.source.take(captured as usize)?;
        Ok(Some(Packet { time_ns, interface: 0, link, bytes, original_bytes }))
    }
}

fn word(is_big_endian: bool, header: &[u8], at: usize) -> u32 {
    let bytes = std::array::from_fn(|byte| header[at + byte]);
    if is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}
