//! Received datagrams on their way to the sockets.

use crate::engine::bypass::{Bypass, Deliver};
use crate::udp::buffers::{Buffers, COPIES_MAX};
use crate::udp::datagram::{Datagram, Storage};
use crate::udp::room::Room;
use crate::udp::socket::{Socket, Sockets};
use sidestep_control_api::counters::{Counter, Counters};
use sidestep_frame::{FrameLink, Received};
use sidestep_stack::{Datagram as Parsed, DropReason, Verdict};

/// The places where datagrams go.
pub(crate) struct Inbox<'e> {
    pub(crate) sockets: &'e mut Sockets,
    pub(crate) buffers: &'e mut Buffers,
    pub(crate) counters: &'e Counters,
    /// The time at which the frame was taken from the ring, if it is wanted.
    pub(crate) software_ns: u64,
}

impl Inbox<'_> {
    /// Gives a frame to the stack. A datagram stays in the frame for the first of its sockets, further members of a group get
    /// copies; any other frame goes back to the link.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        bypass: &mut Bypass,
        frame: Received,
        deliver: Deliver<'_>,
    ) -> Option<(usize, Datagram)> {
        let has_room = bypass.rooms.can_be_asked_for(&bypass.link, &frame);
        let (owners, bytes, verdict) = bypass.receive(&frame, self.counters, deliver);
        match verdict {
            Verdict::Deliver(parsed) => {
                let mut sockets =
                    parsed.sockets.iter().map(|id| owners.get(id.index()).map_or(usize::MAX, |owner| *owner as usize));
                let first = sockets.next().unwrap_or(usize::MAX);
                sockets.for_each(|other| self.copy(&parsed, bytes, other));
                if has_room {
                    return Some((first, self.keep(&parsed, frame, first)));
                }
                // The program has kept more than there is room for: TCP and sending must go on.
                drop_unread(self.sockets.at(first), self.counters);
            }
            Verdict::Segment(_) => self.counters.add(Counter::Delivered, 1),
            Verdict::Refused(reason) => self.counters.add(counter_of(reason), 1),
            Verdict::Error(_) => {}
        }
        bypass.link.release(frame);
        None
    }

    /// The datagram of a socket, in its frame.
    #[inline]
    fn keep(&mut self, parsed: &Parsed<'_>, frame: Received, socket: usize) -> Datagram {
        let hardware_ns = frame.timestamp_ns();
        self.counters.add(Counter::Delivered, 1);
        if let Some(socket) = self.sockets.at(socket) {
            socket.statistics.received += 1;
        }
        self.datagram(parsed, Storage::Frame(frame), parsed.payload.start, hardware_ns)
    }

    #[cold]
    fn copy(&mut self, parsed: &Parsed<'_>, bytes: &[u8], socket: usize) {
        let unread = self.sockets.at(socket).map_or(usize::MAX, |socket| socket.queue.len());
        if let Some(receiver) = self.sockets.at(socket).filter(|socket| socket.is_beside) {
            if !receiver.has_buffer() {
                return drop_unread(Some(receiver), self.counters);
            }
            receiver.statistics.received += 1;
            self.counters.add(Counter::Delivered, 1);
            let copy = Storage::Copy(bytes[parsed.payload.clone()].into());
            return self.sockets.push(socket, self.datagram(parsed, copy, 0, None));
        }
        let has_place = Room::of(COPIES_MAX).has_place(self.buffers.held() + 1, unread);
        let Some(number) = has_place.then(|| self.buffers.take()).flatten() else {
            return drop_unread(self.sockets.at(socket), self.counters);
        };
        let payload = &bytes[parsed.payload.clone()];
        self.buffers.bytes_mut(number)[..payload.len()].copy_from_slice(payload);
        let datagram = self.datagram(parsed, Storage::Buffer(number), 0, None);
        self.counters.add(Counter::Delivered, 1);
        match self.sockets.at(socket) {
            Some(receiver) => {
                receiver.statistics.received += 1;
                self.sockets.push(socket, datagram);
            }
            None => self.buffers.give(number),
        }
    }

    #[inline]
    fn datagram(&self, parsed: &Parsed<'_>, storage: Storage, start: usize, hardware_ns: Option<u64>) -> Datagram {
        Datagram {
            storage,
            start: start as u32,
            len: parsed.payload.len() as u32,
            source: parsed.source(),
            destination: parsed.destination(),
            interface: parsed.interface,
            time_to_live: parsed.time_to_live,
            type_of_service: parsed.type_of_service,
            software_ns: self.software_ns,
            hardware_ns,
        }
    }
}

/// Counts a datagram that nobody had room for.
#[cold]
pub(crate) fn drop_unread(socket: Option<&mut Socket>, counters: &Counters) {
    counters.add(Counter::DroppedFull, 1);
    socket.into_iter().for_each(|socket| socket.statistics.dropped += 1);
}

/// The counter of a refused frame.
#[cold]
fn counter_of(reason: DropReason) -> Counter {
    match reason {
        DropReason::Ipv4Checksum
        | DropReason::UdpChecksum
        | DropReason::UdpChecksumAbsent
        | DropReason::TcpChecksum => Counter::DroppedChecksum,
        DropReason::NoSocket | DropReason::NoMember => Counter::DroppedNoSocket,
        _ => Counter::DroppedMalformed,
    }
}
