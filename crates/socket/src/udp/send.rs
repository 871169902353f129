//! Sending: a prebuilt header in front of the payload, or the kernel's socket where that cannot be.

use crate::engine::Engine;
use crate::engine::bypass::Bypass;
use crate::error::{Error, SendError};
use crate::options::MulticastOut;
use crate::reason::Reason;
use crate::route_cache::{Detour, Stamp};
use crate::udp::datagram::{Datagram, Storage};
use crate::udp::flows::Flow;
use crate::udp::socket::{Handle, Socket};
use sidestep_control_api::counters::{Counter, Counters};
use sidestep_frame::{FrameLink, Outgoing};
use sidestep_stack::route::{Query, Resolved};
use sidestep_stack::udp::{Flow as Facts, FlowHeader};
use std::net::SocketAddr;

/// The shortest Ethernet frame without its check sequence (IEEE 802.3).
const FRAME_BYTES_MIN: usize = 60;

/// The memory where a payload is written before it is sent.
#[derive(Debug)]
#[must_use = "what is reserved must be sent or discarded"]
pub struct Reserved {
    memory: Memory,
    start: usize,
    len: usize,
    to: Option<SocketAddr>,
}

#[derive(Debug)]
enum Memory {
    Frame(Outgoing),
    Buffer(u16),
}

impl Engine {
    /// Sends to the peer of a connected socket; it has left, or is with the sender, when this returns.
    #[inline]
    pub fn send(&mut self, handle: Handle, payload: &[u8]) -> Result<(), SendError> {
        self.put(handle, payload, None)?;
        self.flush()
    }

    /// Sends to the given address.
    #[inline]
    pub fn send_to(&mut self, handle: Handle, payload: &[u8], to: SocketAddr) -> Result<(), SendError> {
        self.put(handle, payload, Some(to))?;
        self.flush()
    }

    /// Hands over a datagram that leaves with the next [`Engine::flush`]; `to` is for sockets without a peer. Many of them
    /// with one flush cost one system call, or none.
    #[inline]
    pub fn put(&mut self, handle: Handle, payload: &[u8], to: Option<SocketAddr>) -> Result<(), SendError> {
        let place = self.place(handle)?;
        let destination = self.destination(place, to)?;
        let Self { sockets, bypass, counters, .. } = self;
        if let (Some(socket), Some(bypass @ Bypass { lost: None, .. })) = (sockets.at(place), bypass.as_mut())
            && let Some(Flow { header: Ok(header), .. }) = socket.flows.find(&destination, bypass.routes.stamp())
            && payload.len() <= header.payload_max()
        {
            let frame = allocate(bypass, header.bytes() + payload.len(), counters)?;
            let Some(len) = fill(header, bypass.link.buffer(&frame), payload) else {
                return Err(self.refuse_too_long(frame));
            };
            return self.hand_over(place, frame, len);
        }
        self.put_slow_path(place, payload, to, destination)
    }

    /// Has the device send what was handed over ([`Engine::put`]).
    #[inline]
    pub fn flush(&mut self) -> Result<(), SendError> {
        match self.bypass() {
            Some(bypass) => bypass.link.flush().map_err(SendError::from),
            None => Ok(()),
        }
    }

    /// A place for a payload of up to `len` bytes, to be written in place: [`Engine::reserved`], then
    /// [`Engine::send_reserved`].
    pub fn reserve(&mut self, handle: Handle, len: usize, to: Option<SocketAddr>) -> Result<Reserved, SendError> {
        let place = self.place(handle)?;
        let destination = self.destination(place, to)?;
        // What it is good for: the flow is in the socket's list afterwards.
        let checked = self.check_route(place, destination);
        let Self { sockets, bypass, buffers, counters, .. } = self;
        if let (Ok(()), Some(socket), Some(bypass)) = (checked, sockets.at(place), bypass.as_mut())
            && let Some(Flow { header: Ok(header), .. }) = socket.flows.find(&destination, bypass.routes.stamp())
            && len <= header.payload_max()
        {
            let start = header.bytes();
            let frame = allocate(bypass, start + len, counters)?;
            return Ok(Reserved { memory: Memory::Frame(frame), start, len, to });
        }
        let number = buffers.take().ok_or(SendError::Full)?;
        let room = buffers.bytes(number).len();
        if len > room {
            buffers.give(number);
            return Err(SendError::TooLong { payload_max: room });
        }
        Ok(Reserved { memory: Memory::Buffer(number), start: 0, len, to })
    }

    /// The bytes of what was reserved.
    pub fn reserved(&mut self, reserved: &Reserved) -> &mut [u8] {
        let end = reserved.start + reserved.len;
        let bytes = match (&reserved.memory, &mut self.bypass) {
            (Memory::Frame(frame), Some(bypass)) => bypass.link.buffer(frame),
            (Memory::Frame(_), None) => &mut [],
            (Memory::Buffer(number), _) => self.buffers.bytes_mut(*number),
        };
        bytes.get_mut(reserved.start..end).unwrap_or_default()
    }

    /// Sends the first `len` bytes of what was reserved.
    pub fn send_reserved(&mut self, handle: Handle, reserved: Reserved, len: usize) -> Result<(), SendError> {
        let result = self.place(handle).map_err(SendError::from).and_then(|place| {
            let destination = self.destination(place, reserved.to)?;
            Ok((place, destination))
        });
        let len = len.min(reserved.len);
        match (result, reserved.memory) {
            (Ok((place, destination)), Memory::Frame(frame)) => {
                self.send_frame(place, frame, (reserved.start, len), reserved.to, destination)
            }
            (Ok((place, destination)), Memory::Buffer(number)) => {
                let sent = self.send_by_kernel(place, (number, len), reserved.to, destination);
                self.buffers.give(number);
                sent
            }
            (Err(error), kept) => {
                self.free(kept);
                Err(error)
            }
        }
    }

    /// Gives back what was reserved.
    pub fn discard(&mut self, reserved: Reserved) {
        self.free(reserved.memory);
    }

    /// Sends a datagram back to where it came from, in the very memory that it came in.
    #[inline]
    pub fn reply(&mut self, handle: Handle, datagram: Datagram) -> Result<(), SendError> {
        let place = match self.place(handle) {
            Ok(place) => place,
            Err(error) => {
                self.release(datagram);
                return Err(error.into());
            }
        };
        let (start, len, source) = (datagram.start as usize, datagram.len as usize, datagram.source);
        let to = Some(source);
        match datagram.storage {
            Storage::Frame(frame) => {
                let Some(bypass) = self.bypass() else {
                    self.give_back(Storage::Frame(frame));
                    return Err(SendError::Full);
                };
                let answer = bypass.link.answer(frame);
                self.send_frame(place, answer, (start, len), to, source)
            }
            Storage::Buffer(number) => {
                let sent = self.send_by_kernel(place, (number, len), to, source);
                self.buffers.give(number);
                sent
            }
            Storage::Copy(bytes) => self.send_to(handle, &bytes, source),
        }
    }

    /// Returns whether datagrams to `to` go past the kernel; else the reason.
    pub(crate) fn check_route(&mut self, place: usize, to: SocketAddr) -> Result<(), Reason> {
        let Some(stamp) = self.bypass().map(|bypass| bypass.routes.stamp()) else { return Err(Reason::Revoked) };
        let socket = self.sockets.at(place).ok_or(Reason::Revoked)?;
        if let Some(flow) = socket.flows.find(&to, stamp) {
            return flow.header.as_ref().map(|_| ()).map_err(|reason| *reason);
        }
        self.look_up_route(place, to)
    }

    fn destination(&mut self, place: usize, to: Option<SocketAddr>) -> Result<SocketAddr, SendError> {
        match to {
            Some(to) => Ok(to),
            None => self.sockets.at(place).and_then(|socket| socket.peer).ok_or(SendError::NoPeer),
        }
    }

    /// Sends what stands in a frame from `start` on.
    #[inline]
    fn send_frame(
        &mut self,
        place: usize,
        frame: Outgoing,
        (start, len): (usize, usize),
        to: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Result<(), SendError> {
        let _ = self.check_route(place, destination);
        let Self { sockets, bypass, .. } = self;
        let Some(bypass) = bypass.as_mut() else { return Err(SendError::Full) };
        if let (Some(socket), None) = (sockets.at(place), bypass.lost)
            && let Some(Flow { header: Ok(header), .. }) = socket.flows.find(&destination, bypass.routes.stamp())
            && header.bytes() == start
            && len <= header.payload_max()
        {
            let Some(bytes) = finish(header, bypass.link.buffer(&frame), len) else {
                return Err(self.refuse_too_long(frame));
            };
            self.hand_over(place, frame, bytes)?;
            return self.flush();
        }
        let payload = bypass.link.buffer(&frame).get(start..start + len).unwrap_or_default();
        let sent = sockets.at(place).map(|socket| send_by_twin(socket, payload, to, destination));
        bypass.link.discard(frame);
        sent.unwrap_or(Ok(()))?;
        self.counters.add(Counter::KernelSends, 1);
        Ok(())
    }

    fn send_by_kernel(
        &mut self,
        place: usize,
        (number, len): (u16, usize),
        to: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Result<(), SendError> {
        let Self { sockets, buffers, counters, .. } = self;
        let socket = sockets.at(place).ok_or(Error::NotOpen)?;
        send_by_twin(socket, buffers.bytes(number).get(..len).unwrap_or_default(), to, destination)?;
        counters.add(Counter::KernelSends, 1);
        Ok(())
    }

    /// Sends over a route that has to be looked up, or by the kernel twin where there is none.
    #[cold]
    fn put_slow_path(
        &mut self,
        place: usize,
        payload: &[u8],
        to: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Result<(), SendError> {
        let is_accelerated = self.bypass().is_some() && self.check_route(place, destination).is_ok();
        let Self { sockets, bypass, counters, .. } = self;
        let socket = sockets.at(place).ok_or(Error::NotOpen)?;
        if let (true, Some(bypass)) = (is_accelerated, bypass.as_mut())
            && let Some(Flow { header: Ok(header), .. }) = socket.flows.find(&destination, bypass.routes.stamp())
        {
            if payload.len() <= header.payload_max() {
                let frame = allocate(bypass, header.bytes() + payload.len(), counters)?;
                let Some(len) = fill(header, bypass.link.buffer(&frame), payload) else {
                    return Err(self.refuse_too_long(frame));
                };
                return self.hand_over(place, frame, len);
            }
            counters.add(Counter::SendTooLong, 1);
            // What the path takes and our frames do not hold is the kernel's to send, in one piece.
            if !socket.options.may_fragment && payload.len() > header.path_payload_max() {
                return Err(SendError::TooLong { payload_max: header.path_payload_max() });
            }
        }
        send_by_twin(socket, payload, to, destination)?;
        counters.add(Counter::KernelSends, 1);
        Ok(())
    }

    /// A frame that is shorter than its header and payload: the limits of the flow's header leave it none.
    #[cold]
    fn refuse_too_long(&mut self, frame: Outgoing) -> SendError {
        self.free(Memory::Frame(frame));
        self.counters.add(Counter::SendTooLong, 1);
        SendError::TooLong { payload_max: 0 }
    }

    #[inline]
    fn hand_over(&mut self, place: usize, frame: Outgoing, len: usize) -> Result<(), SendError> {
        let Self { sockets, bypass, counters, .. } = self;
        let Some(bypass) = bypass.as_mut() else { return Err(SendError::Full) };
        if let Err(unsent) = bypass.link.send(frame, len) {
            bypass.link.discard(unsent.frame);
            // Room comes from what leaves.
            let _ = bypass.link.flush();
            let _ = bypass.link.poll();
            counters.add(Counter::SendFull, 1);
            return Err(SendError::Full);
        }
        counters.add(Counter::SentFrames, 1);
        counters.add(Counter::SentBytes, len as u64);
        if let Some(socket) = sockets.at(place) {
            socket.statistics.sent += 1;
        }
        Ok(())
    }

    fn free(&mut self, kept: Memory) {
        match (kept, &mut self.bypass) {
            (Memory::Frame(frame), Some(bypass)) => bypass.link.discard(frame),
            (Memory::Frame(_), None) => {}
            (Memory::Buffer(number), _) => self.buffers.give(number),
        }
    }

    /// Looks the route up in the tables, and has control resolve the neighbour.
    #[cold]
    fn look_up_route(&mut self, place: usize, to: SocketAddr) -> Result<(), Reason> {
        let Self { sockets, bypass, counters, agent, .. } = self;
        let (Some(bypass), Some(socket)) = (bypass.as_mut(), sockets.at(place)) else { return Err(Reason::Revoked) };
        counters.add(Counter::RouteLookups, 1);
        // The stamp is that of the tables that were asked: if they have changed meanwhile, the answer is stale from the start.
        let (stamp, found) = resolve(bypass, socket, to);
        let ask_for = match &found {
            Ok((_, neighbour)) => *neighbour,
            Err(detour) => detour.ask_for,
        };
        if let (Some((address, interface)), Some(agent)) = (ask_for, agent) {
            agent.resolve(address, interface);
        }
        let header = found.map(|(header, _)| header).map_err(|detour| detour.reason);
        match &header {
            Err(Reason::NeighbourPending | Reason::NeighbourFailed) => counters.add(Counter::NeighbourMisses, 1),
            Err(Reason::RouteUnknown | Reason::ControlSilent) => counters.add(Counter::RouteUnknown, 1),
            _ => {}
        }
        let flow = socket.flows.insert(Flow { to, stamp, header });
        flow.header.as_ref().map(|_| ()).map_err(|reason| *reason)
    }
}

type HeaderAndNeighbour = (FlowHeader, Option<(std::net::IpAddr, u32)>);

fn resolve(bypass: &Bypass, socket: &Socket, to: SocketAddr) -> (Stamp, Result<HeaderAndNeighbour, Detour>) {
    let is_group = to.ip().is_multicast();
    if is_group && socket.options.multicast_loop {
        return (bypass.routes.stamp(), Err(Reason::MulticastLoop.into()));
    }
    let local = socket.local.ip();
    let source = Some(local).filter(|local| !local.is_unspecified() && !local.is_multicast());
    let interface = match socket.options.multicast_out {
        MulticastOut::Engine if is_group => Some(bypass.device),
        MulticastOut::Interface(interface) if is_group => Some(interface),
        _ => None,
    };
    let scope = match to {
        SocketAddr::V6(to) if to.scope_id() != 0 => Some(to.scope_id()),
        _ => None,
    };
    let tos = socket.options.type_of_service;
    let query = Query { destination: to.ip(), source, interface: interface.or(scope), tos };
    let (stamp, route) = bypass.routes.resolve(&query, bypass.device);
    let frame_bytes_max = bypass.link.facts().send_bytes_max as usize;
    (stamp, route.and_then(|route| header(socket, &route, to, frame_bytes_max)))
}

fn header(
    socket: &Socket,
    route: &Resolved,
    to: SocketAddr,
    frame_bytes_max: usize,
) -> Result<HeaderAndNeighbour, Detour> {
    let is_group = to.ip().is_multicast();
    let facts = Facts::along(route, socket.local.port(), to).ok_or(Reason::RouteUnknown)?;
    let hop_limit = if is_group { socket.options.multicast_hop_limit } else { socket.options.hop_limit };
    let facts = Facts { hop_limit, type_of_service: socket.options.type_of_service, ..facts };
    let mut header = FlowHeader::new(&facts).map_err(|_| Reason::RouteUnknown)?;
    header.set_frame_bytes_max(frame_bytes_max);
    let neighbour = (!is_group).then_some((route.next_hop, route.interface));
    Ok((header, neighbour))
}

/// A frame to fill with so many bytes, after a look for those that have been sent.
#[inline]
fn allocate(bypass: &mut Bypass, bytes: usize, counters: &Counters) -> Result<Outgoing, SendError> {
    match bypass.link.allocate_for(bytes) {
        Some(frame) => Ok(frame),
        None => allocate_after_flush(bypass, bytes, counters),
    }
}

#[cold]
fn allocate_after_flush(bypass: &mut Bypass, bytes: usize, counters: &Counters) -> Result<Outgoing, SendError> {
    // What fails here fails at the next flush, too, and is returned there.
    let _ = bypass.link.flush();
    let _ = bypass.link.poll();
    bypass.link.allocate_for(bytes).ok_or_else(|| {
        counters.add(Counter::SendNoFrame, 1);
        SendError::Full
    })
}

/// Writes payload and header; the length of the frame.
#[inline]
fn fill(header: &mut FlowHeader, buffer: &mut [u8], payload: &[u8]) -> Option<usize> {
    buffer.get_mut(header.bytes()..header.bytes() + payload.len())?.copy_from_slice(payload);
    finish(header, buffer, payload.len())
}

/// Writes the header in front of a payload; the length of the frame, padded with zeroes to the shortest there is.
#[inline]
fn finish(header: &mut FlowHeader, buffer: &mut [u8], payload_bytes: usize) -> Option<usize> {
    let len = header.write(buffer, payload_bytes).ok()?;
    if len < FRAME_BYTES_MIN
        && let Some(padding) = buffer.get_mut(len..FRAME_BYTES_MIN)
    {
        padding.fill(0);
    }
    Some(len.max(FRAME_BYTES_MIN))
}

fn send_by_twin(
    socket: &mut Socket,
    payload: &[u8],
    to: Option<SocketAddr>,
    destination: SocketAddr,
) -> Result<(), SendError> {
    if socket.is_beside {
        return Err(SendError::Beside);
    }
    let sent = socket.twin.send(payload, to);
    if let Err(error) = &sent
        && error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
    {
        if let Some(mtu) = socket.twin.mtu() {
            socket.flows.lower_mtu(&destination, mtu);
        }
        let payload_max = socket.twin.mtu().map_or(0, |mtu| (mtu as usize).saturating_sub(28));
        return Err(SendError::TooLong { payload_max });
    }
    sent?;
    socket.statistics.sent_by_kernel += 1;
    Ok(())
}
