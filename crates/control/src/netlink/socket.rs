//! The two netlink sockets of the mirror: one for change notices, one for requests.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_EXCL, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// RTNLGRP_* of linux/rtnetlink.h: link, neighbours, IPv4 and IPv6 addresses, routes and rules, next-hop objects.
const GROUPS: [u32; 9] = [1, 3, 5, 7, 8, 9, 11, 19, 32];

/// The buffer for changes, which come in bursts: a thousand routes at once is ordinary. Beyond it the kernel drops
/// notices and reports that (ENOBUFS), and everything is read again, as after any change.
const EVENT_BUFFER_BYTES: usize = 1 << 20;

/// The most packets of changes read per iteration; the rest waits for the next one, so that clients are served in
/// between.
const EVENTS_PER_TURN: usize = 1024;

/// The tables that have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    pub(crate) hosts: bool,
    pub(crate) routes: bool,
    pub(crate) neighbours: bool,
}

impl Dirty {
    pub(crate) const ALL: Self = Self { hosts: true, routes: true, neighbours: true };

    pub(crate) fn add(&mut self, other: Self) {
        self.hosts |= other.hosts;
        self.routes |= other.routes;
        self.neighbours |= other.neighbours;
    }

    /// The tables that may have changed when a message of this type arrives. The kernel drops routes and neighbours
    /// silently when an interface goes down or loses an address (IPv4), so such messages make everything dirty.
    fn of(message_type: u16) -> Self {
        match message_type {
            // RTM_NEWNEIGH, RTM_DELNEIGH
            28 | 29 => Self { neighbours: true, ..Self::default() },
            // RTM_NEWROUTE, RTM_DELROUTE, RTM_NEWRULE, RTM_DELRULE, RTM_NEWNEXTHOP, RTM_DELNEXTHOP
            24 | 25 | 32 | 33 | 104 | 105 => Self { routes: true, ..Self::default() },
            _ => Self::ALL,
        }
    }
}

/// The socket for change notices; the new state is read separately.
pub(crate) struct Events {
    socket: Socket,
    /// The number of times that the kernel dropped messages because this side was slow.
    pub(crate) overruns: u64,
}

impl Events {
    pub(crate) fn open(buffer_bytes: Option<usize>) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.set_non_blocking(true)?;
        let bytes = buffer_bytes.unwrap_or(EVENT_BUFFER_BYTES);
        // Beyond net.core.rmem_max if permitted (CAP_NET_ADMIN), else up to it.
        let forced = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, bytes);
        forced.or_else(|_| rustix::net::sockopt::set_socket_recv_buffer_size(&socket, bytes))?;
        for group in GROUPS {
            match socket.add_membership(group) {
                // A kernel without next-hop objects (before 5.3) or without IPv6 rules has no such notices.
                Err(error) if error.raw_os_error() != Some(rustix::io::Errno::NOENT.raw_os_error()) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(Self { socket, overruns: 0 })
    }

    /// The changes since the last call; does not wait.
    pub(crate) fn drain(&mut self) -> io::Result<Dirty> {
        let mut dirty = Dirty::default();
        let mut buffer = Vec::with_capacity(64 << 10);
        for _ in 0..EVENTS_PER_TURN {
            buffer.clear();
            match self.socket.recv(&mut buffer, 0) {
                Ok(_) => types(&buffer).for_each(|message_type| dirty.add(Dirty::of(message_type))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                    self.overruns += 1;
                    dirty = Dirty::ALL;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(dirty)
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The types of the messages in a packet.
fn types(packet: &[u8]) -> impl Iterator<Item = u16> + '_ {
    messages(packet).map(|message| NetlinkBuffer::new(message).message_type())
}

/// The messages in a packet, each with its header; an invalid length ends them.
pub(super) fn messages(packet: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = packet;
    std::iter::from_fn(move || {
        let buffer = NetlinkBuffer::new_checked(rest).ok()?;
        let length = buffer.length() as usize;
        let (message, _) = rest.split_at_checked(length)?;
        // Messages begin at multiples of four bytes.
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The result of a dump.
#[derive(Debug, Default)]
pub(crate) struct Dump {
    pub(crate) messages: Vec<RouteNetlinkMessage>,
    /// The number of messages that the parser refused.
    pub(crate) unreadable: usize,
    /// True if there was more than the caller's limit.
    pub(crate) is_cut: bool,
    /// True if the table changed meanwhile.
    is_interrupted: bool,
}

/// The result of one packet of an answer.
enum Progress {
    More,
    Done,
}

/// The treatment of an existing object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    Changed,
    Refused,
}

/// Sends requests to the kernel and reads the answers, which netlink produces within the system calls.
pub(crate) struct Asker {
    socket: Socket,
    sequence: u32,
}

impl Asker {
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Reads one whole table. `wanted` checks the payload before it is parsed, so that other families and tables cost
    /// nothing and cannot be misread. A table that changed meanwhile is `Interrupted`.
    pub(crate) fn dump(
        &mut self,
        request: RouteNetlinkMessage,
        wanted: impl Fn(&[u8]) -> bool,
        enough: usize,
    ) -> io::Result<Dump> {
        self.send(request, NLM_F_REQUEST | NLM_F_DUMP)?;
        let mut dump = Dump::default();
        loop {
            let (packet, _) = self.socket.recv_from_full()?;
            for message in messages(&packet) {
                // The rest of a too long answer is read and ignored, because the kernel has to finish it.
                dump.is_cut |= dump.messages.len() > enough;
                if let Progress::Done = self.take(message, &wanted, &mut dump)? {
                    return if dump.is_interrupted { Err(io::ErrorKind::Interrupted.into()) } else { Ok(dump) };
                }
            }
        }
    }

    fn take(&self, message: &[u8], wanted: &impl Fn(&[u8]) -> bool, dump: &mut Dump) -> io::Result<Progress> {
        let header = NetlinkBuffer::new(message);
        if header.sequence_number() != self.sequence {
            return Ok(Progress::More);
        }
        // It is read to its end anyway: before that the kernel refuses the next dump (EBUSY).
        dump.is_interrupted |= header.flags() & NLM_F_DUMP_INTR != 0;
        // Types below 16 are netlink's own: error, done.
        let is_useless = dump.is_cut || dump.is_interrupted;
        if header.message_type() >= 16 && (is_useless || !wanted(header.payload())) {
            return Ok(Progress::More);
        }
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(message).map(|message| message.payload) {
            Ok(NetlinkPayload::Done(_)) => return Ok(Progress::Done),
            Ok(NetlinkPayload::Error(error)) => return Err(error.to_io()),
            Ok(NetlinkPayload::InnerMessage(message)) => dump.messages.push(message),
            Ok(_) => {}
            Err(_) => dump.unreadable += 1,
        }
        Ok(Progress::More)
    }

    /// Sends a command to the kernel; its answer is the result.
    pub(crate) fn order(&mut self, request: RouteNetlinkMessage, existing: Existing) -> io::Result<()> {
        let exclusive = if existing == Existing::Refused { NLM_F_EXCL } else { 0 };
        self.send(request, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | exclusive)?;
        self.answer().map(|_| ())
    }

    /// Reads one object, if it exists.
    pub(crate) fn one(&mut self, request: RouteNetlinkMessage) -> io::Result<Option<RouteNetlinkMessage>> {
        self.send(request, NLM_F_REQUEST)?;
        match self.answer() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            result => result,
        }
    }

    /// The kernel's answer to the last request: the object, or the acknowledgement.
    fn answer(&mut self) -> io::Result<Option<RouteNetlinkMessage>> {
        loop {
            let (packet, _) = self.socket.recv_from_full()?;
            // The rest of an answer to an earlier request is skipped.
            let is_answer = |message: &&[u8]| NetlinkBuffer::new(*message).sequence_number() == self.sequence;
            for message in messages(&packet).filter(is_answer) {
                match NetlinkMessage::<RouteNetlinkMessage>::deserialize(message).map(|message| message.payload) {
                    Ok(NetlinkPayload::Error(error)) if error.code.is_some() => return Err(error.to_io()),
                    Ok(NetlinkPayload::Error(_)) => return Ok(None),
                    Ok(NetlinkPayload::InnerMessage(message)) => return Ok(Some(message)),
                    Ok(_) => {}
                    Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string())),
                }
            }
        }
    }

    fn send(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_cut_at_its_messages_and_a_broken_length_ends_it() {
        let message = |length: u32, message_type: u16| {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend(message_type.to_ne_bytes());
            bytes.resize(20, 0);
            bytes
        };
        let mut packet = message(18, 28);
        packet.extend(message(20, 16));
        assert_eq!(types(&packet).collect::<Vec<_>>(), [28, 16]);
        packet.extend(message(4000, 24));
        assert_eq!(types(&packet).count(), 2);
        assert_eq!(types(&message(3, 24)).count(), 0);
        assert_eq!(types(&[]).count(), 0);
    }

    #[test]
    fn a_link_that_changes_makes_everything_stale() {
        assert_eq!(Dirty::of(16), Dirty::ALL);
        assert_eq!(Dirty::of(28), Dirty { neighbours: true, ..Dirty::default() });
        assert_eq!(Dirty::of(24), Dirty { routes: true, ..Dirty::default() });
        assert_eq!(Dirty::of(999), Dirty::ALL, "what is not known may mean anything");
    }
}
