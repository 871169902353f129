//! The messages: a number at the front, the same number at the back, a pattern between. Damage, loss, repetition and a
//! message of yesterday in today's place all show.
//!
//! ```text
//!  0         8                       size - 8      size
//!  +---------+------------------------+------------+
//!  | number  | pattern                | number     |   8-byte messages: the number alone
//!  +---------+------------------------+------------+
//! ```

use sidestep_sys::Problem;

const NUMBER: usize = size_of::<u64>();

/// A message that is sent, or one as it must arrive.
pub(super) struct Payload {
    bytes: Vec<u8>,
}

impl Payload {
    /// Of `size` bytes, at least eight.
    pub(super) fn new(size: usize) -> Self {
        Self { bytes: (0..size).map(|index| (index * 31 + 7) as u8).collect() }
    }

    /// The message with this number.
    #[inline(always)]
    pub(super) fn numbered(&mut self, number: u64) -> &[u8] {
        let number = number.to_le_bytes();
        let back = self.bytes.len() - NUMBER;
        self.bytes[..NUMBER].copy_from_slice(&number);
        self.bytes[back..].copy_from_slice(&number);
        &self.bytes
    }

    /// Returns whether `received` is the message with this number, byte by byte.
    #[inline]
    pub(super) fn check(&mut self, number: u64, received: &[u8]) -> Result<(), Problem> {
        if received == self.numbered(number) { Ok(()) } else { Err(damaged(number, received)) }
    }
}

/// The number at the front of a message; 0, which no message has, if it is too short.
#[inline(always)]
pub(super) fn number(message: &[u8]) -> u64 {
    message.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Something else arrived than what was sent.
#[cold]
pub(super) fn damaged(number: u64, received: &[u8]) -> Problem {
    let found = self::number(received);
    let what = if found == number {
        "its bytes were not those that were sent".to_owned()
    } else {
        format!("message {found} of {} bytes came in its place", received.len())
    };
    Problem::failed(format!("message {number} did not arrive as it was sent"), what)
}

/// A buffer as large as a message, into which what arrives is copied.
pub(super) struct Inbox {
    bytes: Vec<u8>,
    length: usize,
}

impl Inbox {
    /// For messages of up to `size` bytes.
    pub(super) fn new(size: usize) -> Self {
        Self { bytes: vec![0; size], length: 0 }
    }

    /// Copies a message; one that is too long is cut, and is then found to be damaged.
    #[inline(always)]
    pub(super) fn take(&mut self, message: &[u8]) {
        self.length = message.len();
        if message.len() <= self.bytes.len() {
            self.bytes[..message.len()].copy_from_slice(message);
        }
    }

    /// Returns the last copy.
    #[inline(always)]
    pub(super) fn message(&self) -> &[u8] {
        &self.bytes[..self.length.min(self.bytes.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_changed_byte_is_seen() {
        for size in [8, 9, 15, 16, 17, 64] {
            let mut payload = Payload::new(size);
            let sent = payload.numbered(0x0102_0304_0506_0708).to_vec();
            assert!(payload.check(0x0102_0304_0506_0708, &sent).is_ok(), "{size}");
            assert!(payload.check(0x0102_0304_0506_0709, &sent).is_err(), "{size}: another number");
            for at in 0..size {
                let mut changed = sent.clone();
                changed[at] ^= 0x10;
                assert!(payload.check(0x0102_0304_0506_0708, &changed).is_err(), "{size}: byte {at}");
            }
            assert!(payload.check(0x0102_0304_0506_0708, &sent[..size - 1]).is_err(), "{size}: short");
        }
    }

    #[test]
    fn an_inbox_keeps_the_last_message_and_survives_a_longer_one() {
        let mut inbox = Inbox::new(16);
        inbox.take(&[7; 16]);
        inbox.take(&[8; 9]);
        assert_eq!(inbox.message(), [8; 9]);
        inbox.take(&[9; 17]);
        assert_ne!(inbox.message(), [9; 17]);
    }
}
