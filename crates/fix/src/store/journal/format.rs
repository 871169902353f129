//! The format of a journal. All numbers are little-endian.
//!
//! ```text
//! folder of a session
//!   lock                      held by the process that writes (flock); says "journal" once there is a manifest
//!   manifest                  which segments there must be: see `manifest.rs`
//!   0000000000000007.journal  a segment, preallocated; the newest is written, older ones end where the next one says
//!   0000000000000008.journal  prepared, its header still zeroes
//!
//! segment            0        8    12   16           24       32        40       48       56    60   62        512    4096
//!  header (4096)    | SIDEFIXJ | version | header bytes | generation | number | next out | next in | created | salt | ...
//!   0  8  magic "SIDEFIXJ"           48  8  created: when the generation began, ns of UTC since 1970
//!   8  4  version (2)                56  8  bytes used of the segment before; 0 for the first of a folder
//!  12  4  bytes of this header       64  4  salt of the checksums of its records
//!  16  8  generation                 68  2  length of the session's name
//!  24  8  number of the segment      70  .. the name, UTF-8, zeroes up to 508
//!  32  8  next outbound number      508  4  CRC-32 of bytes 0..508; zeroes follow up to 4096
//!  40  8  next inbound number       512  8  mark: bytes of the segment that a process has written, and their check
//!
//! record, at a multiple of eight
//!   0  4  CRC-32 of all that follows, begun with the salt
//!   4  3  length of the payload
//!   7  1  kind; 0x80 is added where everything before was known to be on the disk
//!   8  8  number: see Kind
//!  16  .. payload, zeroes up to a multiple of eight
//! ```
//!
//! A record of zeroes is the end. The first 512 bytes of a header are one sector: a disk writes them whole or not at all.
//! The mark follows every write, so that a killed process leaves no fewer bytes than it says; after a power cut it says
//! nothing. With group commit it stays at the header, and the manifest says what the disk has. Version 1 had neither mark nor
//! manifest; it is read and not written.

use crc32fast::Hasher;

/// The first bytes of every segment.
pub(super) const MAGIC: [u8; 8] = *b"SIDEFIXJ";
/// The layout above.
pub(super) const VERSION: u32 = 2;
/// The oldest layout that is read.
const VERSION_MIN: u32 = 1;
/// The place of the mark.
pub(super) const MARK_AT: u64 = 512;
/// Bytes before the first record: a page, so that records begin on one.
pub(super) const HEADER_BYTES: usize = 4096;
/// The part of the header that has content: one sector.
const SECTOR: usize = 512;
/// Bytes of a record before its payload.
pub(super) const RECORD_BYTES: usize = 16;
/// The longest payload, bytes: 24 bits have no room for more.
pub(super) const PAYLOAD_MAX: usize = (1 << 24) - 1;
/// The longest name of a session, bytes: what the sector has room for.
pub(super) const NAME_MAX: usize = SECTOR - 4 - 70;
const DURABLE: u8 = 0x80;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A message that was sent: its sequence number, its bytes.
    Outbound = 1,
    /// The next number expected from the peer.
    NextInbound = 2,
    /// The next number to be sent was set to this.
    NextOutbound = 3,
    /// A new generation, of this number, begins at 1 and 1; the payload is its time of creation, ns of UTC (8 bytes).
    Reset = 4,
}

impl Kind {
    /// Returns whether the bytes, if they are a record, are one of a known kind.
    pub(super) fn is_code(bytes: &[u8]) -> bool {
        bytes.get(7).is_some_and(|code| Self::of_code(code & !DURABLE).is_some())
    }

    fn of_code(code: u8) -> Option<Self> {
        [Self::Outbound, Self::NextInbound, Self::NextOutbound, Self::Reset]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }
}

/// The header of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Of the layout, as read; what is written is of the newest.
    pub(super) version: u32,
    pub(super) generation: u64,
    pub(super) number: u64,
    pub(super) next_outbound: u64,
    pub(super) next_inbound: u64,
    pub(super) created_ns: u64,
    pub(super) previous_bytes: u64,
    pub(super) salt: u32,
    pub(super) session: String,
}

/// The reason why bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHeader {
    /// All zeroes: prepared and never used.
    Unused,
    /// Something else's file.
    Foreign,
    /// Another version of the layout.
    Version(u32),
    /// Damaged.
    Damaged,
}

impl Header {
    /// Appends the whole header page.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        let numbers = [self.generation, self.number, self.next_outbound, self.next_inbound, self.created_ns];
        for number in numbers.iter().chain(&[self.previous_bytes]) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.salt.to_le_bytes());
        let name = &self.session.as_bytes()[..self.session.len().min(NAME_MAX)];
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(name);
        out.resize(start + SECTOR - 4, 0);
        let crc = crc32fast::hash(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&mark(HEADER_BYTES as u64, self.salt).to_le_bytes());
        out.resize(start + HEADER_BYTES, 0);
    }

    /// Reads the header at the front of `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, NoHeader> {
        let Some(sector) = bytes.get(..SECTOR) else { return Err(NoHeader::Foreign) };
        if sector.iter().all(|byte| *byte == 0) {
            return Err(NoHeader::Unused);
        }
        // A process that is killed while it stores a header leaves some of its bytes as they were.
        if sector[..8].iter().zip(MAGIC).any(|(byte, expected)| *byte != expected && *byte != 0) {
            return Err(NoHeader::Foreign);
        }
        let version = u32_at(sector, 8);
        let length = usize::from(u16::from_le_bytes([sector[68], sector[69]]));
        let intact = crc32fast::hash(&sector[..SECTOR - 4]) == u32_at(sector, SECTOR - 4);
        if intact && !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(NoHeader::Version(version));
        }
        if !intact || u32_at(sector, 12) as usize != HEADER_BYTES || length > NAME_MAX {
            return Err(NoHeader::Damaged);
        }
        let number = |index: usize| u64_at(sector, 16 + 8 * index);
        let session = std::str::from_utf8(&sector[70..70 + length]).map_err(|_| NoHeader::Damaged)?;
        Ok(Self {
            version,
            generation: number(0),
            number: number(1),
            next_outbound: number(2),
            next_inbound: number(3),
            created_ns: number(4),
            previous_bytes: number(5),
            salt: u32_at(sector, 64),
            session: session.to_owned(),
        })
    }
}

/// A record in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) kind: Kind,
    /// True if everything before it was on the disk when it was written.
    pub(super) durable: bool,
    pub(super) number: u64,
    pub(super) payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at the front of `bytes`, if there is an intact one.
    pub(super) fn decode(bytes: &'a [u8], salt: u32) -> Option<Self> {
        let head = bytes.get(..RECORD_BYTES)?;
        let word = u32_at(head, 4);
        let (length, code) = ((word & 0xff_ffff) as usize, (word >> 24) as u8);
        let whole = bytes.get(..RECORD_BYTES + length)?;
        let kind = Kind::of_code(code & !DURABLE)?;
        if checksum(&whole[4..], salt) != u32_at(head, 0) {
            return None;
        }
        Some(Self { kind, durable: code & DURABLE != 0, number: u64_at(head, 8), payload: &whole[RECORD_BYTES..] })
    }

    /// Appends the record.
    pub(super) fn encode(&self, salt: u32, out: &mut Vec<u8>) {
        let start = out.len();
        let code = self.kind as u8 | if self.durable { DURABLE } else { 0 };
        let word = self.payload.len() as u32 | u32::from(code) << 24;
        let mut head = [0; RECORD_BYTES];
        head[4..8].copy_from_slice(&word.to_le_bytes());
        head[8..].copy_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(self.payload);
        let crc = checksum(&out[start + 4..], salt);
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        out.resize(start + record_bytes(self.payload.len()), 0);
    }
}

/// The mark that says that so many bytes of a segment are written.
pub(super) fn mark(bytes: u64, salt: u32) -> u64 {
    // Positions have 32 bits; a salt is never 0, so zeroes are no mark.
    let low = bytes as u32;
    u64::from(low) | u64::from(low.wrapping_mul(0x9e37_79b1) ^ salt) << 32
}

/// The content of a segment's mark, if there is one.
pub(super) fn marked(segment: &[u8], salt: u32) -> Option<u64> {
    let word = segment.get(MARK_AT as usize..HEADER_BYTES).map(|rest| u64_at(rest, 0))?;
    let bytes = word & u64::from(u32::MAX);
    (mark(bytes, salt) == word && word != 0).then_some(bytes)
}

/// Bytes of a record with such a payload.
pub(super) fn record_bytes(payload: usize) -> usize {
    (RECORD_BYTES + payload).next_multiple_of(8)
}

/// Bytes of the record that begins with `head`, by its own word; nothing is checked.
pub(super) fn claimed_bytes(head: &[u8]) -> usize {
    RECORD_BYTES + (u32_at(head, 4) & 0xff_ffff) as usize
}

/// Returns whether the bytes, if they are a record, are one that vouches for those before it.
pub(super) fn claims_to_vouch(bytes: &[u8]) -> bool {
    bytes.len() >= RECORD_BYTES && bytes[7] & DURABLE != 0 && Kind::is_code(bytes)
}

fn checksum(bytes: &[u8], salt: u32) -> u32 {
    let mut hasher = Hasher::new_with_initial(salt);
    hasher.update(bytes);
    hasher.finalize()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_nothing_else_is_one() {
        let header = Header {
            version: VERSION,
            generation: 3,
            number: 7,
            next_outbound: 11,
            next_inbound: 13,
            created_ns: 17,
            previous_bytes: 8192,
            salt: 0xdead_beef,
            session: "FIX.4.4:A->B".into(),
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(Header::decode(&bytes), Ok(header.clone()));
        assert_eq!(marked(&bytes, header.salt), Some(HEADER_BYTES as u64));
        assert_eq!(marked(&bytes, 1), None, "another segment's");
        for (version, expected) in [(1, Ok(Header { version: 1, ..header })), (3, Err(NoHeader::Version(3)))] {
            let mut other = bytes.clone();
            other[8] = version;
            let crc = crc32fast::hash(&other[..SECTOR - 4]);
            other[SECTOR - 4..SECTOR].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Header::decode(&other), expected);
        }
        bytes[40] ^= 1;
        assert_eq!(Header::decode(&bytes), Err(NoHeader::Damaged));
        bytes[0] = 0;
        assert_eq!(Header::decode(&bytes), Err(NoHeader::Damaged), "a store that was cut off");
        assert_eq!(Header::decode(&[0; 4096]), Err(NoHeader::Unused));
        assert_eq!(Header::decode(&[b'8'; 4096]), Err(NoHeader::Foreign));
        assert_eq!(Header::decode(b"short"), Err(NoHeader::Foreign));
    }

    #[test]
    fn a_record_reads_back_unless_a_bit_of_it_changed() {
        let record = Record { kind: Kind::Outbound, durable: true, number: 42, payload: b"8=FIX.4.4\x01" };
        let mut bytes = Vec::new();
        record.encode(5, &mut bytes);
        assert_eq!(bytes.len(), record_bytes(record.payload.len()));
        assert_eq!(bytes.len() % 8, 0);
        assert_eq!(Record::decode(&bytes, 5), Some(record));
        assert_eq!(Record::decode(&bytes, 6), None, "another segment's");
        for bit in 0..8 * (RECORD_BYTES + record.payload.len()) {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&bad, 5), None, "bit {bit}");
        }
        assert_eq!(Record::decode(&[0; 64], 5), None);
    }
}
