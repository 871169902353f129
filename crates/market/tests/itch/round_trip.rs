//! Any values through the encoder and the views, for every type.

use crate::encoder::Encoder;
use proptest::prelude::*;
use sidestep_market::itch::Message;
use sidestep_market::units::{Alpha, Locate, OrderReference, Price, Side};

/// Writes a field; the value that its getter is to tell.
macro_rules! field {
    (name, $encoder:ident) => {
        Alpha($encoder.alpha())
    };
    (price, $encoder:ident) => {
        Price(i64::from($encoder.u32()))
    };
    (order, $encoder:ident) => {
        OrderReference($encoder.u64())
    };
    (side, $encoder:ident) => {
        match $encoder.u8() {
            b'B' => Some(Side::Buy),
            b'S' => Some(Side::Sell),
            _ => None,
        }
    };
    ($integer:ident, $encoder:ident) => {
        $encoder.$integer()
    };
}

/// One test for each type: its fields in the order of the specification.
macro_rules! round_trips {
    ($($name:ident $kind:literal $bytes:literal { $($field:ident: $type:ident),* })*) => {$(
        #[allow(non_snake_case)]
        mod $name {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(64))]
                #[test]
                fn is_read_as_it_is_written(values in prop::array::uniform24(value()), cut in 0_usize..60) {
                    let (mut encoder, (locate, tracking, timestamp)) = Encoder::new($kind, &values);
                    $(let $field = field!($type, encoder);)*
                    let bytes = encoder.bytes;
                    prop_assert_eq!(bytes.len(), $bytes);
                    let message = Message::parse(&bytes).unwrap();
                    let Message::$name(view) = message else { panic!("another type") };
                    prop_assert_eq!((view.locate(), view.tracking_number()), (Locate(locate), tracking));
                    prop_assert_eq!((view.timestamp_ns(), message.timestamp_ns()), (timestamp, timestamp));
                    $(prop_assert_eq!(view.$field(), $field);)*
                    prop_assert_eq!(Message::parse(&bytes[..cut.min($bytes)]).is_ok(), cut >= $bytes);
                }
            }
        }
    )*};
}

/// Any number, and often one whose low byte is a side.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![4 => any::<u64>(), 1 => Just(u64::from(b'B')), 1 => Just(u64::from(b'S')), 1 => Just(u64::MAX)]
}

round_trips! {
    SystemEvent b'S' 12 { event_code: u8 }
    StockDirectory b'R' 39 {
        stock: name, market_category: u8, financial_status: u8, round_lot: u32, round_lots_only: u8,
        issue_classification: u8, issue_subtype: name, authenticity: u8, short_sale_threshold: u8, ipo: u8,
        luld_tier: u8, etp: u8, etp_leverage: u32, inverse: u8
    }
    StockTradingAction b'H' 25 { stock: name, trading_state: u8, reserved: u8, reason: name }
    RegShoRestriction b'Y' 20 { stock: name, action: u8 }
    MarketParticipantPosition b'L' 26 { mpid: name, stock: name, primary_market_maker: u8, mode: u8, state: u8 }
    MwcbDeclineLevel b'V' 35 { level_1: u64, level_2: u64, level_3: u64 }
    MwcbStatus b'W' 12 { breached_level: u8 }
    IpoQuotingPeriod b'K' 28 { stock: name, release_time_s: u32, release_qualifier: u8, price: price }
    LuldAuctionCollar b'J' 35 {
        stock: name, reference_price: price, upper_price: price, lower_price: price, extension: u32
    }
    OperationalHalt b'h' 21 { stock: name, market: u8, action: u8 }
    AddOrder b'A' 36 { order_reference: order, side: side, shares: u32, stock: name, price: price }
    AddOrderMpid b'F' 40 { order_reference: order, side: side, shares: u32, stock: name, price: price, mpid: name }
    OrderExecuted b'E' 31 { order_reference: order, shares: u32, match_number: u64 }
    OrderExecutedWithPrice b'C' 36 {
        order_reference: order, shares: u32, match_number: u64, printable: u8, price: price
    }
    OrderCancel b'X' 23 { order_reference: order, shares: u32 }
    OrderDelete b'D' 19 { order_reference: order }
    OrderReplace b'U' 35 { old_order_reference: order, order_reference: order, shares: u32, price: price }
    Trade b'P' 44 { order_reference: order, side: side, shares: u32, stock: name, price: price, match_number: u64 }
    CrossTrade b'Q' 40 { shares: u64, stock: name, price: price, match_number: u64, cross_type: u8 }
    BrokenTrade b'B' 19 { match_number: u64 }
    NetOrderImbalance b'I' 50 {
        paired_shares: u64, imbalance_shares: u64, direction: u8, stock: name, far_price: price, near_price: price,
        reference_price: price, cross_type: u8, price_variation: u8
    }
    RetailInterest b'N' 20 { stock: name, interest: u8 }
    DirectListing b'O' 48 {
        stock: name, open_eligibility: u8, minimum_price: price, maximum_price: price, near_execution_price: price,
        near_execution_time_ns: u64, lower_collar: price, upper_collar: price
    }
}
