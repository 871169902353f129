//! The send sequence space: SND.*, bytes not yet acknowledged, and the size of the next segment.

use crate::tcp::tcb::buffer::Buffer;
use sidestep_wire::tcp::SequenceNumber;

/// SND.* of RFC 9293 section 3.3.1, and the bytes.
pub(crate) struct SendSpace {
    /// ISS
    iss: SequenceNumber,
    /// SND.UNA
    una: SequenceNumber,
    /// SND.NXT
    nxt: SequenceNumber,
    /// SND.WND, already shifted.
    wnd: u32,
    /// The largest window seen; half of it is worth a segment.
    wnd_max: u32,
    /// SND.WL1 and SND.WL2
    wl1: SequenceNumber,
    wl2: SequenceNumber,
    /// Snd.Wind.Shift of RFC 7323.
    shift: u8,
    /// Bytes from the first that is not acknowledged to the last that the application gave.
    buffer: Buffer,
    /// Set once the application has finished.
    fin_queued: bool,
    /// The number of our FIN, once it was sent.
    finish: Option<SequenceNumber>,
    /// Set once the timer of the cork has expired.
    cork_expired: bool,
    /// The end of the last segment in flight that was not full (Minshall's variant of Nagle's algorithm).
    small_end: Option<SequenceNumber>,
}

/// The reason for which the sender waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// There is nothing to send.
    Nothing,
    /// The peer's window.
    Window,
    /// The congestion window.
    Congestion,
    /// A small segment waits for the ACK of another.
    Nagle,
    /// The application holds small segments back.
    Cork,
}

/// The limits of the next segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The largest payload.
    pub(crate) payload_bytes: u32,
    /// The bytes that the congestion window leaves.
    pub(crate) room_bytes: u32,
    pub(crate) nodelay: bool,
    pub(crate) cork: bool,
}

impl SendSpace {
    pub(crate) fn new(iss: SequenceNumber) -> Self {
        Self {
            iss,
            una: iss,
            nxt: iss,
            wnd: 0,
            wnd_max: 0,
            wl1: SequenceNumber(0),
            wl2: SequenceNumber(0),
            shift: 0,
            buffer: Buffer::default(),
            fin_queued: false,
            finish: None,
            cork_expired: false,
            small_end: None,
        }
    }

    /// ISS
    #[inline]
    pub(crate) fn iss(&self) -> SequenceNumber {
        self.iss
    }

    /// SND.UNA
    #[inline]
    pub(crate) fn una(&self) -> SequenceNumber {
        self.una
    }

    /// SND.NXT
    #[inline]
    pub(crate) fn nxt(&self) -> SequenceNumber {
        self.nxt
    }

    /// SND.WND, already shifted.
    #[inline]
    pub(crate) fn wnd(&self) -> u32 {
        self.wnd
    }

    /// The largest window seen.
    #[inline]
    pub(crate) fn wnd_max(&self) -> u32 {
        self.wnd_max
    }

    /// SND.WL1
    pub(crate) fn wl1(&self) -> SequenceNumber {
        self.wl1
    }

    /// Snd.Wind.Shift of RFC 7323.
    #[inline]
    pub(crate) fn shift(&self) -> u8 {
        self.shift
    }

    /// The number of our FIN, once it was sent.
    #[inline]
    pub(crate) fn finish(&self) -> Option<SequenceNumber> {
        self.finish
    }

    /// Returns whether the application has finished.
    #[inline]
    pub(crate) fn is_fin_queued(&self) -> bool {
        self.fin_queued
    }

    /// Bytes from the first that is not acknowledged to the last that the application gave.
    #[inline]
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Appends bytes of the application.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.push(bytes);
    }

    /// Drops all bytes: the connection has ended.
    pub(crate) fn discard(&mut self) {
        self.buffer.clear();
    }

    /// Gives memory back that the bytes do not need.
    pub(crate) fn shrink(&mut self) {
        self.buffer.shrink();
    }

    /// Records that the application has finished: a FIN follows its last byte.
    pub(crate) fn queue_fin(&mut self) {
        self.fin_queued = true;
    }

    /// Sets the scale of the peer's windows (RFC 7323 section 2.2).
    pub(crate) fn set_shift(&mut self, shift: u8) {
        self.shift = shift;
    }

    /// Records that the SYN was sent.
    pub(crate) fn sent_syn(&mut self) {
        self.nxt = self.iss + 1;
    }

    /// Sets the number of the FIN while a segment is written: emission reads it. The caller sets the old one again if the segment
    /// had no room.
    #[inline]
    pub(crate) fn set_finish(&mut self, finish: Option<SequenceNumber>) {
        self.finish = finish;
    }

    /// Returns whether the peer has acknowledged the SYN.
    #[inline]
    pub(crate) fn is_syn_acknowledged(&self) -> bool {
        self.una != self.iss
    }

    /// The number of the buffer's first byte.
    #[inline]
    pub(crate) fn data_start(&self) -> SequenceNumber {
        if self.is_syn_acknowledged() { self.una } else { self.iss + 1 }
    }

    /// Bytes that have never been sent.
    #[inline]
    pub(crate) fn unsent(&self) -> u32 {
        if self.finish.is_some() {
            return 0;
        }
        let end = self.data_start() + self.buffer.len() as u32;
        end.distance(self.nxt.later(self.data_start())).max(0).cast_unsigned()
    }

    /// Returns whether data or a FIN waits to be sent for the first time.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent() > 0 || self.is_fin_due()
    }

    #[inline]
    fn is_fin_due(&self) -> bool {
        self.fin_queued && self.finish.is_none()
    }

    /// Returns whether a segment that was not full is in flight.
    #[inline]
    pub(crate) fn has_small_in_flight(&self) -> bool {
        self.small_end.is_some()
    }

    /// Lets the bytes leave that the cork holds back: its timer has expired.
    pub(crate) fn expire_cork(&mut self) {
        self.cork_expired = true;
    }

    /// Returns whether a cork that is set still holds small segments back.
    #[inline]
    pub(crate) fn is_corked(&self, cork: bool) -> bool {
        cork && !self.cork_expired
    }

    /// Returns whether our FIN is acknowledged.
    #[inline]
    pub(crate) fn is_fin_acknowledged(&self) -> bool {
        self.finish.is_some_and(|finish| self.una.is_after(finish))
    }

    /// The usable window. A negative one (the peer has shrunk it) counts as closed.
    #[inline]
    pub(crate) fn usable(&self) -> u32 {
        (self.una + self.wnd).distance(self.nxt).max(0).cast_unsigned()
    }

    /// Updates SND.WND from a newer segment (RFC 9293 section 3.10.7.4, fifth check). Returns whether the window has changed.
    #[inline]
    pub(crate) fn update_window(&mut self, seq: SequenceNumber, ack: SequenceNumber, wnd: u32) -> bool {
        // SND.UNA =< SEG.ACK: a late segment counts its window from a number that has moved on since.
        if ack.is_before(self.una) {
            return false;
        }
        let is_newer = self.wl1.is_before(seq) || self.wl1 == seq && self.wl2.is_at_or_before(ack);
        // A retransmission that acknowledges more than SND.UNA was sent later than all segments seen. By the RFC's check alone
        // its ACK would move SND.UNA under the old window, and with it the window's edge beyond what the peer gave.
        if !is_newer && !ack.is_after(self.una) {
            return false;
        }
        (self.wl1, self.wl2) = (self.wl1.later(seq), ack);
        self.set_window(wnd)
    }

    /// Goes on by a record of another TCP, without our FIN.
    #[cfg(feature = "audit")]
    pub(crate) fn resume(&mut self, record: &crate::tcp::Handover) {
        (self.una, self.nxt) = (record.send_start, record.sent_end());
        (self.wnd, self.wnd_max) = (record.windows.send, record.windows.send_max);
        (self.wl1, self.wl2, self.shift) = (record.windows.send_update, self.una, record.send_shift);
        self.buffer.push(&record.unacknowledged);
        self.buffer.push(&record.unsent);
    }

    /// Our FIN, at `finish`, was sent, and acknowledged or not.
    #[cfg(feature = "audit")]
    pub(crate) fn resume_fin(&mut self, finish: SequenceNumber, is_acknowledged: bool) {
        (self.finish, self.nxt) = (Some(finish), finish + 1);
        if is_acknowledged {
            self.una = self.nxt;
        }
    }

    /// Sets the window of the first segment from the peer.
    pub(crate) fn first_window(&mut self, seq: SequenceNumber, ack: SequenceNumber, wnd: u32) {
        (self.wl1, self.wl2) = (seq, ack);
        self.set_window(wnd);
    }

    fn set_window(&mut self, wnd: u32) -> bool {
        let changed = wnd != self.wnd;
        self.wnd = wnd;
        self.wnd_max = self.wnd_max.max(wnd);
        changed
    }

    /// Removes the bytes before `ack`, which have arrived: una < ack =< nxt.
    #[inline]
    pub(crate) fn acknowledge(&mut self, ack: SequenceNumber) {
        let bytes = ack.distance(self.data_start()).max(0);
        self.buffer.discard_and_rewind(bytes as usize);
        self.una = ack;
        if self.small_end.is_some_and(|end| end.is_at_or_before(ack)) {
            self.small_end = None;
        }
    }

    /// The number of bytes that the next new segment carries, and whether it carries a FIN.
    #[inline]
    pub(crate) fn next_segment(&self, limits: &Limits) -> Result<(u32, bool), Hold> {
        let unsent = self.unsent();
        if unsent == 0 && !self.is_fin_due() {
            return Err(Hold::Nothing);
        }
        let usable = self.usable();
        let bytes = self.fitting(unsent, usable, limits)?;
        // A FIN takes a number of the window, too.
        let finish = self.is_fin_due() && bytes == unsent && bytes < usable;
        if bytes > limits.room_bytes && self.una != self.nxt {
            return Err(Hold::Congestion);
        }
        if bytes < limits.payload_bytes && !finish {
            if limits.cork {
                return Err(Hold::Cork);
            }
            // RFC 9293 section 3.7.4, as Minshall changed it: only another small segment holds this one.
            if !limits.nodelay && self.small_end.is_some() {
                return Err(Hold::Nagle);
            }
        }
        Ok((bytes, finish))
    }

    /// Sender's silly window avoidance (RFC 9293 section 3.8.6.2.1): a full segment, all there is, or half of the largest
    /// window.
    #[inline]
    fn fitting(&self, unsent: u32, usable: u32, limits: &Limits) -> Result<u32, Hold> {
        let wanted = unsent.min(limits.payload_bytes);
        if wanted <= usable && usable > 0 {
            return Ok(wanted);
        }
        let worth = limits.payload_bytes.min(self.wnd_max / 2);
        if usable > 0 && usable >= worth { Ok(usable) } else { Err(Hold::Window) }
    }

    /// Records a new segment of `bytes` of data, with or without a FIN.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: u32, finish: bool, payload_max: u32) {
        self.nxt += bytes;
        if bytes < payload_max {
            self.cork_expired = false;
            if bytes > 0 {
                self.small_end = Some(self.nxt);
            }
        }
        if finish {
            self.finish = Some(self.nxt);
            self.nxt += 1;
        }
    }

    /// The payload between two numbers, SYN and FIN left out.
    #[inline]
    pub(crate) fn payload(&self, start: SequenceNumber, end: SequenceNumber) -> [&[u8]; 2] {
        let first = start.later(self.data_start());
        let count = end.distance(first).max(0);
        self.buffer.slices(first.since(self.data_start()) as usize, count as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { payload_bytes: 1000, room_bytes: 10_000, nodelay: true, cork: false };

    /// Established, the peer's window `wnd`, `bytes` to send.
    fn sender(wnd: u32, bytes: usize) -> SendSpace {
        let mut send = SendSpace::new(SequenceNumber(u32::MAX - 1));
        send.nxt += 1;
        send.acknowledge(send.nxt);
        send.first_window(SequenceNumber(0), send.una, wnd);
        send.buffer.push(&vec![7; bytes]);
        send
    }

    #[test]
    fn full_segments_then_the_rest_with_the_finish() {
        let mut send = sender(5000, 1500);
        send.fin_queued = true;
        assert_eq!(send.next_segment(&LIMITS), Ok((1000, false)));
        send.sent(1000, false, 1000);
        assert_eq!(send.next_segment(&LIMITS), Ok((500, true)));
        send.sent(500, true, 1000);
        assert_eq!(send.next_segment(&LIMITS), Err(Hold::Nothing));
        assert!(!send.has_unsent());
        send.acknowledge(send.nxt);
        assert!(send.is_fin_acknowledged() && send.buffer.is_empty());
    }

    /// RFC 9293 section 3.8.6.2.1
    #[test]
    fn no_silly_segments() {
        let mut send = sender(4000, 5000);
        send.sent(3500, false, 1000);
        assert_eq!(send.next_segment(&LIMITS), Err(Hold::Window), "500 of 4000 are not worth it");
        let send = sender(600, 5000);
        assert_eq!(send.next_segment(&LIMITS), Ok((600, false)), "half of the largest window is");
        let send = sender(0, 5000);
        assert_eq!(send.next_segment(&LIMITS), Err(Hold::Window));
    }

    /// RFC 9293 section 3.7.4
    #[test]
    fn a_small_segment_waits_for_a_small_one() {
        let limits = Limits { nodelay: false, ..LIMITS };
        let mut send = sender(9000, 1100);
        assert_eq!(send.next_segment(&limits), Ok((1000, false)));
        send.sent(1000, false, 1000);
        assert_eq!(send.next_segment(&limits), Ok((100, false)), "a full one in flight does not hold it");
        send.sent(100, false, 1000);
        send.buffer.push(&[7; 50]);
        assert_eq!(send.next_segment(&limits), Err(Hold::Nagle));
        assert_eq!(send.next_segment(&LIMITS), Ok((50, false)));
        send.acknowledge(send.nxt);
        assert_eq!(send.next_segment(&limits), Ok((50, false)));
        assert_eq!(send.next_segment(&Limits { cork: true, ..limits }), Err(Hold::Cork));
        send.fin_queued = true;
        assert_eq!(send.next_segment(&Limits { cork: true, ..limits }), Ok((50, true)), "the last one is not held");
    }

    #[test]
    fn the_congestion_window_holds_but_never_all() {
        let mut send = sender(9000, 5000);
        let narrow = Limits { room_bytes: 999, ..LIMITS };
        assert_eq!(send.next_segment(&narrow), Ok((1000, false)), "with nothing in flight one segment may go");
        send.sent(1000, false, 1000);
        assert_eq!(send.next_segment(&narrow), Err(Hold::Congestion));
    }

    /// RFC 9293 section 3.10.7.4: an old segment does not change the window.
    #[test]
    fn windows_are_taken_in_order() {
        let mut send = sender(9000, 0);
        let (seq, ack) = (SequenceNumber(10), send.una);
        assert!(send.update_window(seq, ack, 100));
        assert!(!send.update_window(seq - 1, ack, 200));
        assert!(send.update_window(seq, ack, 50), "the same segment number may shrink it");
        assert_eq!((send.wnd, send.wnd_max), (50, 9000));
        send.nxt += 10;
        assert!(send.update_window(seq - 1, ack + 10, 40), "an ACK that advances tells it, whatever its number");
        send.nxt = send.nxt - 10;
        send.nxt += 80;
        assert_eq!(send.usable(), 0, "a shrunk window is closed, not huge");
    }
}
