//! Normalised events: what a feed tells, in 56 bytes, the same for all feeds. One travels in one cache line of a broadcast ring.
//!
//! ```text
//!  0          8         16        24          32      40         48       50     51     52     53      54  56
//!  | sequence | time ns | arrived | reference | price | quantity | locate | line | kind | side | flags | 0 |   little-endian
//! ```
//!
//! [`Origin`] makes them of ITCH messages; most messages are one event, an order replace is two. The vocabulary is that of databento's
//! market-by-order records: add, execute (fill), reduce (cancel in part), delete, trade, with a flag at the last event of a message.
//! What a feed does not tell (the price of an execution at the order's own price, the side of a deletion) stays empty: a book knows it.

mod kind;
mod normalise;

pub use kind::{Flags, Kind, Unknown};
pub use normalise::{EVENTS_PER_MESSAGE_MAX, Events, Origin};

use crate::units::{LineId, Locate, Nanos, Price, Sequence, Side};

/// The size of an event, bytes.
pub const EVENT_BYTES: usize = 56;

/// The price on the wire of an event that has none.
pub(crate) const NO_PRICE: i64 = i64::MIN;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number of the message in its session.
    pub sequence: Sequence,
    /// The venue's time of the event, ns as the feed counts: ITCH since midnight of the exchange's day, others since 1970.
    pub time_ns: u64,
    /// Receipt of the datagram, on the clock of the feed handler.
    pub arrived: Nanos,
    /// What the event is about, by its kind ([`Kind`]): an order, a match, a number of orders, letters.
    pub reference: u64,
    /// Price; nothing if the feed does not tell it.
    pub price: Option<Price>,
    /// Shares or contracts: of the new order, of the execution or reduction, of the trade, of the price level.
    pub quantity: u64,
    /// The instrument; 0 for events of the whole channel.
    pub locate: Locate,
    /// The line on which the message came first.
    pub line: LineId,
    /// The kind.
    pub kind: Kind,
    /// Side; nothing if the feed does not tell it, or if there is none.
    pub side: Option<Side>,
    /// Flags.
    pub flags: Flags,
}

impl Event {
    /// An event of this kind about an instrument, with nothing else in it.
    pub fn new(kind: Kind, locate: Locate) -> Self {
        Self {
            sequence: Sequence(0),
            time_ns: 0,
            arrived: Nanos(0),
            reference: 0,
            price: None,
            quantity: 0,
            locate,
            line: LineId(0),
            kind,
            side: None,
            flags: Flags::NONE,
        }
    }

    /// The bytes of the event. A price of [`i64::MIN`] units is no price.
    #[inline]
    pub fn encode(&self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        let words = [
            self.sequence.0,
            self.time_ns,
            self.arrived.0,
            self.reference,
            self.price.map_or(NO_PRICE, |price| price.0) as u64,
            self.quantity,
        ];
        for (index, word) in words.into_iter().enumerate() {
            bytes[8 * index..8 * index + 8].copy_from_slice(&word.to_le_bytes());
        }
        let [low, high] = self.locate.0.to_le_bytes();
        let side = self.side.map_or(0, side_code);
        bytes[48..54].copy_from_slice(&[low, high, self.line.0, self.kind as u8, side, self.flags.bits()]);
        bytes
    }

    /// Reads an event. Kinds and sides of a later version are errors; flags of a later version and the last two bytes are ignored.
    #[inline]
    pub fn decode(bytes: &[u8; EVENT_BYTES]) -> Result<Self, Unknown> {
        let [sequence, time_ns, arrived, reference, price, quantity] =
            std::array::from_fn(|index| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * index + byte])));
        let &[.., low, high, line, kind, side, flags, _, _] = bytes;
        Ok(Self {
            sequence: Sequence(sequence),
            time_ns,
            arrived: Nanos(arrived),
            reference,
            price: Some(Price(price as i64)).filter(|price| price.0 != NO_PRICE),
            quantity,
            locate: Locate(u16::from_le_bytes([low, high])),
            line: LineId(line),
            kind: Kind::of_code(kind).ok_or(Unknown::Kind(kind))?,
            side: side_of_code(side).ok_or(Unknown::Side(side))?,
            flags: Flags::of_bits(flags),
        })
    }

    /// The instrument of an encoded event: for filters that decode only what they want.
    #[inline]
    pub fn locate_of(bytes: &[u8; EVENT_BYTES]) -> Locate {
        Locate(u16::from_le_bytes([bytes[48], bytes[49]]))
    }

    /// The kind of an encoded event; nothing if it is of a later version.
    #[inline]
    pub fn kind_of(bytes: &[u8; EVENT_BYTES]) -> Option<Kind> {
        Kind::of_code(bytes[51])
    }

    /// The letters of a reference that has some ([`Kind::Status`], [`Kind::System`], [`Kind::Instrument`]).
    pub fn letters(&self) -> [u8; 8] {
        self.reference.to_le_bytes()
    }
}

/// Letters as a reference.
pub(crate) fn reference_of(letters: [u8; 8]) -> u64 {
    u64::from_le_bytes(letters)
}

fn side_code(side: Side) -> u8 {
    match side {
        Side::Buy => 1,
        Side::Sell => 2,
    }
}

/// The side of a code: 0 none.
#[allow(clippy::option_option)] // An unknown code is something else than no side.
fn side_of_code(code: u8) -> Option<Option<Side>> {
    match code {
        0 => Some(None),
        1 => Some(Some(Side::Buy)),
        2 => Some(Some(Side::Sell)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn side() -> impl Strategy<Value = Option<Side>> {
        prop_oneof![Just(None), Just(Some(Side::Buy)), Just(Some(Side::Sell))]
    }

    prop_compose! {
        fn events()(
            [sequence, time_ns, arrived, reference, quantity] in any::<[u64; 5]>(),
            price in any::<Option<i64>>(),
            (locate, line, kind, flags) in (any::<u16>(), any::<u8>(), 1..=Kind::ALL.len() as u8, any::<u8>()),
            side in side(),
        ) -> Event {
            Event {
                sequence: Sequence(sequence),
                time_ns,
                arrived: Nanos(arrived),
                reference,
                price: price.filter(|price| *price != NO_PRICE).map(Price),
                quantity,
                locate: Locate(locate),
                line: LineId(line),
                kind: Kind::of_code(kind).unwrap(),
                side,
                flags: Flags::of_bits(flags),
            }
        }
    }

    proptest! {
        #[test]
        fn an_event_is_read_as_it_was_written(event in events()) {
            let bytes = event.encode();
            prop_assert_eq!(Event::decode(&bytes), Ok(event));
            prop_assert_eq!((Event::locate_of(&bytes), Event::kind_of(&bytes)), (event.locate, Some(event.kind)));
        }

        #[test]
        fn any_bytes_are_an_event_or_an_error(bytes in any::<[u8; EVENT_BYTES]>()) {
            if let Ok(event) = Event::decode(&bytes) {
                let again = event.encode();
                prop_assert_eq!(&again[..53], &bytes[..53]);
                prop_assert_eq!(Event::decode(&again), Ok(event));
            }
        }
    }

    /// The layout that other programs read: a change here is another format.
    #[test]
    fn the_bytes_of_an_event_stand_where_the_diagram_says() {
        let mut event = Event::new(Kind::Execute, Locate(0x0102));
        (event.sequence, event.time_ns, event.arrived, event.reference) = (Sequence(1), 2, Nanos(3), 4);
        (event.price, event.quantity, event.line) = (Some(Price(-2)), 6, LineId(7));
        (event.side, event.flags) = (Some(Side::Sell), Flags::LAST | Flags::STALE);
        let mut expected = Vec::new();
        [1, 2, 3, 4, u64::MAX - 1, 6].iter().for_each(|word: &u64| expected.extend(word.to_le_bytes()));
        expected.extend([2, 1, 7, 2, 2, 5, 0, 0]);
        assert_eq!(event.encode().to_vec(), expected);
        let nothing = Event::new(Kind::Delete, Locate(0)).encode();
        assert_eq!(nothing[32..40], i64::MIN.to_le_bytes());
    }

    #[test]
    fn kinds_and_sides_of_a_later_version_are_errors() {
        let mut bytes = Event::new(Kind::Add, Locate(1)).encode();
        bytes[52] = 3;
        assert_eq!(Event::decode(&bytes), Err(Unknown::Side(3)));
        bytes[51] = 0;
        assert_eq!(Event::decode(&bytes), Err(Unknown::Kind(0)));
        bytes[51] = 200;
        assert_eq!(Event::decode(&bytes).unwrap_err().to_string(), "an event of the unknown kind 200");
    }
}
