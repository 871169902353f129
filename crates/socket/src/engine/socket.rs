//! The sockets of an engine.

use crate::datagram::Datagram;
use crate::error::Error;
use crate::flow::Flows;
use crate::options::UdpOptions;
use crate::reason::Reason;
use crate::twin::Twin;
use sidestep_control_api::message::Entry;
use sidestep_stack::udp::SocketId;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Sockets of one engine: more than one thread can look after.
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

    /// The handle of a number. One that never was is refused when it is used.
    pub fn of_number(number: u64) -> Self {
        Self { place: number as u32, generation: (number >> 32) as u32 }
    }
}

/// What a socket has done.
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
pub(super) struct Joined {
    pub(super) group: IpAddr,
    pub(super) interface: u32,
    pub(super) source: Option<IpAddr>,
    /// The rule of steering, which control may not have answered yet, or why there is none.
    pub(super) steered: Result<Entry, Reason>,
}

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) twin: Twin,
    pub(super) local: SocketAddr,
    pub(super) peer: Option<SocketAddr>,
    pub(super) options: UdpOptions,
    /// Its number in the stack, while something of its traffic is to go past the kernel.
    pub(super) id: Option<SocketId>,
    /// Why what is sent to its address goes by the kernel; `None` where it is steered, or control was asked to.
    pub(super) detour: Option<Reason>,
    pub(super) entries: Vec<Entry>,
    pub(super) groups: Vec<Joined>,
    pub(super) flows: Flows,
    pub(super) queue: VecDeque<Datagram>,
    /// Whether the kernel's socket may have something.
    pub(super) is_twin_ready: bool,
    /// Whether the thread beside us tells when it has; else every receive looks.
    pub(super) is_twin_watched: bool,
    pub(super) error: Option<i32>,
    pub(super) statistics: Statistics,
}

impl Socket {
    /// The rules that bring it something, or were asked for.
    pub(super) fn rules(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().copied().chain(self.groups.iter().filter_map(|joined| joined.steered.ok()))
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    places: Vec<(u32, Option<Socket>)>,
    /// Datagrams in the queues of all.
    pub(super) queued: usize,
}

impl Sockets {
    #[inline]
    pub(super) fn place(&self, handle: Handle) -> Result<usize, Error> {
        match self.places.get(handle.place as usize) {
            Some((generation, Some(_))) if *generation == handle.generation => Ok(handle.place as usize),
            _ => Err(Error::NotOpen),
        }
    }

    /// The handle of what is at a place.
    pub(super) fn handle(&self, place: usize) -> Handle {
        Handle { place: place as u32, generation: self.places[place].0 }
    }

    #[inline]
    pub(super) fn at(&mut self, place: usize) -> Option<&mut Socket> {
        self.places.get_mut(place)?.1.as_mut()
    }

    pub(super) fn twin(&self, handle: Handle) -> Result<&Twin, Error> {
        let place = self.place(handle)?;
        self.places[place].1.as_ref().map(|socket| &socket.twin).ok_or(Error::NotOpen)
    }

    pub(super) fn insert(&mut self, socket: Socket) -> Option<Handle> {
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

    pub(super) fn remove(&mut self, place: usize) -> Option<Socket> {
        self.places.get_mut(place)?.1.take()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Socket)> {
        self.places.iter_mut().enumerate().filter_map(|(place, (_, socket))| Some((place, socket.as_mut()?)))
    }

    pub(super) fn len(&self) -> usize {
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
