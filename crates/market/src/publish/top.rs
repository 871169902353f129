//! The best bid and offer of an instrument, as a record.
//!
//! ```text
//!  0           8              16            24               32         40        48           50             52       54      55
//!  | bid price | bid quantity | offer price | offer quantity | sequence | time ns | bid orders | offer orders | locate | state | 0 |
//! ```
//!
//! A side whose quantity is 0 is empty. A record of zeroes says that nothing is known.

use super::{Channel, RECORD_WORDS};
use crate::event::{Event, Flags, Kind};
use crate::units::{Locate, Price, Sequence, Side};
use sidestep_ring::seqlock::{ReadError, Reader};

/// The trust in what is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// Nothing has been told.
    #[default]
    Unknown = 0,
    /// No message is missing.
    Live = 1,
    /// Messages are missing: prices may be wrong.
    Stale = 2,
}

impl State {
    pub(super) fn of_code(code: u8) -> Self {
        match code {
            1 => Self::Live,
            2 => Self::Stale,
            _ => Self::Unknown,
        }
    }

    /// The state that an event tells.
    pub fn of_event(event: &Event) -> Self {
        if event.flags.contains(Flags::STALE) { Self::Stale } else { Self::Live }
    }
}

/// A price level: the best of its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Price.
    pub price: Price,
    /// The sum of the orders, at least 1.
    pub quantity: u64,
    /// The number of orders; 0 if they are not counted, [`u16::MAX`] for that many or more.
    pub orders: u16,
}

/// The best bid and offer of an instrument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Top {
    /// The best bid; nothing if the side is empty.
    pub bid: Option<Level>,
    /// The best offer; nothing if the side is empty. It may be at or below the bid: venues do send crossed books.
    pub offer: Option<Level>,
    /// The message that changed one of them last.
    pub sequence: Sequence,
    /// Its time at the venue, ns.
    pub time_ns: u64,
    /// The state of the instrument; that of the channel counts as well ([`Tops::top`]).
    pub state: State,
}

impl Top {
    /// The level of a side.
    pub fn side(&self, side: Side) -> Option<Level> {
        match side {
            Side::Buy => self.bid,
            Side::Sell => self.offer,
        }
    }

    /// Applies an event of this instrument; others than [`Kind::Top`], [`Kind::State`] and [`Kind::Reset`] change nothing.
    pub fn apply(&mut self, event: &Event) {
        match event.kind {
            Kind::Top => {
                let level = event.price.filter(|_| event.quantity > 0).map(|price| Level {
                    price,
                    quantity: event.quantity,
                    orders: u16::try_from(event.reference).unwrap_or(u16::MAX),
                });
                match event.side {
                    Some(Side::Buy) => self.bid = level,
                    Some(Side::Sell) => self.offer = level,
                    None => return,
                }
                (self.sequence, self.time_ns) = (event.sequence, event.time_ns);
            }
            Kind::State if event.locate != Locate(0) => self.state = State::of_event(event),
            Kind::Reset => *self = Self::default(),
            _ => {}
        }
    }

    /// The words of the record.
    #[inline]
    pub(super) fn words(&self, locate: Locate) -> [u64; RECORD_WORDS] {
        let side =
            |level: Option<Level>| level.map_or((0, 0, 0), |it| (it.price.0 as u64, it.quantity, u64::from(it.orders)));
        let ((bid, bids, bid_orders), (offer, offers, offer_orders)) = (side(self.bid), side(self.offer));
        let rest = bid_orders | offer_orders << 16 | u64::from(locate.0) << 32 | (self.state as u64) << 48;
        [bid, bids, offer, offers, self.sequence.0, self.time_ns, rest]
    }

    /// What a record says. Any words are something.
    #[inline]
    pub(super) fn of_words(words: &[u64; RECORD_WORDS]) -> Self {
        let &[bid, bids, offer, offers, sequence, time_ns, rest] = words;
        let side = |price: u64, quantity, orders| {
            (quantity > 0).then_some(Level { price: Price(price as i64), quantity, orders })
        };
        Self {
            bid: side(bid, bids, rest as u16),
            offer: side(offer, offers, (rest >> 16) as u16),
            sequence: Sequence(sequence),
            time_ns,
            state: State::of_code((rest >> 48) as u8),
        }
    }
}

/// The array of best bids and offers alone: for who wants to know the newest prices and not each change.
#[derive(Clone)]
pub struct Tops {
    reader: Reader<RECORD_WORDS>,
}

impl Tops {
    /// Reads this array.
    pub fn new(reader: Reader<RECORD_WORDS>) -> Self {
        Self { reader }
    }

    /// The best bid and offer of an instrument. It is live only if the instrument and the channel are.
    pub fn top(&self, locate: Locate) -> Result<Top, ReadError> {
        let record = self.reader.read(u32::from(locate.0))?;
        let mut top = Top::of_words(&record.words);
        // The channel second: if it became stale before the record was written, that is seen here.
        if self.channel()?.state != State::Live && top.state == State::Live {
            top.state = State::Stale;
        }
        Ok(top)
    }

    /// The channel.
    pub fn channel(&self) -> Result<Channel, ReadError> {
        Ok(Channel::of_words(&self.reader.read(0)?.words))
    }

    /// The record's stamp, which changes with the record; nothing if the array ends before. One load.
    pub fn stamp(&self, locate: Locate) -> Option<u64> {
        self.reader.stamp(u32::from(locate.0))
    }

    /// The array.
    pub fn reader(&mut self) -> &mut Reader<RECORD_WORDS> {
        &mut self.reader
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn level() -> impl Strategy<Value = Option<Level>> {
        let levels = (any::<i64>(), 1..=u64::MAX, any::<u16>());
        proptest::option::of(levels.prop_map(|(price, quantity, orders)| Level {
            price: Price(price),
            quantity,
            orders,
        }))
    }

    proptest! {
        #[test]
        fn a_record_says_what_was_put_in(
            bid in level(),
            offer in level(),
            [sequence, time_ns] in any::<[u64; 2]>(),
            (state, locate) in (0..3_u8, any::<u16>()),
        ) {
            let top = Top { bid, offer, sequence: Sequence(sequence), time_ns, state: State::of_code(state) };
            prop_assert_eq!(Top::of_words(&top.words(Locate(locate))), top);
        }
    }

    #[test]
    fn a_record_of_zeroes_says_that_nothing_is_known() {
        assert_eq!(Top::of_words(&[0; RECORD_WORDS]), Top::default());
        assert_eq!(Top::default().state, State::Unknown);
        assert_eq!(Top::of_words(&[u64::MAX; RECORD_WORDS]).state, State::Unknown);
    }
}
