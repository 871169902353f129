//! A store that forgets with the process, and the oldest message first when it is full.

use super::{Store, Visit};
use sidestep_sys::Problem;
use std::collections::VecDeque;

/// The default size of kept messages, bytes: some 300 000 orders.
pub const MEMORY_BYTES_DEFAULT: usize = 64 << 20;

/// Messages kept at most for each byte of the limit: an entry costs memory, too, however short its message is.
const BYTES_PER_MESSAGE_MIN: usize = 32;

/// Memory that is touched ahead of the next message, and the pages it comes in, bytes.
const AHEAD_BYTES: usize = 2 * PAGE_BYTES;
const PAGE_BYTES: usize = 4096;

/// Messages in one ring of bytes. What falls out is answered by gap fills.
#[derive(Debug)]
pub struct MemoryStore {
    next_outbound: u64,
    next_inbound: u64,
    created_utc_ns: i64,
    bytes: Box<[u8]>,
    /// The place of the next message.
    end: usize,
    /// No byte from here on was ever written.
    fresh: usize,
    kept: VecDeque<Kept>,
    forgotten: u64,
}

#[derive(Debug, Clone, Copy)]
struct Kept {
    seq: u64,
    at: usize,
    len: usize,
}

impl MemoryStore {
    /// A store of a session created at `utc_ns`, which keeps [`MEMORY_BYTES_DEFAULT`] bytes.
    #[must_use]
    pub fn new(utc_ns: i64) -> Self {
        Self::with_bytes(utc_ns, MEMORY_BYTES_DEFAULT)
    }

    /// A store that keeps at most `bytes` bytes of messages. The memory is taken once, here.
    #[must_use]
    pub fn with_bytes(utc_ns: i64, bytes: usize) -> Self {
        Self {
            next_outbound: 1,
            next_inbound: 1,
            created_utc_ns: utc_ns,
            bytes: vec![0; bytes].into_boxed_slice(),
            end: 0,
            fresh: 0,
            kept: VecDeque::with_capacity((bytes / 128).min(1 << 20)),
            forgotten: 0,
        }
    }

    /// Messages that fell out because newer ones needed their place.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Touches the memory of the next messages, when nothing is urgent. Else the answer to one order in ten waits for a page fault,
    /// which makes 1 us three (`examples/order_cost.rs`).
    pub(crate) fn touch_ahead(&mut self) {
        let until = (self.end + AHEAD_BYTES).min(self.bytes.len());
        while self.fresh < until {
            self.bytes[self.fresh] = 0;
            self.fresh = (self.fresh / PAGE_BYTES + 1) * PAGE_BYTES;
        }
    }

    fn forget_oldest(&mut self) {
        if self.kept.pop_front().is_some() {
            self.forgotten += 1;
        }
    }

    /// Makes room for `len` bytes in one piece and says where.
    fn room(&mut self, len: usize) -> Option<usize> {
        if len > self.bytes.len() {
            return None;
        }
        if self.end + len > self.bytes.len() {
            self.free(self.end, self.bytes.len());
            self.end = 0;
        }
        self.free(self.end, self.end + len);
        while self.kept.len() >= (self.bytes.len() / BYTES_PER_MESSAGE_MIN).max(1) {
            self.forget_oldest();
        }
        Some(self.end)
    }

    /// Forgets what lies in `from..to`. The oldest message is always the next one met there.
    fn free(&mut self, from: usize, to: usize) {
        while self.kept.front().is_some_and(|kept| kept.at < to && kept.at + kept.len > from) {
            self.forget_oldest();
        }
    }

    /// Index of the first kept message whose number is at least `seq`.
    fn first_from(&self, seq: u64) -> usize {
        self.kept.partition_point(|kept| kept.seq < seq)
    }
}

impl Store for MemoryStore {
    fn next_outbound(&self) -> u64 {
        self.next_outbound
    }

    fn next_inbound(&self) -> u64 {
        self.next_inbound
    }

    fn record_outbound(&mut self, seq: u64, message: &[u8]) -> Result<(), Problem> {
        self.next_outbound = seq + 1;
        if message.is_empty() {
            return Ok(());
        }
        // A number that was set back by hand is used again: what follows it is history.
        self.kept.truncate(self.first_from(seq));
        let Some(at) = self.room(message.len()) else {
            self.forgotten += 1;
            return Ok(());
        };
        self.bytes[at..at + message.len()].copy_from_slice(message);
        self.end = at + message.len();
        self.fresh = self.fresh.max(self.end);
        self.kept.push_back(Kept { seq, at, len: message.len() });
        Ok(())
    }

    fn record_inbound(&mut self, next: u64) -> Result<(), Problem> {
        self.next_inbound = next;
        Ok(())
    }

    fn set_next_outbound(&mut self, next: u64) -> Result<(), Problem> {
        self.next_outbound = next;
        Ok(())
    }

    fn outbound(&mut self, from: u64, to: u64, visit: &mut Visit<'_>) -> Result<(), Problem> {
        let first = self.first_from(from);
        for kept in self.kept.iter().skip(first).take_while(|kept| kept.seq <= to) {
            if visit(kept.seq, &self.bytes[kept.at..kept.at + kept.len]).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn reset(&mut self, utc_ns: i64) -> Result<(), Problem> {
        self.next_outbound = 1;
        self.next_inbound = 1;
        self.created_utc_ns = utc_ns;
        self.kept.clear();
        self.end = 0;
        Ok(())
    }

    fn created_utc_ns(&self) -> i64 {
        self.created_utc_ns
    }

    /// The end of the ring is left empty where a message does not fit, and short messages are limited by their count.
    fn keeps_bytes(&self) -> usize {
        self.bytes.len() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    fn numbers(store: &mut MemoryStore, from: u64, to: u64) -> Vec<(u64, usize)> {
        let mut seen = Vec::new();
        let mut visit = |seq, message: &[u8]| {
            assert!(message.iter().all(|byte| *byte == seq as u8), "message {seq} is another's bytes");
            seen.push((seq, message.len()));
            ControlFlow::Continue(())
        };
        store.outbound(from, to, &mut visit).unwrap();
        seen
    }

    #[test]
    fn messages_come_back_in_order_and_by_range() {
        let mut store = MemoryStore::with_bytes(0, 1000);
        for seq in [1, 2, 5, 6] {
            store.record_outbound(seq, &[seq as u8; 10]).unwrap();
        }
        store.record_outbound(7, b"").unwrap();
        assert_eq!(numbers(&mut store, 2, 6), [(2, 10), (5, 10), (6, 10)]);
        assert_eq!(numbers(&mut store, 7, u64::MAX), []);
        assert_eq!(store.next_outbound(), 8);
    }

    #[test]
    fn the_oldest_fall_out_and_the_rest_stays_whole() {
        let mut store = MemoryStore::with_bytes(0, 1000);
        for seq in 1..=200_u64 {
            store.record_outbound(seq, &vec![seq as u8; 37 + (seq as usize * 13) % 70]).unwrap();
            let kept = numbers(&mut store, 1, u64::MAX);
            assert_eq!(kept.last().unwrap().0, seq);
            assert!(kept.iter().map(|(_, len)| len).sum::<usize>() <= 1000);
            assert!(kept.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1));
        }
        assert!(store.forgotten() > 180);
    }

    #[test]
    fn a_number_used_again_replaces_what_followed() {
        let mut store = MemoryStore::with_bytes(0, 1000);
        for seq in 1..=5 {
            store.record_outbound(seq, &[seq as u8; 9]).unwrap();
        }
        store.set_next_outbound(3).unwrap();
        store.record_outbound(3, &[3; 20]).unwrap();
        assert_eq!(numbers(&mut store, 1, 9), [(1, 9), (2, 9), (3, 20)]);
    }

    #[test]
    fn a_message_larger_than_the_store_is_counted_as_forgotten() {
        let mut store = MemoryStore::with_bytes(0, 8);
        store.record_outbound(1, &[1; 9]).unwrap();
        assert_eq!((store.next_outbound(), store.forgotten()), (2, 1));
    }

    #[test]
    fn memory_that_is_touched_ahead_holds_what_it_held() {
        let (mut store, mut touched) = (MemoryStore::with_bytes(0, 20_000), MemoryStore::with_bytes(0, 20_000));
        for seq in 1..=200_u64 {
            let message = vec![seq as u8 | 1; 37 + (seq as usize * 13) % 700];
            store.record_outbound(seq, &message).unwrap();
            touched.record_outbound(seq, &message).unwrap();
            touched.touch_ahead();
            assert_eq!(store.bytes, touched.bytes, "after message {seq}");
        }
    }

    #[test]
    fn reset_forgets_all() {
        let mut store = MemoryStore::with_bytes(1, 100);
        store.record_outbound(1, &[1; 9]).unwrap();
        store.record_inbound(9).unwrap();
        store.reset(77).unwrap();
        assert_eq!((store.next_outbound(), store.next_inbound(), store.created_utc_ns()), (1, 1, 77));
        assert_eq!(numbers(&mut store, 1, 9), []);
    }
}
