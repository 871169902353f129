//! The options of a segment: maximum segment size (RFC 9293 section 3.2), window scale and timestamps (RFC 7323), selective
//! acknowledgement (RFC 2018).

use super::{OPTIONS_BYTES_MAX, SequenceNumber, WINDOW_SCALE_MAX};
use core::fmt;

const END: u8 = 0;
const NOTHING: u8 = 1;
const SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// The most blocks that fit 40 bytes of options (RFC 2018 section 3).
const BLOCKS_MAX: usize = 4;

/// Two timestamps (RFC 7323 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timestamps {
    /// The sender's clock, TSval.
    pub value: u32,
    /// The receiver's clock as the sender last saw it, TSecr.
    pub echo: u32,
}

/// Bytes received beyond a hole: from `start` up to and excluding `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SackBlock {
    /// The first byte's sequence number.
    pub start: SequenceNumber,
    /// The sequence number after the last byte.
    pub end: SequenceNumber,
}

/// Up to four blocks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SackBlocks {
    blocks: [SackBlock; BLOCKS_MAX],
    used: u8,
}

impl SackBlocks {
    /// No block.
    pub const NONE: Self =
        Self { blocks: [SackBlock { start: SequenceNumber(0), end: SequenceNumber(0) }; BLOCKS_MAX], used: 0 };

    /// Adds a block after the others; false if there are four already.
    pub fn push(&mut self, block: SackBlock) -> bool {
        let Some(free) = self.blocks.get_mut(usize::from(self.used)) else { return false };
        *free = block;
        self.used += 1;
        true
    }

    /// The blocks in the order of the segment.
    #[inline]
    pub fn as_slice(&self) -> &[SackBlock] {
        self.blocks.get(..usize::from(self.used)).unwrap_or_default()
    }

    /// The number of blocks, 0 to 4.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.used)
    }

    /// Returns whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The first `most` of them.
    #[must_use]
    pub fn truncated(mut self, most: usize) -> Self {
        for surplus in self.blocks.iter_mut().skip(most) {
            *surplus = SackBlock::default();
        }
        self.used = self.used.min(most.min(BLOCKS_MAX) as u8);
        self
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.as_slice()).finish()
    }
}

/// The known options, read or to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// The largest payload that the sender of the option can receive; on a SYN.
    pub maximum_segment_size: Option<u16>,
    /// The shift of the sender's windows, 0 to 14; on a SYN.
    pub window_scale: Option<u8>,
    /// True if selective acknowledgements may be sent to the sender; on a SYN.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// The data received beyond holes.
    pub sack: SackBlocks,
    /// True if parsing stopped at an option with an impossible length (RFC 9293 MUST-7); the options before it were
    /// read. Never written.
    pub malformed: bool,
}

impl Options {
    /// No option.
    pub const NONE: Self = Self {
        maximum_segment_size: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: SackBlocks::NONE,
        malformed: false,
    };

    /// Parses the bytes between the fixed header and the payload. An unknown option is skipped (RFC 9293 MUST-6); of a
    /// repeated one the last counts.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Self {
        match usual_timestamps(bytes) {
            None => Self::walk(bytes),
            timestamps => Self { timestamps, ..Self::NONE },
        }
    }

    /// Walks the options. Every step takes at least one byte, so it ends.
    fn walk(mut bytes: &[u8]) -> Self {
        let mut options = Self::NONE;
        loop {
            bytes = match bytes {
                [] | [END, ..] => return options,
                [NOTHING, rest @ ..] => rest,
                [kind, length, ..] => match bytes.get(2..usize::from(*length)) {
                    Some(value) if options.take(*kind, value) => &bytes[usize::from(*length)..],
                    _ => return Self { malformed: true, ..options },
                },
                [_] => return Self { malformed: true, ..options },
            };
        }
    }

    /// Reads one option; false if its length is impossible.
    fn take(&mut self, kind: u8, value: &[u8]) -> bool {
        match (kind, value) {
            (SEGMENT_SIZE, &[a, b]) => self.maximum_segment_size = Some(u16::from_be_bytes([a, b])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(WINDOW_SCALE_MAX)),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (TIMESTAMPS, value) => match value.try_into() {
                Ok(value) => self.timestamps = Some(timestamps(value)),
                Err(_) => return false,
            },
            (SACK, value) => return self.take_blocks(value),
            (SEGMENT_SIZE | WINDOW_SCALE | SACK_PERMITTED, _) => return false,
            _ => {}
        }
        true
    }

    fn take_blocks(&mut self, value: &[u8]) -> bool {
        let (blocks, rest) = value.as_chunks::<8>();
        if blocks.is_empty() || !rest.is_empty() {
            return false;
        }
        self.sack = SackBlocks::NONE;
        blocks.iter().all(|block| {
            let (start, end) = pair(block);
            self.sack.push(SackBlock { start: SequenceNumber(start), end: SequenceNumber(end) })
        })
    }

    /// The length of these options, padded to four, bytes. Above 40 they cannot be written.
    #[inline]
    pub fn bytes(&self) -> usize {
        let mut bytes = 0;
        bytes += if self.maximum_segment_size.is_some() { 4 } else { 0 };
        bytes += if self.window_scale.is_some() { 4 } else { 0 };
        bytes += match (self.timestamps.is_some(), self.sack_permitted) {
            (true, _) => 12,
            (false, true) => 4,
            (false, false) => 0,
        };
        bytes + if self.sack.is_empty() { 0 } else { 4 + 8 * self.sack.len() }
    }

    /// These options with no more SACK blocks than fit beside the rest (RFC 2018 section 3: three beside timestamps).
    #[must_use]
    pub fn fitted(mut self) -> Self {
        let others = Self { sack: SackBlocks::NONE, ..self }.bytes();
        self.sack = self.sack.truncated(OPTIONS_BYTES_MAX.saturating_sub(others + 4) / 8);
        self
    }

    /// Writes them, aligned to four bytes, in Linux's order. `out` has exactly [`Options::bytes`] bytes.
    pub(super) fn write(&self, out: &mut [u8]) {
        let mut out = Writer { out, at: 0 };
        if let Some(size) = self.maximum_segment_size {
            out.put(&[SEGMENT_SIZE, 4]);
            out.put(&size.to_be_bytes());
        }
        // Permission needs two bytes: it replaces the padding before the timestamps, if those are there.
        let before_timestamps = if self.sack_permitted { [SACK_PERMITTED, 2] } else { [NOTHING, NOTHING] };
        if let Some(Timestamps { value, echo }) = self.timestamps {
            out.put(&before_timestamps);
            out.put(&[TIMESTAMPS, 10]);
            out.put(&value.to_be_bytes());
            out.put(&echo.to_be_bytes());
        } else if self.sack_permitted {
            out.put(&[NOTHING, NOTHING, SACK_PERMITTED, 2]);
        }
        if let Some(shift) = self.window_scale {
            out.put(&[NOTHING, WINDOW_SCALE, 3, shift.min(WINDOW_SCALE_MAX)]);
        }
        if !self.sack.is_empty() {
            out.put(&[NOTHING, NOTHING, SACK, 2 + 8 * self.sack.used]);
        }
        for block in self.sack.as_slice() {
            out.put(&block.start.0.to_be_bytes());
            out.put(&block.end.0.to_be_bytes());
        }
    }
}

struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.out.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }
}

#[inline]
fn timestamps(bytes: &[u8; 8]) -> Timestamps {
    let (value, echo) = pair(bytes);
    Timestamps { value, echo }
}

/// The timestamps if they are the only option, laid out as RFC 7323 appendix A recommends: Linux and this stack send
/// them so on every segment but the first.
#[inline]
pub(super) fn usual_timestamps(bytes: &[u8]) -> Option<Timestamps> {
    let (front, rest) = <&[u8; 12]>::try_from(bytes).ok()?.split_first_chunk::<4>()?;
    if *front != [NOTHING, NOTHING, TIMESTAMPS, 10] {
        return None;
    }
    rest.first_chunk().map(timestamps)
}

#[inline]
fn pair(bytes: &[u8; 8]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = *bytes;
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_are_skipped_and_the_end_is_the_end() {
        let options = Options::parse(&[254, 4, 9, 9, 2, 4, 5, 0xb4, 1, 3, 3, 15, 0, 3, 3, 1]);
        assert_eq!(options.maximum_segment_size, Some(1460));
        assert_eq!(options.window_scale, Some(WINDOW_SCALE_MAX), "more than 14 is 14");
        assert!(!options.malformed);
    }

    #[test]
    fn impossible_lengths_stop_the_reading() {
        for bad in
            [&[8, 0][..], &[8, 1], &[8, 9, 0, 0, 0, 0, 0, 0, 0], &[5, 2], &[5, 9, 0, 0, 0, 0, 0, 0, 0], &[3], &[2, 40]]
        {
            let mut bytes = [1_u8; 20];
            bytes[..4].copy_from_slice(&[2, 4, 2, 24]);
            bytes[4..4 + bad.len()].copy_from_slice(bad);
            let options = Options::parse(&bytes[..4 + bad.len()]);
            assert!(options.malformed, "{bad:?}");
            assert_eq!(options.maximum_segment_size, Some(536), "what stood before {bad:?} was read");
        }
    }

    #[test]
    fn blocks_are_cut_to_what_fits_beside_timestamps() {
        let mut options = Options { timestamps: Some(Timestamps { value: 1, echo: 2 }), ..Options::NONE };
        for number in 0..4 {
            assert!(options.sack.push(SackBlock { start: SequenceNumber(number), end: SequenceNumber(number + 1) }));
        }
        assert!(!options.sack.push(SackBlock::default()), "a fifth does not fit anywhere");
        assert_eq!(options.bytes(), 48);
        assert_eq!(options.fitted().sack.len(), 3);
        assert_eq!(options.fitted().bytes(), OPTIONS_BYTES_MAX);
        let alone = Options { timestamps: None, ..options };
        assert_eq!(alone.fitted(), alone);
    }
}
