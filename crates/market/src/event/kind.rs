//! The kinds of events, and their flags.

use std::fmt::{self, Display, Formatter};
use std::ops::BitOr;

/// The kind of an event. What [`super::Event::reference`] is differs by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A new order. Reference: the order.
    Add = 1,
    /// An order was executed and shrinks by the quantity at its own price; the price is that of the execution, if it was another. Reference:
    /// the order.
    Execute = 2,
    /// An order shrinks by the quantity. Reference: the order.
    Reduce = 3,
    /// An order is gone. Reference: the order. Without [`Flags::LAST`]: the next event is the order that replaces it.
    Delete = 4,
    /// A new order in the place of the one that the event before deleted, whose side it has if none is told; it is last at its
    /// price. Reference: the order.
    Replace = 5,
    /// A trade that does not change the book. Reference: the match.
    Trade = 6,
    /// A cross trade (auction). Reference: the match.
    Cross = 7,
    /// A trade that was broken. Reference: the match.
    Broken = 8,
    /// The trading state of an instrument. Reference: letters; ITCH: type (`H`, `h`), then the message's bytes from state or market on.
    Status = 9,
    /// An event of the whole market. Reference: letters; ITCH: type (`S`, `W`) and code.
    System = 10,
    /// An instrument of this day. Reference: its symbol.
    Instrument = 11,
    /// The best price of a side has changed: price and quantity of the level; no price if the side is empty. Reference: the orders of the
    /// level; 0 if they are not counted.
    Top = 12,
    /// The book of an instrument, or with locate 0 of the whole channel, is stale or live from here on ([`Flags::STALE`]).
    State = 13,
    /// Everything known of all instruments is void: a new session, or another process writes from here on. The state of the channel is stale.
    Reset = 14,
    /// Nothing: the number was taken by a process that died before it could tell the event.
    Void = 15,
}

impl Kind {
    /// All kinds, by their codes from 1 on.
    pub const ALL: [Self; 15] = [
        Self::Add,
        Self::Execute,
        Self::Reduce,
        Self::Delete,
        Self::Replace,
        Self::Trade,
        Self::Cross,
        Self::Broken,
        Self::Status,
        Self::System,
        Self::Instrument,
        Self::Top,
        Self::State,
        Self::Reset,
        Self::Void,
    ];

    /// The kind of a code.
    #[inline]
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }

    /// True if the event changes a book of orders.
    #[inline]
    pub fn changes_orders(self) -> bool {
        (self as u8) <= Self::Replace as u8
    }
}

/// Flags of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// The last event of its message: books are consistent after it.
    pub const LAST: Self = Self(1);
    /// The message came by retransmission or snapshot, not by a line.
    pub const RECOVERED: Self = Self(2);
    /// The book of the instrument is stale: messages before this one are missing.
    pub const STALE: Self = Self(4);
    /// The execution does not count in volume: it is part of a cross, which is told by itself.
    pub const NOT_PRINTABLE: Self = Self(8);
    /// The receipt time was taken by software, after the card.
    pub const SOFTWARE_TIME: Self = Self(16);

    const KNOWN: u8 = 31;

    /// The flags of a byte; unknown ones are left out.
    #[inline]
    pub fn of_bits(bits: u8) -> Self {
        Self(bits & Self::KNOWN)
    }

    /// The byte.
    #[inline]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// True if all of these are set.
    #[inline]
    pub fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The flags without these.
    #[inline]
    #[must_use]
    pub fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Bytes that are no event of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The kind has this code.
    Kind(u8),
    /// The side has this code.
    Side(u8),
}

impl Display for Unknown {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(code) => write!(out, "an event of the unknown kind {code}"),
            Self::Side(code) => write!(out, "an event with the unknown side {code}"),
        }
    }
}

impl std::error::Error for Unknown {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_kinds_belong_together() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, Kind::of_code(kind as u8)), (index + 1, Some(kind)));
        }
        assert_eq!((Kind::of_code(0), Kind::of_code(16)), (None, None));
        assert!(Kind::Replace.changes_orders() && !Kind::Trade.changes_orders());
    }

    #[test]
    fn flags_of_a_later_version_are_left_out() {
        let flags = Flags::LAST | Flags::SOFTWARE_TIME;
        assert_eq!(Flags::of_bits(0x80 | flags.bits()), flags);
        assert!(flags.contains(Flags::LAST) && !flags.contains(Flags::LAST | Flags::STALE));
        assert_eq!(flags.without(Flags::LAST), Flags::SOFTWARE_TIME);
    }
}
