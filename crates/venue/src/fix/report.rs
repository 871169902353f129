//! What FIX clients hear: ExecutionReport (8) and OrderCancelReject (9).

use super::request::{CL_ORD_ID, Id, ORDER_QTY, ORIG_CL_ORD_ID, PRICE, SIDE, SYMBOL};
use crate::units::Symbol;
use sidestep_fix::Builder;
use sidestep_fix::value::{Decimal, UtcTimestamp};

const AVG_PX: u32 = 6;
const CUM_QTY: u32 = 14;
const EXEC_ID: u32 = 17;
const EXEC_TRANS_TYPE: u32 = 20;
const LAST_PX: u32 = 31;
const LAST_QTY: u32 = 32;
const ORDER_ID: u32 = 37;
const ORD_STATUS: u32 = 39;
const TEXT: u32 = 58;
const TRANSACT_TIME: u32 = 60;
const CXL_REJ_REASON: u32 = 102;
const ORD_REJ_REASON: u32 = 103;
const EXEC_TYPE: u32 = 150;
const LEAVES_QTY: u32 = 151;
const CXL_REJ_RESPONSE_TO: u32 = 434;

/// The state of an order, and what happened to it.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) event: Event,
    /// OrderID (37): the order reference of ITCH; 0 for none.
    pub(super) reference: u64,
    pub(super) id: Id,
    pub(super) original: Option<Id>,
    pub(super) side: u8,
    pub(super) symbol: Symbol,
    pub(super) quantity: u32,
    pub(super) price: u32,
    pub(super) executed: u32,
    pub(super) left: u32,
    /// The sum of price times shares.
    pub(super) value: u64,
    /// ExecID (17), counted from 1.
    pub(super) number: u64,
    pub(super) utc_ns: i64,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    New,
    Trade {
        shares: u32,
        price: u32,
    },
    Cancelled,
    Replaced,
    /// OrdRejReason (103) and Text (58).
    Rejected(u64, String),
    /// An OrderCancelReject: CxlRejResponseTo (434), CxlRejReason (102), Text (58).
    CancelRejected(u8, u64, String),
}

impl Report {
    pub(super) fn msg_type(&self) -> &'static [u8] {
        if matches!(self.event, Event::CancelRejected(..)) { b"9" } else { b"8" }
    }

    /// ExecType (150). Fills became trades (F) with FIX 4.3.
    fn exec_type(&self, is_old: bool) -> u8 {
        match self.event {
            Event::New => b'0',
            Event::Trade { .. } if !is_old => b'F',
            Event::Trade { .. } if self.left == 0 => b'2',
            Event::Trade { .. } => b'1',
            Event::Cancelled => b'4',
            Event::Replaced => b'5',
            Event::Rejected(..) | Event::CancelRejected(..) => b'8',
        }
    }

    /// OrdStatus (39).
    fn status(&self, is_old: bool) -> u8 {
        match self.event {
            Event::Rejected(..) => b'8',
            Event::Cancelled => b'4',
            // A replaced order had this status of its own up to FIX 4.2.
            Event::Replaced if is_old => b'5',
            Event::CancelRejected(..) if self.reference == 0 => b'8',
            _ if self.executed == 0 => b'0',
            _ if self.left == 0 => b'2',
            _ => b'1',
        }
    }

    fn average(&self) -> Decimal {
        let average = (u128::from(self.value) * 100).checked_div(u128::from(self.executed)).unwrap_or(0);
        Decimal::new(i64::try_from(average).unwrap_or(i64::MAX), 6).unwrap_or_default()
    }

    /// Writes the body. `is_old`: before FIX 4.3.
    pub(super) fn write(&self, builder: &mut Builder<'_>, is_old: bool) {
        self.write_identity(builder);
        if let Event::CancelRejected(response_to, reason, text) = &self.event {
            builder.char(ORD_STATUS, self.status(is_old)).char(CXL_REJ_RESPONSE_TO, *response_to);
            builder.unsigned(CXL_REJ_REASON, *reason).str(TEXT, text);
            return;
        }
        builder.unsigned(EXEC_ID, self.number);
        if is_old {
            builder.char(EXEC_TRANS_TYPE, b'0');
        }
        builder.char(EXEC_TYPE, self.exec_type(is_old)).char(ORD_STATUS, self.status(is_old));
        builder.bytes(SYMBOL, self.symbol.text()).char(SIDE, self.side);
        builder.unsigned(ORDER_QTY, u64::from(self.quantity)).decimal(PRICE, decimal(self.price));
        let (shares, price) = match self.event {
            Event::Trade { shares, price } => (shares, price),
            _ => (0, 0),
        };
        builder.unsigned(LAST_QTY, u64::from(shares)).decimal(LAST_PX, decimal(price));
        builder.unsigned(LEAVES_QTY, u64::from(self.left)).unsigned(CUM_QTY, u64::from(self.executed));
        builder.decimal(AVG_PX, self.average()).timestamp(TRANSACT_TIME, UtcTimestamp { ns: self.utc_ns });
        if let Event::Rejected(reason, text) = &self.event {
            builder.unsigned(ORD_REJ_REASON, *reason).str(TEXT, text);
        }
    }

    fn write_identity(&self, builder: &mut Builder<'_>) {
        match self.reference {
            0 => builder.str(ORDER_ID, "NONE"),
            reference => builder.unsigned(ORDER_ID, reference),
        };
        builder.bytes(CL_ORD_ID, &self.id);
        if let Some(original) = &self.original {
            builder.bytes(ORIG_CL_ORD_ID, original);
        }
    }
}

/// A price with the decimals that it needs, two at least.
fn decimal(price: u32) -> Decimal {
    let (mantissa, scale) = if price.is_multiple_of(100) { (price / 100, 2) } else { (price, 4) };
    Decimal::new(i64::from(mantissa), scale).unwrap_or_default()
}
