//! The decision: which message asks for an order.

use crate::tick::judge::Order;
use sidestep_market::book::{Books, Depth, Limits, Touched};
use sidestep_market::itch::Message;
use sidestep_market::units::{Locate, OrderReference, Price, Sequence, Side, Symbol};
use sidestep_sys::Problem;
use sidestep_venue::tape::Tape;
use sidestep_venue::units::TICK;

/// An offer at most so much above the best bid is taken: one cent.
const SPREAD_MAX: i64 = TICK as i64;
/// Room for live orders beside those at the beginning: a slice adds as many as it removes.
const ROOM: u32 = 2;

/// The rule of a trader. It buys what is offered at most a cent above the best bid and is the best offer alone.
pub(super) enum Strategy {
    /// It knows the references of such offers before, and reads messages alone.
    References { asked: Vec<u64>, next: usize },
    /// It sees them in its books.
    Books { books: Box<Books>, is_trusted: bool },
}

/// An offer that a message adds.
struct Offer {
    locate: Locate,
    reference: OrderReference,
    symbol: Symbol,
    price: Price,
    shares: u32,
}

impl Strategy {
    /// By the references of a tape.
    pub(super) fn of_references(tape: &Tape) -> Self {
        Self::References { asked: tape.triggers.iter().map(|trigger| trigger.reference).collect(), next: 0 }
    }

    /// By books, which begin as those of a tape do before trading: as after a snapshot.
    pub(super) fn of_books(tape: &Tape) -> Result<Self, Problem> {
        let opening = || {
            tape.messages().take_while(|(number, _)| {
                *number < tape.datagrams.get(tape.prologue).map_or(u64::MAX, |first| first.first)
            })
        };
        let count = u32::try_from(opening().count()).unwrap_or(u32::MAX);
        let instruments = opening().filter_map(|(_, message)| Some(Message::parse(message).ok()?.locate().0)).max();
        let limits = Limits {
            instruments: instruments.unwrap_or(1),
            orders: count.saturating_mul(ROOM).max(1 << 16),
            levels: count.saturating_mul(ROOM).clamp(1 << 16, Limits::LEVELS_MAX),
            ..Limits::default()
        };
        let mut books = Box::new(Books::new(limits, Depth::Levels)?);
        for (number, message) in opening() {
            let applied = Message::parse(message).map(|message| books.apply(&message).is_ok());
            if applied != Ok(true) {
                let why = format!("its message {number} is refused by the books");
                return Err(
                    Problem::failed("cannot begin with the tape's books", why).next("report this as a bug of sidestep")
                );
            }
        }
        Ok(Self::Books { books, is_trusted: true })
    }

    /// Prefetches the books for a datagram, as a feed handler does.
    #[inline]
    pub(super) fn prefetch(&self, datagram: &[u8], next: Sequence) {
        if let Self::Books { books, .. } = self {
            books.prefetch_packet(datagram, next);
        }
    }

    /// Reads a message, and returns the order that it asks for.
    #[inline]
    pub(super) fn decide(&mut self, message: &Message<'_>) -> Option<Order> {
        match self {
            Self::References { asked, next } => {
                let offer = offer(message)?;
                // Those that a gap has swallowed are passed over.
                let at = asked[*next..].iter().take_while(|reference| **reference < offer.reference.0).count();
                *next += at;
                (asked.get(*next) == Some(&offer.reference.0)).then(|| {
                    *next += 1;
                    buy(&offer)
                })
            }
            Self::Books { books, is_trusted } => {
                let change = books.apply(message).ok().flatten()?;
                // The one order of a new best level of offers.
                if change.side != Side::Sell || change.touched != Touched::Top || change.level.orders != 1 {
                    return None;
                }
                let offer = offer(message)?;
                let book = books.book(offer.locate)?;
                let bid = book.best(Side::Buy)?;
                let is_near = offer.price.0 - bid.price.0 <= SPREAD_MAX;
                (is_near && *is_trusted && book.suspect().is_none()).then(|| buy(&offer))
            }
        }
    }

    /// Messages were lost: the books are not the exchange's any more.
    pub(super) fn distrust(&mut self) {
        if let Self::Books { is_trusted, .. } = self {
            *is_trusted = false;
        }
    }
}

/// The offer that a message adds, if it adds one.
#[inline]
fn offer(message: &Message<'_>) -> Option<Offer> {
    let (side, offer) = match message {
        Message::AddOrder(add) => (
            add.side(),
            Offer {
                locate: add.locate(),
                reference: add.order_reference(),
                symbol: add.stock(),
                price: add.price(),
                shares: add.shares(),
            },
        ),
        Message::AddOrderMpid(add) => (
            add.side(),
            Offer {
                locate: add.locate(),
                reference: add.order_reference(),
                symbol: add.stock(),
                price: add.price(),
                shares: add.shares(),
            },
        ),
        _ => return None,
    };
    (side == Some(Side::Sell)).then_some(offer)
}

/// The order that takes an offer.
#[inline]
fn buy(offer: &Offer) -> Order {
    Order {
        reference: offer.reference.0,
        symbol: offer.symbol.0,
        buys: true,
        price: offer.price.0 as u32,
        quantity: offer.shares,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::play::{Plan, asked};
    use crate::tick::{Place, Profile};

    fn tape() -> Tape {
        let plan = Plan {
            seed: 11,
            symbols: 30,
            rate: 100_000,
            profile: Profile::Steady,
            trigger_every: 20,
            place: Place::Any,
            messages_per_packet: 4,
            messages: 20_000,
        };
        plan.tape()
    }

    fn trading(tape: &Tape) -> impl Iterator<Item = Message<'_>> {
        let first = tape.datagrams[tape.prologue].first;
        tape.messages().filter(move |(number, _)| *number >= first).map(|(_, message)| Message::parse(message).unwrap())
    }

    #[test]
    fn books_ask_for_the_orders_of_the_tape_and_for_no_other() {
        let tape = tape();
        let wanted: Vec<Order> = tape.triggers.iter().map(asked).collect();
        let mut strategy = Strategy::of_books(&tape).unwrap();
        let ordered: Vec<Order> = trading(&tape).filter_map(|message| strategy.decide(&message)).collect();
        assert!(wanted.len() > 500);
        assert_eq!(ordered, wanted);
    }

    #[test]
    fn references_ask_for_the_same_orders_also_behind_a_gap() {
        let tape = tape();
        let mut strategy = Strategy::of_references(&tape);
        let ordered: Vec<Order> = trading(&tape).skip(5_000).filter_map(|message| strategy.decide(&message)).collect();
        let wanted: Vec<Order> = tape.triggers.iter().map(asked).collect();
        assert!(ordered.len() < wanted.len() && wanted.ends_with(&ordered));
    }

    #[test]
    fn who_has_lost_messages_orders_nothing() {
        let tape = tape();
        let mut strategy = Strategy::of_books(&tape).unwrap();
        strategy.distrust();
        assert_eq!(trading(&tape).filter_map(|message| strategy.decide(&message)).count(), 0);
    }

    /// The tick is an ordinary message: nothing but the book tells it from others.
    #[test]
    fn no_field_of_a_tick_is_seldom() {
        let tape = tape();
        let references: std::collections::HashSet<u64> =
            tape.triggers.iter().map(|trigger| trigger.reference).collect();
        let (mut of_ticks, mut of_others) = (Vec::new(), Vec::new());
        for message in trading(&tape) {
            if let Some(offer) = offer(&message) {
                let list = if references.contains(&offer.reference.0) { &mut of_ticks } else { &mut of_others };
                list.push((offer.price.0, offer.shares, offer.locate.0));
            }
        }
        type Field = fn(&(i64, u32, u16)) -> i64;
        let fields: [Field; 3] = [|one| one.0, |one| one.1.into(), |one| one.2.into()];
        for of in fields {
            let (low, high) = (of_others.iter().map(of).min().unwrap(), of_others.iter().map(of).max().unwrap());
            let inside = of_ticks.iter().filter(|one| (low..=high).contains(&of(one))).count();
            // The extremes of prices are ticks now and then, as they are better than all others of their time.
            assert!(100 * inside >= 99 * of_ticks.len(), "{inside} of {} in {low}..={high}", of_ticks.len());
        }
    }
}
