//! Messages of the exchange, one view each. Offsets and lengths: Nasdaq OUCH 5.0, "Outbound Messages".

use super::appendage::Appendage;
use super::letters::*;
use super::wire::Wire;
use super::{ClOrdId, UserRefNum};
use crate::units::{OrderReference, Price, Symbol};
use std::fmt::{self, Formatter};

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// There are none.
    Empty,
    /// A known type with fewer bytes than it has.
    Short {
        /// The type.
        kind: u8,
        /// The bytes that are there.
        bytes: usize,
        /// The bytes of the type, without the elements of its appendage.
        needs: usize,
    },
    /// The appendage extends beyond the message, or an element beyond the appendage.
    Appendage {
        /// The type.
        kind: u8,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => out.write_str("a message of no bytes"),
            Self::Short { kind, bytes, needs } => {
                write!(out, "message type '{}' has {needs} bytes, {bytes} are there", kind.escape_ascii())
            }
            Self::Appendage { kind } => {
                write!(out, "the appendage of message type '{}' is cut off", kind.escape_ascii())
            }
        }
    }
}

impl std::error::Error for Malformed {}

macro_rules! answers {
    ($($(#[$about:meta])* $name:ident $kind:literal $bytes:literal $(+ $appendage:ident)? {
        $($(#[$note:meta])* $field:ident: $type:ty = $at:literal),* $(,)?
    })*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name<'a> {
                fixed: &'a [u8; $bytes],
                $($appendage: Appendage<'a>,)?
            }

            impl<'a> $name<'a> {
                /// The message's type.
                pub const KIND: u8 = $kind;
                /// The message's length without the elements of its appendage, bytes.
                pub const BYTES: usize = $bytes;

                #[inline]
                fn of(bytes: &'a [u8]) -> Result<Self, Malformed> {
                    let short = Malformed::Short { kind: $kind, bytes: bytes.len(), needs: $bytes };
                    let fixed = bytes.first_chunk::<$bytes>().ok_or(short)?;
                    Ok(Self {
                        fixed,
                        $($appendage: {
                            let length = usize::from(u16::read(fixed, $bytes - 2));
                            let inside = bytes[$bytes..].get(..length).and_then(Appendage::of);
                            inside.ok_or(Malformed::Appendage { kind: $kind })?
                        },)?
                    })
                }

                /// Timestamp: ns since midnight of the exchange's day.
                #[inline]
                pub fn timestamp_ns(&self) -> u64 {
                    u64::read(self.fixed, 1)
                }

                $(
                    $(#[$note])*
                    #[inline]
                    pub fn $field(&self) -> $type {
                        const { assert!($at + <$type as Wire>::BYTES <= $bytes, "a field lies in its message") };
                        <$type as Wire>::read(self.fixed, $at)
                    }
                )*

                $(
                    /// Optional fields.
                    pub fn $appendage(&self) -> Appendage<'a> {
                        self.$appendage
                    }
                )?
            }
        )*

        /// A message of the exchange, by its type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Answer<'a> {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name<'a>),)*
            /// A type that this version does not have: all of its bytes, one at least.
            Unknown(&'a [u8]),
        }

        impl<'a> Answer<'a> {
            /// Reads a message as SoupBinTCP cut it. Bytes behind a known type are those of a later version, and ignored.
            ///
            /// # Errors
            /// No byte, too few for the type, or an appendage that is not inside.
            #[inline]
            pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
                match *bytes.first().ok_or(Malformed::Empty)? {
                    $($name::KIND => $name::of(bytes).map(Self::$name),)*
                    _ => Ok(Self::Unknown(bytes)),
                }
            }
        }
    };
}

answers! {
    /// System event.
    SystemEvent b'S' 10 {
        /// `S` start of day, `E` end of day.
        event_code: u8 = 9,
    }

    /// Order accepted.
    Accepted b'A' 64 + appendage {
        /// The order.
        user_ref_num: UserRefNum = 9,
        /// Side.
        side: Option<OrderSide> = 13,
        /// Shares.
        quantity: u32 = 14,
        /// The instrument.
        symbol: Symbol = 18,
        /// Limit.
        price: Price = 26,
        /// Time in force.
        time_in_force: Option<TimeInForce> = 34,
        /// Display.
        display: Option<Display> = 35,
        /// The exchange's number of the order: that of the market data.
        order_reference: OrderReference = 36,
        /// Capacity.
        capacity: Option<Capacity> = 44,
        /// `Y` if it is an intermarket sweep order.
        intermarket_sweep: u8 = 45,
        /// Cross for which it is meant.
        cross_type: Option<CrossType> = 46,
        /// `L` live, `D` dead: accepted and cancelled at once.
        order_state: u8 = 47,
        /// The client's name of it.
        cl_ord_id: ClOrdId = 48,
    }

    /// Order replaced.
    Replaced b'U' 68 + appendage {
        /// The old order, which is gone.
        old_user_ref_num: UserRefNum = 9,
        /// The new order.
        user_ref_num: UserRefNum = 13,
        /// Side.
        side: Option<OrderSide> = 17,
        /// Shares outstanding.
        quantity: u32 = 18,
        /// The instrument.
        symbol: Symbol = 22,
        /// Limit.
        price: Price = 30,
        /// Time in force.
        time_in_force: Option<TimeInForce> = 38,
        /// Display.
        display: Option<Display> = 39,
        /// The exchange's number of the new order.
        order_reference: OrderReference = 40,
        /// Capacity.
        capacity: Option<Capacity> = 48,
        /// `Y` if it is an intermarket sweep order.
        intermarket_sweep: u8 = 49,
        /// Cross for which it is meant.
        cross_type: Option<CrossType> = 50,
        /// `L` live, `D` dead: accepted and cancelled at once.
        order_state: u8 = 51,
        /// The client's name of it.
        cl_ord_id: ClOrdId = 52,
    }

    /// Order executed, in part or in full.
    Executed b'E' 36 + appendage {
        /// The order.
        user_ref_num: UserRefNum = 9,
        /// Shares executed now.
        quantity: u32 = 13,
        /// Price of the execution.
        price: Price = 17,
        /// Liquidity flag: `A` added, `R` removed, and others.
        liquidity: u8 = 25,
        /// Match number: that of the market data.
        match_number: u64 = 26,
    }

    /// Order cancelled, in part or in full.
    Cancelled b'C' 18 {
        /// The order.
        user_ref_num: UserRefNum = 9,
        /// Shares cancelled now.
        quantity: u32 = 13,
        /// `U` by the user, `I` immediate or cancel, `T` time out, `S` by supervision, and others.
        reason: u8 = 17,
    }

    /// Order rejected: nothing has changed.
    Rejected b'J' 29 {
        /// The order.
        user_ref_num: UserRefNum = 9,
        /// Number of the reason.
        reason: u16 = 13,
        /// The client's name of it.
        cl_ord_id: ClOrdId = 15,
    }

    /// Broken trade: an execution is void. The order does not get its shares back.
    BrokenTrade b'B' 36 {
        /// The order.
        user_ref_num: UserRefNum = 9,
        /// Match number of the execution.
        match_number: u64 = 13,
        /// `E` erroneous, `C` by consent, `S` by supervision, `X` external.
        reason: u8 = 21,
        /// The client's name of it.
        cl_ord_id: ClOrdId = 22,
    }

    /// Order cancelled, in part or in full, because it would have traded against an order of the same participant (AIQ).
    SelfMatchCancelled b'D' 32 {
        /// The order.
        user_ref_num: UserRefNum = 9,
        /// Shares by which it shrinks.
        quantity: u32 = 13,
        /// The reason.
        reason: u8 = 17,
        /// Shares that would have traded.
        prevented_quantity: u32 = 18,
        /// The price at which they would have traded.
        price: Price = 22,
        /// Liquidity flag of the order.
        liquidity: u8 = 30,
        /// The strategy that decided which order is cancelled.
        strategy: u8 = 31,
    }

    /// Cancel pending: the order cannot be cancelled now, and will be when it can.
    CancelPending b'P' 13 {
        /// The order.
        user_ref_num: UserRefNum = 9,
    }

    /// Cancel rejected: the order cannot be cancelled.
    CancelRejected b'I' 13 {
        /// The order.
        user_ref_num: UserRefNum = 9,
    }

    /// The order has another place in the book.
    PriorityUpdate b'T' 30 {
        /// The order.
        user_ref_num: UserRefNum = 9,
        /// Price.
        price: Price = 13,
        /// Display.
        display: Option<Display> = 21,
        /// The exchange's number of the order.
        order_reference: OrderReference = 22,
    }

    /// Order modified.
    Modified b'M' 18 {
        /// The order.
        user_ref_num: UserRefNum = 9,
        /// Side.
        side: Option<OrderSide> = 13,
        /// Shares outstanding.
        quantity: u32 = 14,
    }

    /// Order restated: its displayed part is another one, as the appendage says.
    Restated b'R' 16 + appendage {
        /// The order.
        user_ref_num: UserRefNum = 9,
        /// `R` refreshed, `P` displayed at another price.
        reason: u8 = 13,
    }

    /// Answer to an account query.
    QueryResponse b'Q' 13 {
        /// The lowest number that an order may have.
        next_user_ref_num: UserRefNum = 9,
    }
}
