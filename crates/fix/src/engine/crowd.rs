//! Connections before their Logon, whose session is not known yet.

use super::backlog::Backlog;
use super::pending::{Fate, LOGON_MAX, Pending};
use super::refusals::Refusals;
use super::seldom::Seldom;
use super::source::Source;
use crate::decode::Index;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::process::{Resource, getrlimit};
use sidestep_socket::stream::Io;
use sidestep_sys::problem::say;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Connections that have not yet logged on, at most; no more than a quarter of the descriptors that the process may have. A
/// host has a quarter of the backlog. When it is full the oldest stranger is evicted.
pub const PENDING_MAX: usize = 512;
/// One poll in this many serves those that have waited longest, known or not: a flood from a known host keeps no newcomer out.
const LOOKS_PER_TURN: u64 = 4;

/// The pending connections, the oldest first.
pub(super) struct Crowd {
    members: BTreeMap<u64, Pending>,
    backlog: Backlog,
    /// The epoll(7) descriptor of those that have sent something; made with the first of them.
    ready: Option<OwnedFd>,
    /// Members that epoll cannot watch.
    unseen: Vec<u64>,
    said: Said,
    /// The time of the last report that there are no descriptors.
    full: Seldom,
    looks: u64,
    rounds: u64,
}

/// The last report about connections that did not log on.
#[derive(Default)]
struct Said {
    counted: u64,
    at: Seldom,
    last: Option<Source>,
}

impl Default for Crowd {
    fn default() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4;
        let max = usize::try_from(descriptors).unwrap_or(usize::MAX).min(PENDING_MAX);
        Self {
            members: BTreeMap::new(),
            backlog: Backlog::new(max),
            ready: None,
            unseen: Vec::new(),
            said: Said::default(),
            full: Seldom::default(),
            looks: 0,
            rounds: 0,
        }
    }
}

impl Crowd {
    /// Returns the number of pending connections.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns the descriptor that becomes readable when one of them has sent something.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ready.as_ref().filter(|_| !self.members.is_empty()).map(AsFd::as_fd)
    }

    /// Returns whether some of them have to be read to see whether they have sent something.
    pub(super) fn has_unseen(&self) -> bool {
        !self.unseen.is_empty()
    }

    /// Adds a connection; evicts those for which the backlog has no room.
    pub(super) fn insert(&mut self, io: &mut Io, mut pending: Pending, refusals: &mut Refusals) {
        pending.looked = self.rounds;
        while let Some(number) = self.backlog.to_evict(pending.source()) {
            self.evict(io, number, refusals);
        }
        let number = self.backlog.take(pending.source());
        if !pending.tells_of_input() || self.watch(number, &pending).is_err() {
            self.unseen.push(number);
        }
        self.members.insert(number, pending);
    }

    /// Evicts a connection, as no descriptors are left; returns false if there is none.
    pub(super) fn make_room(&mut self, io: &mut Io, refusals: &mut Refusals) -> bool {
        let least = self.backlog.least_valued();
        least.into_iter().for_each(|number| self.evict(io, number, refusals));
        least.is_some()
    }

    fn evict(&mut self, io: &mut Io, number: u64, refusals: &mut Refusals) {
        refusals.crowd += 1;
        self.close(io, number);
    }

    fn close(&mut self, io: &mut Io, number: u64) {
        if let Some(pending) = self.remove(number) {
            self.said.last = Some(pending.source());
            pending.close(io);
        }
    }

    fn watch(&mut self, number: u64, pending: &Pending) -> rustix::io::Result<()> {
        if self.ready.is_none() {
            self.ready = Some(epoll::create(CreateFlags::CLOEXEC)?);
        }
        let (Some(ready), Some(descriptor)) = (&self.ready, pending.descriptor()) else { return Ok(()) };
        epoll::add(ready, descriptor, EventData::new_u64(number), EventFlags::IN)
    }

    /// Closing a descriptor takes it off the watch, unless it goes on to a session.
    fn remove(&mut self, number: u64) -> Option<Pending> {
        let pending = self.members.remove(&number)?;
        self.backlog.leave(number);
        self.unseen.retain(|unseen| *unseen != number);
        if let (Some(ready), Some(descriptor)) = (&self.ready, pending.descriptor()) {
            let _ = epoll::delete(ready, descriptor);
        }
        Some(pending)
    }

    /// Begins a poll, of one or more rounds.
    pub(super) fn begin_look(&mut self) {
        self.looks += 1;
    }

    /// Begins a round; returns those that may have sent something, in the order in which they are read: known hosts first, then those
    /// that have waited for most rounds.
    pub(super) fn turns(&mut self, io: &mut Io, mono_ns: u64, refusals: &mut Refusals) -> Vec<u64> {
        if self.members.is_empty() {
            return Vec::new();
        }
        self.close_late(io, mono_ns, refusals);
        self.rounds += 1;
        let mut events = Vec::<Event>::with_capacity(self.members.len().max(1));
        if let Some(ready) = self.descriptor() {
            let _ = epoll::wait(ready, spare_capacity(&mut events), Some(&Timespec::default()));
        }
        let ready = events.iter().map(|event| { event.data }.u64());
        let mut numbers: Vec<u64> = ready.chain(self.unseen.iter().copied()).collect();
        let known_first = !self.looks.is_multiple_of(LOOKS_PER_TURN);
        numbers.sort_by_key(|number| {
            let looked = self.members.get(number).map_or(0, |pending| pending.looked);
            (known_first && !self.backlog.is_known(*number), looked, *number)
        });
        numbers
    }

    /// Returns whether the connection is in its TLS handshake.
    pub(super) fn is_handshaking(&self, number: u64) -> bool {
        self.members.get(&number).is_some_and(Pending::is_handshaking)
    }

    /// Reads what one of them has sent; returns the connection when that is a Logon.
    pub(super) fn look_at(
        &mut self,
        number: u64,
        io: &mut Io,
        index: &mut Index,
        refusals: &mut Refusals,
    ) -> Option<(Pending, Box<crate::session::SessionId>, Vec<u8>)> {
        let pending = self.members.get_mut(&number)?;
        pending.looked = self.rounds;
        match pending.poll(io, index, refusals) {
            Fate::Waits => self.watch_for_room(number),
            Fate::Gone => self.close(io, number),
            Fate::Logon(id, first) => return self.remove(number).map(|pending| (pending, id, first)),
        }
        None
    }

    /// Watches for room where the answer of a handshake did not fit the socket.
    fn watch_for_room(&self, number: u64) {
        let (Some(ready), Some(pending)) = (&self.ready, self.members.get(&number)) else { return };
        if let Some(descriptor) = pending.descriptor().filter(|_| pending.tells_of_input()) {
            let mut flags = EventFlags::IN;
            flags.set(EventFlags::OUT, pending.wants_write());
            let _ = epoll::modify(ready, descriptor, EventData::new_u64(number), flags);
        }
    }

    /// Closes those whose time for a Logon is over. It runs from their accept, whatever they send meanwhile.
    fn close_late(&mut self, io: &mut Io, mono_ns: u64, refusals: &mut Refusals) {
        let limit_ns = LOGON_MAX.as_nanos() as u64;
        while let Some((number, pending)) = self.members.first_key_value()
            && mono_ns >= pending.came_ns().saturating_add(limit_ns)
        {
            let number = *number;
            refusals.silent += 1;
            self.close(io, number);
        }
    }

    /// Remembers a host from which a session has logged on.
    pub(super) fn remember(&mut self, source: Source) {
        self.backlog.remember(source);
    }

    /// Reports now and then, in one line, the connections that did not log on.
    pub(super) fn report(&mut self, mono_ns: u64, refusals: Refusals) {
        let counted = refusals.crowd + refusals.silent + refusals.no_logon;
        if counted == self.said.counted || !self.said.at.is_due(mono_ns) {
            return;
        }
        let more = counted - self.said.counted;
        let last = self.said.last.map_or(String::new(), |source| format!(", the last one from {source}"));
        say(format!("{more} connections were closed that did not log on{last}; {} wait for their Logon", self.len()));
        self.said.counted = counted;
    }

    /// Reports that no descriptor is left for a connection request.
    pub(super) fn report_no_descriptors(&mut self, mono_ns: u64) {
        if self.full.is_due(mono_ns) {
            say("no descriptors left: connection requests wait, and pending connections are closed (see `ulimit -n`)");
        }
    }

    /// Closes all, as the engine ends.
    pub(super) fn close_all(&mut self, io: &mut Io) {
        while let Some(number) = self.members.keys().next().copied() {
            self.close(io, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Endpoint, Engine, SocketOptions};
    use super::*;
    use crate::exchange::Exchange;
    use std::io::Write;
    use std::net::TcpStream;

    #[test]
    fn bytes_now_and_then_do_not_extend_the_time_for_a_logon() {
        let mut engine = Engine::new(Exchange::default());
        let endpoint = Endpoint::parse("127.0.0.1:0").unwrap();
        let acceptor = engine.listen(&endpoint, None, &SocketOptions::default()).unwrap();
        let mut stranger = TcpStream::connect(engine.endpoint(acceptor).to_string()).unwrap();
        let limit_ns = LOGON_MAX.as_nanos() as u64;
        while engine.pending() == 0 {
            engine.chores(7);
        }
        for byte in b"8=FIX.4.4\x019=1" {
            stranger.write_all(&[*byte]).unwrap();
            engine.chores(7 + limit_ns - 1);
            assert_eq!((engine.pending(), engine.refusals().silent), (1, 0));
        }
        stranger.write_all(b"0").unwrap();
        engine.chores(7 + limit_ns);
        assert_eq!((engine.pending(), engine.refusals().silent), (0, 1));
    }
}
