//! Price-time matching of many instruments: orders in, messages of the feed and answers out. Deterministic.
//!
//! * `orders`: the table of live orders, and the queues of a price.
//! * `book`: the price levels of an instrument.
//! * `enter`: a new order; what it takes, and what rests.
//! * `change`: cancels and replacements.
//! * `cross`: an instrument that is halted, and the cross by which it opens again.
//!
//! Rules: the better price first, displayed orders before hidden ones of the same price, then the earlier one. A trade has
//! the price of the order that rested. An order whose size is reduced keeps its place, one that is replaced loses it and
//! gets a new reference. A replacement that can trade at once leaves the book (D) before it does. An order of the same
//! owner is no obstacle: there is no self-match prevention.

mod book;
mod change;
mod cross;
mod enter;
mod orders;

pub use change::Replacement;
pub use enter::{Enter, TimeInForce};
pub use orders::{Handle, Order};

use crate::itch::{self, Header, SystemEvent};
use crate::units::{Side, Symbol};
use book::Book;
use orders::Orders;
use std::fmt;

/// Bounds of a matching engine. Its memory is about 56 bytes for each order.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Live orders of all instruments. Nasdaq had 1,647,972 at most on 30 January 2017.
    pub orders: usize,
    /// Price levels of one side of one instrument. The deepest book of that day had 2,422.
    pub levels: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { orders: 2_000_000, levels: 5_000 }
    }
}

/// What comes of orders: the feed, and answers to their owners.
pub trait Sink {
    /// One message of the feed; they are numbered in the order of these calls.
    fn publish(&mut self, message: &[u8]);

    /// Something happened to the order of an owner.
    fn answer(&mut self, owner: u64, answer: &Answer) {
        let _ = (owner, answer);
    }
}

/// What an owner hears of an order. Shares are those of this step, unless they are called left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The order has a reference. Executions of it follow.
    Accepted {
        /// The order, valid while it lives.
        handle: Handle,
    },
    /// The order has another reference, size and price. Executions of it follow.
    Replaced {
        /// The reference that is gone.
        old: u64,
        /// The order from now on.
        handle: Handle,
        /// Shares left.
        shares: u32,
        /// The new limit.
        price: u32,
    },
    /// A trade.
    Executed(Execution),
    /// Shares that will not trade any more.
    Cancelled {
        /// The order.
        reference: u64,
        /// Shares that were cancelled.
        shares: u32,
        /// Shares left; 0: the order is gone.
        left: u32,
        /// Why.
        reason: CancelReason,
    },
}

/// One side of a trade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execution {
    /// The order.
    pub reference: u64,
    /// Shares that were traded.
    pub shares: u32,
    /// Shares left; 0: the order is gone.
    pub left: u32,
    /// The price of the trade.
    pub price: u32,
    /// The number of the trade, the same for both sides.
    pub match_number: u64,
    /// What the order did.
    pub liquidity: Liquidity,
}

/// Liquidity flag of OUCH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liquidity {
    /// `A`: the order rested.
    Added,
    /// `R`: the order came and took.
    Removed,
    /// `H`: the order traded in the cross of a halted instrument.
    Cross,
}

/// Why shares were cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// `U`: the owner asked for it.
    User,
    /// `I`: an immediate order found no more to take.
    Immediate,
    /// The owner asked for fewer shares by a Modify of OUCH.
    Modified,
    /// `S`: by the venue, as the connection of the owner was lost.
    Supervisory,
}

/// Why an order is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// No such instrument.
    Symbol,
    /// 0 shares, or 1,000,000 and more.
    Quantity,
    /// 0, above the highest price, or not a whole cent at one dollar and above.
    Price,
    /// A limit of the tables is reached.
    Full,
    /// The order is gone.
    Gone,
    /// An immediate order for an instrument that is halted.
    Halted,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Symbol => "no such instrument",
            Self::Quantity => "the quantity is not 1 to 999,999",
            Self::Price => "the price is not a whole cent up to 199,999.99",
            Self::Full => "the venue has no room for another order or price",
            Self::Gone => "the order is filled, cancelled or unknown",
            Self::Halted => "the instrument is halted",
        })
    }
}

/// Counts of everything that happened, in orders and shares. What was accepted is live, filled, cancelled or replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Orders that got a reference by entering.
    pub accepted: u64,
    /// Orders that were refused.
    pub refused: u64,
    /// Orders that were filled to the last share.
    pub filled: u64,
    /// Orders that were cancelled to the last share.
    pub cancelled: u64,
    /// Trades.
    pub trades: u64,
    /// Shares of accepted orders; a replacement adds what it adds.
    pub shares_accepted: u64,
    /// Shares that were traded, counted on both sides.
    pub shares_filled: u64,
    /// Shares that were cancelled, or that a replacement took away.
    pub shares_cancelled: u64,
}

/// The matching engine.
#[derive(Debug)]
pub struct Matching {
    books: Vec<Book>,
    orders: Orders,
    limits: Limits,
    next_reference: u64,
    next_match: u64,
    totals: Totals,
}

impl Matching {
    /// One for these symbols, whose locate codes are 1, 2, ...; at most 65,535.
    pub fn new(symbols: impl IntoIterator<Item = Symbol>, limits: Limits) -> Self {
        let books: Vec<Book> = symbols.into_iter().take(usize::from(u16::MAX)).map(Book::new).collect();
        let orders = Orders::new(limits.orders);
        Self { books, orders, limits, next_reference: 1, next_match: 1, totals: Totals::default() }
    }

    /// Starts the day: events, the directory, and trading of every instrument.
    pub fn open(&mut self, time_ns: u64, sink: &mut impl Sink) {
        self.begin(time_ns, sink);
        for locate in (1..=u16::MAX).take(self.instruments()) {
            self.list(time_ns, locate, sink);
        }
        self.start(time_ns, sink);
    }

    /// The first part of [`Self::open`]: the day begins.
    pub fn begin(&mut self, time_ns: u64, sink: &mut impl Sink) {
        sink.publish(&itch::system_event(time_ns, SystemEvent::StartOfMessages));
        sink.publish(&itch::system_event(time_ns, SystemEvent::StartOfSystemHours));
    }

    /// The second part of [`Self::open`], for one instrument: it is in the directory, and it trades.
    pub fn list(&mut self, time_ns: u64, locate: u16, sink: &mut impl Sink) {
        let Some(Book { symbol, is_halted, .. }) = self.book(locate) else { return };
        let header = Header { time_ns, locate };
        sink.publish(&itch::directory(header, *symbol));
        sink.publish(&itch::trading_action(header, *symbol, *is_halted));
    }

    /// The last part of [`Self::open`]: the market is open.
    pub fn start(&mut self, time_ns: u64, sink: &mut impl Sink) {
        sink.publish(&itch::system_event(time_ns, SystemEvent::StartOfMarketHours));
    }

    /// Ends the day. Orders stay as they are.
    pub fn close(&mut self, time_ns: u64, sink: &mut impl Sink) {
        for event in [SystemEvent::EndOfMarketHours, SystemEvent::EndOfSystemHours, SystemEvent::EndOfMessages] {
            sink.publish(&itch::system_event(time_ns, event));
        }
    }

    /// The directory, the trading actions and all live displayed orders by priority, as GLIMPSE tells them.
    pub fn snapshot(&self, time_ns: u64, mut tell: impl FnMut(&[u8])) {
        for (header, book) in (1..).map(|locate| Header { time_ns, locate }).zip(&self.books) {
            tell(&itch::directory(header, book.symbol));
            tell(&itch::trading_action(header, book.symbol, book.is_halted));
        }
        for (header, book) in (1..).map(|locate| Header { time_ns, locate }).zip(&self.books) {
            for side in [Side::Buy, Side::Sell] {
                let levels = book.levels(side).iter();
                for (_, order) in levels.flat_map(|level| self.orders.queue(level.displayed)) {
                    itch::add(header, &shown(order, book.symbol), &mut tell);
                }
            }
        }
    }

    /// Adds an instrument. Its locate code; `None` if all 65,535 are taken.
    pub fn add(&mut self, symbol: Symbol) -> Option<u16> {
        let locate = u16::try_from(self.books.len() + 1).ok()?;
        self.books.push(Book::new(symbol));
        Some(locate)
    }

    /// Instruments.
    pub fn instruments(&self) -> usize {
        self.books.len()
    }

    /// The symbol of a locate code.
    pub fn symbol(&self, locate: u16) -> Option<Symbol> {
        self.book(locate).map(|book| book.symbol)
    }

    /// The best price of a side, hidden orders included.
    pub fn best(&self, locate: u16, side: Side) -> Option<u32> {
        self.book(locate)?.best(side)
    }

    /// The best price of a side that the feed shows.
    pub fn best_displayed(&self, locate: u16, side: Side) -> Option<u32> {
        self.book(locate)?.best_displayed(side)
    }

    /// Price, displayed and hidden shares of the level at a place, 0 being the best.
    pub fn depth(&self, locate: u16, side: Side, place: usize) -> Option<(u32, u64, u64)> {
        self.book(locate)?.depth(&self.orders, side, place)
    }

    /// The order that a taker of the other side meets first.
    pub fn front(&self, locate: u16, side: Side) -> Option<&Order> {
        let level = self.book(locate)?.levels(side).best()?;
        Some(self.orders.at(level.front()))
    }

    /// A live order.
    pub fn order(&self, handle: Handle) -> Option<&Order> {
        self.orders.find(handle)
    }

    /// Live orders.
    pub fn live(&self) -> usize {
        self.orders.live()
    }

    /// What happened so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    fn book(&self, locate: u16) -> Option<&Book> {
        self.books.get(usize::from(locate).checked_sub(1)?)
    }

    fn book_mut(&mut self, locate: u16) -> &mut Book {
        &mut self.books[usize::from(locate) - 1]
    }

    fn reference(&mut self) -> u64 {
        self.next_reference += 1;
        self.next_reference - 1
    }

    fn match_number(&mut self) -> u64 {
        self.next_match += 1;
        self.next_match - 1
    }
}

/// An order as the messages that add it show it.
fn shown(order: &Order, symbol: Symbol) -> itch::Shown {
    let Order { reference, side, shares, price, attribution, .. } = *order;
    itch::Shown { reference, side, shares, symbol, price, attribution }
}

#[cfg(test)]
mod tests;
