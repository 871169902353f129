//! pcapng (draft-ietf-opsawg-pcapng): blocks, of which those with packets and interfaces are read and all others passed over.
//!
//! ```text
//!  block:                0      4              8              total - 4
//!                        | type | total length | body ...     | total length |   a multiple of 4
//!  section header:       | byte order magic | major, minor | section length (8) | options
//!  interface:            | link type, 0 | snaplen | options
//!  enhanced packet:      | interface | time high | time low | captured | original | packet, padded | options
//!  simple packet:        | original | packet, padded
//! ```

use super::source::Source;
use super::{CaptureError, INTERFACES_MAX, Interface, LinkType, PACKET_BYTES_MAX, Packet};
use std::io::Read;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
/// An older form of the enhanced packet, whose interface has 16 bits and is followed by a count of drops.
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const NAME_OPTION: u16 = 2;
const RESOLUTION_OPTION: u16 = 9;
const OFFSET_OPTION: u16 = 14;

/// Type, and the length at both ends.
const BLOCK_BYTES_MIN: u32 = 12;
/// Options of an interface beyond these are passed over: those that matter come first in every writer's.
const OPTIONS_BYTES_MAX: usize = 64 << 10;
/// The longest name of an interface that is kept, bytes: Linux has 15, Windows some 80.
const NAME_BYTES_MAX: usize = 255;

pub(super) struct Pcapng<R> {
    source: Source<R>,
    is_big_endian: bool,
    interfaces: Vec<Interface>,
}

impl<R: Read> Pcapng<R> {
    pub(super) fn new(source: Source<R>) -> Self {
        Self { source, is_big_endian: false, interfaces: Vec::new() }
    }

    pub(super) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    pub(super) fn try_next(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        // Each round reads a block of 12 bytes at least, and the source ends.
        while self.source.begin()? {
            let head = self.source.chunk::<8>()?;
            let kind = self.word(&head, 0);
            if kind == SECTION_HEADER {
                self.section(&head)?;
                continue;
            }
            let total = self.word(&head, 4);
            if total < BLOCK_BYTES_MIN || !total.is_multiple_of(4) {
                return self.source.malformed("the length of a block is impossible");
            }
            let body = total - BLOCK_BYTES_MIN;
            match kind {
                INTERFACE => self.interface(body, total)?,
                ENHANCED_PACKET | OBSOLETE_PACKET => return self.packet(kind, body, total).map(Some),
                SIMPLE_PACKET => return self.simple_packet(body, total).map(Some),
                _ => {
                    self.source.skip(u64::from(body))?;
                    self.end(total)?;
                }
            }
        }
        Ok(None)
    }

    /// A section header: its byte order holds up to the next one, and interfaces are counted from 0 again.
    fn section(&mut self, head: &[u8; 8]) -> Result<(), CaptureError> {
        let magic = self.source.chunk::<4>()?;
        self.is_big_endian = match () {
            () if u32::from_be_bytes(magic) == BYTE_ORDER_MAGIC => true,
            () if u32::from_le_bytes(magic) == BYTE_ORDER_MAGIC => false,
            () => return self.source.malformed("a section has no byte order magic"),
        };
        let total = self.word(head, 4);
        if total < BLOCK_BYTES_MIN + 16 || !total.is_multiple_of(4) {
            return self.source.malformed("the length of a section header is impossible");
        }
        let versions = self.source.chunk::<4>()?;
        if self.half(&versions, 0) != 1 {
            return self.source.malformed("the major version of a section is not 1");
        }
        self.interfaces.clear();
        self.source.skip(u64::from(total - BLOCK_BYTES_MIN - 8))?;
        self.end(total)
    }

    fn interface(&mut self, body: u32, total: u32) -> Result<(), CaptureError> {
        if body < 8 {
            return self.source.malformed("an interface is too short");
        }
        if self.interfaces.len() == INTERFACES_MAX {
            return self.source.malformed("a section has more than 1024 interfaces");
        }
        let facts = self.source.chunk::<8>()?;
        // Microseconds, unless an option says otherwise.
        let mut interface = Interface::new(LinkType(self.half(&facts, 0)), self.word(&facts, 4), 6);
        let options = (body as usize - 8).min(OPTIONS_BYTES_MAX);
        let is_big_endian = self.is_big_endian;
        options_of(self.source.take(options)?, is_big_endian, &mut interface);
        self.interfaces.push(interface);
        self.source.skip(u64::from(body) - 8 - options as u64)?;
        self.end(total)
    }

    fn packet(&mut self, kind: u32, body: u32, total: u32) -> Result<Packet<'_>, CaptureError> {
        if body < 20 {
            return self.source.malformed("a packet's block is too short");
        }
        let facts = self.source.chunk::<20>()?;
        let [_, high, low, captured, original_bytes] = [0, 4, 8, 12, 16].map(|at| self.word(&facts, at));
        let number = if kind == ENHANCED_PACKET { self.word(&facts, 0) } else { u32::from(self.half(&facts, 0)) };
        let Some(interface) = self.interfaces.get(number as usize) else {
            return self.source.malformed("a packet names an interface that its section does not have");
        };
        let (link, time_ns) = (interface.link, interface.time_ns(u64::from(high) << 32 | u64::from(low)));
        let bytes = self.data(captured, body - 20, total)?;
        Ok(Packet { time_ns: Some(time_ns), interface: number, link, bytes, original_bytes })
    }

    /// A packet of the first interface, without a time.
    fn simple_packet(&mut self, body: u32, total: u32) -> Result<Packet<'_>, CaptureError> {
        if body < 4 {
            return self.source.malformed("a packet's block is too short");
        }
        let facts = self.source.chunk::<4>()?;
        let original_bytes = self.word(&facts, 0);
        let Some(interface) = self.interfaces.first() else {
            return self.source.malformed("a packet comes before any interface");
        };
        let (link, snapshot) = (interface.link, interface.snapshot_bytes);
        let captured = if snapshot == 0 { original_bytes } else { original_bytes.min(snapshot) };
        let bytes = self.data(captured, body - 4, total)?;
        Ok(Packet { time_ns: None, interface: 0, link, bytes, original_bytes })
    }

    /// The packet, with the rest of its block: padding, options, the length again.
    fn data(&mut self, captured: u32, rest: u32, total: u32) -> Result<&[u8], CaptureError> {
        if captured > rest || captured as usize > PACKET_BYTES_MAX {
            return self.source.malformed("a packet is longer than its block, or than any capture has");
        }
        // The options are read with the packet, if both fit the buffer: the packet's bytes must stay where they are.
        let behind = (rest - captured) as usize;
        if behind > PACKET_BYTES_MAX - 4 {
            return self.source.malformed("the options of a packet are too long");
        }
        let all = captured as usize + behind + 4;
        self.source.hold(all)?;
        let end = self.source.taken(4, 0);
        if self.word(end, 0) != total {
            return self.source.malformed("a block has two different lengths");
        }
        Ok(self.source.taken(captured as usize, behind + 4))
    }

    fn end(&mut self, total: u32) -> Result<(), CaptureError> {
        let again = self.source.chunk::<4>()?;
        if self.word(&again, 0) != total {
            return self.source.malformed("a block has two different lengths");
        }
        Ok(())
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let bytes = std::array::from_fn(|byte| bytes[at + byte]);
        if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn half(&self, bytes: &[u8], at: usize) -> u16 {
        half(self.is_big_endian, bytes, at)
    }
}

fn half(is_big_endian: bool, bytes: &[u8], at: usize) -> u16 {
    let bytes = [bytes[at], bytes[at + 1]];
    if is_big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
}

/// Reads the options that matter. A list that ends within an option ends there.
fn options_of(mut options: &[u8], is_big_endian: bool, interface: &mut Interface) {
    while let Some((head, rest)) = options.split_at_checked(4) {
        let (code, length) = (half(is_big_endian, head, 0), usize::from(half(is_big_endian, head, 2)));
        let Some(value) = rest.get(..length).filter(|_| code != 0) else { return };
        match (code, value) {
            (NAME_OPTION, name) => {
                interface.name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]).into_owned();
            }
            (RESOLUTION_OPTION, &[resolution]) => interface.resolution = resolution,
            (OFFSET_OPTION, seconds) => {
                if let Ok(seconds) = <[u8; 8]>::try_from(seconds) {
                    let be = i64::from_be_bytes(seconds);
                    interface.offset_s = if is_big_endian { be } else { be.swap_bytes() };
                }
            }
            _ => {}
        }
        options = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}
