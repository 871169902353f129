//! The pcapng file format (draft-ietf-opsawg-pcapng): one section, one interface, one block per frame.
//!
//! ```text
//!  0        4        8                          n-4      n
//!  +--------+--------+--------------------------+--------+
//!  | type   | n      | body, padded to 4        | n      |   every number in this machine's byte order
//!  +--------+--------+--------------------------+--------+
//! ```

use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// The number by which a reader recognises the byte order.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;

const OPTION_END: u16 = 0;
/// SHB: the program that wrote the file.
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
/// 10^-9 seconds.
const NANOSECONDS: u8 = 9;

/// The direction of a frame, as the first two bits of epb_flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Inbound = 1,
    Outbound = 2,
}

/// Writes a capture. A block is assembled first, so that it is one write.
#[derive(Debug)]
pub(super) struct Writer<W> {
    output: W,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a capture of `interface`.
    pub(super) fn new(output: W, interface: &str) -> io::Result<Self> {
        let mut writer = Self { output, block: Vec::new() };
        writer.begin(SECTION_HEADER);
        writer.word(BYTE_ORDER_MAGIC);
        writer.half(1); // Version 1.0.
        writer.half(0);
        writer.block.extend(u64::MAX.to_ne_bytes()); // The section's length is unknown.
        writer.option(SHB_USERAPPL, b"sidestep");
        writer.end()?;
        writer.begin(INTERFACE_DESCRIPTION);
        writer.half(LINKTYPE_ETHERNET);
        writer.half(0);
        writer.word(0); // No limit to the captured length.
        writer.option(IF_NAME, interface.as_bytes());
        writer.option(IF_TSRESOL, &[NANOSECONDS]);
        writer.end()?;
        Ok(writer)
    }

    /// Writes one frame, at `time_ns` since 1970.
    pub(super) fn frame(&mut self, time_ns: u64, direction: Direction, bytes: &[u8]) -> io::Result<()> {
        self.begin(ENHANCED_PACKET);
        self.word(0);
        self.word((time_ns >> 32) as u32);
        self.word(time_ns as u32);
        self.word(bytes.len() as u32);
        self.word(bytes.len() as u32);
        self.block.extend_from_slice(bytes);
        self.pad();
        self.option(EPB_FLAGS, &(direction as u32).to_ne_bytes());
        self.end()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    pub(super) fn into_inner(self) -> W {
        self.output
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.word(kind);
        self.word(0); // The length, known at the end.
    }

    fn end(&mut self) -> io::Result<()> {
        self.half(OPTION_END);
        self.half(0);
        let len = (self.block.len() + 4) as u32;
        self.word(len);
        self.block[4..8].copy_from_slice(&len.to_ne_bytes());
        self.output.write_all(&self.block)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.half(code);
        self.half(value.len() as u16);
        self.block.extend_from_slice(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn half(&mut self, value: u16) {
        self.block.extend(value.to_ne_bytes());
    }

    fn word(&mut self, value: u32) {
        self.block.extend(value.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    /// Types and bodies of the blocks, whose two lengths must agree.
    fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let len = word(file, 4) as usize;
            assert_eq!((len % 4, word(file, len - 4) as usize), (0, len));
            blocks.push((word(file, 0), &file[8..len - 4]));
            file = &file[len..];
        }
        blocks
    }

    #[test]
    fn a_capture_reads_back() {
        let mut writer = Writer::new(Vec::new(), "lab0").unwrap();
        let time_ns = 1_700_000_000_123_456_789;
        writer.frame(time_ns, Direction::Outbound, &[7; 61]).unwrap();
        let file = writer.into_inner();
        let blocks = blocks(&file);
        assert_eq!(blocks.iter().map(|block| block.0).collect::<Vec<_>>(), [0x0a0d_0d0a, 1, 6]);
        assert_eq!(u16::from_ne_bytes([blocks[0].1[4], blocks[0].1[5]]), 1, "major version");
        let packet = blocks[2].1;
        assert_eq!(u64::from(word(packet, 4)) << 32 | u64::from(word(packet, 8)), time_ns);
        assert_eq!((word(packet, 12), word(packet, 16), &packet[20..81]), (61, 61, &[7; 61][..]));
        assert_eq!((word(packet, 84), word(packet, 88)), (u32::from(EPB_FLAGS) | 4 << 16, 2));
    }
}
