//! A segment as the state machine sees it.

use crate::tcp::demux::ids::ConnectionId;
use sidestep_wire::tcp::{Flags, Options, SequenceNumber, View};

/// A segment that has arrived; what lies outside the window is cut off on the way.
#[derive(Clone, Copy)]
pub(crate) struct Seg<'a> {
    /// SEG.SEQ; behind the SYN once that was taken.
    pub(crate) seq: SequenceNumber,
    /// SEG.ACK
    pub(crate) ack: SequenceNumber,
    pub(crate) flags: Flags,
    /// SEG.WND, not shifted.
    pub(crate) window: u16,
    pub(crate) options: Options,
    pub(crate) payload: &'a [u8],
}

impl<'a> Seg<'a> {
    #[inline]
    pub(crate) fn new(view: &View<'a>) -> Self {
        Self {
            seq: view.sequence(),
            ack: view.acknowledgement(),
            flags: view.flags(),
            window: view.window(),
            options: view.options(),
            payload: view.payload(),
        }
    }

    #[inline]
    pub(crate) fn has(&self, flags: Flags) -> bool {
        self.flags.has(flags)
    }

    /// SEG.LEN
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        let counted = |flag| u32::from(self.flags.has(flag));
        self.payload.len() as u32 + counted(Flags::SYN) + counted(Flags::FIN)
    }

    /// The number behind the segment.
    #[inline]
    pub(crate) fn end(&self) -> SequenceNumber {
        self.seq + self.len()
    }

    /// Takes the SYN away.
    pub(crate) fn without_syn(mut self) -> Self {
        self.seq += u32::from(self.has(Flags::SYN));
        self.flags = self.flags.without(Flags::SYN);
        self
    }

    /// The part that lies between `start` and `end`. A FIN beyond is cut off, too. There is no SYN.
    #[inline]
    pub(crate) fn trimmed(mut self, start: SequenceNumber, end: SequenceNumber) -> Self {
        let front = (start.distance(self.seq).max(0) as usize).min(self.payload.len());
        self.payload = &self.payload[front..];
        self.seq += front as u32;
        let room = end.distance(self.seq).max(0) as usize;
        if self.len() as usize > room {
            self.payload = &self.payload[..self.payload.len().min(room)];
            self.flags = self.flags.without(Flags::FIN);
        }
        self
    }
}

/// The answer to a segment, beside the connection's own segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing.
    None,
    /// A RST as RFC 9293 section 3.10.7.1 makes it: the segment does not belong to this connection.
    Reset,
}

/// The call that delivers payload in the frame to the application, which returns the number of bytes that it has taken.
pub(crate) type Deliver<'a> = &'a mut dyn FnMut(ConnectionId, &[u8]) -> usize;

#[cfg(test)]
mod tests {
    use super::*;

    fn seg(seq: u32, payload: &[u8], flags: Flags) -> Seg<'_> {
        let (seq, ack) = (SequenceNumber(seq), SequenceNumber(0));
        Seg { seq, ack, flags, window: 0, options: Options::NONE, payload }
    }

    /// RFC 9293 section 3.10.7.4: "tailor the segment to begin at RCV.NXT and end at the window".
    #[test]
    fn what_is_outside_the_window_is_cut() {
        let cut = |start, end| {
            let part = seg(u32::MAX, b"abcd", Flags::FIN).trimmed(SequenceNumber(start), SequenceNumber(end));
            (part.seq.0, part.payload.to_vec(), part.has(Flags::FIN))
        };
        assert_eq!(cut(u32::MAX, 100), (u32::MAX, b"abcd".to_vec(), true));
        assert_eq!(cut(1, 100), (1, b"cd".to_vec(), true));
        assert_eq!(cut(1, 3), (1, b"cd".to_vec(), false), "the FIN does not fit");
        assert_eq!(cut(1, 4), (1, b"cd".to_vec(), true));
        assert_eq!(cut(1, 1), (1, Vec::new(), false));
        assert_eq!(cut(3, 100), (3, Vec::new(), true));
    }

    #[test]
    fn the_syn_goes_first() {
        let part = seg(9, b"ab", Flags::SYN).without_syn();
        assert_eq!((part.seq.0, part.len(), part.end().0), (10, 2, 12));
    }
}
