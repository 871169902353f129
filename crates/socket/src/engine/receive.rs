//! Receiving: out of the ring, out of the sockets' queues, out of the kernel.

use super::share::Room;
use super::socket::{Handle, Socket, Sockets};
use super::{Bypass, Deliver, Engine};
use crate::buffers::{Buffers, COPIES_MAX};
use crate::datagram::{Datagram, Place};
use crate::error::Error;
use crate::heartbeat_writer::realtime_ns;
use sidestep_control_api::counters::{Counter, Counters};
use sidestep_frame::{FrameLink, Received};
use sidestep_stack::{Datagram as Parsed, DropReason, Verdict};
use std::net::SocketAddr;

/// Frames taken from the ring in one call: about as many microseconds, so that a flood for one socket does not keep the
/// program from its other work.
pub(crate) const FRAMES_PER_CALL: usize = 64;

/// The places where datagrams go.
struct Inbox<'e> {
    sockets: &'e mut Sockets,
    buffers: &'e mut Buffers,
    counters: &'e Counters,
    /// The time at which the frame was taken from the ring, if it is wanted.
    software_ns: u64,
}

impl Engine {
    /// The next datagram of a socket. No system call while its traffic goes past the kernel; one that the kernel's socket has
    /// is fetched, too, once the thread beside us has seen it. The datagram must be given back.
    #[inline]
    pub fn receive(&mut self, handle: Handle) -> Result<Option<Datagram>, Error> {
        let place = self.place(handle)?;
        let has_time = self.turn();
        if has_time {
            // A feed that never pauses must not keep connections from their timers and ACKs, nor other queues from frames.
            self.drive_streams(true);
            self.idle();
        }
        if self.sockets.queued != 0
            && let Some(datagram) = self.sockets.at(place).and_then(|socket| socket.queue.pop_front())
        {
            self.sockets.queued -= 1;
            return Ok(Some(datagram));
        }
        for _ in 0..FRAMES_PER_CALL {
            match self.next_frame(&mut |_, _| 0) {
                None => break,
                Some(Some((owner, datagram))) if owner == place => return Ok(Some(datagram)),
                Some(datagram) => datagram.into_iter().for_each(|(owner, datagram)| self.queue(owner, datagram)),
            }
        }
        Ok(self.receive_seldom(place))
    }

    /// Takes what has come, for all sockets, into their queues; returns how many datagrams are unread. Everything else that
    /// has to be done now and then is done here, too.
    pub fn poll(&mut self) -> Result<usize, Error> {
        self.poll_with(&mut |_, _| 0)
    }

    /// The same; payload of TCP in order is shown to `deliver` first, as [`crate::tcp::Tcp::poll_with`] says.
    pub(crate) fn poll_with(&mut self, deliver: Deliver<'_>) -> Result<usize, Error> {
        if !self.guard.is_same_process() {
            return Err(Error::Forked);
        }
        let has_time = self.turn();
        // Before anything is received: what the program has answered to the last burst has taken its ACKs along.
        self.drive_streams(has_time);
        let mut frames = 0;
        while frames < FRAMES_PER_CALL {
            let Some(datagram) = self.next_frame(deliver) else { break };
            datagram.into_iter().for_each(|(owner, datagram)| self.queue(owner, datagram));
            frames += 1;
        }
        // What has come is answered first.
        if frames == 0 || has_time {
            self.idle();
        }
        Ok(self.sockets.queued)
    }

    /// Copies the next datagram of a socket to `buffer` (as much as fits) and says how long it is and who sent it.
    pub fn receive_into(&mut self, handle: Handle, buffer: &mut [u8]) -> Result<Option<(usize, SocketAddr)>, Error> {
        let Some(datagram) = self.receive(handle)? else { return Ok(None) };
        let payload = self.payload(&datagram);
        let count = payload.len().min(buffer.len());
        buffer[..count].copy_from_slice(&payload[..count]);
        let (length, source) = (datagram.len(), datagram.source());
        self.release(datagram);
        Ok(Some((length, source)))
    }

    /// The bytes of a datagram, where they are.
    #[inline]
    pub fn payload(&self, datagram: &Datagram) -> &[u8] {
        let (start, end) = (datagram.start as usize, (datagram.start + datagram.len) as usize);
        let bytes = match (&datagram.place, &self.bypass) {
            (Place::Frame(frame), Some(bypass)) => bypass.link.bytes(frame),
            (Place::Frame(_), None) => &[],
            (Place::Buffer(number), _) => self.buffers.bytes(*number),
        };
        bytes.get(start..end).unwrap_or_default()
    }

    /// Throws away what nobody will read.
    pub(crate) fn drop_unread(&mut self) {
        let unread: Vec<Datagram> =
            self.sockets.iter_mut().flat_map(|(_, socket)| std::mem::take(&mut socket.queue)).collect();
        self.sockets.queued = 0;
        unread.into_iter().for_each(|datagram| self.release(datagram));
    }

    /// Gives a datagram back.
    #[inline]
    pub fn release(&mut self, datagram: Datagram) {
        self.give_back(datagram.place);
    }

    /// Receives the next frame, if there is one; returns the datagram in it, if it is one, and its socket.
    #[inline]
    fn next_frame(&mut self, deliver: Deliver<'_>) -> Option<Option<(usize, Datagram)>> {
        let Self { bypass, sockets, buffers, counters, timestamps, .. } = self;
        let bypass = bypass.as_mut().filter(|bypass| bypass.lost.is_none())?;
        let frame = bypass.link.receive()?;
        counters.add(Counter::ReceivedFrames, 1);
        counters.add(Counter::ReceivedBytes, frame.len() as u64);
        let software_ns = if *timestamps { realtime_ns() } else { 0 };
        Some(Inbox { sockets, buffers, counters, software_ns }.receive(bypass, frame, deliver))
    }

    /// Keeps a datagram for its socket, unless that has its share of unread ones.
    fn queue(&mut self, owner: usize, datagram: Datagram) {
        let refused = match (&self.bypass, self.sockets.at(owner)) {
            (Some(bypass), Some(socket)) if bypass.has_place(&datagram, socket.queue.len()) => {
                socket.queue.push_back(datagram);
                self.sockets.queued += 1;
                return;
            }
            (_, socket) => {
                drop_unread(socket, &self.counters);
                datagram
            }
        };
        self.release(refused);
    }

    /// When nothing has come past the kernel.
    #[inline]
    fn receive_seldom(&mut self, place: usize) -> Option<Datagram> {
        self.drive_streams(false);
        self.idle();
        let socket = self.sockets.at(place)?;
        if !socket.is_twin_ready && socket.is_twin_watched {
            return None;
        }
        self.receive_by_kernel(place)
    }

    /// A datagram out of the kernel's socket.
    #[cold]
    fn receive_by_kernel(&mut self, place: usize) -> Option<Datagram> {
        let handle = self.sockets.handle(place);
        let number = self.buffers.take()?;
        let socket = self.sockets.at(place)?;
        let received = socket.twin.receive(self.buffers.bytes_mut(number));
        let (len, source) = match received {
            Ok(received) => received,
            Err(error) => {
                self.buffers.give(number);
                match error.kind() {
                    std::io::ErrorKind::WouldBlock => self.rest_twin(place, handle),
                    std::io::ErrorKind::Interrupted => {}
                    _ => socket.error = error.raw_os_error(),
                }
                return None;
            }
        };
        socket.statistics.received_by_kernel += 1;
        self.counters.add(Counter::KernelReceives, 1);
        Some(Datagram {
            place: Place::Buffer(number),
            start: 0,
            len: len as u32,
            source,
            destination: socket.local,
            interface: 0,
            time_to_live: 0,
            type_of_service: 0,
            software_ns: if self.timestamps { realtime_ns() } else { 0 },
            hardware_ns: None,
        })
    }

    /// The kernel's socket is empty: the thread beside us looks after it again.
    fn rest_twin(&mut self, place: usize, handle: Handle) {
        let Some(socket) = self.sockets.at(place) else { return };
        if socket.is_twin_watched && socket.is_twin_ready {
            let twin = std::os::fd::AsFd::as_fd(&socket.twin);
            let watched = self.agent.as_ref().map(|agent| agent.watch_again(twin, handle.number()));
            socket.is_twin_watched = watched.is_some_and(|watched| watched.is_ok());
        }
        socket.is_twin_ready = false;
    }
}

impl Inbox<'_> {
    /// Gives a frame to the stack. A datagram stays in the frame for the first of its sockets, further members of a group get
    /// copies; any other frame goes back to the link.
    #[inline]
    fn receive(&mut self, bypass: &mut Bypass, frame: Received, deliver: Deliver<'_>) -> Option<(usize, Datagram)> {
        let has_room = bypass.can_be_asked_for(&frame);
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
        self.datagram(parsed, Place::Frame(frame), parsed.payload.start, hardware_ns)
    }

    #[cold]
    fn copy(&mut self, parsed: &Parsed<'_>, bytes: &[u8], socket: usize) {
        let unread = self.sockets.at(socket).map_or(usize::MAX, |socket| socket.queue.len());
        let has_place = Room::of(COPIES_MAX).has_place(self.buffers.held() + 1, unread);
        let Some(number) = has_place.then(|| self.buffers.take()).flatten() else {
            return drop_unread(self.sockets.at(socket), self.counters);
        };
        let payload = &bytes[parsed.payload.clone()];
        self.buffers.bytes_mut(number)[..payload.len()].copy_from_slice(payload);
        let datagram = self.datagram(parsed, Place::Buffer(number), 0, None);
        self.counters.add(Counter::Delivered, 1);
        match self.sockets.at(socket) {
            Some(socket) => {
                socket.statistics.received += 1;
                socket.queue.push_back(datagram);
                self.sockets.queued += 1;
            }
            None => self.buffers.give(number),
        }
    }

    #[inline]
    fn datagram(&self, parsed: &Parsed<'_>, place: Place, start: usize, hardware_ns: Option<u64>) -> Datagram {
        Datagram {
            place,
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
fn drop_unread(socket: Option<&mut Socket>, counters: &Counters) {
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
