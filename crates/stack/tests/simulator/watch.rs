//! What a stranger on the link may see of one side of one connection, checked segment by segment.

use super::stream::is_stream;
use sidestep_stack::tcp::Outgoing;
use sidestep_wire::tcp::{Flags, Segment, SequenceNumber};

/// ISNs that one flow may use in one schedule: a SYN-ACK that is given up, or cookies of several minutes.
const BEGINNINGS_MAX: usize = 64;

/// One side's segments so far.
#[derive(Default)]
pub struct Watch {
    beginnings: Vec<SequenceNumber>,
    /// Behind the last number that was sent.
    pub sent_end: Option<SequenceNumber>,
    /// The highest acknowledgement, and the highest right edge of the window.
    pub ack: Option<SequenceNumber>,
    pub edge: Option<SequenceNumber>,
    shift: Option<u8>,
    segment_bytes: Option<u16>,
    pub segments: u64,
    resets: u64,
    /// Resets of both sides when the connection began.
    resets_before: u64,
    /// Behind the FIN.
    finish: Option<SequenceNumber>,
}

macro_rules! rule {
    ($holds:expr, $segment:expr, $($values:tt)*) => {
        if !$holds {
            return Err(format!("{} in {:?}: {}", stringify!($holds), $segment, format!($($values)*)));
        }
    };
}

impl Watch {
    /// A segment of this side leaves; `peer` is the other side, `key` the stream's.
    pub fn see(&mut self, peer: &Self, outgoing: &Outgoing<'_>, key: u32) -> Result<(), String> {
        let header = &outgoing.header;
        self.segments += 1;
        if header.flags.has(Flags::RST) {
            self.resets += 1;
            rule!(outgoing.payload_bytes() == 0, header, "a RST with payload");
            return Ok(());
        }
        let resets = self.resets + peer.resets;
        if resets > self.resets_before && self.ack.is_some_and(|before| header.acknowledgement.is_before(before)) {
            // A late SYN, or a handshake's last ACK that comes after the connection of its cookie was aborted by either side,
            // begins it once more with the same numbers: a listener that kept nothing cannot know (RFC 4987 section 3.6).
            (self.ack, self.edge, self.finish, self.resets_before) = (None, None, None, resets);
        }
        if header.flags.has(Flags::SYN) {
            self.see_syn(peer, header)?;
        }
        self.see_payload(peer, outgoing, key)?;
        if header.flags.has(Flags::ACK) { self.see_ack(peer, header) } else { Ok(()) }
    }

    fn see_syn(&mut self, peer: &Self, header: &Segment) -> Result<(), String> {
        // A late SYN after the end: the listener answers it, by a cookie perhaps, which has the number that an earlier one
        // had and says less. What the other end, in TIME-WAIT, goes on to say is of the connection that was.
        let is_stray = header.flags.has(Flags::ACK) && self.is_finished(peer);
        if !self.beginnings.contains(&header.sequence) {
            self.beginnings.push(header.sequence);
            rule!(self.beginnings.len() < BEGINNINGS_MAX, header, "too many beginnings");
            // The numbers of an attempt that came to nothing do not bind the next.
            (self.sent_end, self.ack, self.edge, self.finish) = (None, None, None, None);
        } else if is_stray {
            (self.ack, self.edge, self.finish) = (None, None, None);
        }
        if !is_stray {
            self.shift = header.options.window_scale;
            self.segment_bytes = header.options.maximum_segment_size;
        }
        Ok(())
    }

    /// Whether the other side has acknowledged this side's FIN.
    fn is_finished(&self, peer: &Self) -> bool {
        self.finish.zip(peer.ack).is_some_and(|(finish, ack)| ack.is_at_or_after(finish))
    }

    fn see_payload(&mut self, peer: &Self, outgoing: &Outgoing<'_>, key: u32) -> Result<(), String> {
        let (header, bytes) = (&outgoing.header, outgoing.payload_bytes());
        let flags = header.flags;
        let taken = bytes as u32 + u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN));
        let end = header.sequence + taken;
        if bytes > 0 {
            let [first, second] = outgoing.payload;
            let is_right = self.beginnings.iter().any(|iss| {
                let offset = header.sequence.since(*iss).wrapping_sub(1) as usize;
                is_stream(key, offset, first) && is_stream(key, offset + first.len(), second)
            });
            rule!(is_right, header, "{bytes} wrong bytes, ISS {:?}", self.beginnings);
            let most = peer.segment_bytes.unwrap_or(536).max(48);
            let with_options = bytes + header.options.bytes();
            rule!(with_options <= usize::from(most), header, "{with_options} bytes, the peer takes {most}");
        }
        if taken > 0 && !flags.has(Flags::SYN) {
            // One byte, or a FIN, may ask whether a closed window has opened.
            let is_within = peer.edge.is_none_or(|edge| end.is_at_or_before(edge + 1));
            rule!(is_within, header, "ends at {end}, the window at {:?}", peer.edge);
        }
        if flags.has(Flags::FIN) {
            let finish = *self.finish.get_or_insert(end);
            rule!(finish == end, header, "a second FIN, the first ended at {finish}");
        }
        let is_behind = taken > 0 && self.finish.is_some_and(|finish| end.is_after(finish));
        rule!(!is_behind, header, "behind its FIN");
        self.sent_end = Some(self.sent_end.map_or(end, |before| before.later(end)));
        Ok(())
    }

    fn see_ack(&mut self, peer: &Self, header: &Segment) -> Result<(), String> {
        let ack = header.acknowledgement;
        // An old SYN may make a half-open connection where the old one was forgotten; the other end of that one still
        // acknowledges its numbers.
        let sent_end = peer.sent_end.filter(|_| peer.beginnings.len() == 1);
        rule!(sent_end.is_none_or(|end| ack.is_at_or_before(end)), header, "acknowledges unsent: {sent_end:?}");
        let before = self.ack.unwrap_or(ack);
        rule!(ack.is_at_or_after(before), header, "acknowledged {before} before");
        self.ack = Some(ack);
        let is_scaled = !header.flags.has(Flags::SYN) && self.shift.is_some() && peer.shift.is_some();
        let shift = if is_scaled { self.shift.unwrap_or(0) } else { 0 };
        let edge = ack + (u32::from(header.window) << shift);
        let before = self.edge.unwrap_or(edge);
        // What the shift cuts off may be taken back; and a SYN cannot say more than 65 535.
        let is_kept = (edge + (1 << shift)).is_after(before) || header.flags.has(Flags::SYN);
        rule!(is_kept, header, "the edge goes back from {before} to {edge}");
        self.edge = Some(before.later(edge));
        for block in header.options.sack.as_slice() {
            rule!(block.start.is_before(block.end), header, "an empty block");
            rule!(sent_end.is_none_or(|end| block.end.is_at_or_before(end)), header, "a block of what was never sent");
        }
        Ok(())
    }
}
