//! Messages written into a buffer of the caller.

use super::{Dimension, Header, Length, Unwritable};

/// Groups within groups; the schemas that venues publish have two.
pub const NESTING_MAX: usize = 6;

/// The header of messages: a composite of the schema.
pub trait MessageHeader {
    /// Its length on the wire.
    const BYTES: usize;

    /// The header; nothing if the bytes end before.
    fn read(bytes: &[u8]) -> Option<Header>;

    /// Writes a header; nothing if the bytes end before.
    fn write(bytes: &mut [u8], header: Header) -> Option<()>;
}

/// A buffer and what is written into it so far. Generated encoders hand it on from part to part, so that all are written in order.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    /// Bytes written.
    at: usize,
    /// The block whose fields can be set.
    block: usize,
    /// The dimensions of the groups that are open, by their depth.
    open: [usize; NESTING_MAX],
}

impl<'a> Writer<'a> {
    /// Nothing is written yet.
    #[inline]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, at: 0, block: 0, open: [0; NESTING_MAX] }
    }

    #[inline]
    fn take(&mut self, bytes: usize) -> Result<&mut [u8], Unwritable> {
        let (at, has) = (self.at, self.buffer.len());
        let needs = at.saturating_add(bytes);
        let taken = self.buffer.get_mut(at..needs).ok_or(Unwritable::Full { needs, bytes: has })?;
        self.at = needs;
        Ok(taken)
    }

    /// Writes the header of a message.
    ///
    /// # Errors
    /// Fails if the buffer is full.
    #[inline]
    pub fn header<H: MessageHeader>(&mut self, header: Header) -> Result<(), Unwritable> {
        let bytes = self.take(H::BYTES)?;
        bytes.fill(0);
        H::write(bytes, header).ok_or(Unwritable::Full { needs: H::BYTES, bytes: 0 })
    }

    /// Writes a block of zeros, in which `blank` sets the null values.
    ///
    /// # Errors
    /// Fails if the buffer is full.
    #[inline]
    pub fn block<const BYTES: usize>(&mut self, blank: impl FnOnce(&mut [u8; BYTES])) -> Result<(), Unwritable> {
        let start = self.at;
        self.take(BYTES)?;
        self.block = start;
        let block = self.fields::<BYTES>();
        *block = [0; BYTES];
        blank(block);
        Ok(())
    }

    /// The block that was written last.
    ///
    /// # Panics
    /// Panics if that had fewer bytes; generated code asks for what it has written.
    #[inline]
    pub fn fields<const BYTES: usize>(&mut self) -> &mut [u8; BYTES] {
        self.buffer[self.block..].first_chunk_mut().expect("the block is written")
    }

    /// Writes the dimension of a group of no entries. `depth` is 0 for a group of a message, 1 for one of its entries, and so on.
    ///
    /// # Errors
    /// Fails if the buffer is full.
    #[inline]
    pub fn group<D: Dimension>(&mut self, depth: usize, block_length: usize) -> Result<(), Unwritable> {
        let start = self.at;
        let bytes = self.take(D::BYTES)?;
        bytes.fill(0);
        D::write(bytes, block_length, 0);
        self.open[depth] = start;
        Ok(())
    }

    /// Adds an entry to the group that is open at this depth; its block can be set.
    ///
    /// # Errors
    /// Fails if the buffer is full, or the group has as many entries as it can count. The group is as it was then.
    #[inline]
    pub fn entry<D: Dimension, const BYTES: usize>(
        &mut self,
        depth: usize,
        blank: impl FnOnce(&mut [u8; BYTES]),
    ) -> Result<&mut [u8; BYTES], Unwritable> {
        let dimension = self.open[depth];
        let (block_length, count) = D::read(&self.buffer[dimension..]).unwrap_or_default();
        if count >= D::COUNT_MAX {
            return Err(Unwritable::TooManyEntries { max: D::COUNT_MAX });
        }
        self.block(blank)?;
        D::write(&mut self.buffer[dimension..], block_length, count + 1);
        Ok(self.fields())
    }

    /// Writes var-data with its length.
    ///
    /// # Errors
    /// Fails if the buffer is full, or the data is longer than its length field can tell.
    #[inline]
    pub fn data<L: Length>(&mut self, data: &[u8]) -> Result<(), Unwritable> {
        let length = u32::try_from(data.len()).ok().filter(|length| *length <= L::MAX);
        let length = length.ok_or(Unwritable::TooLong { max: L::MAX })?;
        let bytes = self.take(L::BYTES.saturating_add(data.len()))?;
        let (prefix, place) = bytes.split_at_mut(L::BYTES);
        prefix.fill(0);
        L::write(prefix, length);
        place.copy_from_slice(data);
        Ok(())
    }

    /// Bytes written.
    #[inline]
    pub fn written(&self) -> usize {
        self.at
    }
}
