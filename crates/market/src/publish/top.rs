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

    /// The best bid and offer of an instrument. It is live only if the instrument is, and the channel from before its record was read until
    /// after it.
    ///
    /// That says nothing of a publisher that is dead or hangs: see [`Tops::heartbeat_ns`].
    #[inline]
    pub fn top(&self, locate: Locate) -> Result<Top, ReadError> {
        self.top_while(locate, |_| ())
    }

    /// `between` is called before and after the record is read.
    #[inline(always)]
    fn top_while(&self, locate: Locate, mut between: impl FnMut(usize)) -> Result<Top, ReadError> {
        let channel = self.reader.read(0)?;
        between(0);
        let record = self.reader.read(u32::from(locate.0))?;
        between(1);
        let mut top = Top::of_words(&record.words);
        // A record of a time when the channel was stale shows the channel's stamp of then or a later one.
        let is_live = Channel::of_words(&channel.words).state == State::Live;
        if !(is_live && self.reader.stamp(0) == Some(channel.stamp)) && top.state == State::Live {
            top.state = State::Stale;
        }
        Ok(top)
    }

    /// When the publisher gave its last sign of life: CLOCK_MONOTONIC_RAW, ns; 0 if it gave none. A feed handler gives one every 100 ms. The
    /// array of a process that was killed, stopped, or hangs in its own code says live for ever: who trades on it looks here. One load.
    #[inline]
    pub fn heartbeat_ns(&self) -> u64 {
        self.reader.heartbeat_ns()
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

    /// The words of the channel in this state, and of an instrument with this bid.
    fn channel(state: State) -> [u64; RECORD_WORDS] {
        Channel { state, ..Channel::default() }.words()
    }

    fn bid(price: i64) -> [u64; RECORD_WORDS] {
        let bid = Some(Level { price: Price(price), quantity: 1, orders: 1 });
        Top { bid, state: State::Live, ..Top::default() }.words(Locate(1))
    }

    #[test]
    fn a_record_that_was_read_while_the_channel_was_stale_is_not_live() {
        let (mut writer, reader) = sidestep_ring::seqlock::pair(2).unwrap();
        let tops = Tops::new(reader);
        let mut stamp = 0;
        let mut write = |index, words| {
            stamp += 1;
            writer.write(index, stamp, &words).unwrap();
        };
        let state = |top: Result<Top, ReadError>| top.unwrap().state;
        write(1, bid(10));
        write(0, channel(State::Stale));
        let recovers = |step| {
            if step == 1 {
                write(1, bid(11));
                write(0, channel(State::Live));
            }
        };
        assert_eq!(state(tops.top_while(Locate(1), recovers)), State::Stale, "the bid was 10, and is 11");
        assert_eq!(state(tops.top(Locate(1))), State::Live);
        let is_lost_and_comes_back = |step| match step {
            0 => {
                write(0, channel(State::Stale));
                write(1, bid(12));
            }
            _ => write(0, channel(State::Live)),
        };
        assert_eq!(state(tops.top_while(Locate(1), is_lost_and_comes_back)), State::Stale, "12 is of a stale channel");
    }

    #[test]
    fn a_record_of_zeroes_says_that_nothing_is_known() {
        assert_eq!(Top::of_words(&[0; RECORD_WORDS]), Top::default());
        assert_eq!(Top::default().state, State::Unknown);
        assert_eq!(Top::of_words(&[u64::MAX; RECORD_WORDS]).state, State::Unknown);
    }
}
