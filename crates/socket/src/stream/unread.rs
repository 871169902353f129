//! Bytes of a stream that were read from the kernel and are not taken yet.

use rustix::io::Errno;
use std::io;

/// The most that is read at a time, and kept for a callee that takes nothing.
const BYTES: usize = 64 << 10;

/// The buffer of one stream; without memory until the first bytes come.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Unread {
    /// Shows what is left to `deliver`; if it takes nothing of that, reads more and shows it. Returns the bytes taken; 0 is the
    /// end of the stream.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
        deliver: &mut dyn FnMut(&[u8]) -> usize,
    ) -> io::Result<usize> {
        let taken = self.show(deliver);
        if taken > 0 {
            return Ok(taken);
        }
        let count = read(self.space())?;
        if count == 0 && self.is_empty() {
            return Ok(0);
        }
        self.end += count;
        match if count > 0 { self.show(deliver) } else { 0 } {
            0 => Err(Errno::AGAIN.into()),
            taken => Ok(taken),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    #[inline]
    fn show(&mut self, deliver: &mut dyn FnMut(&[u8]) -> usize) -> usize {
        if self.is_empty() {
            return 0;
        }
        let there = &self.bytes[self.start..self.end];
        let taken = deliver(there).min(there.len());
        self.start += taken;
        taken
    }

    /// The room behind what is left.
    #[inline]
    fn space(&mut self) -> &mut [u8] {
        self.bytes.resize(BYTES, 0);
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.bytes[self.end..]
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
        let (mut unread, mut seen) = (Unread::default(), Vec::new());
        let read = |text: &'static [u8]| {
            move |space: &mut [u8]| {
                space[..text.len()].copy_from_slice(text);
                Ok(text.len())
            }
        };
        assert_eq!(unread.receive(read(b"abcd"), &mut |_| 3).unwrap(), 3);
        let mut refuse = |bytes: &[u8]| {
            seen.push(bytes.to_vec());
            0
        };
        let error = unread.receive(read(b"efg"), &mut refuse).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(seen, [&b"d"[..], b"defg"]);
        let end = unread.receive(|_| Ok(0), &mut |_| 0).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::WouldBlock, "the end comes behind what is left");
        assert_eq!(unread.receive(read(b""), &mut |bytes| bytes.len()).unwrap(), 4);
        assert_eq!(unread.receive(|_| Ok(0), &mut |_| 0).unwrap(), 0);
    }
}
