//! Connections that are handed over in the middle: a model of the kernel's end goes on by the record alone, or the hand-over
//! fails and the connection goes on as before. Segments that arrive meanwhile are lost.

use super::dice::Dice;
use super::plan::{MICROSECOND, MILLISECOND, SECOND};
use super::world::World;
use sidestep_stack::tcp::{ConnectionId, Handover, Instant, Options, Unfit};

/// A connection that is not in a fit state yet is looked at again so much later.
const AGAIN_NS: u64 = 20 * MILLISECOND;
/// The first hand-over of an end comes no later than this, of any length of schedule.
const LATEST_NS: u64 = 5 * SECOND;

/// The hand-overs of one end of one connection, one after the other.
pub struct HandOver {
    pair: usize,
    side: usize,
    at_ns: u64,
    /// Those that are left after this one.
    left: u64,
    frozen: Option<Frozen>,
}

/// A connection out of service.
struct Frozen {
    id: ConnectionId,
    record: Handover,
    options: Options,
}

/// How many there were, by outcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct HandOvers {
    pub done: u64,
    pub failed: u64,
    /// With bytes unread, unacknowledged, unsent; with either FIN.
    pub unread: u64,
    pub unacknowledged: u64,
    pub unsent: u64,
    pub own_fin: u64,
    pub peer_fin: u64,
}

impl HandOver {
    /// Of nearly every end of every connection some.
    pub fn plan(dice: &mut Dice<'_>, pairs: usize, begin_ns: u64) -> Vec<Self> {
        let ends = (0..pairs).flat_map(|pair| [(pair, 0), (pair, 1)]);
        let one = |(pair, side)| {
            let at_ns = begin_ns + dice.magnitude(MICROSECOND, LATEST_NS);
            Self { pair, side, at_ns, left: dice.below(4), frozen: None }
        };
        ends.map(one).collect()
    }

    pub fn next_at_ns(&self) -> u64 {
        self.at_ns
    }
}

impl World<'_> {
    /// Begins and ends the hand-overs that are due.
    pub fn hand_over(&mut self) -> Result<(), String> {
        let mut all = std::mem::take(&mut self.hand_overs);
        let now_ns = self.now_ns;
        for one in all.iter_mut().filter(|one| one.at_ns <= now_ns) {
            match one.frozen.take() {
                Some(frozen) => self.end_hand_over(one, frozen)?,
                None => self.begin_hand_over(one),
            }
        }
        self.hand_overs = all;
        Ok(())
    }

    fn begin_hand_over(&mut self, one: &mut HandOver) {
        let app = &mut self.pairs[one.pair].apps[one.side];
        if app.is_closed {
            one.at_ns = u64::MAX;
            return;
        }
        let Some(id) = app.id else {
            one.at_ns = self.now_ns + SECOND;
            return;
        };
        let now = Instant::from_nanos(self.now_ns);
        let options = self.tcps[one.side].options(id);
        match (self.tcps[one.side].freeze(now, id), options) {
            (Ok(record), Ok(options)) => {
                app.id = None;
                self.tally_record(&record);
                one.frozen = Some(Frozen { id, record, options });
                one.at_ns = self.now_ns + self.dice.magnitude(1, 10 * MILLISECOND);
            }
            (Err(Unfit::NotSynchronized), _) => one.at_ns = self.now_ns + AGAIN_NS,
            _ => one.at_ns = u64::MAX,
        }
    }

    fn tally_record(&mut self, record: &Handover) {
        let seen = &mut self.seen_hand_overs;
        seen.unread += u64::from(!record.received.is_empty());
        seen.unacknowledged += u64::from(!record.unacknowledged.is_empty());
        seen.unsent += u64::from(!record.unsent.is_empty());
        seen.own_fin += u64::from(record.own_fin != sidestep_stack::tcp::OwnFin::None);
        seen.peer_fin += u64::from(record.has_peer_fin);
    }

    fn end_hand_over(&mut self, one: &mut HandOver, frozen: Frozen) -> Result<(), String> {
        let Frozen { id, record, options } = frozen;
        let fault = |error| format!("hand-over of {}: {error}", record.flow);
        let id = if self.dice.percent(25) {
            self.seen_hand_overs.failed += 1;
            self.call(one.side, |tcp, now, sink| tcp.thaw(now, id, sink)).map_err(fault)?;
            id
        } else {
            self.seen_hand_overs.done += 1;
            self.call(one.side, |tcp, now, sink| tcp.forget(now, id, sink)).map_err(fault)?;
            if !self.tcps[one.side].release(id) {
                return Err(format!("{} is not occupied", record.flow));
            }
            self.call(one.side, |tcp, now, sink| tcp.resume(now, &record, options, sink)).map_err(fault)?
        };
        self.own(one.side, id, one.pair);
        one.at_ns = if one.left == 0 { u64::MAX } else { self.now_ns + self.dice.magnitude(MICROSECOND, SECOND) };
        one.left = one.left.saturating_sub(1);
        Ok(())
    }
}
