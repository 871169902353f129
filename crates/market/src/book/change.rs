//! What a message has changed.

use crate::units::{Locate, Price, Side};

/// A price level as it is seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceLevel {
    /// The price.
    pub price: Price,
    /// The sum of the shares of its orders; 0 in a [`Change`]: the level is gone.
    pub shares: u64,
    /// Its orders.
    pub orders: u32,
}

/// The place of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touched {
    /// A level below the best one.
    Deeper,
    /// The best level: it has changed, has come or is gone.
    Top,
}

/// The change of a book by one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The instrument.
    pub locate: Locate,
    /// The side.
    pub side: Side,
    /// The place: the better one of the two if there are two.
    pub touched: Touched,
    /// The level as it is now.
    pub level: PriceLevel,
    /// After a replace at another price: the old level as it is now.
    pub left: Option<PriceLevel>,
}
