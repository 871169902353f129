//! Repeating groups and var-data.

use super::{Malformed, Received, Stage, Tail};
use std::marker::PhantomData;

/// The dimension of groups: a composite of the schema with `blockLength` and `numInGroup`.
pub trait Dimension {
    /// Its length on the wire.
    const BYTES: usize;
    /// The greatest number of entries.
    const COUNT_MAX: u32;

    /// Block length and number of entries; nothing if the bytes end before.
    fn read(bytes: &[u8]) -> Option<(usize, u32)>;

    /// Writes both; nothing if the bytes end before.
    fn write(bytes: &mut [u8], block_length: usize, count: u32) -> Option<()>;
}

/// The length of var-data: the first part of a composite of the schema.
pub trait Length {
    /// Bytes before the data.
    const BYTES: usize;
    /// The greatest length.
    const MAX: u32;

    /// The length; nothing if the bytes end before.
    fn read(bytes: &[u8]) -> Option<u32>;

    /// Writes it; nothing if the bytes end before.
    fn write(bytes: &mut [u8], length: u32) -> Option<()>;
}

/// An entry that is a block, without groups or var-data of its own.
pub trait Entry<'a>: Sized {
    /// The group's name.
    const PART: &'static str;
    /// Bytes of the fields that every version has.
    const BYTES: usize;

    /// The entry in a block; nothing if that is too short.
    fn of(block: &'a [u8], received: Received<'a>) -> Option<Self>;
}

/// An entry with groups or var-data of its own.
pub trait NestedEntry<'a>: Sized {
    /// The group's name.
    const PART: &'static str;

    /// Takes an entry from the bytes, and finds its end.
    ///
    /// # Errors
    /// Fails if a part of it does.
    fn take(tail: Tail<'a>, block_length: usize) -> Result<(Self, Tail<'a>), Malformed>;
}

/// A group whose entries are blocks. It was checked as a whole: reading cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a, E, Next> {
    /// Whole entries.
    bytes: &'a [u8],
    /// Not 0.
    block_length: usize,
    tail: Tail<'a>,
    of: PhantomData<fn() -> (E, Next)>,
}

impl<'a, E: Entry<'a>, Next: Stage<'a>> Group<'a, E, Next> {
    /// Reads the dimension and checks the length of all entries; a group of no entries if the writer's version is older than `since`.
    ///
    /// # Errors
    /// Fails if the message ends inside the group, or entries are shorter than their fields.
    #[inline]
    pub fn open<D: Dimension>(tail: Tail<'a>, since: u16) -> Result<Self, Malformed> {
        if tail.version < since {
            return Ok(Self { bytes: &[], block_length: 1, tail, of: PhantomData });
        }
        let part = E::PART;
        let truncated = |needs| Malformed::Truncated { part, needs, bytes: tail.bytes.len() };
        let (block_length, count) = D::read(tail.bytes).ok_or(truncated(D::BYTES))?;
        if count > 0 && block_length < E::BYTES {
            return Err(Malformed::Block { part, needs: E::BYTES, block_length });
        }
        if count > 0 && block_length == 0 {
            return Err(Malformed::EmptyEntries { part });
        }
        let needs = block_length.saturating_mul(count as usize);
        let entries = tail.bytes.get(D::BYTES..).unwrap_or_default();
        let Some((bytes, rest)) = entries.split_at_checked(needs) else {
            return Err(truncated(needs.saturating_add(D::BYTES)));
        };
        let tail = Tail { bytes: rest, version: tail.version };
        Ok(Self { bytes, block_length: block_length.max(1), tail, of: PhantomData })
    }

    /// Entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.block_length
    }

    /// There are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The entry at an index from 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<E> {
        let at = index.checked_mul(self.block_length)?;
        let block = self.bytes.get(at..)?.get(..self.block_length)?;
        E::of(block, Received::new(block, self.tail.version))
    }

    /// The entries in order.
    #[inline]
    pub fn iter(&self) -> Entries<'a, E> {
        Entries { bytes: self.bytes, block_length: self.block_length, version: self.tail.version, of: PhantomData }
    }

    /// What follows the group.
    #[inline]
    pub fn after(&self) -> Next {
        Next::at(self.tail)
    }
}

impl<'a, E: Entry<'a>, Next: Stage<'a>> IntoIterator for Group<'a, E, Next> {
    type Item = E;
    type IntoIter = Entries<'a, E>;

    #[inline]
    fn into_iter(self) -> Entries<'a, E> {
        self.iter()
    }
}

impl<'a, E: Entry<'a>, Next: Stage<'a>> IntoIterator for &Group<'a, E, Next> {
    type Item = E;
    type IntoIter = Entries<'a, E>;

    #[inline]
    fn into_iter(self) -> Entries<'a, E> {
        self.iter()
    }
}

/// The entries of a [`Group`].
#[derive(Clone, Debug)]
pub struct Entries<'a, E> {
    bytes: &'a [u8],
    block_length: usize,
    version: u16,
    of: PhantomData<fn() -> E>,
}

impl<'a, E: Entry<'a>> Iterator for Entries<'a, E> {
    type Item = E;

    #[inline(always)]
    fn next(&mut self) -> Option<E> {
        let (block, rest) = self.bytes.split_at_checked(self.block_length)?;
        self.bytes = rest;
        E::of(block, Received::new(block, self.version))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.bytes.len() / self.block_length;
        (left, Some(left))
    }
}

impl<'a, E: Entry<'a>> ExactSizeIterator for Entries<'a, E> {}

/// A group whose entries have groups or var-data of their own: each is checked as it comes.
#[derive(Clone, Debug)]
pub struct NestedGroup<'a, E, Next> {
    left: u32,
    block_length: usize,
    tail: Tail<'a>,
    failed: Option<Malformed>,
    of: PhantomData<fn() -> (E, Next)>,
}

impl<'a, E: NestedEntry<'a>, Next: Stage<'a>> NestedGroup<'a, E, Next> {
    /// Reads the dimension; a group of no entries if the writer's version is older than `since`.
    ///
    /// # Errors
    /// Fails if the message ends inside the dimension.
    #[inline]
    pub fn open<D: Dimension>(tail: Tail<'a>, since: u16) -> Result<Self, Malformed> {
        if tail.version < since {
            return Ok(Self { left: 0, block_length: 0, tail, failed: None, of: PhantomData });
        }
        let truncated = Malformed::Truncated { part: E::PART, needs: D::BYTES, bytes: tail.bytes.len() };
        let (block_length, left) = D::read(tail.bytes).ok_or(truncated)?;
        let tail = Tail { bytes: tail.bytes.get(D::BYTES..).unwrap_or_default(), version: tail.version };
        Ok(Self { left, block_length, tail, failed: None, of: PhantomData })
    }

    /// Entries that are left, as the writer says; after an error none.
    #[inline]
    pub fn left(&self) -> u32 {
        self.left
    }

    fn step(&mut self) -> Result<E, Malformed> {
        let (entry, end) = E::take(self.tail, self.block_length)?;
        if end.bytes.len() == self.tail.bytes.len() {
            return Err(Malformed::EmptyEntries { part: E::PART });
        }
        self.tail = end;
        Ok(entry)
    }

    /// What follows the group; entries that are left are skipped.
    ///
    /// # Errors
    /// Fails if one of the entries was refused, or is.
    pub fn after(mut self) -> Result<Next, Malformed> {
        for entry in &mut self {
            entry?;
        }
        self.failed.map_or(Ok(Next::at(self.tail)), Err)
    }
}

impl<'a, E: NestedEntry<'a>, Next: Stage<'a>> Iterator for NestedGroup<'a, E, Next> {
    type Item = Result<E, Malformed>;

    /// The next entry. Nothing comes after an error.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let step = self.step();
        if let Err(error) = step {
            self.left = 0;
            self.failed = Some(error);
        }
        Some(step)
    }
}
