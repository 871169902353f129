//! Sides, prices, symbols, times and references, as the feed and the orders share them.

use std::fmt;

/// Four implied decimals: a price of 1.0000.
pub const PRICE_ONE: u32 = 10_000;

/// One cent: the step between prices at or above one dollar (Regulation NMS, rule 612).
pub const TICK: u32 = 100;

/// The highest price of a limit order, 199,999.9900 (OUCH 5.0).
pub const PRICE_MAX: u32 = 1_999_999_900;

/// An order has fewer shares than this (OUCH 5.0: below 1,000,000).
pub const SHARES_END: u32 = 1_000_000;

/// A day in ns: timestamps of ITCH and OUCH are below it.
pub const DAY_NS: u64 = 86_400_000_000_000;

/// Buy or sell. A short sale is a sell for the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The bid.
    Buy,
    /// The offer.
    Sell,
}

impl Side {
    /// The other one.
    pub const fn opposite(self) -> Self {
        match self {
            Self::Buy => Self::Sell,
            Self::Sell => Self::Buy,
        }
    }

    /// `B` or `S`, as ITCH has it.
    pub const fn letter(self) -> u8 {
        match self {
            Self::Buy => b'B',
            Self::Sell => b'S',
        }
    }

    /// Prices of a side in the order in which they are worse for the other side: the best one is the greatest.
    pub(crate) const fn rank(self, price: u32) -> u32 {
        match self {
            Self::Buy => price,
            Self::Sell => !price,
        }
    }

    /// The price of which [`Self::rank`] is `rank`.
    pub(crate) const fn price(self, rank: u32) -> u32 {
        self.rank(rank)
    }

    /// True if an order of this side with this limit may trade at `price`.
    pub const fn takes(self, limit: u32, price: u32) -> bool {
        match self {
            Self::Buy => price <= limit,
            Self::Sell => price >= limit,
        }
    }
}

/// A ticker symbol: 8 characters, left-justified, filled with spaces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(pub [u8; 8]);

impl Symbol {
    /// The symbol of the `index`-th synthetic instrument: `AAAA`, `AAAB`, ...; distinct below 26^4 = 456,976.
    pub fn synthetic(index: usize) -> Self {
        let mut symbol = *b"        ";
        let mut rest = index;
        for place in symbol[..4].iter_mut().rev() {
            *place = b'A' + (rest % 26) as u8;
            rest /= 26;
        }
        Self(symbol)
    }

    /// A symbol of 1 to 8 printable characters; `None` for anything else.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii_end();
        let fits = (1..=8).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic);
        let mut symbol = *b"        ";
        fits.then(|| {
            symbol[..text.len()].copy_from_slice(text);
            Self(symbol)
        })
    }

    /// The characters without the spaces behind them.
    pub fn text(&self) -> &[u8] {
        self.0.trim_ascii_end()
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Symbol({self})")
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_price_of_a_side_has_the_greatest_rank() {
        assert!(Side::Buy.rank(200) > Side::Buy.rank(100));
        assert!(Side::Sell.rank(100) > Side::Sell.rank(200));
        assert_eq!(Side::Sell.price(Side::Sell.rank(7)), 7);
        assert!(Side::Buy.takes(100, 100) && !Side::Buy.takes(100, 101));
        assert!(Side::Sell.takes(100, 100) && !Side::Sell.takes(100, 99));
    }

    #[test]
    fn symbols_are_distinct_and_padded() {
        assert_eq!(Symbol::synthetic(0).0, *b"AAAA    ");
        assert_eq!(Symbol::synthetic(27).to_string(), "AABB");
        assert_eq!(Symbol::from_text(b"MSFT    "), Symbol::from_text(b"MSFT"));
        for text in [&b""[..], b"   ", b"A B", b"TOOLONGER", b"\xff"] {
            assert_eq!(Symbol::from_text(text), None);
        }
    }
}
