//! OUCH 5.0: orders to Nasdaq and the answers to them, over SoupBinTCP. Source: Nasdaq OUCH 5.0, specification of order entry.
//!
//! The client's messages are its `U` packets, the exchange's its `S` packets. All numbers are big-endian; a price has 8 bytes and
//! [`PRICE_DECIMALS`] decimals. Behind the fixed part some messages have an appendage: its length (u16), then elements of
//! `{length of the rest u8, tag u8, value}`.
//!
//! | direction | types |
//! |---|---|
//! | to the exchange | [`EnterOrder`] `O`, [`ReplaceOrder`] `U`, [`CancelOrder`] `X`, [`ModifyOrder`] `M`, [`AccountQuery`] `Q` |
//! | from the exchange | [`Answer`]: `S` `A` `U` `E` `C` `J` `B` `D` `P` `I` `T` `M` `R` `Q`; others are skipped |
//!
//! An order is known by its [`UserRefNum`], which rises from order to order all day: the exchange silently ignores a message with a
//! number that is not higher than the last. So a message may be sent again when it is not known if it arrived. A cancel that comes
//! too late has no answer either. [`OpenOrders`] keeps account of that.

mod answer;
mod appendage;
mod letters;
mod orders;
mod request;
mod wire;

pub use answer::*;
pub use appendage::{Appendage, Element, Elements};
pub use letters::{Capacity, CrossType, Display, OrderSide, TimeInForce};
pub use orders::{Change, Counters, Limits, OpenOrders, Order, Refused, Request, Stage};
pub use request::{AccountQuery, BuildError, CancelOrder, EnterOrder, ModifyOrder, ReplaceOrder};

use crate::units::{Alpha, Price};

/// Digits behind the point of a price.
pub const PRICE_DECIMALS: u8 = 4;
/// The highest price of a limit order: 199,999.9900.
pub const PRICE_MAX: Price = Price(1_999_999_900);
/// The price of a market order, for a cross.
pub const PRICE_MARKET: Price = Price(0x7FFF_FFFF);
/// The most shares of an order.
pub const QUANTITY_MAX: u32 = 999_999;

/// The client's number of an order: rises strictly, all day, over all connections of the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserRefNum(pub u32);

/// The client's name of an order; the exchange does not check it.
pub type ClOrdId = Alpha<14>;
