//! A host with sessions, connections and a clock of its own.

use super::echo::Echo;
use sidestep_fix::session::{Phase, Session};
use sidestep_fix::store::MemoryStore;
use sidestep_fix::value::{Precision, UtcTimestamp};
use sidestep_fix::{Framer, Index, Now, tag};
use std::collections::{HashMap, VecDeque};

/// A Friday at noon, far from clock changes.
pub(crate) const START_UTC_NS: i64 = 1_709_899_200_000_000_000;

type Ours = Session<MemoryStore>;

/// One transport between a script and the host.
struct Connection {
    framer: Framer,
    session: Option<usize>,
    /// What the host wrote, cut into messages.
    inbox: VecDeque<Vec<u8>>,
    replies: Framer,
    /// Bytes that the script still takes of what the host wrote: all, unless it reads slowly.
    room: usize,
    open: bool,
}

/// The host under test.
pub(crate) struct World {
    pub(crate) now: Now,
    pub(crate) sessions: Vec<Ours>,
    pub(crate) echo: Echo,
    connections: HashMap<u8, Connection>,
    index: Index,
}

impl World {
    pub(crate) fn new(sessions: Vec<Ours>) -> Self {
        Self { now: start(), sessions, echo: Echo::default(), connections: HashMap::new(), index: Index::default() }
    }

    /// The script's clock, `shift` seconds away.
    pub(crate) fn clock(&self, shift: i64) -> String {
        let mut text = [0; 27];
        let moment = UtcTimestamp { ns: self.now.utc_ns + shift * 1_000_000_000 };
        let length = moment.write(Precision::Seconds, &mut text);
        String::from_utf8_lossy(&text[..length]).into_owned()
    }

    /// The script connects. An initiator of ours takes the connection as its own.
    pub(crate) fn open(&mut self, id: u8) {
        let connection = Connection {
            framer: Framer::default(),
            session: None,
            inbox: VecDeque::new(),
            replies: Framer::default(),
            room: usize::MAX,
            open: true,
        };
        self.connections.insert(id, connection);
        let initiator = self.sessions.iter().position(|session| {
            session.settings().role == sidestep_fix::session::Role::Initiator && session.phase() == Phase::Disconnected
        });
        if let Some(session) = initiator {
            self.attach(id, session);
        }
        self.settle(id);
    }

    fn attach(&mut self, id: u8, session: usize) {
        self.connections.get_mut(&id).expect("it is connected").session = Some(session);
        self.sessions[session].connected(self.now, &mut self.echo);
    }

    /// The script cuts the connection.
    pub(crate) fn cut(&mut self, id: u8) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.open = false;
            if let Some(session) = connection.session.take() {
                self.sessions[session].disconnected(self.now, &mut self.echo);
            }
        }
    }

    /// The script sends.
    pub(crate) fn deliver_bytes(&mut self, id: u8, bytes: &[u8]) {
        let Some(mut connection) = self.connections.remove(&id) else { panic!("connection {id} was never made") };
        let mut rest = bytes;
        loop {
            let taken = connection.framer.push(rest);
            rest = &rest[taken..];
            self.connections.insert(id, connection);
            self.receive(id);
            connection = self.connections.remove(&id).expect("it was put back");
            if rest.is_empty() || taken == 0 || !connection.open {
                break;
            }
        }
        self.connections.insert(id, connection);
    }

    /// Everything that the framer has.
    fn receive(&mut self, id: u8) {
        let mut framer = std::mem::take(&mut self.connections.get_mut(&id).expect("it is connected").framer);
        let mut index = std::mem::take(&mut self.index);
        while self.connections[&id].open && self.takes_input(id) {
            let decoded = match framer.next() {
                Ok(None) => break,
                Ok(Some(raw)) => match self.connections[&id].session {
                    Some(session) => self.sessions[session].decode(&mut index, raw),
                    None => index.decode(raw),
                },
                Err(garbled) => Err(garbled),
            };
            match decoded {
                Ok(message) => self.deliver(id, &message),
                Err(garbled) => self.garbled(id, garbled),
            }
            self.settle(id);
        }
        self.index = index;
        self.connections.get_mut(&id).expect("it is connected").framer = framer;
    }

    fn takes_input(&self, id: u8) -> bool {
        self.connections[&id].session.is_none_or(|session| self.sessions[session].takes_input())
    }

    fn deliver(&mut self, id: u8, message: &sidestep_fix::Message<'_, '_>) {
        if self.connections[&id].session.is_none() {
            let Some(session) = self.session_for(message) else {
                self.connections.get_mut(&id).expect("it is connected").open = false;
                return;
            };
            self.attach(id, session);
        }
        let session = self.connections[&id].session.expect("it was attached");
        self.sessions[session].on_message(message, self.now, &mut self.echo);
    }

    fn garbled(&mut self, id: u8, garbled: sidestep_fix::Garbled) {
        match self.connections[&id].session {
            Some(session) => self.sessions[session].on_garbled(garbled, self.now, &mut self.echo),
            None if garbled.logon || garbled.is_fatal() => {
                self.connections.get_mut(&id).expect("it is connected").open = false;
            }
            None => {}
        }
    }

    /// The session that a first message is for, if it is free.
    fn session_for(&self, message: &sidestep_fix::Message<'_, '_>) -> Option<usize> {
        let field = |tag| message.get(tag).unwrap_or_default();
        self.sessions.iter().position(|session| {
            let id = session.id();
            session.phase() == Phase::Disconnected
                && message.begin_string() == id.begin_string.as_bytes()
                && field(tag::SENDER_COMP_ID) == id.target_comp_id.as_bytes()
                && field(tag::TARGET_COMP_ID) == id.sender_comp_id.as_bytes()
        })
    }

    /// Takes what the host wrote, and ends what it wants to end.
    fn settle(&mut self, id: u8) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(at) = connection.session else { return };
        let session = &mut self.sessions[at];
        loop {
            let room = connection.room.min(session.output().len());
            let taken = connection.replies.push(&session.output()[..room]);
            if connection.room != usize::MAX {
                connection.room -= taken;
            }
            if taken > 0 {
                session.sent(taken, self.now);
            }
            while let Ok(Some(message)) = connection.replies.next() {
                connection.inbox.push_back(message.to_vec());
            }
            if taken > 0 && session.waits_for_room() {
                session.on_timer(self.now, &mut self.echo);
            } else if session.output().is_empty() || connection.room == 0 {
                break;
            }
        }
        if session.ending().is_some() {
            connection.open = false;
            connection.session = None;
            session.disconnected(self.now, &mut self.echo);
        }
    }

    /// The script takes so many more bytes of what the host wrote, `usize::MAX` for all from now on.
    pub(crate) fn read(&mut self, id: u8, bytes: usize) {
        self.connections.get_mut(&id).expect("it is connected").room = bytes;
        self.settle(id);
        self.receive(id);
    }

    pub(crate) fn has_open(&self, id: u8) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.open)
    }

    pub(crate) fn next_message(&mut self, id: u8) -> Option<Vec<u8>> {
        self.connections.get_mut(&id)?.inbox.pop_front()
    }

    /// Lets time pass up to the next deadline of a session, or to `limit_ns`. `false` when there is none before.
    pub(crate) fn pass_to_deadline(&mut self, limit_ns: u64) -> bool {
        let due = self.sessions.iter().filter_map(Session::next_deadline).min();
        let Some(due) = due.filter(|due| *due <= limit_ns) else { return false };
        self.pass(due.saturating_sub(self.now.mono_ns));
        true
    }

    /// Lets time pass, and does what is due at its end.
    pub(crate) fn pass(&mut self, ns: u64) {
        self.now.mono_ns += ns;
        self.now.utc_ns += i64::try_from(ns).expect("scripts are short");
        for session in &mut self.sessions {
            session.on_timer(self.now, &mut self.echo);
        }
        let ids: Vec<u8> = self.connections.keys().copied().collect();
        for id in ids {
            self.settle(id);
            self.receive(id);
        }
    }

    /// What our own application does, then what follows from it.
    pub(crate) fn act(&mut self, action: impl FnOnce(&mut Ours, Now, &mut Echo)) {
        action(&mut self.sessions[0], self.now, &mut self.echo);
        let ids: Vec<u8> = self.connections.keys().copied().collect();
        for id in ids {
            self.settle(id);
        }
    }
}

pub(crate) fn start() -> Now {
    Now { utc_ns: START_UTC_NS, mono_ns: 1_000_000_000 }
}
