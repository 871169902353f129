//! The receive sequence space: RCV.*, the window offered, and bytes that wait to be read or for a hole to be filled.

use crate::tcp::tcb::assembler::Assembler;
use crate::tcp::tcb::buffer::Buffer;
use crate::tcp::time::Instant;
use sidestep_wire::tcp::{SequenceNumber, WINDOW_SCALE_MAX};

/// RCV.* of RFC 9293 section 3.3.1, and the bytes.
pub(crate) struct ReceiveSpace {
    /// IRS
    irs: SequenceNumber,
    /// RCV.NXT
    nxt: SequenceNumber,
    /// RCV.NXT + RCV.WND: never goes back (RFC 9293 section 3.8.6, SHLD-14).
    edge: SequenceNumber,
    /// Rcv.Wind.Shift of RFC 7323.
    shift: u8,
    /// Bytes to read, and behind them those that came out of order.
    buffer: Buffer,
    assembler: Assembler,
    /// The number of the peer's FIN, once it has come, in order or not.
    finish: Option<SequenceNumber>,
    /// Set once everything up to the FIN has arrived.
    finished: bool,
    /// Set once the application does not want to read any more.
    is_shut: bool,
    /// The largest payload seen: what a full segment of the peer's is.
    segment_bytes: u32,
    /// Bytes that the window offers at present, and at most.
    limit: u32,
    limit_max: u32,
    growth: Growth,
}

/// Dynamic right-sizing: the window is twice what the application takes in a round trip.
#[derive(Default)]
struct Growth {
    since: Instant,
    taken: u32,
    until: SequenceNumber,
}

/// The result of taking the part of a segment that lies in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// In order: `bytes` became readable or were taken at once. `filled`: with what waited beyond a hole.
    InOrder { filled: bool },
    /// Beyond a hole, kept.
    OutOfOrder,
    /// There was no place for a further hole.
    Dropped,
}

impl ReceiveSpace {
    /// Makes the space before the peer's first number is known.
    pub(crate) fn new(limit: u32, limit_max: u32, scaling: bool) -> Self {
        let zero = SequenceNumber(0);
        let limit_max = limit_max.max(1);
        Self {
            irs: zero,
            nxt: zero,
            edge: zero,
            shift: if scaling { shift_for(limit_max) } else { 0 },
            buffer: Buffer::default(),
            assembler: Assembler::default(),
            finish: None,
            finished: false,
            is_shut: false,
            segment_bytes: 536,
            limit: limit.min(limit_max),
            limit_max,
            growth: Growth::default(),
        }
    }

    /// IRS
    #[inline]
    pub(crate) fn irs(&self) -> SequenceNumber {
        self.irs
    }

    /// RCV.NXT
    #[inline]
    pub(crate) fn nxt(&self) -> SequenceNumber {
        self.nxt
    }

    /// Rcv.Wind.Shift of RFC 7323.
    #[inline]
    pub(crate) fn shift(&self) -> u8 {
        self.shift
    }

    /// Bytes to read, and behind them those that came out of order.
    #[inline]
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The holes, and the blocks to report.
    #[inline]
    pub(crate) fn assembler(&self) -> &Assembler {
        &self.assembler
    }

    /// Returns whether everything up to the FIN has arrived.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns whether the application does not want to read any more.
    #[inline]
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut
    }

    /// The largest payload seen: a full segment of the peer's.
    #[inline]
    pub(crate) fn segment_bytes(&self) -> u32 {
        self.segment_bytes
    }

    /// Records that the application does not want to read any more.
    pub(crate) fn shut(&mut self) {
        self.is_shut = true;
    }

    /// Has a duplicate reported by the next SACK option (RFC 2883).
    pub(crate) fn report_duplicate(&mut self, start: SequenceNumber, end: SequenceNumber) {
        self.assembler.report_duplicate(start, end);
    }

    /// Records that the blocks were reported.
    #[inline]
    pub(crate) fn reported(&mut self) {
        self.assembler.reported();
    }

    /// Forgets bytes beyond holes: the connection has ended.
    pub(crate) fn forget_holes(&mut self) {
        self.assembler.clear();
    }

    /// Begins with the peer's SYN.
    pub(crate) fn begin(&mut self, irs: SequenceNumber) {
        self.irs = irs;
        self.nxt = irs + 1;
        self.edge = self.nxt;
        self.growth.until = self.nxt;
    }

    /// Goes on by a record of another TCP, without the peer's FIN.
    #[cfg(feature = "audit")]
    pub(crate) fn resume(&mut self, record: &crate::tcp::Handover) {
        self.irs = record.receive_end - record.received.len() as u32 - 1;
        self.nxt = record.receive_end;
        self.edge = self.nxt + record.windows.receive;
        self.shift = record.receive_shift;
        self.buffer.push(&record.received);
        self.growth.until = self.nxt;
        // By the shift that was agreed on: the other TCP's own may express more.
        self.set_limit(self.limit_max);
        // The peer's FIN has a number of the window, but takes no room.
        let bytes = record.received.len() as u32 + record.windows.receive - u32::from(record.has_peer_fin);
        self.limit_max = self.limit_max.max(bytes);
        self.limit = self.limit.max(bytes);
    }

    /// Turns window scaling off, as the peer does not scale (RFC 7323 section 2.2).
    pub(crate) fn without_scaling(&mut self) {
        self.shift = 0;
        self.limit_max = self.limit_max.min(u32::from(u16::MAX));
        self.limit = self.limit.min(self.limit_max);
    }

    /// RCV.WND
    #[inline]
    pub(crate) fn window(&self) -> u32 {
        self.edge.since(self.nxt)
    }

    /// Moves the right edge if the step is large enough (RFC 9293 section 3.8.6.2.2: by a segment or half the buffer), and gives
    /// the window for a header. `scaled`: not on a SYN.
    #[inline]
    pub(crate) fn offer(&mut self, scaled: bool) -> u16 {
        self.edge = self.next_edge();
        self.offered(scaled)
    }

    /// The window for a header, with the right edge where it is.
    pub(crate) fn offered(&self, scaled: bool) -> u16 {
        let shift = if scaled { self.shift } else { 0 };
        (self.window() >> shift).min(u32::from(u16::MAX)) as u16
    }

    #[inline]
    fn next_edge(&self) -> SequenceNumber {
        let free = self.limit.saturating_sub(self.buffer.len() as u32);
        // The window is at most what the header can express.
        let most = u32::from(u16::MAX) << self.shift;
        let candidate = self.nxt + free.min(most);
        let worth = self.segment_bytes.min(self.limit / 2).max(1);
        let more = candidate.distance(self.edge);
        if more > 0 && more.cast_unsigned() >= worth { candidate } else { self.edge }
    }

    /// Returns whether a window update is worth sending: the application has read twice a segment or half
    /// the buffer, and that is twice the window that the peer knows.
    pub(crate) fn is_update_due(&self) -> bool {
        let more = self.next_edge().since(self.edge);
        more > 0 && more >= self.window() && more >= (2 * self.segment_bytes).min(self.limit / 2)
    }

    /// Returns whether payload that begins at RCV.NXT may be lent to the application: no older byte waits, no hole is open.
    #[inline]
    pub(crate) fn can_lend(&self) -> bool {
        self.buffer.is_empty() && self.assembler.is_empty()
    }

    /// Returns whether no hole is open, nothing is to be reported, and neither end has finished with this direction.
    #[inline]
    pub(crate) fn is_in_order(&self) -> bool {
        self.finish.is_none() && !self.is_shut && !self.assembler.has_report()
    }

    /// Takes payload at RCV.NXT, of which the application has read the first `taken` bytes in the frame.
    #[inline]
    pub(crate) fn take_in_order(&mut self, payload: &[u8], taken: usize) -> Taken {
        self.segment_bytes = self.segment_bytes.max(payload.len() as u32);
        let (gone, kept) = payload.split_at(taken.min(payload.len()));
        debug_assert!(gone.is_empty() || self.can_lend());
        self.growth.taken = self.growth.taken.saturating_add(gone.len() as u32);
        self.buffer.push(kept);
        self.nxt += payload.len() as u32;
        if self.assembler.is_empty() {
            return Taken::InOrder { filled: false };
        }
        if let Some(end) = self.assembler.advance(self.nxt) {
            self.buffer.extend(end.since(self.nxt) as usize);
            self.nxt = end;
        }
        Taken::InOrder { filled: true }
    }

    /// Takes payload beyond a hole; it lies within the window.
    pub(crate) fn take_beyond(&mut self, start: SequenceNumber, payload: &[u8], ranges_max: usize) -> Taken {
        self.segment_bytes = self.segment_bytes.max(payload.len() as u32);
        let end = start + payload.len() as u32;
        if self.assembler.insert(start, end, ranges_max).is_err() {
            return Taken::Dropped;
        }
        self.buffer.write_behind(start.since(self.nxt) as usize, payload);
        Taken::OutOfOrder
    }

    /// Records the number of the FIN that has come, in order or not.
    pub(crate) fn note_fin(&mut self, finish: SequenceNumber) {
        self.finish = Some(finish);
    }

    /// Takes the FIN if everything before it is there.
    #[inline]
    pub(crate) fn take_finish(&mut self) -> bool {
        if self.finished || self.finish != Some(self.nxt) {
            return false;
        }
        self.nxt += 1;
        self.edge = self.edge.later(self.nxt);
        // Behind a FIN there is nothing, whatever a peer that violates RFC 9293 has sent there.
        self.assembler.clear();
        self.finished = true;
        true
    }

    /// Removes `count` bytes that the application has read.
    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.buffer.len());
        self.buffer.discard(count);
        self.growth.taken = self.growth.taken.saturating_add(count as u32);
    }

    /// Opens the window if the application takes more in a round trip than half of it.
    #[inline]
    pub(crate) fn grow(&mut self, now: Instant, rtt_ns: Option<u64>) {
        if self.limit >= self.limit_max {
            return;
        }
        // Without a measured round trip, a window's worth of data has taken one at least.
        let is_over = match rtt_ns {
            Some(rtt_ns) => now.since_ns(self.growth.since) >= rtt_ns,
            None => self.nxt.is_at_or_after(self.growth.until),
        };
        if !is_over {
            return;
        }
        let wanted = self.growth.taken.saturating_mul(2);
        if wanted > self.limit {
            self.limit = wanted.min(self.limit_max);
        }
        self.growth = Growth { since: now, taken: 0, until: self.edge };
    }

    /// Changes the limit on unread bytes. The window never shrinks.
    pub(crate) fn set_limit(&mut self, limit_max: u32) {
        // A window below the unit of the scale would be zero in the header, for ever.
        self.limit_max = limit_max.clamp(1 << self.shift, u32::from(u16::MAX) << self.shift);
        self.limit = self.limit.min(self.limit_max);
    }

    /// The most that may wait, the window included.
    #[cfg(feature = "audit")]
    pub(crate) fn limit_bytes(&self) -> u32 {
        self.limit_max
    }

    /// Gives memory back once the application does not read any more, unless bytes beyond a hole lie in it.
    pub(crate) fn shrink(&mut self) {
        if self.assembler.is_empty() {
            self.buffer.shrink();
        }
    }
}

/// The least shift with which the header can express a window of `bytes` (RFC 7323 section 2.2).
fn shift_for(bytes: u32) -> u8 {
    (0..WINDOW_SCALE_MAX).find(|shift| bytes >> shift <= u32::from(u16::MAX)).unwrap_or(WINDOW_SCALE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(limit: u32, limit_max: u32) -> ReceiveSpace {
        let mut receive = ReceiveSpace::new(limit, limit_max, true);
        receive.begin(SequenceNumber(u32::MAX));
        receive.offer(true);
        receive
    }

    #[test]
    fn holes_are_filled() {
        let mut receive = receiver(10_000, 10_000);
        let start = receive.nxt;
        assert_eq!(receive.take_beyond(start + 3, b"def", 8), Taken::OutOfOrder);
        assert_eq!(receive.take_beyond(start + 9, b"jkl", 8), Taken::OutOfOrder);
        assert!(!receive.can_lend());
        assert_eq!(receive.take_in_order(b"abc", 0), Taken::InOrder { filled: true });
        assert_eq!(receive.buffer.slices(0, 99).concat(), b"abcdef");
        assert_eq!(receive.take_in_order(b"ghi", 0), Taken::InOrder { filled: true });
        assert_eq!(receive.buffer.slices(0, 99).concat(), b"abcdefghijkl");
        assert_eq!(receive.nxt, start + 12);
    }

    #[test]
    fn what_is_lent_is_not_kept() {
        let mut receive = receiver(10_000, 10_000);
        assert_eq!(receive.take_in_order(b"abcdef", 4), Taken::InOrder { filled: false });
        assert_eq!(receive.buffer.slices(0, 99).concat(), b"ef");
        assert!(!receive.can_lend(), "what is older comes first");
    }

    #[test]
    fn a_finish_waits_for_what_is_before_it() {
        let mut receive = receiver(10_000, 10_000);
        receive.note_fin(receive.nxt + 3);
        assert!(!receive.take_finish());
        receive.take_in_order(b"abc", 0);
        assert!(receive.take_finish() && !receive.take_finish());
    }

    /// RFC 9293 section 3.8.6.2.2 and SHLD-14
    #[test]
    fn the_window_opens_in_worthy_steps_and_never_shrinks() {
        let mut receive = receiver(4000, 4000);
        assert_eq!(receive.window(), 4000);
        receive.take_in_order(&[0; 1000], 0);
        receive.take_in_order(&[0; 3000], 0);
        assert_eq!(receive.offer(true), 0);
        receive.consume(500);
        assert_eq!(receive.offer(true), 0, "500 bytes are no step");
        assert!(!receive.is_update_due());
        receive.consume(1500);
        assert!(receive.is_update_due(), "half the buffer is");
        assert_eq!(receive.offer(true), 2000);
        let edge = receive.edge;
        receive.set_limit(100);
        receive.offer(true);
        assert_eq!(receive.edge, edge, "what was given stays given");
    }

    /// RFC 7323 section 2.2
    #[test]
    fn the_shift_is_the_least_that_tells_the_buffer() {
        assert_eq!([65_535, 65_536, 6 << 20, u32::MAX].map(shift_for), [0, 1, 7, 14]);
        let mut receive = receiver(100_000, 1 << 20);
        assert_eq!(receive.offer(true), (100_000_u32 >> 5) as u16);
        receive.without_scaling();
        assert_eq!((receive.shift, receive.limit), (0, 65_535));
    }

    #[test]
    fn the_window_grows_with_what_is_read() {
        let mut receive = receiver(10_000, 100_000);
        let at = Instant::from_nanos;
        receive.take_in_order(&[0; 8000], 8000);
        receive.grow(at(100), Some(100));
        assert_eq!(receive.limit, 16_000);
        receive.grow(at(150), Some(100));
        receive.grow(at(200), Some(100));
        assert_eq!(receive.limit, 16_000, "nothing was read in this round trip");
        receive.offer(true);
        receive.take_in_order(&[0; 16_000], 16_000);
        receive.take_in_order(&[0; 60_000], 60_000);
        receive.grow(at(300), Some(100));
        assert_eq!(receive.limit, 100_000);
    }
}
