//! The snapshot server, GLIMPSE 5.0 over SoupBinTCP: the books as they are now, and the sequence number at which the feed goes on.

use crate::core::Core;
use crate::service::{Service, Time};
use crate::soup::{Connection, End, Login, Packet, frame, padded};
use std::sync::Arc;

/// Connections at most. Each may hold a snapshot: 39 to 43 bytes for each live order.
pub const CONNECTIONS_MAX: usize = 16;

/// Time between two snapshots that are made, ns: making one of 200,000 orders takes the exchange some ms.
pub const SNAPSHOT_EVERY_NS: u64 = 100_000_000;

/// Time in which a client has to take a part of its snapshot, and to log out behind it, ns. Heartbeats do not count: a few clients that
/// only said them would hold all places.
pub const STALL_MAX_NS: u64 = 15_000_000_000;

/// Time for a whole snapshot, ns: what a client of ours gives it.
pub const SNAPSHOT_MAX_NS: u64 = 300_000_000_000;

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
    /// Connections that ended because they did not take their snapshot, or stayed behind its end.
    pub slow: u64,
}

/// A connection, and what it gets.
#[derive(Debug)]
struct Place {
    connection: Connection,
    progress: Progress,
    /// When it logged in, and when it last took something.
    begun_ns: u64,
    moved_ns: u64,
}

impl Place {
    /// It holds its place for longer than a snapshot needs.
    fn is_stalled(&self, now_ns: u64) -> bool {
        let since = |then: u64| now_ns.saturating_sub(then);
        !matches!(self.progress, Progress::None)
            && (since(self.moved_ns) > STALL_MAX_NS || since(self.begun_ns) > SNAPSHOT_MAX_NS)
    }
}

#[derive(Debug)]
enum Progress {
    /// No login as yet.
    None,
    /// Logged in; the snapshot is made when it is its turn.
    Waits,
    /// So many bytes of the snapshot were moved.
    Sends(Arc<[u8]>, usize),
    /// All of it was moved. The client reads what waits, and logs out.
    Done,
}

/// The server.
#[derive(Debug)]
pub struct Glimpse {
    session: [u8; 10],
    places: Vec<Option<Place>>,
    /// The last snapshot, the sequence number that it ends with, and when it was made.
    last: Option<(Arc<[u8]>, u64, u64)>,
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

    fn log_in(&mut self, time: Time, connection: usize, login: &Login) {
        let Some(Some(place)) = self.places.get_mut(connection) else { return };
        // The specification has clients log in for message 1; 0 would be the newest one, of which there is none.
        if !login.wants(&self.session) || login.sequence > 1 {
            self.counters.refused += 1;
            return place.connection.refuse(b'S');
        }
        place.connection.accept(&self.session, 1);
        place.progress = Progress::Waits;
        (place.begun_ns, place.moved_ns) = (time.mono_ns, time.mono_ns);
    }
}

/// All packets of a snapshot.
fn snapshot(time: Time, core: &Core) -> Arc<[u8]> {
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
        self.places[at] = Some(Place {
            connection: Connection::new(time.mono_ns),
            progress: Progress::None,
            begun_ns: time.mono_ns,
            moved_ns: time.mono_ns,
        });
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
                Ok(Some(Packet::Login(login))) => self.log_in(time, connection, &login),
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
                place.progress = Progress::Done;
            }
        }
        place.connection.output()
    }

    fn sent(&mut self, time: Time, connection: usize, count: usize) {
        if let Some(Some(place)) = self.places.get_mut(connection) {
            place.connection.sent(time.mono_ns, count);
            if !matches!(place.progress, Progress::Done) || !place.connection.output().is_empty() {
                place.moved_ns = time.mono_ns;
            }
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
        if place.connection.is_open() && place.is_stalled(time.mono_ns) {
            place.connection.end(End::Slow);
            self.counters.slow += 1;
        }
        place.connection.ending()
    }

    fn close(&mut self, _: Time, connection: usize, _: &mut Core) {
        if let Some(place) = self.places.get_mut(connection) {
            *place = None;
        }
    }

    fn end(&mut self, _: Time) {
        for place in self.places.iter_mut().flatten() {
            // Within a snapshot the end would stand between two halves of a packet.
            let is_within = matches!(place.progress, Progress::Sends(..));
            place.connection.end(if is_within { End::Left } else { End::EndOfSession });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Load, LoadSettings};
    use crate::matching::{Limits, Matching};
    use crate::naive::Naive;

    const SESSION: [u8; 10] = *b"VENUE00001";

    fn at(mono_ns: u64) -> Time {
        Time { mono_ns, day_ns: 7 }
    }

    /// A core with an open load that has done some steps.
    struct Lab {
        core: Core,
        load: Load,
        glimpse: Glimpse,
    }

    impl Lab {
        fn new() -> Self {
            let settings = LoadSettings { seed: 8, symbols: 30, live_orders: 3_000 };
            let matching = Matching::new(Load::symbols(&settings), Limits { orders: 20_000, levels: 1_000 });
            let (mut core, mut load) = (Core::new(matching, 100_000), Load::new(&settings));
            let Core { matching, output, .. } = &mut core;
            matching.open(0, output);
            while load.open(0, matching, output) {}
            Self { core, load, glimpse: Glimpse::new(SESSION) }
        }

        fn trade(&mut self, steps: usize) {
            let Core { matching, output, .. } = &mut self.core;
            (0..steps).for_each(|_| self.load.step(1, matching, output));
        }

        fn log_in(&mut self, sequence: u64) -> usize {
            let connection = self.glimpse.accept(at(0)).unwrap();
            let login = format!("\0\x2fL{:<6}{:<10}{:>10}{sequence:>20}", "USER", "", "");
            self.glimpse.receive(at(0), connection, login.as_bytes(), &mut self.core);
            connection
        }

        /// The sequenced messages of a connection, while `trade` goes on between the parts that are read.
        fn read(&mut self, connection: usize, steps: usize) -> Vec<Vec<u8>> {
            let mut bytes = Vec::new();
            while let waiting @ [_, ..] = self.glimpse.output(connection) {
                bytes.extend_from_slice(waiting);
                let count = waiting.len();
                self.glimpse.sent(at(2_000_000_000), connection, count);
                self.glimpse.poll(at(2_000_000_000), connection);
                self.trade(steps);
            }
            let (mut rest, mut found) = (&bytes[..], Vec::new());
            while let Some((length, behind)) = rest.split_first_chunk::<2>() {
                let (packet, behind) = behind.split_at(usize::from(u16::from_be_bytes(*length)));
                found.extend((packet[0] == b'S').then(|| packet[1..].to_vec()));
                rest = behind;
            }
            found
        }
    }

    #[test]
    fn a_snapshot_and_the_feed_from_its_number_on_are_the_whole_feed() {
        let mut lab = Lab::new();
        lab.trade(5_000);
        let connection = lab.log_in(1);
        lab.glimpse.make(at(0), &lab.core);
        let told = lab.read(connection, 100);
        let (end, told) = told.split_last().unwrap();
        let next: u64 = std::str::from_utf8(&end[1..]).unwrap().trim().parse().unwrap();
        assert_eq!((end[0], end.len()), (b'G', 21));
        let (mut joined, mut whole) = (Naive::default(), Naive::default());
        told.iter().for_each(|message| joined.apply(message));
        let history = &lab.core.output.history;
        (next..history.next()).for_each(|number| joined.apply(history.message(number).unwrap()));
        (1..history.next()).for_each(|number| whole.apply(history.message(number).unwrap()));
        assert!(next < history.next() && joined.orders.len() > 1_000);
        assert_eq!(joined.orders, whole.orders);
        (1..=30).for_each(|locate| joined.assert_equal(&lab.core.matching, locate));
    }

    #[test]
    fn snapshots_are_made_at_a_bounded_rate_and_shared() {
        let mut lab = Lab::new();
        let (first, second) = (lab.log_in(1), lab.log_in(0));
        lab.glimpse.make(at(0), &lab.core);
        assert_eq!(lab.glimpse.counters().snapshots, 2);
        assert_eq!(lab.read(first, 0), lab.read(second, 0));
        lab.trade(1);
        let third = lab.log_in(1);
        lab.glimpse.make(at(SNAPSHOT_EVERY_NS - 1), &lab.core);
        assert_eq!(lab.read(third, 0), Vec::<Vec<u8>>::new());
        lab.glimpse.make(at(SNAPSHOT_EVERY_NS), &lab.core);
        assert!(lab.read(third, 0).len() > 1_000);
    }

    #[test]
    fn wrong_logins_and_too_many_connections_are_refused() {
        let mut lab = Lab::new();
        let ahead = lab.log_in(5);
        assert_eq!(lab.glimpse.poll(at(0), ahead), Some(End::Refused));
        let more = (0..100).filter(|_| lab.glimpse.accept(at(0)).is_some()).count();
        assert_eq!(
            (more, lab.glimpse.counters().turned_away),
            (CONNECTIONS_MAX - 1, 100 - (CONNECTIONS_MAX as u64 - 1))
        );
    }

    #[test]
    fn whoever_does_not_read_or_does_not_leave_gives_up_its_place() {
        let mut lab = Lab::new();
        let (silent, stays) = (lab.log_in(1), lab.log_in(1));
        lab.glimpse.make(at(0), &lab.core);
        assert!(!lab.read(stays, 0).is_empty());
        // Both say heartbeats, and the second one takes those of the server.
        for second in 1..=40 {
            let now = at(second * 1_000_000_000);
            for connection in [silent, stays] {
                lab.glimpse.receive(now, connection, b"\0\x01R", &mut lab.core);
                lab.glimpse.output(connection);
            }
            let count = lab.glimpse.output(stays).len();
            lab.glimpse.sent(now, stays, count);
            let ends = [silent, stays].map(|connection| lab.glimpse.poll(now, connection));
            assert_eq!(ends[0].is_some(), second > 15, "at {second} s");
            assert_eq!(ends[1].is_some(), second > 17, "at {second} s: its snapshot was taken at 2 s");
        }
        assert_eq!(lab.glimpse.counters().slow, 2);
    }
}
