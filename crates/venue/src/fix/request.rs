//! What a FIX message asks for: NewOrderSingle (D), OrderCancelRequest (F), OrderCancelReplaceRequest (G).

use crate::units::{PRICE_MAX, Side, Symbol};
use sidestep_fix::session::{Refusal, RejectReason};
use sidestep_fix::{FieldError, Message};

pub(super) const CL_ORD_ID: u32 = 11;
pub(super) const ORDER_QTY: u32 = 38;
pub(super) const ORD_TYPE: u32 = 40;
pub(super) const ORIG_CL_ORD_ID: u32 = 41;
pub(super) const PRICE: u32 = 44;
pub(super) const SIDE: u32 = 54;
pub(super) const SYMBOL: u32 = 55;
const TIME_IN_FORCE: u32 = 59;
const MAX_FLOOR: u32 = 111;

/// Bytes of an identifier at most.
pub(super) const ID_MAX: usize = 64;

/// An identifier that a client chose, such as ClOrdID (11).
pub(super) type Id = Box<[u8]>;

/// A request that can be done or refused by the books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    New(New),
    Cancel(Cancel),
    Replace {
        cancel: Cancel,
        quantity: u32,
        price: u32,
    },
    /// The counterparty is gone, and its orders are to go.
    CancelAll,
}

/// A new order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct New {
    pub(super) id: Id,
    /// Side (54) as it was written: 1 buy, 2 sell, 5 sell short, 6 sell short exempt.
    pub(super) side: u8,
    pub(super) symbol: Symbol,
    pub(super) quantity: u32,
    pub(super) price: u32,
    pub(super) is_immediate: bool,
    pub(super) is_displayed: bool,
}

/// A cancel, and the front of a replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cancel {
    pub(super) id: Id,
    pub(super) original: Id,
}

fn wrong(tag: u32) -> Refusal {
    Refusal::Session { reason: RejectReason::ValueIncorrect, tag: Some(tag) }
}

fn id(message: &Message<'_, '_>, tag: u32) -> Result<Id, Refusal> {
    let value = message.required(tag)?;
    if value.is_empty() || value.len() > ID_MAX { Err(wrong(tag)) } else { Ok(value.into()) }
}

/// The side of the book that Side (54) means.
pub(super) fn book_side(side: u8) -> Option<Side> {
    match side {
        b'1' => Some(Side::Buy),
        b'2' | b'5' | b'6' => Some(Side::Sell),
        _ => None,
    }
}

/// A whole number of shares; one that is beyond any order is left to the books to refuse.
fn quantity(message: &Message<'_, '_>) -> Result<u32, Refusal> {
    let shares = message.decimal(ORDER_QTY)?.scaled(0).ok_or_else(|| wrong(ORDER_QTY))?;
    u32::try_from(shares).map_err(|_| wrong(ORDER_QTY))
}

/// A price with up to four decimals.
fn price(message: &Message<'_, '_>) -> Result<u32, Refusal> {
    let price = message.decimal(PRICE)?.scaled(4).ok_or_else(|| wrong(PRICE))?;
    u32::try_from(price).map_err(|_| wrong(PRICE))
}

/// The value of a character field, `default` without it.
fn character(message: &Message<'_, '_>, tag: u32, default: u8) -> Result<u8, Refusal> {
    match message.character(tag) {
        Err(FieldError::Missing(_)) => Ok(default),
        other => Ok(other?),
    }
}

impl Request {
    /// Reads an application message.
    pub(super) fn read(message: &Message<'_, '_>) -> Result<Self, Refusal> {
        match message.msg_type() {
            b"D" => New::read(message).map(Self::New),
            b"F" => Cancel::read(message).map(Self::Cancel),
            b"G" => {
                let cancel = Cancel::read(message)?;
                if character(message, ORD_TYPE, b'2')? != b'2' {
                    return Err(wrong(ORD_TYPE));
                }
                Ok(Self::Replace { cancel, quantity: quantity(message)?, price: price(message)? })
            }
            _ => Err(Refusal::UNSUPPORTED),
        }
    }
}

impl Cancel {
    fn read(message: &Message<'_, '_>) -> Result<Self, Refusal> {
        Ok(Self { id: id(message, CL_ORD_ID)?, original: id(message, ORIG_CL_ORD_ID)? })
    }
}

impl New {
    fn read(message: &Message<'_, '_>) -> Result<Self, Refusal> {
        let side = message.character(SIDE)?;
        let book_side = book_side(side).ok_or_else(|| wrong(SIDE))?;
        let symbol = Symbol::from_text(message.required(SYMBOL)?).ok_or_else(|| wrong(SYMBOL))?;
        let time_in_force = character(message, TIME_IN_FORCE, b'0')?;
        let (is_market, price) = match character(message, ORD_TYPE, b'2')? {
            b'1' => (true, market_price(book_side)),
            b'2' => (false, price(message)?),
            _ => return Err(wrong(ORD_TYPE)),
        };
        if !matches!(time_in_force, b'0' | b'3') {
            return Err(wrong(TIME_IN_FORCE));
        }
        // MaxFloor (111) of 0: nothing is shown.
        let is_displayed = match message.decimal(MAX_FLOOR) {
            Err(FieldError::Missing(_)) => true,
            floor => floor?.mantissa() != 0,
        };
        let (id, quantity) = (id(message, CL_ORD_ID)?, quantity(message)?);
        Ok(Self { id, side, symbol, quantity, price, is_immediate: is_market || time_in_force == b'3', is_displayed })
    }
}

/// The limit of a market order, which takes any price and never rests.
fn market_price(side: Side) -> u32 {
    match side {
        Side::Buy => PRICE_MAX,
        Side::Sell => 1,
    }
}
