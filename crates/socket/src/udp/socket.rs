//! The sockets of an engine.

use crate::error::Error;
use crate::fallback::udp::Twin;
use crate::options::UdpOptions;
use crate::reason::Reason;
use crate::udp::datagram::Datagram;
use crate::udp::flows::Flows;
use sidestep_control_api::message::Entry;
use sidestep_stack::udp::SocketId;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Sockets of one engine: more than one thread can serve.
pub(crate) const SOCKETS_MAX: usize = 4096;

/// Names a socket of an engine; one that was closed is never confused with a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    place: u32,
    generation: u32,
}

impl Handle {
    /// The handle as a number, for programs that keep it as one.
    pub fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.place)
    }

    /// Its place among those of its engine: a small number, which a later socket has when this one is closed.
    pub fn place(self) -> usize {
        self.place as usize
    }

    /// The handle of a number. One that never was is refused when it is used.
    pub fn of_number(number: u64) -> Self {
        Self { place: number as u32, generation: (number >> 32) as u32 }
    }
}

/// Counters of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Datagrams received past the kernel.
    pub received: u64,
    /// Datagrams received by the kernel.
    pub received_by_kernel: u64,
    /// Datagrams sent past the kernel.
    pub sent: u64,
    /// Datagrams sent by the kernel.
    pub sent_by_kernel: u64,
    /// Datagrams dropped because the program did not fetch them in time.
    pub dropped: u64,
}

/// A group that was joined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    pub(crate) group: IpAddr,
    pub(crate) interface: u32,
    pub(crate) source: Option<IpAddr>,
    /// The steering entry, which control may not have answered yet, or the reason why there is none.
    pub(crate) steered: Result<Entry, Reason>,
}

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) twin: Twin,
    /// The twin is the program's own socket, which it reads and sends by itself.
    pub(crate) is_beside: bool,
    /// The program's own socket receives and sends everything from now on.
    pub(crate) is_left: bool,
    /// Its groups are the kernel's, as other programs have its port, too.
    pub(crate) shares_groups: bool,
    pub(crate) local: SocketAddr,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) options: UdpOptions,
    /// Its number in the stack, while something of its traffic is to go past the kernel.
    pub(crate) id: Option<SocketId>,
    /// The reason why datagrams to its address come by the kernel; `None` where they are steered, or control was asked to.
    pub(crate) detour: Option<Reason>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) groups: Vec<Joined>,
    pub(crate) flows: Flows,
    pub(crate) queue: VecDeque<Datagram>,
    /// What the queue counts against the receive buffer of a program's own socket.
    pub(crate) queued_bytes: usize,
    /// True if the kernel's socket may have something.
    pub(crate) is_twin_ready: bool,
    /// True if the control agent tells when it has; else every receive looks.
    pub(crate) is_twin_watched: bool,
    pub(crate) error: Option<i32>,
    pub(crate) statistics: Statistics,
}

impl Socket {
    /// Returns whether a datagram fits into the receive buffer of the program's own socket. As in the kernel, one that begins within it
    /// does (__udp_enqueue_schedule_skb, linux/net/ipv4/udp.c).
    #[inline]
    pub(crate) fn has_buffer(&self) -> bool {
        !self.is_beside || self.options.receive_buffer == 0 || self.queued_bytes <= self.options.receive_buffer as usize
    }

    /// Returns whether nothing is steered to it, because it shares its port with others and is in no group.
    pub(crate) fn leaves_port(&self) -> bool {
        let is_shared = self.is_beside && self.options.reuse_address && self.peer.is_none();
        is_shared && self.groups.is_empty() && !self.local.ip().is_multicast()
    }

    /// Takes all that is unread.
    pub(crate) fn take_queue(&mut self) -> VecDeque<Datagram> {
        self.queued_bytes = 0;
        std::mem::take(&mut self.queue)
    }

    /// The steering entries of the socket, those asked for included.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().copied().chain(self.groups.iter().filter_map(|joined| joined.steered.ok()))
    }
}

/// The table of UDP sockets.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    places: Vec<(u32, Option<Socket>)>,
    /// Datagrams in the queues of all.
    pub(crate) queued: usize,
    /// Sockets that datagrams have come for, for an engine that is observed.
    pub(crate) filled: Option<Vec<Handle>>,
}

impl Sockets {
    #[inline]
    pub(crate) fn place(&self, handle: Handle) -> Result<usize, Error> {
        match self.places.get(handle.place as usize) {
            Some((generation, Some(_))) if *generation == handle.generation => Ok(handle.place as usize),
            _ => Err(Error::NotOpen),
        }
    }

    /// The handle of what is at a place.
    pub(crate) fn handle(&self, place: usize) -> Handle {
        Handle { place: place as u32, generation: self.places[place].0 }
    }

    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> Option<&mut Socket> {
        self.places.get_mut(place)?.1.as_mut()
    }

    pub(crate) fn get(&self, place: usize) -> Option<&Socket> {
        self.places.get(place)?.1.as_ref()
    }

    pub(crate) fn twin(&self, handle: Handle) -> Result<&Twin, Error> {
        let place = self.place(handle)?;
        self.places[place].1.as_ref().map(|socket| &socket.twin).ok_or(Error::NotOpen)
    }

    /// Puts a datagram into a socket's queue.
    pub(crate) fn push(&mut self, place: usize, datagram: Datagram) {
        let Some((generation, Some(socket))) = self.places.get_mut(place) else { return };
        socket.queued_bytes += datagram.cost();
        socket.queue.push_back(datagram);
        self.queued += 1;
        let handle = Handle { place: place as u32, generation: *generation };
        // Each datagram is news, as for an edge-triggered epoll; a burst of them is told once.
        let filled = self.filled.iter_mut().filter(|filled| filled.last() != Some(&handle));
        filled.for_each(|filled| filled.push(handle));
    }

    /// Takes the oldest datagram out of a socket's queue.
    #[inline]
    pub(crate) fn pop(&mut self, place: usize) -> Option<Datagram> {
        if self.queued == 0 {
            return None;
        }
        let socket = self.at(place)?;
        let datagram = socket.queue.pop_front()?;
        socket.queued_bytes -= datagram.cost();
        self.queued -= 1;
        Some(datagram)
    }

    pub(crate) fn insert(&mut self, socket: Socket) -> Option<Handle> {
        let free = self.places.iter().position(|(_, socket)| socket.is_none());
        let place = match free {
            Some(place) => place,
            None if self.places.len() == SOCKETS_MAX => return None,
            None => {
                self.places.push((0, None));
                self.places.len() - 1
            }
        };
        let (generation, empty) = &mut self.places[place];
        *generation = generation.wrapping_add(1);
        *empty = Some(socket);
        Some(self.handle(place))
    }

    pub(crate) fn remove(&mut self, place: usize) -> Option<Socket> {
        self.places.get_mut(place)?.1.take()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Socket)> {
        self.places.iter_mut().enumerate().filter_map(|(place, (_, socket))| Some((place, socket.as_mut()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.places.iter().filter(|(_, socket)| socket.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_numbers_and_back() {
        let handle = Handle { place: 7, generation: 9 };
        assert_eq!(Handle::of_number(handle.number()), handle);
        assert_eq!(Sockets::default().place(handle), Err(Error::NotOpen));
    }
}
