//! The bytes that are to be written to the transport, in a buffer that does not grow.

use super::packet::{Packet, UNSEQUENCED};
use crate::units::Nanos;
use std::fmt::{self, Display, Formatter};

/// The reason why a message is not sent. Nothing of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The session is not logged in.
    NotLoggedIn,
    /// It does not fit beside what is not written yet: the server or the network does not take it as fast as it comes.
    Full,
    /// It is longer than a packet, or than the whole buffer.
    TooLong,
}

impl Display for SendError {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NotLoggedIn => "the session is not logged in",
            Self::Full => "the output is full: what was sent before is not written yet",
            Self::TooLong => "the message is longer than a packet or the output",
        })
    }
}

impl std::error::Error for SendError {}

/// The way out of a session: for messages of the application.
#[derive(Debug)]
pub struct Outbox {
    buffer: Box<[u8]>,
    /// What waits: `buffer[start..end]`.
    start: usize,
    end: usize,
    pub(super) is_open: bool,
    /// The time of what is being processed.
    pub(super) now: Nanos,
    /// The time when the last packet was given to the output.
    last: Nanos,
}

impl Outbox {
    pub(super) fn new(bytes: usize) -> Self {
        let now = Nanos(0);
        Self { buffer: vec![0; bytes].into(), start: 0, end: 0, is_open: false, now, last: now }
    }

    /// Sends one unsequenced message.
    ///
    /// # Errors
    /// [`SendError`]; nothing of it is sent then.
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        if !self.is_open {
            return Err(SendError::NotLoggedIn);
        }
        self.write(Packet { kind: UNSEQUENCED, payload: message })
    }

    /// The time when a heartbeat is due.
    pub(super) fn quiet_until(&self, heartbeat_ns: u64) -> Nanos {
        self.last.after(heartbeat_ns)
    }

    pub(super) fn write(&mut self, packet: Packet<'_>) -> Result<(), SendError> {
        let written = match packet.write(&mut self.buffer[self.end..]) {
            None if self.start > 0 => {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
                packet.write(&mut self.buffer[self.end..])
            }
            written => written,
        };
        let refused = if self.end == self.start { SendError::TooLong } else { SendError::Full };
        self.end += written.ok_or(refused)?;
        self.last = self.now;
        Ok(())
    }

    pub(super) fn waiting(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(super) fn written(&mut self, bytes: usize) {
        self.start = self.end.min(self.start.saturating_add(bytes));
        if self.start == self.end {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_does_not_fit_is_refused_whole() {
        let mut out = Outbox::new(10);
        assert_eq!(out.send(b"1"), Err(SendError::NotLoggedIn));
        out.is_open = true;
        assert_eq!(out.send(b"12345678"), Err(SendError::TooLong));
        assert_eq!(out.send(b"123456"), Ok(()));
        assert_eq!(out.send(b"1"), Err(SendError::Full));
        assert_eq!(out.waiting(), b"\0\x07U123456");
    }

    #[test]
    fn room_that_was_written_is_used_again() {
        let mut out = Outbox::new(10);
        out.is_open = true;
        out.send(b"12").unwrap();
        out.written(3);
        out.send(b"345").unwrap();
        assert_eq!(out.waiting(), b"12\0\x04U345");
        out.written(usize::MAX);
        assert_eq!(out.waiting(), b"");
    }
}
