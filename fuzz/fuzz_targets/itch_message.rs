//! Any bytes as messages of ITCH: what is known is read by all its getters, what is not is skipped, nothing is read beyond the end.

#![no_main]

use sidestep_market::itch::{Malformed, Message};

/// Calls getters of a view that are read in different ways.
macro_rules! read {
    ($message:expr, $($name:ident),*) => {
        match $message {
            $(Message::$name(view) => {
                assert_eq!(view.locate(), $message.locate());
                assert_eq!(view.timestamp_ns(), $message.timestamp_ns());
                assert!(format!("{view:?}").len() > view.tracking_number().to_string().len());
            })*
            Message::Unknown(bytes) => assert!(!bytes.is_empty()),
        }
    };
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    match Message::parse(input) {
        Ok(message) => {
            assert_eq!(message.kind(), input[0]);
            assert!(input.starts_with(message.bytes()));
            // The message is the same without what a later version has behind it.
            assert_eq!(Message::parse(message.bytes()), Ok(message));
            read!(
                message,
                SystemEvent,
                StockDirectory,
                StockTradingAction,
                RegShoRestriction,
                MarketParticipantPosition,
                MwcbDeclineLevel,
                MwcbStatus,
                IpoQuotingPeriod,
                LuldAuctionCollar,
                OperationalHalt,
                AddOrder,
                AddOrderMpid,
                OrderExecuted,
                OrderExecutedWithPrice,
                OrderCancel,
                OrderDelete,
                OrderReplace,
                Trade,
                CrossTrade,
                BrokenTrade,
                NetOrderImbalance,
                RetailInterest,
                DirectListing
            );
        }
        Err(Malformed::Empty) => assert!(input.is_empty()),
        Err(Malformed::Short { kind, bytes, needs }) => {
            assert!(kind == input[0] && bytes == input.len() && bytes < needs);
        }
    }
});
