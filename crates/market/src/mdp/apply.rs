//! What messages of the incremental feed change.

use super::event::{BookKind, Counters, Event, StaleReason};
use super::instrument::{Instrument, Instruments, Numbered};
use super::order_book::{Order, Unplaced};
use super::schema::types::{Action, EntryType};
use super::schema::{BookUpdate, Definition, Message, OrderUpdate, TradeSummary, book_update};
use crate::book::by_price;
use crate::sbe::Malformed;
use crate::units::{OrderReference, Price, Side};

/// What messages are applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All instruments: the packet comes for the first time.
    All,
    /// One book of the instrument at this place: the packet was held.
    One(usize, BookKind),
}

impl Scope {
    fn has(self, place: usize, kind: BookKind) -> bool {
        self == Self::All || self == Self::One(place, kind)
    }
}

/// The state that messages change, and where they stand.
pub(super) struct Applying<'c, S> {
    pub(super) instruments: &'c mut Instruments,
    pub(super) counters: &'c mut Counters,
    pub(super) scope: Scope,
    /// The packet's sequence.
    pub(super) sequence: u32,
    pub(super) sink: &'c mut S,
}

/// The side of an entry, and whether it is an implied one.
fn side(of: EntryType) -> Option<(Side, bool)> {
    match of {
        EntryType::BID => Some((Side::Buy, false)),
        EntryType::OFFER => Some((Side::Sell, false)),
        EntryType::IMPLIED_BID => Some((Side::Buy, true)),
        EntryType::IMPLIED_OFFER => Some((Side::Sell, true)),
        _ => None,
    }
}

/// A level as an entry tells it; nothing without price or quantity. A number of orders is told or not.
pub(super) fn level_told(price: Option<i64>, size: Option<i32>, orders: Option<i32>) -> Option<by_price::Level> {
    let quantity = u64::try_from(size?).ok()?;
    let orders = orders.and_then(|orders| u32::try_from(orders).ok()).unwrap_or_default();
    Some(by_price::Level { price: Price(price?), quantity, orders })
}

/// What an entry does with a level; nothing if it is none of the known actions, or needs a level and has none.
fn action_told(of: Action, level: Option<by_price::Level>) -> Option<by_price::Action> {
    match of {
        Action::NEW => level.map(by_price::Action::New),
        Action::CHANGE => level.map(by_price::Action::Change),
        Action::OVERLAY => level.map(by_price::Action::Overlay),
        Action::DELETE => Some(by_price::Action::Delete),
        Action::DELETE_THRU => Some(by_price::Action::DeleteThru),
        Action::DELETE_FROM => Some(by_price::Action::DeleteFrom),
        _ => None,
    }
}

impl<S: FnMut(Event)> Applying<'_, S> {
    /// Applies a message to books. What it tells besides is told by the channel.
    pub(super) fn message(&mut self, message: &Message<'_>) -> Result<(), Malformed> {
        match message {
            Message::BookUpdate(update) => return self.book_update(update),
            Message::OrderUpdate(update) => return self.order_update(update),
            Message::TradeSummary(trades) => return self.trades(trades),
            Message::Volume(volume) => {
                volume.entries()?.into_iter().for_each(|one| self.count(one.security_id(), one.rpt_seq()));
            }
            Message::DailyStatistics(statistics) => {
                statistics.entries()?.into_iter().for_each(|one| self.count(one.security_id(), one.rpt_seq()));
            }
            Message::PriceLimits(limits) => {
                limits.entries()?.into_iter().for_each(|one| self.count(one.security_id(), one.rpt_seq()));
            }
            Message::SessionStatistics(statistics) => {
                statistics.entries()?.into_iter().for_each(|one| self.count(one.security_id(), one.rpt_seq()));
            }
            Message::ChannelReset(_) => self.reset(),
            _ => {}
        }
        Ok(())
    }

    fn find(&mut self, security_id: i32) -> Option<usize> {
        let place = self.instruments.find(security_id);
        self.counters.unknown_instruments += u64::from(place.is_none() && self.scope == Scope::All);
        place
    }

    /// An update that changes no book, but has a number.
    fn count(&mut self, security_id: i32, rpt_seq: u32) {
        self.numbered(security_id, rpt_seq);
    }

    /// The instrument, if the update with this number is to be applied to its book by price.
    fn numbered(&mut self, security_id: i32, rpt_seq: u32) -> Option<usize> {
        let place = self.find(security_id)?;
        if !self.scope.has(place, BookKind::Prices) {
            return None;
        }
        let instrument = &mut self.instruments.list[place];
        match instrument.number(self.sequence, rpt_seq, self.sink) {
            Numbered::Next => Some(place),
            Numbered::Old => None,
            Numbered::Gap(expected) => {
                instrument.stale(BookKind::Prices, StaleReason::UpdateGap { expected, found: rpt_seq }, self.sink);
                None
            }
        }
    }

    fn book_update(&mut self, update: &BookUpdate<'_>) -> Result<(), Malformed> {
        let levels = update.levels()?;
        let orders = levels.after().orders()?;
        for level in &levels {
            if let Some(place) = self.numbered(level.security_id(), level.rpt_seq()) {
                self.level(place, &level);
            }
        }
        for order in &orders {
            // The reference counts from 1; one that points at nothing leaves the book by order of an unknown instrument wrong.
            let level = order.reference().and_then(|at| levels.get(usize::from(at).checked_sub(1)?));
            let Some(level) = level else {
                self.bad_reference();
                continue;
            };
            let placed = Order {
                id: OrderReference(order.order_id()),
                priority: order.priority().unwrap_or_default(),
                price: Price(level.price().mantissa().unwrap_or_default()),
                size: order.size().unwrap_or_default(),
            };
            self.order(level.security_id(), level.entry_type(), order.action(), placed);
        }
        Ok(())
    }

    fn bad_reference(&mut self) {
        match self.scope {
            Scope::All => self.instruments.stale_all_orders(StaleReason::Inconsistent, self.sink),
            Scope::One(place, BookKind::Orders) => {
                self.instruments.list[place].stale(BookKind::Orders, StaleReason::Inconsistent, self.sink);
            }
            Scope::One(..) => {}
        }
    }

    fn level(&mut self, place: usize, entry: &book_update::LevelsEntry<'_>) {
        self.instruments.touch(place);
        let instrument = &mut self.instruments.list[place];
        if entry.entry_type() == EntryType::BOOK_RESET {
            instrument.book.clear();
            instrument.implied.clear();
            return;
        }
        let Some((side, is_implied)) = side(entry.entry_type()) else { return };
        let told = level_told(entry.price().mantissa(), entry.size(), entry.orders());
        let book = if is_implied { &mut instrument.implied } else { &mut instrument.book };
        let applied = action_told(entry.action(), told).map(|action| book.apply(side, entry.level(), action));
        if !matches!(applied, Some(Ok(()))) {
            instrument.stale(BookKind::Prices, StaleReason::Inconsistent, self.sink);
        }
    }

    fn order_update(&mut self, update: &OrderUpdate<'_>) -> Result<(), Malformed> {
        for order in update.orders()? {
            let placed = Order {
                id: OrderReference(order.order_id().unwrap_or_default()),
                priority: order.priority().unwrap_or_default(),
                price: Price(order.price().mantissa().unwrap_or_default()),
                size: order.size().unwrap_or_default(),
            };
            self.order(order.security_id(), order.entry_type(), order.action(), placed);
        }
        Ok(())
    }

    fn order(&mut self, security_id: i32, of: EntryType, action: Action, order: Order) {
        let Some(place) = self.find(security_id).filter(|place| self.scope.has(*place, BookKind::Orders)) else {
            return;
        };
        let instrument = &mut self.instruments.list[place];
        if !instrument.by_order.is_live || instrument.orders.is_off() || self.sequence <= instrument.by_order.included {
            return;
        }
        if let Err(reason) = change_order(instrument, of, action, order) {
            instrument.stale(BookKind::Orders, reason, self.sink);
        }
        self.instruments.touch(place);
    }

    fn trades(&mut self, summary: &TradeSummary<'_>) -> Result<(), Malformed> {
        for trade in summary.trades()? {
            self.numbered(trade.security_id(), trade.rpt_seq());
            // A trade of a stale book is a trade all the same.
            if self.scope == Scope::All {
                (self.sink)(Event::Trade {
                    security_id: trade.security_id(),
                    action: trade.action(),
                    trade_id: trade.trade_id(),
                    price: Price(trade.price().mantissa()),
                    size: trade.size(),
                    aggressor: trade.aggressor(),
                    transact_time_ns: summary.transact_time(),
                });
            }
        }
        Ok(())
    }

    /// Empties the books: all of them, or the one that is recovered.
    fn reset(&mut self) {
        let (scope, sequence) = (self.scope, self.sequence);
        for place in 0..self.instruments.list.len() {
            for kind in [BookKind::Prices, BookKind::Orders] {
                let instrument = &mut self.instruments.list[place];
                let progress = *instrument.progress(kind);
                if !scope.has(place, kind) || sequence <= progress.included {
                    continue;
                }
                instrument.clear(kind);
                if !progress.is_live {
                    instrument.progress_mut(kind).is_live = true;
                    (self.sink)(Event::Live { security_id: instrument.security_id(), kind });
                }
                self.instruments.touch(place);
            }
        }
        if scope == Scope::All {
            (self.sink)(Event::Reset);
        }
    }
}

fn change_order(instrument: &mut Instrument, of: EntryType, action: Action, order: Order) -> Result<(), StaleReason> {
    if of == EntryType::BOOK_RESET {
        instrument.orders.clear();
        return Ok(());
    }
    let Some((side, false)) = side(of) else { return Ok(()) };
    let changed = match action {
        Action::NEW => instrument.orders.add(side, order),
        Action::CHANGE | Action::OVERLAY => instrument.orders.change(side, order),
        Action::DELETE => instrument.orders.delete(side, order.id),
        _ => Err(Unplaced::Unknown),
    };
    changed.map_err(|unplaced| match unplaced {
        Unplaced::Full => StaleReason::Full,
        Unplaced::Unknown => StaleReason::Inconsistent,
    })
}

/// Levels of a side where the definition does not tell: as many as the venue's deepest books have.
const DEPTH: u8 = 10;

/// The depths of an instrument's books: of the book, [`DEPTH`] if the definition does not tell, and of the implied one.
pub(super) fn depths(definition: &Definition<'_>) -> Result<[u8; 2], Malformed> {
    let feeds = definition.events()?.after().feed_types()?;
    let depth = |name: &[u8; 3]| {
        let feed = feeds.iter().find(|feed| feed.feed() == name)?;
        u8::try_from(feed.depth()).ok()
    };
    Ok([depth(b"GBX").unwrap_or(DEPTH), depth(b"GBI").unwrap_or_default()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_a_price_and_a_quantity_that_is_one() {
        let level = |quantity, orders| Some(by_price::Level { price: Price(-5), quantity, orders });
        assert_eq!(level_told(Some(-5), Some(7), Some(2)), level(7, 2));
        assert_eq!(
            (level_told(Some(-5), Some(7), None), level_told(Some(-5), Some(7), Some(-1))),
            (level(7, 0), level(7, 0))
        );
        for (price, size) in [(None, Some(7)), (Some(-5), None), (Some(-5), Some(-1))] {
            assert_eq!(level_told(price, size, Some(1)), None);
        }
    }

    #[test]
    fn actions_that_bring_a_level_need_one_and_others_do_not() {
        let level = level_told(Some(1), Some(1), Some(1));
        for of in [Action::NEW, Action::CHANGE, Action::OVERLAY] {
            assert_eq!((action_told(of, level).is_some(), action_told(of, None)), (true, None));
        }
        let deletes = [Action::DELETE, Action::DELETE_THRU, Action::DELETE_FROM].map(|of| action_told(of, None));
        assert_eq!(
            deletes,
            [by_price::Action::Delete, by_price::Action::DeleteThru, by_price::Action::DeleteFrom].map(Some)
        );
        assert_eq!((action_told(Action(6), level), action_told(Action(255), level)), (None, None));
    }
}
