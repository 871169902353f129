//! Receiving: out of the ring, out of the sockets' queues, out of the kernel.

use crate::engine::Engine;
use crate::engine::event_loop::FRAMES_PER_CALL;
use crate::error::Error;
use crate::heartbeat_writer::realtime_ns;
use crate::udp::datagram::{Datagram, Storage};
use crate::udp::inbox::drop_unread;
use crate::udp::socket::Handle;
use sidestep_control_api::counters::Counter;
use sidestep_frame::FrameLink;
use std::net::SocketAddr;

impl Engine {
    /// The next datagram of a socket. No system call while its traffic goes past the kernel; one that the kernel's socket has
    /// is fetched, too, once the control agent has seen it. The datagram must be given back.
    #[inline]
    pub fn receive(&mut self, handle: Handle) -> Result<Option<Datagram>, Error> {
        let place = self.place(handle)?;
        let has_time = self.turn();
        if has_time {
            // A feed that never pauses must not keep connections from their timers and ACKs, nor other queues from frames.
            self.poll_stack(true);
            self.poll_link();
        }
        if let Some(datagram) = self.sockets.pop(place) {
            return Ok(Some(datagram));
        }
        for _ in 0..FRAMES_PER_CALL {
            match self.next_frame(&mut |_, _| 0) {
                None => break,
                Some(Some((owner, datagram))) if owner == place => return Ok(Some(datagram)),
                Some(datagram) => datagram.into_iter().for_each(|(owner, datagram)| self.queue(owner, datagram)),
            }
        }
        Ok(self.receive_fallback(place))
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
    pub fn payload<'a>(&'a self, datagram: &'a Datagram) -> &'a [u8] {
        let (start, end) = (datagram.start as usize, (datagram.start + datagram.len) as usize);
        let bytes = match (&datagram.storage, &self.bypass) {
            (Storage::Frame(frame), Some(bypass)) => bypass.link.bytes(frame),
            (Storage::Frame(_), None) => &[],
            (Storage::Buffer(number), _) => self.buffers.bytes(*number),
            (Storage::Copy(bytes), _) => bytes,
        };
        bytes.get(start..end).unwrap_or_default()
    }

    /// Drops all unread datagrams.
    pub(crate) fn drop_unread(&mut self) {
        let unread: Vec<Datagram> = self.sockets.iter_mut().flat_map(|(_, socket)| socket.take_queue()).collect();
        self.sockets.queued = 0;
        unread.into_iter().for_each(|datagram| self.release(datagram));
    }

    /// Releases a datagram: its frame or buffer is used again.
    #[inline]
    pub fn release(&mut self, datagram: Datagram) {
        self.give_back(datagram.storage);
    }

    /// Keeps a datagram for its socket, unless that has its share of unread ones.
    pub(crate) fn queue(&mut self, owner: usize, datagram: Datagram) {
        let Self { bypass, sockets, .. } = self;
        let kept = match (bypass.as_ref(), sockets.at(owner).filter(|socket| socket.has_buffer())) {
            (Some(bypass), Some(socket)) if bypass.rooms.has_place(&bypass.link, &datagram, socket.queue.len()) => {
                datagram
            }
            (Some(_), Some(socket)) if socket.is_beside => self.copied(datagram),
            _ => {
                drop_unread(self.sockets.at(owner), &self.counters);
                return self.release(datagram);
            }
        };
        self.sockets.push(owner, kept);
    }

    /// A datagram that leaves its frame, of which there are few.
    #[cold]
    fn copied(&mut self, datagram: Datagram) -> Datagram {
        let storage = Storage::Copy(self.payload(&datagram).into());
        let copy = Datagram { storage, start: 0, ..datagram };
        self.give_back(datagram.storage);
        copy
    }

    /// Takes a datagram of the kernel twin, when none has come past the kernel.
    #[inline]
    fn receive_fallback(&mut self, place: usize) -> Option<Datagram> {
        self.poll_stack(false);
        self.poll_link();
        let socket = self.sockets.at(place)?;
        if socket.is_beside || !socket.is_twin_ready && socket.is_twin_watched {
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
                    std::io::ErrorKind::WouldBlock => self.rearm_twin(place, handle),
                    std::io::ErrorKind::Interrupted => {}
                    _ => socket.error = error.raw_os_error(),
                }
                return None;
            }
        };
        socket.statistics.received_by_kernel += 1;
        self.counters.add(Counter::KernelReceives, 1);
        Some(Datagram {
            storage: Storage::Buffer(number),
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

    /// The kernel twin is empty: the control agent watches it again.
    fn rearm_twin(&mut self, place: usize, handle: Handle) {
        let Some(socket) = self.sockets.at(place) else { return };
        if socket.is_twin_watched && socket.is_twin_ready {
            let twin = std::os::fd::AsFd::as_fd(&socket.twin);
            let watched = self.agent.as_ref().map(|agent| agent.watch_again(twin, handle.number()));
            socket.is_twin_watched = watched.is_some_and(|watched| watched.is_ok());
        }
        socket.is_twin_ready = false;
    }
}
