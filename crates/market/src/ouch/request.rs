//! Messages to the exchange. Each writes itself into a buffer of the caller, and refuses what the exchange would silently ignore
//! or take for something else.

use super::appendage::{Element, bytes_of, write};
use super::letters::*;
use super::wire::Put;
use super::{ClOrdId, PRICE_MARKET, PRICE_MAX, QUANTITY_MAX, UserRefNum};
use crate::units::{Price, Symbol};
use std::fmt::{self, Formatter};

/// The reason why a message is not written. Nothing of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The buffer is too small.
    NoRoom,
    /// No shares, or more than [`QUANTITY_MAX`].
    Quantity,
    /// Negative, or above [`PRICE_MAX`] and not [`PRICE_MARKET`].
    Price,
    /// A value, or the appendage, is longer than its length field can tell.
    Appendage,
}

impl fmt::Display for BuildError {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NoRoom => "the buffer is too small for the message",
            Self::Quantity => "the quantity is outside of 1 to 999,999 shares",
            Self::Price => "the price is outside of 0 to 199,999.9900",
            Self::Appendage => "the appendage is too long",
        })
    }
}

impl std::error::Error for BuildError {}

/// Enter order, `O`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnterOrder<'a> {
    /// The order's number.
    pub user_ref_num: UserRefNum,
    /// Side.
    pub side: OrderSide,
    /// Shares.
    pub quantity: u32,
    /// The instrument.
    pub symbol: Symbol,
    /// Limit.
    pub price: Price,
    /// Time in force.
    pub time_in_force: TimeInForce,
    /// Display.
    pub display: Display,
    /// Capacity.
    pub capacity: Capacity,
    /// Intermarket sweep order.
    pub is_intermarket_sweep: bool,
    /// Cross for which it is meant.
    pub cross_type: CrossType,
    /// The client's name of it.
    pub cl_ord_id: ClOrdId,
    /// Optional fields.
    pub appendage: &'a [Element<'a>],
}

impl<'a> EnterOrder<'a> {
    /// Bytes of the message without the elements of its appendage.
    pub const BYTES: usize = 47;

    /// A displayed limit order of a principal for the continuous market of this day, without a name and optional fields.
    pub fn limit(user_ref_num: UserRefNum, side: OrderSide, quantity: u32, symbol: Symbol, price: Price) -> Self {
        Self {
            user_ref_num,
            side,
            quantity,
            symbol,
            price,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            capacity: Capacity::Principal,
            is_intermarket_sweep: false,
            cross_type: CrossType::Continuous,
            cl_ord_id: ClOrdId::default(),
            appendage: &[],
        }
    }

    /// Writes the message to the front of `out`; the bytes written.
    ///
    /// # Errors
    /// [`BuildError`]; `out` is as it was then.
    #[inline]
    pub fn write(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        check_quantity(self.quantity)?;
        check_price(self.price)?;
        let out = room(out, Self::BYTES, self.appendage)?;
        out[0] = b'O';
        self.user_ref_num.put(out, 1);
        out[5] = self.side.letter();
        self.quantity.put(out, 6);
        self.symbol.put(out, 10);
        self.price.put(out, 18);
        out[26] = self.time_in_force.letter();
        out[27] = self.display.letter();
        out[28] = self.capacity.letter();
        out[29] = flag(self.is_intermarket_sweep);
        out[30] = self.cross_type.letter();
        self.cl_ord_id.put(out, 31);
        append(out, Self::BYTES, self.appendage);
        Ok(out.len())
    }
}

/// Replace order, `U`. The new order is last at its price. If the exchange cannot do it, the old order is cancelled, stays as it is
/// (with a rejection), or is gone already (without an answer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaceOrder<'a> {
    /// The old order.
    pub old_user_ref_num: UserRefNum,
    /// The new order's number.
    pub user_ref_num: UserRefNum,
    /// Shares of the whole chain of orders, with those that are executed already.
    pub quantity: u32,
    /// Limit.
    pub price: Price,
    /// Time in force.
    pub time_in_force: TimeInForce,
    /// Display.
    pub display: Display,
    /// Intermarket sweep order.
    pub is_intermarket_sweep: bool,
    /// The client's name of it.
    pub cl_ord_id: ClOrdId,
    /// Optional fields.
    pub appendage: &'a [Element<'a>],
}

impl<'a> ReplaceOrder<'a> {
    /// Bytes of the message without the elements of its appendage.
    pub const BYTES: usize = 40;

    /// A displayed limit order of this day in the place of an old one.
    pub fn limit(old_user_ref_num: UserRefNum, user_ref_num: UserRefNum, quantity: u32, price: Price) -> Self {
        Self {
            old_user_ref_num,
            user_ref_num,
            quantity,
            price,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            is_intermarket_sweep: false,
            cl_ord_id: ClOrdId::default(),
            appendage: &[],
        }
    }

    /// Writes the message to the front of `out`; the bytes written.
    ///
    /// # Errors
    /// [`BuildError`]; `out` is as it was then.
    #[inline]
    pub fn write(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        check_quantity(self.quantity)?;
        check_price(self.price)?;
        let out = room(out, Self::BYTES, self.appendage)?;
        out[0] = b'U';
        self.old_user_ref_num.put(out, 1);
        self.user_ref_num.put(out, 5);
        self.quantity.put(out, 9);
        self.price.put(out, 13);
        out[21] = self.time_in_force.letter();
        out[22] = self.display.letter();
        out[23] = flag(self.is_intermarket_sweep);
        self.cl_ord_id.put(out, 24);
        append(out, Self::BYTES, self.appendage);
        Ok(out.len())
    }
}

/// Cancel order, `X`: the order shrinks to a size, and keeps its place. It has no answer if the order is gone, or not larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelOrder {
    /// The order.
    pub user_ref_num: UserRefNum,
    /// Intended total size, with the shares that are executed already; 0 cancels all that is left.
    pub quantity: u32,
}

impl CancelOrder {
    /// Bytes of the message.
    pub const BYTES: usize = 9;

    /// Writes the message to the front of `out`; the bytes written.
    ///
    /// # Errors
    /// The buffer is too small.
    #[inline]
    pub fn write(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        let out = room(out, Self::BYTES, &[])?;
        out[0] = b'X';
        self.user_ref_num.put(out, 1);
        self.quantity.put(out, 5);
        Ok(out.len())
    }
}

/// Modify order, `M`: another side (among the kinds of selling) and fewer shares; the order keeps its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModifyOrder {
    /// The order.
    pub user_ref_num: UserRefNum,
    /// Side.
    pub side: OrderSide,
    /// Shares.
    pub quantity: u32,
}

impl ModifyOrder {
    /// Bytes of the message.
    pub const BYTES: usize = 10;

    /// Writes the message to the front of `out`; the bytes written.
    ///
    /// # Errors
    /// [`BuildError`]; `out` is as it was then.
    #[inline]
    pub fn write(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        check_quantity(self.quantity)?;
        let out = room(out, Self::BYTES, &[])?;
        out[0] = b'M';
        self.user_ref_num.put(out, 1);
        out[5] = self.side.letter();
        self.quantity.put(out, 6);
        Ok(out.len())
    }
}

/// Account query, `Q`: the answer tells the next number of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountQuery;

impl AccountQuery {
    /// Bytes of the message.
    pub const BYTES: usize = 1;

    /// Writes the message to the front of `out`; the bytes written.
    ///
    /// # Errors
    /// The buffer is too small.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        room(out, Self::BYTES, &[])?[0] = b'Q';
        Ok(Self::BYTES)
    }
}

fn check_quantity(quantity: u32) -> Result<(), BuildError> {
    if (1..=QUANTITY_MAX).contains(&quantity) { Ok(()) } else { Err(BuildError::Quantity) }
}

fn check_price(price: Price) -> Result<(), BuildError> {
    let is_price = price == PRICE_MARKET || (Price(0)..=PRICE_MAX).contains(&price);
    if is_price { Ok(()) } else { Err(BuildError::Price) }
}

fn flag(is_set: bool) -> u8 {
    if is_set { b'Y' } else { b'N' }
}

/// The part of `out` that the message takes.
#[inline]
fn room<'a>(out: &'a mut [u8], fixed: usize, elements: &[Element<'_>]) -> Result<&'a mut [u8], BuildError> {
    let bytes = bytes_of(elements).ok_or(BuildError::Appendage)?;
    out.get_mut(..fixed + usize::from(bytes)).ok_or(BuildError::NoRoom)
}

/// Writes the appendage and its length, which are the end of the message.
#[inline]
fn append(out: &mut [u8], fixed: usize, elements: &[Element<'_>]) {
    ((out.len() - fixed) as u16).put(out, fixed - 2);
    write(elements, &mut out[fixed..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Mpid;

    fn order() -> EnterOrder<'static> {
        let symbol = Symbol::new("CVLT").unwrap();
        EnterOrder::limit(UserRefNum(0x0102_0304), OrderSide::SellShort, 225, symbol, Price(630_200))
    }

    #[test]
    fn an_order_with_a_firm_has_the_bytes_of_the_specification() {
        let firm = [Element::Firm(Mpid::new("LIME").unwrap())];
        let order = EnterOrder {
            time_in_force: TimeInForce::ImmediateOrCancel,
            display: Display::Attributable,
            capacity: Capacity::Agency,
            is_intermarket_sweep: true,
            cross_type: CrossType::Closing,
            cl_ord_id: ClOrdId::new("NAME").unwrap(),
            appendage: &firm,
            ..order()
        };
        let mut out = [0; 60];
        assert_eq!(order.write(&mut out), Ok(47 + 6));
        let fixed = b"O\x01\x02\x03\x04T\0\0\0\xE1CVLT    \0\0\0\0\0\x09\x9D\xB83AAYCNAME          \0\x06";
        assert_eq!(&out[..47], fixed);
        assert_eq!(&out[47..54], b"\x05\x02LIME\0");
    }

    #[test]
    fn a_replacement_has_the_bytes_of_the_specification() {
        let replace = ReplaceOrder::limit(UserRefNum(1), UserRefNum(2), 300, PRICE_MARKET);
        let mut out = [0xEE; 41];
        assert_eq!(replace.write(&mut out), Ok(40));
        assert_eq!(&out, b"U\0\0\0\x01\0\0\0\x02\0\0\x01\x2C\0\0\0\0\x7F\xFF\xFF\xFF0YN              \0\0\xEE");
    }

    #[test]
    fn a_cancel_a_modification_and_a_query_have_the_bytes_of_the_specification() {
        let mut out = [0; 10];
        let cancel = CancelOrder { user_ref_num: UserRefNum(7), quantity: 0 };
        assert_eq!((cancel.write(&mut out), &out[..9]), (Ok(9), &b"X\0\0\0\x07\0\0\0\0"[..]));
        let modify = ModifyOrder { user_ref_num: UserRefNum(7), side: OrderSide::SellShortExempt, quantity: 5 };
        assert_eq!((modify.write(&mut out), &out[..]), (Ok(10), &b"M\0\0\0\x07E\0\0\0\x05"[..]));
        assert_eq!((AccountQuery.write(&mut out), out[0]), (Ok(1), b'Q'));
    }

    #[test]
    fn quantities_and_prices_beyond_the_specification_are_refused() {
        let write = |order: EnterOrder<'_>| order.write(&mut [0; 60]);
        assert_eq!(write(EnterOrder { quantity: 0, ..order() }), Err(BuildError::Quantity));
        assert_eq!(write(EnterOrder { quantity: 1_000_000, ..order() }), Err(BuildError::Quantity));
        assert_eq!(write(EnterOrder { quantity: 999_999, ..order() }), Ok(47));
        assert_eq!(write(EnterOrder { price: Price(-1), ..order() }), Err(BuildError::Price));
        assert_eq!(write(EnterOrder { price: Price(1_999_999_901), ..order() }), Err(BuildError::Price));
        assert_eq!(write(EnterOrder { price: PRICE_MAX, ..order() }), Ok(47));
        assert_eq!(write(EnterOrder { price: PRICE_MARKET, ..order() }), Ok(47));
    }

    #[test]
    fn a_message_is_written_whole_or_not_at_all() {
        let order = EnterOrder { appendage: &[Element::MinQuantity(1)], ..order() };
        for bytes in 0..53 {
            let mut out = [0xEE; 53];
            assert_eq!(order.write(&mut out[..bytes]), Err(BuildError::NoRoom));
            assert_eq!(out, [0xEE; 53]);
        }
        assert_eq!(order.write(&mut [0; 53]), Ok(53));
        for bytes in 0..9 {
            let cancel = CancelOrder { user_ref_num: UserRefNum(1), quantity: 0 };
            assert_eq!(cancel.write(&mut [0; 9][..bytes]), Err(BuildError::NoRoom));
        }
    }
}
