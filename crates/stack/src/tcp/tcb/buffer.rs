//! Bytes in a ring that grows up to its limit: memory is taken when data waits, not when a connection is made.

/// The first allocation: room for some small messages. With many connections what is small stays in the cache.
const BYTES_MIN: usize = 256;

/// A queue of bytes, with room behind its end for bytes that arrive out of order.
#[derive(Default)]
pub(crate) struct Buffer {
    /// A power of two long, or empty.
    bytes: Vec<u8>,
    head: usize,
    len: usize,
}

impl Buffer {
    /// Bytes in the queue.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Loads where the next bytes will be written.
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        let at = (self.head + self.len) & self.bytes.len().wrapping_sub(1);
        self.bytes.get(at).copied().unwrap_or_default().into()
    }

    /// Appends.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        // Most often it fits in front of the wrap.
        let size = self.bytes.len();
        let start = (self.head + self.len) & size.wrapping_sub(1);
        let is_room = self.len + bytes.len() <= size;
        match self.bytes.get_mut(start..start + bytes.len()) {
            Some(place) if is_room => copy(bytes, place),
            _ => self.write_behind(0, bytes),
        }
        self.len += bytes.len();
    }

    /// Writes `bytes` so that they begin `distance` behind the queue's end, without making them part of it. The caller
    /// keeps `distance + bytes.len()` within its window.
    pub(crate) fn write_behind(&mut self, distance: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.reserve(self.len + distance + bytes.len());
        let mask = self.bytes.len() - 1;
        let start = (self.head + self.len + distance) & mask;
        let before_wrap = bytes.len().min(self.bytes.len() - start);
        let (first, second) = bytes.split_at(before_wrap);
        copy(first, &mut self.bytes[start..start + before_wrap]);
        copy(second, &mut self.bytes[..second.len()]);
    }

    /// Makes the `count` bytes behind the end, which were written there before, part of the queue.
    pub(crate) fn extend(&mut self, count: usize) {
        debug_assert!(self.len + count <= self.bytes.len());
        self.len += count;
    }

    fn reserve(&mut self, needed: usize) {
        if needed <= self.bytes.len() {
            return;
        }
        let mut larger = vec![0; needed.next_power_of_two().max(BYTES_MIN)];
        // What stands behind the end comes along.
        let (second, first) = self.bytes.split_at(self.head);
        larger[..first.len()].copy_from_slice(first);
        larger[first.len()..first.len() + second.len()].copy_from_slice(second);
        (self.bytes, self.head) = (larger, 0);
    }

    /// Up to `count` bytes from `offset` on, in at most two pieces.
    #[inline]
    pub(crate) fn slices(&self, offset: usize, count: usize) -> [&[u8]; 2] {
        let offset = offset.min(self.len);
        let count = count.min(self.len - offset);
        if count == 0 {
            return [&[], &[]];
        }
        let start = (self.head + offset) & (self.bytes.len() - 1);
        let before_wrap = count.min(self.bytes.len() - start);
        [&self.bytes[start..start + before_wrap], &self.bytes[..count - before_wrap]]
    }

    /// Removes up to `count` bytes from the front.
    #[inline]
    pub(crate) fn discard(&mut self, count: usize) {
        let count = count.min(self.len);
        if self.bytes.is_empty() {
            return;
        }
        self.head = (self.head + count) & (self.bytes.len() - 1);
        self.len -= count;
    }

    /// [`Buffer::discard`] where nothing stands behind the end: an empty queue begins at the front again, so that small
    /// messages use the same cache lines over and over.
    #[inline]
    pub(crate) fn discard_and_rewind(&mut self, count: usize) {
        self.discard(count);
        if self.len == 0 {
            self.head = 0;
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Gives back the memory that what is in the queue does not need. Nothing stands behind the end, and nothing more comes.
    pub(crate) fn shrink(&mut self) {
        let needed = if self.len == 0 { 0 } else { self.len.next_power_of_two().max(BYTES_MIN) };
        if needed < self.bytes.len() {
            let mut smaller = Self { bytes: vec![0; needed], ..Self::default() };
            self.slices(0, self.len).into_iter().for_each(|piece| smaller.push(piece));
            *self = smaller;
        }
    }

    /// Gives the memory back.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Bytes of one call of memcpy. From 4 KiB on (AVX2; 8 KiB with AVX-512) glibc has the CPU copy by `rep movsb`, which is slow on AMD EPYC for
/// some positions of the two places: a stream in blocks of 16 KiB took 349 or 281 ns for 1,448 bytes in place of 233.
const COPY_BYTES: usize = 2048;

/// Copies `from` to `to`, which is as long.
#[inline]
pub(crate) fn copy(from: &[u8], to: &mut [u8]) {
    for (from, to) in from.chunks(COPY_BYTES).zip(to.chunks_mut(COPY_BYTES)) {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_vector(steps in prop::collection::vec((0_usize..5000, 0_usize..5000), 1..40)) {
            let (mut buffer, mut plain, mut number) = (Buffer::default(), Vec::new(), 0_u8);
            for (push, discard) in steps {
                let bytes: Vec<u8> = (0..push).map(|index| number.wrapping_add((index % 251) as u8)).collect();
                number = number.wrapping_add(7);
                buffer.push(&bytes);
                plain.extend(&bytes);
                buffer.discard(discard);
                plain.drain(..discard.min(plain.len()));
                prop_assert_eq!(buffer.len(), plain.len());
                prop_assert_eq!(buffer.slices(0, usize::MAX).concat(), &plain[..]);
                let middle = plain.len() / 2;
                prop_assert_eq!(buffer.slices(middle, 10).concat(), &plain[middle..plain.len().min(middle + 10)]);
            }
        }

        #[test]
        fn what_is_there_survives_shrinking(push in 0_usize..9000, discard in 0_usize..9000) {
            let mut buffer = Buffer::default();
            buffer.push(&[0; 5000]);
            buffer.discard(5000);
            let bytes: Vec<u8> = (0..push).map(|index| index as u8).collect();
            buffer.push(&bytes);
            buffer.discard(discard);
            buffer.shrink();
            let left = &bytes[discard.min(push)..];
            prop_assert_eq!(buffer.slices(0, usize::MAX).concat(), left);
            prop_assert!(buffer.memory_bytes() <= 2 * left.len().max(128));
        }

        #[test]
        fn what_stands_behind_the_end_survives_growth(distance in 0_usize..3000, more in 0_usize..9000) {
            let mut buffer = Buffer::default();
            buffer.push(&[1; 1500]);
            buffer.discard(1400);
            buffer.write_behind(distance, &[2; 100]);
            buffer.write_behind(distance + 100 + more, &[3; 10]);
            buffer.extend(distance + 100);
            prop_assert_eq!(buffer.slices(100 + distance, 100).concat(), vec![2; 100]);
        }
    }
}
