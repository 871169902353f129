//! The trader's desk: from datagrams to orders.

mod reflex;
mod strategy;

use super::Orders;
use crate::peer::protocol::{FeedCounts, LineCounts};
use crate::tick::{OrderForm, Work};
use reflex::Reflex;
use sidestep_market::arbiter::{Delivery, Limits, LineKind};
use sidestep_market::feed::{Action, Feed, Handler, Join, Policy, State};
use sidestep_market::itch::Message;
use sidestep_market::mold64::{Mold64, Session};
use sidestep_market::units::{LineId, Nanos, Sequence};
use sidestep_sys::{Problem, clock};
use sidestep_venue::tape::Tape;
use strategy::Strategy;

/// What a trader does with its feed.
pub(crate) enum Desk {
    /// It looks at sequence numbers alone.
    Reflex(Reflex),
    /// It reads every message in its turn.
    Reader(Box<Reader>),
}

impl Desk {
    /// A desk for a slice of this tape.
    pub(crate) fn new(work: Work, form: OrderForm, tape: &Tape, lines: u8) -> Result<Self, Problem> {
        let strategy = match work {
            Work::Reflex => return Ok(Self::Reflex(Reflex::new(tape, form, lines))),
            Work::Decode => Strategy::of_references(tape),
            Work::Book => Strategy::of_books(tape)?,
        };
        // A tape without trading has nothing to join.
        let next = tape.datagrams.get(tape.prologue).map_or(1, |datagram| datagram.first);
        Ok(Self::Reader(Box::new(Reader::new(strategy, Sequence(next), lines)?)))
    }

    /// Takes a datagram of a line, and sends the orders that it asks for.
    #[inline]
    pub(super) fn take(&mut self, line: u8, datagram: &[u8], orders: &mut Orders) -> Result<(), Problem> {
        match self {
            Self::Reflex(desk) => desk.take(line, datagram, orders),
            Self::Reader(desk) => desk.take(line, datagram, orders),
        }
    }

    /// Does what is due, in silence.
    pub(super) fn poll(&mut self, orders: &mut Orders) -> Result<(), Problem> {
        match self {
            Self::Reflex(_) => Ok(()),
            Self::Reader(desk) => desk.poll(orders),
        }
    }

    /// The counts of the feed.
    pub(super) fn counts(&self, dropped: u64) -> FeedCounts {
        let counts = match self {
            Self::Reflex(desk) => desk.counts(),
            Self::Reader(desk) => desk.counts(),
        };
        FeedCounts { dropped, ..counts }
    }
}

/// The hold-back buffer: 20 ms of a feed of 200,000 messages a second wait for the other line.
const HELD: Limits = Limits { held_messages: 4096, held_bytes: 256 << 10 };

/// How long the other line is waited for. There is nobody to ask, so it lasts as long as a busy host may put an exchange aside.
const GAP_WAIT_NS: u64 = 50_000_000;

/// A desk that reads its feed.
pub(crate) struct Reader {
    feed: Feed<Mold64>,
    hands: Hands,
    lines: u8,
}

/// The part of it that messages are handed to.
struct Hands {
    strategy: Strategy,
    /// Orders sent.
    number: u32,
    delivered: u64,
    malformed: u64,
    problem: Option<Problem>,
}

/// It, with the way out.
struct AtWork<'a> {
    hands: &'a mut Hands,
    orders: &'a mut Orders,
}

impl Handler<Session> for AtWork<'_> {
    #[inline]
    fn message(&mut self, message: Delivery<'_>) {
        let hands = &mut *self.hands;
        hands.delivered += 1;
        let Ok(message) = Message::parse(message.bytes) else {
            hands.malformed += 1;
            return;
        };
        let Some(order) = hands.strategy.decide(&message) else { return };
        hands.number += 1;
        if let Err(problem) = self.orders.send(&order, hands.number) {
            hands.problem.get_or_insert(problem);
        }
    }

    fn snapshot(&mut self, _: &[u8]) {}

    fn action(&mut self, action: Action<Session>) {
        // Who has lost messages does not trade any more: its books are not the exchange's.
        if let Action::Skipped { .. } | Action::State(State::Stale { .. }) = action {
            self.hands.strategy.distrust();
        }
    }
}

impl Reader {
    fn new(strategy: Strategy, next: Sequence, lines: u8) -> Result<Self, Problem> {
        // The books come as from a snapshot. Its successor is missed, too, if no line brings it.
        let policy = Policy { join: Join::At(next), gap_wait_ns: GAP_WAIT_NS, ..Policy::default() };
        let feed = Feed::new(&vec![LineKind::Live; lines.into()], HELD, policy, now())?;
        let hands = Hands { strategy, number: 0, delivered: 0, malformed: 0, problem: None };
        Ok(Self { feed, hands, lines })
    }

    #[inline]
    fn take(&mut self, line: u8, datagram: &[u8], orders: &mut Orders) -> Result<(), Problem> {
        let now = now();
        self.hands.strategy.prefetch(datagram, self.feed.next());
        self.feed.datagram(LineId(line), now, now, datagram, &mut AtWork { hands: &mut self.hands, orders });
        self.hands.problem.take().map_or(Ok(()), Err)
    }

    fn poll(&mut self, orders: &mut Orders) -> Result<(), Problem> {
        let now = now();
        if now >= self.feed.next_poll() {
            self.feed.poll(now, &mut AtWork { hands: &mut self.hands, orders });
        }
        self.hands.problem.take().map_or(Ok(()), Err)
    }

    fn counts(&self) -> FeedCounts {
        let line = |line: u8| {
            self.feed.line(LineId(line)).map_or_else(LineCounts::default, |line| LineCounts {
                received: line.messages,
                first: line.first,
                duplicates: line.duplicates,
                lost: line.lost,
            })
        };
        let lines: Vec<LineCounts> = (0..self.lines).map(line).collect();
        let never = self.feed.counters().skipped;
        // What a line lacks and was delivered all the same.
        let lost: u64 = lines.iter().map(|line| line.lost).sum();
        let recovered = lost.saturating_sub(never.saturating_mul(self.lines.into()));
        FeedCounts { lines, delivered: self.hands.delivered, recovered, never, dropped: 0 }
    }
}

#[inline]
fn now() -> Nanos {
    Nanos(clock::monotonic_ns())
}
