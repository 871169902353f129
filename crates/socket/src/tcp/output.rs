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
            // The link is down or gone: what is lost by that is sent again, as on any wire.
            self.counters.add(Counter::LinkFaults, 1);
        }
    }

    /// Drops a segment made before its path got a smaller MTU: it is retransmitted in smaller ones once the connection knows.
    #[cold]
    fn refuse(&mut self, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
        self.headers.changed_mtu.extend(segment.connection);
        self.counters.add(Counter::SendTooLong, 1);
        Ok(())
    }
}

impl Output for SegmentOutput<'_> {
    #[inline]
    fn segment(&mut self, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
        let header = match self.headers.find(segment, self.routes, self.device, self.received) {
            Ok(header) => header,
            Err(Reason::NeighbourPending) if segment.connection.is_some() => return Err(NoRoom),
            // Without a route it counts as lost on the wire; what waits for its ACK is retransmitted, or given up.
            Err(_) => {
                self.counters.add(Counter::SendNoWay, 1);
                return Ok(());
            }
        };
        if !header.takes(segment.bytes()) {
            return self.refuse(segment);
        }
        let Some(frame) = self.sending.allocate_for(header.bytes() + segment.bytes()) else {
            self.counters.add(Counter::SendNoFrame, 1);
            self.flush();
            return Err(NoRoom);
        };
        let buffer = self.sending.buffer(&frame);
        let place = buffer.get_mut(header.bytes()..).unwrap_or_default();
        let written = segment.write(place).ok().and_then(|bytes| header.write(buffer, bytes));
        let Some(len) = written else {
            self.sending.discard(frame);
            self.counters.add(Counter::SendTooLong, 1);
            return Ok(());
        };
        if let Some(padding) = buffer.get_mut(len..FRAME_BYTES_MIN) {
            padding.fill(0);
        }
        let len = len.max(FRAME_BYTES_MIN);
        self.headers.is_unflushed = true;
        if !self.sending.send(frame, len) {
            self.counters.add(Counter::SendFull, 1);
            self.flush();
            return Err(NoRoom);
        }
        // The end of a message leaves before the connection's state is updated: the two overlap.
        if segment.header.flags.has(Flags::PSH) {
            self.flush();
        }
        self.counters.add(Counter::SentFrames, 1);
        self.counters.add(Counter::SentBytes, len as u64);
        Ok(())
    }
}
