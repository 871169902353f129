//! ITCH messages as events.

use super::{Event, Flags, Kind, reference_of};
use crate::itch::Message;
use crate::units::{LineId, Locate, Nanos, OrderReference, Price, Sequence, Side};

/// The most events of one message: an order replace is a delete and a replace.
pub const EVENTS_PER_MESSAGE_MAX: usize = 2;

/// The origin of a message, and so of its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The number of the message.
    pub sequence: Sequence,
    /// The venue's time of the message, ns.
    pub time_ns: u64,
    /// Receipt of its datagram.
    pub arrived: Nanos,
    /// The line.
    pub line: LineId,
    /// Flags of each event, such as [`Flags::RECOVERED`]. [`Flags::LAST`] is set by itself.
    pub flags: Flags,
}

/// The events of one message, in order: none, one or two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    events: [Option<Event>; EVENTS_PER_MESSAGE_MAX],
}

impl Events {
    /// The events, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().flatten()
    }
}

impl Origin {
    /// An event of this message that has nothing but its origin.
    #[inline]
    pub fn event(&self, kind: Kind, locate: Locate) -> Event {
        let &Self { sequence, time_ns, arrived, line, flags } = self;
        Event { sequence, time_ns, arrived, line, flags, ..Event::new(kind, locate) }
    }

    /// The events of a message. None for types that change neither a book nor the state of trading (`Y`, `L`, `V`, `K`, `J`, `I`, `N`,
    /// `O`), and for those of later versions.
    #[inline]
    pub fn itch(&self, message: &Message<'_>) -> Events {
        let mut first = self.event(Kind::Void, message.locate());
        first.flags = first.flags | Flags::LAST;
        let mut second = None;
        match message {
            Message::AddOrder(add) => {
                first.order(Kind::Add, add.order_reference(), add.side(), add.shares(), Some(add.price()));
            }
            Message::AddOrderMpid(add) => {
                first.order(Kind::Add, add.order_reference(), add.side(), add.shares(), Some(add.price()));
            }
            Message::OrderExecuted(execution) => {
                first.order(Kind::Execute, execution.order_reference(), None, execution.shares(), None);
            }
            Message::OrderExecutedWithPrice(execution) => {
                let price = Some(execution.price());
                first.order(Kind::Execute, execution.order_reference(), None, execution.shares(), price);
                if execution.printable() == b'N' {
                    first.flags = first.flags | Flags::NOT_PRINTABLE;
                }
            }
            Message::OrderCancel(cancel) => {
                first.order(Kind::Reduce, cancel.order_reference(), None, cancel.shares(), None);
            }
            Message::OrderDelete(delete) => first.order(Kind::Delete, delete.order_reference(), None, 0, None),
            Message::OrderReplace(replace) => {
                let mut new = first;
                new.order(Kind::Replace, replace.order_reference(), None, replace.shares(), Some(replace.price()));
                second = Some(new);
                first.order(Kind::Delete, replace.old_order_reference(), None, 0, None);
                first.flags = first.flags.without(Flags::LAST);
            }
            Message::Trade(trade) => {
                let matched = OrderReference(trade.match_number());
                first.order(Kind::Trade, matched, trade.side(), trade.shares(), Some(trade.price()));
            }
            Message::CrossTrade(cross) => {
                first.order(Kind::Cross, OrderReference(cross.match_number()), None, 0, Some(cross.price()));
                first.quantity = cross.shares();
            }
            Message::BrokenTrade(broken) => {
                first.order(Kind::Broken, OrderReference(broken.match_number()), None, 0, None);
            }
            Message::StockTradingAction(action) => first.letters_of(Kind::Status, &action.bytes()[19..], b'H'),
            Message::OperationalHalt(halt) => first.letters_of(Kind::Status, &halt.bytes()[19..], b'h'),
            Message::SystemEvent(system) => first.letters_of(Kind::System, &[system.event_code()], b'S'),
            Message::MwcbStatus(status) => first.letters_of(Kind::System, &[status.breached_level()], b'W'),
            Message::StockDirectory(directory) => {
                first.kind = Kind::Instrument;
                first.reference = reference_of(directory.stock().0);
                first.quantity = u64::from(directory.round_lot());
            }
            _ => return Events::default(),
        }
        Events { events: [Some(first), second] }
    }
}

impl Event {
    #[inline]
    fn order(&mut self, kind: Kind, order: OrderReference, side: Option<Side>, shares: u32, price: Option<Price>) {
        (self.kind, self.reference, self.side) = (kind, order.0, side);
        (self.quantity, self.price) = (u64::from(shares), price);
    }

    /// Sets kind and letters: the type of the message, then these.
    fn letters_of(&mut self, kind: Kind, letters: &[u8], message: u8) {
        let mut reference = [b' '; 8];
        reference[0] = message;
        reference[1..].iter_mut().zip(letters).for_each(|(to, from)| *to = *from);
        (self.kind, self.reference) = (kind, reference_of(reference));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin =
        Origin { sequence: Sequence(77), time_ns: 9, arrived: Nanos(5), line: LineId(1), flags: Flags::RECOVERED };

    /// A message of this type: locate 3, time 9, and these bytes from offset 11 on.
    fn message(kind: u8, rest: &[&[u8]]) -> Vec<u8> {
        [&[kind, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9], &*rest.concat()].concat()
    }

    fn events(bytes: &[u8]) -> Vec<Event> {
        ORIGIN.itch(&Message::parse(bytes).unwrap()).iter().copied().collect()
    }

    fn one(bytes: &[u8]) -> Event {
        let events = events(bytes);
        assert_eq!(events.len(), 1);
        let event = events[0];
        assert_eq!((event.sequence, event.arrived, event.line), (Sequence(77), Nanos(5), LineId(1)));
        assert_eq!((event.locate, event.time_ns), (Locate(3), 9));
        assert!(event.flags.contains(Flags::LAST | Flags::RECOVERED));
        event
    }

    fn facts(event: Event) -> (Kind, u64, Option<Side>, u64, Option<Price>) {
        (event.kind, event.reference, event.side, event.quantity, event.price)
    }

    #[test]
    fn messages_about_orders_are_one_event_and_a_replace_is_two() {
        let (order, shares, price) = (&7_u64.to_be_bytes(), &100_u32.to_be_bytes(), &5_u32.to_be_bytes());
        let add = message(b'A', &[order, b"B", shares, b"AAPL    ", price]);
        assert_eq!(facts(one(&add)), (Kind::Add, 7, Some(Side::Buy), 100, Some(Price(5))));
        let add = message(b'F', &[order, b"S", shares, b"AAPL    ", price, b"MPID"]);
        assert_eq!(facts(one(&add)), (Kind::Add, 7, Some(Side::Sell), 100, Some(Price(5))));
        let execution = message(b'E', &[order, shares, &[0; 8]]);
        assert_eq!(facts(one(&execution)), (Kind::Execute, 7, None, 100, None));
        let execution = one(&message(b'C', &[order, shares, &[0; 8], b"N", price]));
        assert_eq!(facts(execution), (Kind::Execute, 7, None, 100, Some(Price(5))));
        assert!(execution.flags.contains(Flags::NOT_PRINTABLE));
        assert_eq!(facts(one(&message(b'X', &[order, shares]))), (Kind::Reduce, 7, None, 100, None));
        assert_eq!(facts(one(&message(b'D', &[order]))), (Kind::Delete, 7, None, 0, None));
        let [old, new] = events(&message(b'U', &[order, &8_u64.to_be_bytes(), shares, price]))[..] else { panic!() };
        assert_eq!(facts(old), (Kind::Delete, 7, None, 0, None));
        assert_eq!(facts(new), (Kind::Replace, 8, None, 100, Some(Price(5))));
        assert_eq!((old.flags, new.flags), (Flags::RECOVERED, Flags::RECOVERED | Flags::LAST));
    }

    #[test]
    fn trades_tell_their_match_and_states_their_letters() {
        let (order, price, matched) = (&7_u64.to_be_bytes(), &5_u32.to_be_bytes(), &99_u64.to_be_bytes());
        let trade = message(b'P', &[order, b"B", &10_u32.to_be_bytes(), b"AAPL    ", price, matched]);
        assert_eq!(facts(one(&trade)), (Kind::Trade, 99, Some(Side::Buy), 10, Some(Price(5))));
        let cross = message(b'Q', &[&u64::MAX.to_be_bytes(), b"AAPL    ", price, matched, b"O"]);
        assert_eq!(facts(one(&cross)), (Kind::Cross, 99, None, u64::MAX, Some(Price(5))));
        assert_eq!(facts(one(&message(b'B', &[matched]))).0, Kind::Broken);
        let halt = one(&message(b'H', &[b"AAPL    ", b"H", b" ", b"T1  "]));
        assert_eq!((halt.kind, &halt.letters()), (Kind::Status, b"HH T1   "));
        let halt = one(&message(b'h', &[b"AAPL    ", b"Q", b"T"]));
        assert_eq!((halt.kind, &halt.letters()), (Kind::Status, b"hQT     "));
        assert_eq!(one(&message(b'S', &[b"Q"])).letters(), *b"SQ      ");
        assert_eq!(one(&message(b'W', &[b"1"])).letters(), *b"W1      ");
        let directory = one(&message(b'R', &[b"AAPL    ", b"QN", &100_u32.to_be_bytes(), &[b' '; 14]]));
        assert_eq!((directory.kind, &directory.letters(), directory.quantity), (Kind::Instrument, b"AAPL    ", 100));
    }

    #[test]
    fn messages_that_change_nothing_are_no_event() {
        assert_eq!(events(b"~later"), []);
        assert_eq!(events(&message(b'Y', &[b"AAPL    ", b"0"])), []);
    }
}
