//! From a stream of bytes to messages.
//!
//! ```text
//! 8=FIX.4.4␁9=61␁ 35=A␁34=1␁ ... 108=30␁ 10=007␁
//!                 |<---- BodyLength ---->|
//! ```
//!
//! A message ends where BodyLength says, never at the first `10=`: data fields may hold anything. When there is no `10=`
//! in that place, the message is garbled and reaches up to the next `␁10=nnn␁`, so that a BodyLength that is too long takes
//! the next message with it (FIX session test case 2m, and what QuickFIX does). When the front is no
//! `8=...␁9=digits␁`, bytes are dropped up to the next place that is one.

mod cut;

pub(crate) use cut::TRAILER_BYTES;
pub use cut::{Counters, Fault, Garbled};

use cut::{Cut, Cutter};

/// Largest message by default. Orders have 200 bytes, the largest lists and definitions seen in practice some 20 KiB.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The most that a caller may ask for: a position must fit a `u32`, and one peer may not take all memory.
pub const MESSAGE_BYTES_LIMIT: usize = 16 * 1024 * 1024;

/// Room for what is read beyond one message, so that one call of the kernel brings many.
const READ_BYTES: usize = 64 * 1024;

/// Below this much room at the end the rest is moved to the front.
const SPARE_BYTES_MIN: usize = 4 * 1024;

/// A stream of bytes that is cut into messages, with a bounded buffer for those that are not there whole.
///
/// What is read into the buffer comes out by [`next`](Self::next). What is in memory already comes out by
/// [`next_in`](Self::next_in), where it stands: only a message that comes in parts is copied.
#[derive(Debug)]
pub struct Framer {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    cutter: Cutter,
}

impl Default for Framer {
    fn default() -> Self {
        Self::new(MESSAGE_BYTES_MAX)
    }
}

impl Framer {
    /// Accepts messages of up to `message_bytes_max` bytes (at least 64, at most [`MESSAGE_BYTES_LIMIT`]).
    pub fn new(message_bytes_max: usize) -> Self {
        let message_bytes_max = message_bytes_max.clamp(64, MESSAGE_BYTES_LIMIT);
        let buffer = vec![0; message_bytes_max + READ_BYTES].into_boxed_slice();
        Self { buffer, start: 0, end: 0, cutter: Cutter::new(message_bytes_max) }
    }

    /// The same with a buffer of little more than one message: for one that is short, from who may be a stranger.
    pub(crate) fn small(message_bytes_max: usize) -> Self {
        let buffer = vec![0; message_bytes_max + SPARE_BYTES_MIN].into_boxed_slice();
        Self { buffer, start: 0, end: 0, cutter: Cutter::new(message_bytes_max) }
    }

    /// The bytes after the last message that was returned.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The place to read the next bytes into. Never empty once [`next`](Self::next) has returned `None`.
    pub fn spare(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.buffer.len() - self.end < SPARE_BYTES_MIN {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.buffer[self.end..]
    }

    /// Says that `count` bytes were read into [`spare`](Self::spare).
    pub fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.buffer.len());
    }

    /// Takes what fits of `bytes`; returns how many. For bytes that are already in memory.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let spare = self.spare();
        let count = bytes.len().min(spare.len());
        spare[..count].copy_from_slice(&bytes[..count]);
        self.filled(count);
        count
    }

    /// The next whole message, `None` when more bytes are needed. Call it again after an error that is not fatal; a fatal
    /// one comes again until [`clear`](Self::clear). The checksum is the decoder's.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<&[u8]>, Garbled> {
        match self.cutter.cut(&self.buffer[self.start..self.end]) {
            Cut::Partial => Ok(None),
            Cut::Message(count) => {
                let from = self.start;
                self.start += count;
                Ok(Some(&self.buffer[from..self.start]))
            }
            Cut::Garbled(count, garbled) => {
                self.start += count;
                Err(garbled)
            }
        }
    }

    /// The next whole message of the bytes that wait here and of `bytes`, which follow them, where it stands. What it was cut from
    /// is taken off the front of `bytes`. `None` when more are needed: `bytes` is then empty, and its rest kept here.
    pub fn next_in<'a, 'b: 'a>(&'a mut self, bytes: &mut &'b [u8]) -> Result<Option<&'a [u8]>, Garbled> {
        if self.start < self.end {
            self.complete(bytes);
            return self.next();
        }
        match self.cutter.cut(bytes) {
            Cut::Partial => {
                if !bytes.is_empty() {
                    self.keep(bytes);
                }
                Ok(None)
            }
            Cut::Message(count) => Ok(bytes.split_off(..count)),
            Cut::Garbled(count, garbled) => {
                *bytes = &bytes[count..];
                Err(garbled)
            }
        }
    }

    /// Adds to what waits here as much of `bytes` as its message lacks.
    fn complete(&mut self, bytes: &mut &[u8]) {
        loop {
            let lacking = self.cutter.lacking(&self.buffer[self.start..self.end]).min(bytes.len());
            let count = self.push(&bytes[..lacking]);
            if count == 0 {
                return;
            }
            *bytes = &bytes[count..];
        }
    }

    /// Takes what fits of `bytes` off their front.
    pub(crate) fn keep(&mut self, bytes: &mut &[u8]) {
        let count = self.push(bytes);
        *bytes = &bytes[count..];
    }

    /// Bytes that are waiting for the rest of their message.
    pub fn pending(&self) -> usize {
        self.end - self.start
    }

    /// The messages and the garbled bytes so far.
    pub fn counters(&self) -> Counters {
        self.cutter.counters()
    }

    /// Forgets all bytes and a fatal fault: a new connection.
    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
        self.cutter.forget();
    }
}

#[cfg(test)]
mod tests;
