//! The types that protocols and books share: times, sequence numbers, instruments, orders, prices.

use std::fmt::{self, Display, Formatter};

/// A point in time on a clock of the caller, ns. Times of one feed come from one clock that does not go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The time from `earlier` to this point, ns; 0 if that is not earlier.
    #[inline]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The point `ns` later; the last representable one at most.
    #[inline]
    pub fn after(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// The number of a message in its session. The first one is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// A line: one of the ways by which the same messages come (A, B, the kernel twin of a socket, retransmission).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(pub u8);

/// An instrument of one channel by its number on one day: ITCH's stock locate, dense from 1. 0 stands for no instrument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Locate(pub u16);

/// The exchange's number of an order: the same in the feed and in the answers to the order's owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderReference(pub u64);

/// A price as an integer; each feed has a number of decimals (ITCH: [`crate::itch::PRICE_DECIMALS`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(pub i64);

impl Price {
    /// The price as text, with so many of its digits behind the point.
    pub fn display(self, decimals: u8) -> impl Display {
        Decimal { units: self.0, decimals }
    }
}

struct Decimal {
    units: i64,
    decimals: u8,
}

impl Display for Decimal {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let sign = if self.units < 0 { "-" } else { "" };
        let width = usize::from(self.decimals);
        let digits = format!("{:0>1$}", self.units.unsigned_abs(), width + 1);
        let (whole, fraction) = digits.split_at(digits.len() - width);
        if fraction.is_empty() { write!(out, "{sign}{whole}") } else { write!(out, "{sign}{whole}.{fraction}") }
    }
}

/// The side of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// It buys: bid.
    Buy,
    /// It sells: offer.
    Sell,
}

impl Side {
    /// The other one.
    #[inline]
    pub fn opposite(self) -> Self {
        match self {
            Self::Buy => Self::Sell,
            Self::Sell => Self::Buy,
        }
    }
}

/// A name of `BYTES` ASCII bytes, left-justified and filled with spaces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alpha<const BYTES: usize>(pub [u8; BYTES]);

/// The name of an instrument.
pub type Symbol = Alpha<8>;
/// The identifier of a market participant.
pub type Mpid = Alpha<4>;

impl<const BYTES: usize> Alpha<BYTES> {
    /// A name, filled with spaces; nothing if it is too long or not of printable ASCII letters.
    pub fn new(name: &str) -> Option<Self> {
        let mut bytes = [b' '; BYTES];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        bytes.iter().all(|byte| (b' '..=b'~').contains(byte)).then_some(Self(bytes))
    }

    /// The name without the spaces behind it. A byte that is not printable ASCII ends it.
    pub fn as_str(&self) -> &str {
        let printable = self.0.iter().take_while(|byte| (b' '..=b'~').contains(*byte)).count();
        std::str::from_utf8(&self.0[..printable]).unwrap_or_default().trim_end()
    }
}

impl<const BYTES: usize> Default for Alpha<BYTES> {
    fn default() -> Self {
        Self([b' '; BYTES])
    }
}

impl<const BYTES: usize> Display for Alpha<BYTES> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

impl<const BYTES: usize> fmt::Debug for Alpha<BYTES> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_written_with_their_decimals() {
        let text = |units, decimals| Price(units).display(decimals).to_string();
        assert_eq!(text(630_200, 4), "63.0200");
        assert_eq!(text(-5, 4), "-0.0005");
        assert_eq!(text(42, 0), "42");
        assert_eq!(text(i64::MIN, 9), "-9223372036.854775808");
    }

    #[test]
    fn names_are_filled_with_spaces() {
        let symbol = Symbol::new("AAPL").unwrap();
        assert_eq!((symbol.0, symbol.as_str()), (*b"AAPL    ", "AAPL"));
        assert_eq!(Symbol::new("NINELONGX"), None);
        assert_eq!(Alpha(*b"A\xff  ").as_str(), "A");
    }
}
