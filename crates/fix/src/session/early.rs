//! Messages beyond a gap, kept until the gap is filled. The store is bounded: a message without room is requested again.

use std::collections::VecDeque;

/// Messages kept at most: they are short when an attacker sends them.
const EARLY_MESSAGES_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct Early {
    bytes: Vec<u8>,
    bytes_max: usize,
    /// In rising order of numbers.
    kept: VecDeque<Kept>,
}

#[derive(Debug, Clone, Copy)]
struct Kept {
    seq: u64,
    at: usize,
    len: usize,
}

/// The state of the expected sequence number.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing.
    Missing,
    /// Its message came early and was answered then.
    Answered,
    /// Its message, now in the caller's buffer.
    Message,
}

impl Early {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), bytes_max, kept: VecDeque::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Keeps a message; an empty one stands for a message that was answered when it came. Returns whether there was room.
    pub(super) fn keep(&mut self, seq: u64, message: &[u8]) -> bool {
        let place = self.kept.partition_point(|kept| kept.seq < seq);
        if self.kept.get(place).is_some_and(|kept| kept.seq == seq) {
            return true;
        }
        if self.kept.len() >= EARLY_MESSAGES_MAX || self.bytes.len() + message.len() > self.bytes_max {
            return false;
        }
        self.kept.insert(place, Kept { seq, at: self.bytes.len(), len: message.len() });
        self.bytes.extend_from_slice(message);
        true
    }

    /// Takes the message with the expected number out, and forgets those before it.
    pub(super) fn take(&mut self, expected: u64, into: &mut Vec<u8>) -> Next {
        while self.kept.front().is_some_and(|kept| kept.seq < expected) {
            self.kept.pop_front();
        }
        let next = match self.kept.front() {
            Some(kept) if kept.seq == expected => {
                into.clear();
                into.extend_from_slice(&self.bytes[kept.at..kept.at + kept.len]);
                let answered = kept.len == 0;
                self.kept.pop_front();
                if answered { Next::Answered } else { Next::Message }
            }
            _ => Next::Missing,
        };
        if self.kept.is_empty() {
            self.bytes.clear();
        }
        next
    }

    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_in_order_however_they_came() {
        let mut early = Early::new(100);
        let mut out = Vec::new();
        for seq in [7, 5, 6, 9, 5] {
            assert!(early.keep(seq, format!("m{seq}").as_bytes()));
        }
        assert!(early.keep(8, b""));
        assert_eq!(early.take(4, &mut out), Next::Missing);
        for seq in [5, 6, 7] {
            assert_eq!(early.take(seq, &mut out), Next::Message);
            assert_eq!(out, format!("m{seq}").as_bytes());
        }
        assert_eq!(early.take(8, &mut out), Next::Answered);
        assert_eq!(early.take(10, &mut out), Next::Missing);
        assert!(early.is_empty() && early.bytes.is_empty());
    }

    #[test]
    fn what_has_no_room_is_not_kept() {
        let mut early = Early::new(10);
        assert!(early.keep(2, b"123456"));
        assert!(!early.keep(3, b"123456"));
        let mut many = Early::new(1 << 20);
        assert_eq!((0..10_000).filter(|seq| many.keep(*seq, b"x")).count(), EARLY_MESSAGES_MAX);
    }
}
