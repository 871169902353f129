//! Output of TCP's segments: each is written behind its prebuilt header, straight into a frame of the link.

use crate::reason::Reason;
use crate::route_cache::RouteCache;
use crate::tcp::header_cache::HeaderCache;
use sidestep_control_api::counters::{Counter, Counters};
use sidestep_frame::xdp::Sending;
use sidestep_stack::tcp::{NoRoom, Outgoing, Output};
use sidestep_wire::tcp::Flags;

/// The shortest Ethernet frame without its check sequence (IEEE 802.3).
const FRAME_BYTES_MIN: usize = 60;

/// Writes segments behind their headers into frames of the link.
pub(crate) struct SegmentOutput<'a> {
    pub(crate) sending: Sending<'a>,
    pub(crate) headers: &'a mut HeaderCache,
    pub(crate) routes: &'a RouteCache,
    pub(crate) device: u32,
    pub(crate) counters: &'a Counters,
    /// The frame that is being answered, if any.
    pub(crate) received: Option<&'a [u8]>,
}

impl SegmentOutput<'_> {
    /// Has the device send the frames that were handed over.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if std::mem::take(&mut self.headers.is_unflushed) && self.sending.flush().is_err() {
            // The link is down or gone: its segments are retransmitted, as after any loss.
            self.counters.add(Counter::LinkFaults, 1);
        }
    }

    /// Drops a segment made before its path got a smaller MTU. The connection gets the MTU, and retransmits in smaller segments.
    #[cold]
    fn drop_oversized(&mut self, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
        self.headers.changed_mtu.extend(segment.connection);
        self.counters.add(Counter::SendTooLong, 1);
        Ok(())
    }

    /// Drops a segment without a route: it counts as lost on the wire, and is retransmitted or given up. A connection's segment
    /// waits for the neighbour's Ethernet address instead.
    #[cold]
    fn drop_unroutable(&mut self, segment: &Outgoing<'_>, reason: Reason) -> Result<(), NoRoom> {
        if reason == Reason::NeighbourPending && segment.connection.is_some() {
            return Err(NoRoom);
        }
        self.counters.add(Counter::SendNoWay, 1);
        Ok(())
    }
}

/// Pads a frame of `bytes` to the shortest one; returns its length.
#[inline]
fn pad(frame: &mut [u8], bytes: usize) -> usize {
    if let Some(padding) = frame.get_mut(bytes..FRAME_BYTES_MIN) {
        padding.fill(0);
    }
    bytes.max(FRAME_BYTES_MIN)
}

impl Output for SegmentOutput<'_> {
    #[inline]
    fn segment(&mut self, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
        let header = match self.headers.find(segment, self.routes, self.device, self.received) {
            Ok(header) => header,
            Err(reason) => return self.drop_unroutable(segment, reason),
        };
        if !header.takes(segment.bytes()) {
            return self.drop_oversized(segment);
        }
        let Some(frame) = self.sending.allocate_for(header.bytes() + segment.bytes()) else {
            self.counters.add(Counter::SendNoFrame, 1);
            self.flush();
            return Err(NoRoom);
        };
        let buffer = self.sending.buffer(&frame);
        let place = buffer.get_mut(header.bytes()..).unwrap_or_default();
        let written = segment.write(place).ok().and_then(|bytes| header.write(buffer, bytes));
        let Some(len) = written.map(|bytes| pad(buffer, bytes)) else {
            self.sending.discard(frame);
            self.counters.add(Counter::SendTooLong, 1);
            return Ok(());
        };
        self.headers.is_unflushed = true;
        if !self.sending.send(frame, len) {
            self.counters.add(Counter::SendFull, 1);
            self.flush();
            return Err(NoRoom);
        }
        // The end of a message is sent before the connection's state is updated, so that the two overlap.
        if segment.header.flags.has(Flags::PSH) {
            self.flush();
        }
        self.counters.add(Counter::SentFrames, 1);
        self.counters.add(Counter::SentBytes, len as u64);
        Ok(())
    }
}
