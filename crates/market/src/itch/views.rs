//! The messages, one view each. Offsets and lengths: Nasdaq TotalView-ITCH 5.0, specification of 19 February 2026, section 1.

use super::field::{Field, timestamp_ns};
use super::value::Value;
use crate::units::{Alpha, Locate, Mpid, OrderReference, Price, Side, Symbol};

macro_rules! views {
    ($($(#[$about:meta])* $name:ident $kind:literal $bytes:literal {
        $($(#[$note:meta])* $field:ident: $type:ty = $at:literal),* $(,)?
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<'a>(&'a [u8; $bytes]);

        impl<'a> $name<'a> {
            /// The message's type.
            pub const KIND: u8 = $kind;
            /// The message's length, bytes.
            pub const BYTES: usize = $bytes;

            /// The view of the first bytes; nothing if they are too few. The type is not looked at.
            #[inline(always)]
            pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
                Some(Self(bytes.first_chunk()?))
            }

            /// The bytes of the message.
            #[inline]
            pub fn bytes(&self) -> &'a [u8; $bytes] {
                self.0
            }

            /// Stock locate: the instrument's number on this day; 0 if the message is not about one.
            #[inline]
            pub fn locate(&self) -> Locate {
                Locate::read(self.0, 1)
            }

            /// Tracking number, Nasdaq's own.
            #[inline]
            pub fn tracking_number(&self) -> u16 {
                u16::read(self.0, 3)
            }

            /// Timestamp: ns since midnight of the exchange's day.
            #[inline]
            pub fn timestamp_ns(&self) -> u64 {
                timestamp_ns(self.0, 5)
            }

            $(
                $(#[$note])*
                #[inline]
                pub fn $field(&self) -> $type {
                    const { assert!($at + <$type as Field>::BYTES <= $bytes, "a field lies in its message") };
                    <$type as Field>::read(self.0, $at)
                }
            )*

            /// Shows the fields behind the timestamp, in their order: name and value.
            pub fn fields(&self, show: &mut dyn FnMut(&'static str, Value)) {
                $(show(stringify!($field), self.$field().into());)*
            }
        }
    )*};
}

views! {
    /// System event.
    SystemEvent b'S' 12 {
        /// `O` start of messages, `S` start of system hours, `Q` start of market hours, `M` their end, `E` end of system hours, `C` end of messages.
        event_code: u8 = 11,
    }

    /// Stock directory: an instrument of this day and its stock locate.
    StockDirectory b'R' 39 {
        /// The instrument.
        stock: Symbol = 11,
        /// Market category: `Q` `G` `S` Nasdaq, `N` NYSE, `A` NYSE American, `P` NYSE Arca, `Z` BATS, `V` IEX, space.
        market_category: u8 = 19,
        /// Financial status: `N` normal, `D` deficient, `E` delinquent, `Q` bankrupt, `S` suspended, and combinations.
        financial_status: u8 = 20,
        /// Round lot, shares.
        round_lot: u32 = 21,
        /// `Y` if orders are in round lots only.
        round_lots_only: u8 = 25,
        /// Issue classification.
        issue_classification: u8 = 26,
        /// Issue subtype.
        issue_subtype: Alpha<2> = 27,
        /// Authenticity: `P` production, `T` test.
        authenticity: u8 = 29,
        /// Short-sale threshold: `Y`, `N`, space.
        short_sale_threshold: u8 = 30,
        /// IPO flag: `Y`, `N`, space.
        ipo: u8 = 31,
        /// LULD reference price tier: `1`, `2`, space.
        luld_tier: u8 = 32,
        /// ETP flag: `Y`, `N`, space.
        etp: u8 = 33,
        /// ETP leverage factor.
        etp_leverage: u32 = 34,
        /// Inverse indicator: `Y`, `N`.
        inverse: u8 = 38,
    }

    /// Stock trading action.
    StockTradingAction b'H' 25 {
        /// The instrument.
        stock: Symbol = 11,
        /// `H` halted, `P` paused, `Q` quotation only, `T` trading.
        trading_state: u8 = 19,
        /// Reserved.
        reserved: u8 = 20,
        /// The reason.
        reason: Alpha<4> = 21,
    }

    /// Reg SHO short sale price test restriction.
    RegShoRestriction b'Y' 20 {
        /// The instrument.
        stock: Symbol = 11,
        /// `0` none, `1` in effect after an intraday drop, `2` remains in effect.
        action: u8 = 19,
    }

    /// Market participant position.
    MarketParticipantPosition b'L' 26 {
        /// The participant.
        mpid: Mpid = 11,
        /// The instrument.
        stock: Symbol = 15,
        /// Primary market maker: `Y`, `N`.
        primary_market_maker: u8 = 23,
        /// Market maker mode.
        mode: u8 = 24,
        /// State: `A` active, `E` excused, `W` withdrawn, `S` suspended, `D` deleted.
        state: u8 = 25,
    }

    /// Market-wide circuit breaker: decline levels, with [`super::LEVEL_DECIMALS`] decimals.
    MwcbDeclineLevel b'V' 35 {
        /// Level 1, Price(8).
        level_1: u64 = 11,
        /// Level 2, Price(8).
        level_2: u64 = 19,
        /// Level 3, Price(8).
        level_3: u64 = 27,
    }

    /// Market-wide circuit breaker: status.
    MwcbStatus b'W' 12 {
        /// The level that was breached: `1`, `2`, `3`.
        breached_level: u8 = 11,
    }

    /// IPO quoting period update.
    IpoQuotingPeriod b'K' 28 {
        /// The instrument.
        stock: Symbol = 11,
        /// Release time, seconds since midnight.
        release_time_s: u32 = 19,
        /// `A` anticipated, `C` cancelled or postponed.
        release_qualifier: u8 = 23,
        /// IPO price.
        price: Price = 24,
    }

    /// LULD auction collar.
    LuldAuctionCollar b'J' 35 {
        /// The instrument.
        stock: Symbol = 11,
        /// Reference price.
        reference_price: Price = 19,
        /// Upper collar price.
        upper_price: Price = 23,
        /// Lower collar price.
        lower_price: Price = 27,
        /// Number of the extension.
        extension: u32 = 31,
    }

    /// Operational halt.
    OperationalHalt b'h' 21 {
        /// The instrument.
        stock: Symbol = 11,
        /// `Q` Nasdaq, `B` BX, `X` PSX.
        market: u8 = 19,
        /// `H` halted, `T` trading again.
        action: u8 = 20,
    }

    /// Add order, no MPID attribution.
    AddOrder b'A' 36 {
        /// The order.
        order_reference: OrderReference = 11,
        /// Side; nothing if the byte is neither `B` nor `S`.
        side: Option<Side> = 19,
        /// Displayed shares.
        shares: u32 = 20,
        /// The instrument.
        stock: Symbol = 24,
        /// Price.
        price: Price = 32,
    }

    /// Add order with MPID attribution.
    AddOrderMpid b'F' 40 {
        /// The order.
        order_reference: OrderReference = 11,
        /// Side; nothing if the byte is neither `B` nor `S`.
        side: Option<Side> = 19,
        /// Displayed shares.
        shares: u32 = 20,
        /// The instrument.
        stock: Symbol = 24,
        /// Price.
        price: Price = 32,
        /// The participant.
        mpid: Mpid = 36,
    }

    /// Order executed, at its own price.
    OrderExecuted b'E' 31 {
        /// The order.
        order_reference: OrderReference = 11,
        /// Executed shares, by which the order shrinks.
        shares: u32 = 19,
        /// Match number.
        match_number: u64 = 23,
    }

    /// Order executed at another price. The book shrinks at the order's own price.
    OrderExecutedWithPrice b'C' 36 {
        /// The order.
        order_reference: OrderReference = 11,
        /// Executed shares, by which the order shrinks.
        shares: u32 = 19,
        /// Match number.
        match_number: u64 = 23,
        /// `Y` if the execution counts in volume and time and sales; `N` if it is part of a cross, which is told by itself.
        printable: u8 = 31,
        /// Execution price.
        price: Price = 32,
    }

    /// Order cancel: the order shrinks.
    OrderCancel b'X' 23 {
        /// The order.
        order_reference: OrderReference = 11,
        /// Shares by which it shrinks.
        shares: u32 = 19,
    }

    /// Order delete.
    OrderDelete b'D' 19 {
        /// The order.
        order_reference: OrderReference = 11,
    }

    /// Order replace. Side, instrument and MPID are the old order's; the new one is last at its price.
    OrderReplace b'U' 35 {
        /// The old order, which is gone.
        old_order_reference: OrderReference = 11,
        /// The new order.
        order_reference: OrderReference = 19,
        /// Displayed shares of the new one.
        shares: u32 = 27,
        /// Its price.
        price: Price = 31,
    }

    /// Trade against an order that was not displayed. It does not change the book.
    Trade b'P' 44 {
        /// 0 since 2010.
        order_reference: OrderReference = 11,
        /// `B` since 2014.
        side: Option<Side> = 19,
        /// Shares.
        shares: u32 = 20,
        /// The instrument.
        stock: Symbol = 24,
        /// Price.
        price: Price = 32,
        /// Match number.
        match_number: u64 = 36,
    }

    /// Cross trade. It does not change the book.
    CrossTrade b'Q' 40 {
        /// Shares.
        shares: u64 = 11,
        /// The instrument.
        stock: Symbol = 19,
        /// Price.
        price: Price = 27,
        /// Match number.
        match_number: u64 = 31,
        /// `O` opening, `C` closing, `H` halted or paused instrument, `A` extended trading close.
        cross_type: u8 = 39,
    }

    /// Broken trade.
    BrokenTrade b'B' 19 {
        /// Match number of the execution that is broken.
        match_number: u64 = 11,
    }

    /// Net order imbalance indicator (NOII).
    NetOrderImbalance b'I' 50 {
        /// Paired shares.
        paired_shares: u64 = 11,
        /// Imbalance shares.
        imbalance_shares: u64 = 19,
        /// Direction: `B`, `S`, `N` none, `O` too few orders, `P` paused.
        direction: u8 = 27,
        /// The instrument.
        stock: Symbol = 28,
        /// Far price.
        far_price: Price = 36,
        /// Near price.
        near_price: Price = 40,
        /// Current reference price.
        reference_price: Price = 44,
        /// Cross type.
        cross_type: u8 = 48,
        /// Price variation indicator.
        price_variation: u8 = 49,
    }

    /// Retail price improvement indicator (RPII).
    RetailInterest b'N' 20 {
        /// The instrument.
        stock: Symbol = 11,
        /// `B`, `S`, `A` both, `N` none.
        interest: u8 = 19,
    }

    /// Direct listing with capital raise price discovery.
    DirectListing b'O' 48 {
        /// The instrument.
        stock: Symbol = 11,
        /// Open eligibility: `Y`, `N`.
        open_eligibility: u8 = 19,
        /// Minimum allowable price.
        minimum_price: Price = 20,
        /// Maximum allowable price.
        maximum_price: Price = 24,
        /// Near execution price.
        near_execution_price: Price = 28,
        /// Its time, ns.
        near_execution_time_ns: u64 = 32,
        /// Lower price range collar.
        lower_collar: Price = 40,
        /// Upper price range collar.
        upper_collar: Price = 44,
    }
}
