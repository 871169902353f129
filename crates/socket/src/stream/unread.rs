//! Bytes of a stream that were read and are not taken yet, and the buffer into which they are read.

use rustix::io::Errno;
use std::io;

/// The most that is read at a time, and kept for a callee that takes nothing.
const BYTES: usize = 64 << 10;

/// The buffer into which the streams of one thread are read, one after the other; without memory until the first read.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffer(Vec<u8>);

impl ReadBuffer {
    #[inline]
    fn bytes(&mut self) -> &mut [u8] {
        if self.0.is_empty() {
            self.0.resize(BYTES, 0);
        }
        &mut self.0
    }
}

/// The bytes that a callee has left; without memory where there are none.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    bytes: Vec<u8>,
    start: usize,
}

impl Unread {
    /// Shows what is left to `deliver`; if it takes nothing of that, reads more and shows both. Returns the bytes taken; 0 is the
    /// end of the stream.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        buffer: &mut ReadBuffer,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
        deliver: &mut dyn FnMut(&[u8]) -> usize,
    ) -> io::Result<usize> {
        if !self.is_empty() {
            return self.receive_behind(buffer, read, deliver);
        }
        let bytes = buffer.bytes();
        match read(bytes)? {
            0 => Ok(0),
            count => self.show(&bytes[..count], deliver),
        }
    }

    #[cold]
    fn receive_behind(
        &mut self,
        buffer: &mut ReadBuffer,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
        deliver: &mut dyn FnMut(&[u8]) -> usize,
    ) -> io::Result<usize> {
        let taken = self.show_left(deliver);
        if taken > 0 {
            return Ok(taken);
        }
        let (bytes, left) = (buffer.bytes(), &self.bytes[self.start..]);
        let kept = left.len();
        bytes[..kept].copy_from_slice(left);
        match read(&mut bytes[kept..])? {
            // The end comes behind what is left.
            0 => Err(Errno::AGAIN.into()),
            count => self.show(&bytes[..kept + count], deliver),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Shows what is left, and returns the bytes taken.
    pub(crate) fn show_left(&mut self, deliver: &mut dyn FnMut(&[u8]) -> usize) -> usize {
        let left = &self.bytes[self.start..];
        let taken = deliver(left).min(left.len());
        self.start += taken;
        if self.start == self.bytes.len() {
            *self = Self::default();
        }
        taken
    }

    #[inline]
    fn show(&mut self, there: &[u8], deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        let taken = deliver(there).min(there.len());
        if taken < there.len() || !self.is_empty() {
            self.keep(&there[taken..]);
        }
        if taken == 0 { Err(Errno::AGAIN.into()) } else { Ok(taken) }
    }

    #[cold]
    fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            *self = Self::default();
        } else {
            self.bytes.clear();
            self.bytes.extend_from_slice(rest);
            self.start = 0;
        }
    }
}

/// Copies what a stream shows to `buffer`, as far as there is room.
pub(crate) fn copy_to(buffer: &mut [u8]) -> impl FnMut(&[u8]) -> usize {
    let mut filled = 0;
    move |bytes| {
        let count = bytes.len().min(buffer.len() - filled);
        buffer[filled..filled + count].copy_from_slice(&bytes[..count]);
        filled += count;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_taken_is_shown_again_with_what_comes_behind_it() {
        let (mut unread, mut buffer, mut seen) = (Unread::default(), ReadBuffer::default(), Vec::new());
        let buffer = &mut buffer;
        let read = |text: &'static [u8]| {
            move |space: &mut [u8]| {
                space[..text.len()].copy_from_slice(text);
                Ok(text.len())
            }
        };
        assert_eq!(unread.receive(buffer, read(b"abcd"), &mut |_| 3).unwrap(), 3);
        let mut refuse = |bytes: &[u8]| {
            seen.push(bytes.to_vec());
            0
        };
        let error = unread.receive(buffer, read(b"efg"), &mut refuse).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(seen, [&b"d"[..], b"defg"]);
        let end = unread.receive(buffer, |_| Ok(0), &mut |_| 0).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::WouldBlock, "the end comes behind what is left");
        assert_eq!(unread.receive(buffer, read(b""), &mut |bytes| bytes.len()).unwrap(), 4);
        assert_eq!(unread.receive(buffer, |_| Ok(0), &mut |_| 0).unwrap(), 0);
    }

    #[test]
    fn what_is_left_has_memory_only_while_it_is_left() {
        let (mut unread, mut buffer) = (Unread::default(), ReadBuffer::default());
        let read = |space: &mut [u8]| {
            space[..4].copy_from_slice(b"abcd");
            Ok(4)
        };
        assert_eq!(unread.receive(&mut buffer, read, &mut |_| 4).unwrap(), 4);
        assert_eq!(unread.bytes.capacity(), 0);
        assert_eq!(unread.receive(&mut buffer, read, &mut |_| 1).unwrap(), 1);
        assert!(unread.bytes.capacity() < 64);
        assert_eq!(unread.receive(&mut buffer, |_| unreachable!("something is left"), &mut |_| 3).unwrap(), 3);
        assert_eq!(unread.bytes.capacity(), 0);
        // As much as the buffer holds stays, and no more is read.
        let full = |space: &mut [u8]| Ok(space.len());
        for _ in 0..3 {
            let full_again = unread.receive(&mut buffer, full, &mut |_| 0).unwrap_err();
            assert_eq!(full_again.kind(), io::ErrorKind::WouldBlock);
        }
        assert_eq!(unread.bytes.len(), BYTES);
    }
}
