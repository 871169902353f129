//! The messages that were published last, by sequence number.

use crate::itch::MESSAGE_MAX;

/// A message and its length.
#[derive(Debug, Clone, Copy)]
struct Cell {
    length: u8,
    bytes: [u8; MESSAGE_MAX],
}

/// A ring of messages. Its memory is reserved once: 45 bytes for each message.
#[derive(Debug)]
pub struct History {
    cells: Vec<Cell>,
    next: u64,
    limit: usize,
}

impl History {
    /// Keeps the last `limit` messages, at least one. The first message is number 1.
    pub fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        Self { cells: Vec::with_capacity(limit), next: 1, limit }
    }

    /// The sequence number of the message that comes next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Messages that are kept at most.
    pub fn limit(&self) -> u64 {
        self.limit as u64
    }

    /// The oldest message that is kept; [`Self::next`] if none is.
    pub fn oldest(&self) -> u64 {
        self.next - self.cells.len() as u64
    }

    /// A message that is kept.
    pub fn message(&self, sequence: u64) -> Option<&[u8]> {
        if !(self.oldest()..self.next).contains(&sequence) {
            return None;
        }
        let cell = &self.cells[self.place(sequence)];
        Some(&cell.bytes[..usize::from(cell.length)])
    }

    /// Appends a message of up to [`MESSAGE_MAX`] bytes; a longer one is cut there.
    pub fn push(&mut self, message: &[u8]) {
        let mut cell = Cell { length: message.len().min(MESSAGE_MAX) as u8, bytes: [0; MESSAGE_MAX] };
        let length = usize::from(cell.length);
        cell.bytes[..length].copy_from_slice(&message[..length]);
        let place = self.place(self.next);
        match self.cells.get_mut(place) {
            Some(old) => *old = cell,
            None => self.cells.push(cell),
        }
        self.next += 1;
    }

    fn place(&self, sequence: u64) -> usize {
        ((sequence - 1) % self.limit as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_messages_are_kept_and_older_ones_are_not() {
        let mut history = History::new(3);
        assert_eq!((history.oldest(), history.next(), history.message(0), history.message(1)), (1, 1, None, None));
        for byte in 1..=5_u8 {
            history.push(&[byte; 7]);
        }
        assert_eq!((history.oldest(), history.next()), (3, 6));
        assert_eq!(history.message(2), None);
        assert_eq!(history.message(3), Some(&[3; 7][..]));
        assert_eq!(history.message(5), Some(&[5; 7][..]));
        assert_eq!((history.message(6), history.message(u64::MAX)), (None, None));
        history.push(&[9; 100]);
        assert_eq!(history.message(6).map(<[u8]>::len), Some(MESSAGE_MAX));
    }
}
