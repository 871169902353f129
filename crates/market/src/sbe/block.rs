//! Blocks: the fixed part of a message, of an entry, of a composite.

use super::{Length, Malformed};

/// What the header of a message tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the root block, as its writer has them.
    pub block_length: usize,
    /// The message's type.
    pub template: u16,
    /// The schema's id.
    pub schema: u16,
    /// The schema's version that the writer has.
    pub version: u16,
}

/// A block as it was received: the fields that only some versions have are looked up in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    block: &'a [u8],
    version: u16,
}

impl<'a> Received<'a> {
    #[inline(always)]
    pub(super) fn new(block: &'a [u8], version: u16) -> Self {
        Self { block, version }
    }

    /// The bytes of a field at `at`; nothing if the writer's version is older than `since`, or its block ends before.
    #[inline(always)]
    pub fn chunk<const BYTES: usize>(&self, since: u16, at: usize) -> Option<&'a [u8; BYTES]> {
        if self.version < since {
            return None;
        }
        self.block.get(at..)?.first_chunk()
    }

    /// The same, copied.
    #[inline(always)]
    pub fn field<const BYTES: usize>(&self, since: u16, at: usize) -> Option<[u8; BYTES]> {
        self.chunk(since, at).copied()
    }

    /// The rest of the block from `at`, where a composite begins.
    #[inline(always)]
    pub fn from(&self, at: usize) -> Self {
        Self { block: self.block.get(at..).unwrap_or_default(), version: self.version }
    }
}

/// The bytes of a message behind what was read, and the version of its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) version: u16,
}

impl<'a> Tail<'a> {
    /// The body of a message, behind its header.
    #[inline(always)]
    pub fn new(body: &'a [u8], version: u16) -> Self {
        Self { bytes: body, version }
    }

    /// The bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Takes a block of the received length, whose fields of every version have `BYTES`.
    ///
    /// # Errors
    /// Fails if `block_length` does not cover these fields, or the message ends inside the block.
    #[inline(always)]
    pub fn block<const BYTES: usize>(
        self,
        part: &'static str,
        block_length: usize,
    ) -> Result<(&'a [u8; BYTES], Received<'a>, Self), Malformed> {
        let Some((block, rest)) = self.bytes.split_at_checked(block_length) else {
            return Err(Malformed::Truncated { part, needs: block_length, bytes: self.bytes.len() });
        };
        let Some(fields) = block.first_chunk() else {
            return Err(Malformed::Block { part, needs: BYTES, block_length });
        };
        Ok((fields, Received { block, version: self.version }, Self { bytes: rest, version: self.version }))
    }

    /// Takes var-data; nothing if the writer's version is older than `since`.
    ///
    /// # Errors
    /// Fails if the message ends inside the data or its length.
    #[inline]
    pub fn data<L: Length>(self, part: &'static str, since: u16) -> Result<(Option<&'a [u8]>, Self), Malformed> {
        if self.version < since {
            return Ok((None, self));
        }
        let truncated = |needs| Malformed::Truncated { part, needs, bytes: self.bytes.len() };
        let length = L::read(self.bytes).ok_or(truncated(L::BYTES))? as usize;
        let needs = L::BYTES.saturating_add(length);
        let data = self.bytes.get(L::BYTES..needs).ok_or(truncated(needs))?;
        Ok((Some(data), Self { bytes: &self.bytes[needs..], version: self.version }))
    }
}

/// A place between the parts of a message: generated types, which have the next part.
pub trait Stage<'a> {
    /// The place where `tail` begins.
    fn at(tail: Tail<'a>) -> Self;
}

/// The place behind the last part that the schema knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End<'a>(Tail<'a>);

impl<'a> End<'a> {
    /// What a later version may have added, or what follows the entry.
    #[inline(always)]
    pub fn tail(&self) -> Tail<'a> {
        self.0
    }
}

impl<'a> Stage<'a> for End<'a> {
    #[inline(always)]
    fn at(tail: Tail<'a>) -> Self {
        Self(tail)
    }
}

/// The bytes of a field.
///
/// # Panics
/// Panics if the field is not inside the block; the generator has checked that it is.
#[inline(always)]
pub fn field<const BYTES: usize, const BLOCK: usize>(block: &[u8; BLOCK], at: usize) -> [u8; BYTES] {
    *chunk(block, at)
}

/// The bytes of a field where they stand.
///
/// # Panics
/// Panics as [`field`] does.
#[inline(always)]
pub fn chunk<const BYTES: usize, const BLOCK: usize>(block: &[u8; BLOCK], at: usize) -> &[u8; BYTES] {
    block[at..].first_chunk().expect("a field is inside its block")
}

/// The bytes of a field to be written.
///
/// # Panics
/// Panics as [`field`] does.
#[inline(always)]
pub fn chunk_mut<const BYTES: usize, const BLOCK: usize>(block: &mut [u8; BLOCK], at: usize) -> &mut [u8; BYTES] {
    block[at..].first_chunk_mut().expect("a field is inside its block")
}

/// Writes a field.
///
/// # Panics
/// Panics as [`field`] does.
#[inline(always)]
pub fn put<const BYTES: usize, const BLOCK: usize>(block: &mut [u8; BLOCK], at: usize, value: [u8; BYTES]) {
    *chunk_mut(block, at) = value;
}

/// The value; nothing if it is the null value.
#[inline(always)]
pub fn present<T: Copy + PartialEq>(value: T, null: T) -> Option<T> {
    if value == null { None } else { Some(value) }
}

/// Characters as text: up to the first NUL or byte that is not ASCII, without spaces at the end.
pub fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|byte| *byte == 0 || !byte.is_ascii()).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).unwrap_or_default().trim_end_matches(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_as_long_as_its_writer_says() {
        let tail = Tail::new(b"abcdef", 3);
        let (fields, received, rest) = tail.block::<2>("M", 4).unwrap();
        assert_eq!((fields, rest.bytes()), (b"ab", b"ef".as_slice()));
        assert_eq!(received.field(3, 2), Some(*b"cd"));
        assert_eq!(received.field::<2>(4, 2), None, "a field of a later version");
        assert_eq!(received.field::<2>(3, 3), None, "a field behind the block");
        assert_eq!(received.from(2).chunk(1, 1), Some(b"d"));
        assert_eq!(received.from(9).chunk::<1>(1, 0), None);
    }

    #[test]
    fn a_block_too_short_for_its_fields_is_refused() {
        let tail = Tail::new(b"abcdef", 0);
        let block = Malformed::Block { part: "M", needs: 2, block_length: 1 };
        assert_eq!(tail.block::<2>("M", 1).unwrap_err(), block);
        let truncated = Malformed::Truncated { part: "M", needs: 7, bytes: 6 };
        assert_eq!(tail.block::<2>("M", 7).unwrap_err(), truncated);
        assert!(tail.block::<2>("M", usize::MAX).is_err());
    }

    #[test]
    fn fields_are_put_where_they_are_read() {
        let mut block = [0; 4];
        put(&mut block, 1, 0x0203u16.to_be_bytes());
        assert_eq!((block, u16::from_be_bytes(field(&block, 1))), ([0, 2, 3, 0], 0x0203));
        assert_eq!((present(7, 7), present(6, 7)), (None, Some(6)));
    }

    #[test]
    fn text_ends_at_nul_and_at_what_is_not_ascii() {
        assert_eq!((text(b"ESH6  "), text(b"ES\0\0x"), text(b"E\xff"), text(b"")), ("ESH6", "ES", "E", ""));
    }
}
