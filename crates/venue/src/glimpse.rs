//! The snapshot server, GLIMPSE 5.0 over SoupBinTCP: the books as they are now, and the sequence number at which the feed goes on.

use crate::core::Core;
use crate::service::{Service, Time};
use crate::soup::{Connection, End, Login, Packet, frame, padded};
use std::rc::Rc;

/// Connections at most. Each may hold a snapshot: 39 to 43 bytes for each live order.
pub const CONNECTIONS_MAX: usize = 16;

/// Time between two snapshots that are made, ns: making one of 200,000 orders takes the exchange some ms.
pub const SNAPSHOT_EVERY_NS: u64 = 100_000_000;

/// Bytes of a snapshot that are moved to a connection's output at a time.
const CHUNK: usize = 32 * 1024;

/// Counts of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GlimpseCounters {
    /// Connections that came.
    pub connections: u64,
    /// Connections that were closed at once, as there were too many.
    pub turned_away: u64,
    /// Logins that were refused.
    pub refused: u64,
    /// Snapshots that were begun.
    pub snapshots: u64,
}

/// A connection, and what it gets.
#[derive(Debug)]
struct Place {
    connection: Connection,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    /// No login as yet.
    None,
    /// Logged in; the snapshot is made when it is its turn.
    Waits,
    /// So many bytes of the snapshot were moved.
    Sends(Rc<[u8]>, usize),
}

/// The server.
#[derive(Debug)]
pub struct Glimpse {
    session: [u8; 10],
    places: Vec<Option<Place>>,
    /// The last snapshot, the sequence number that it ends with, and when it was made.
    last: Option<(Rc<[u8]>, u64, u64)>,
    counters: GlimpseCounters,
}

impl Glimpse {
    /// A server of this session.
    pub fn new(session: [u8; 10]) -> Self {
        Self { session, places: Vec::new(), last: None, counters: GlimpseCounters::default() }
    }

    /// What it has done.
    pub fn counters(&self) -> GlimpseCounters {
        self.counters
    }

    /// Makes the snapshot for those who wait, if it may be made now.
    pub fn make(&mut self, time: Time, core: &Core) {
        let waits = |place: &&mut Place| matches!(place.progress, Progress::Waits);
        if !self.places.iter_mut().flatten().any(|place| waits(&place)) {
            return;
        }
        let next = core.output.history.next();
        let snapshot = match &self.last {
            Some((snapshot, at, _)) if *at == next => snapshot.clone(),
            Some((_, _, made_ns)) if time.mono_ns.saturating_sub(*made_ns) < SNAPSHOT_EVERY_NS => return,
            _ => snapshot(time, core),
        };
        self.last = Some((snapshot.clone(), next, time.mono_ns));
        for place in self.places.iter_mut().flatten().filter(waits) {
            place.progress = Progress::Sends(snapshot.clone(), 0);
            self.counters.snapshots += 1;
        }
    }

    fn log_in(&mut self, connection: usize, login: &Login) {
        let Some(Some(place)) = self.places.get_mut(connection) else { return };
        // The specification has clients log in for message 1; 0 would be the newest one, of which there is none.
        if !login.wants(&self.session) || login.sequence > 1 {
            self.counters.refused += 1;
            return place.connection.refuse(b'S');
        }
        place.connection.accept(&self.session, 1);
        place.progress = Progress::Waits;
    }
}

/// All packets of a snapshot.
fn snapshot(time: Time, core: &Core) -> Rc<[u8]> {
    let mut packets = Vec::with_capacity(core.matching.live() * 48);
    core.matching.snapshot(time.day_ns, |message| frame(&mut packets, b'S', message));
    let mut end = [b'G'; 21];
    end[1..].copy_from_slice(&padded(core.output.history.next()));
    frame(&mut packets, b'S', &end);
    packets.into()
}

impl Service for Glimpse {
    fn accept(&mut self, time: Time) -> Option<usize> {
        self.counters.connections += 1;
        let free = self.places.iter().position(Option::is_none);
        let at = match free {
            Some(at) => at,
            None if self.places.len() == CONNECTIONS_MAX => {
                self.counters.turned_away += 1;
                return None;
            }
            None => {
                self.places.push(None);
                self.places.len() - 1
            }
        };
        self.places[at] = Some(Place { connection: Connection::new(time.mono_ns), progress: Progress::None });
        Some(at)
    }

    fn room(&self, connection: usize) -> usize {
        self.places.get(connection).and_then(Option::as_ref).map_or(0, |place| place.connection.room())
    }

    fn receive(&mut self, time: Time, connection: usize, bytes: &[u8], _: &mut Core) {
        if let Some(Some(place)) = self.places.get_mut(connection) {
            place.connection.push(time.mono_ns, bytes);
        }
        loop {
            let Some(Some(place)) = self.places.get_mut(connection) else { return };
            match place.connection.packet() {
                Ok(None) => return,
                Ok(Some(Packet::Login(login))) => self.log_in(connection, &login),
                Ok(Some(Packet::Logout)) => place.connection.end(End::Left),
                // Nothing is asked here.
                Ok(Some(Packet::Data(_))) => {}
                Err(why) => place.connection.end(why),
            }
        }
    }

    fn output(&mut self, connection: usize) -> &[u8] {
        let Some(Some(place)) = self.places.get_mut(connection) else { return &[] };
        if let Progress::Sends(snapshot, at) = &mut place.progress
            && place.connection.output().is_empty()
            && place.connection.has_room()
        {
            let chunk = &snapshot[*at..snapshot.len().min(*at + CHUNK)];
            place.connection.raw(chunk);
            *at += chunk.len();
            if *at == snapshot.len() {
                // The memory is not held by a client that stays.
                place.progress = Progress::None;
            }
        }
        place.connection.output()
    }

    fn sent(&mut self, time: Time, connection: usize, count: usize) {
        if let Some(Some(place)) = self.places.get_mut(connection) {
            place.connection.sent(time.mono_ns, count);
        }
    }

    fn poll(&mut self, time: Time, connection: usize) -> Option<End> {
        let place = self.places.get_mut(connection)?.as_mut()?;
        // Within a snapshot a heartbeat would stand between two halves of a packet.
        if !matches!(place.progress, Progress::Sends(..)) {
            place.connection.poll(time.mono_ns);
        } else {
            place.connection.check_silence(time.mono_ns);
        }
        place.connection.ending()
    }

    fn close(&mut self, _: Time, connection: usize, _: &mut Core) {
        if let Some(place) = self.places.get_mut(connection) {
            *place = None;
        }
    }

    fn end(&mut self, _: Time) {
        self.places.iter_mut().flatten().for_each(|place| place.connection.end(End::EndOfSession));
    }
}
