//! Fields of one letter.

use crate::units::Side;

macro_rules! letters {
    ($($(#[$about:meta])* $name:ident { $($(#[$note:meta])* $variant:ident = $letter:literal,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$note])* $variant,)*
        }

        impl $name {
            /// The letter on the wire.
            #[inline]
            pub fn letter(self) -> u8 {
                match self {
                    $(Self::$variant => $letter,)*
                }
            }

            /// The meaning of a letter; nothing if it has none in this version.
            #[inline]
            pub fn of(letter: u8) -> Option<Self> {
                match letter {
                    $($letter => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    )*};
}

letters! {
    /// Side of an order.
    OrderSide {
        /// Buy.
        Buy = b'B',
        /// Sell.
        Sell = b'S',
        /// Sell short.
        SellShort = b'T',
        /// Sell short, exempt from Reg SHO.
        SellShortExempt = b'E',
    }

    /// Time in force.
    TimeInForce {
        /// Market hours of this day.
        Day = b'0',
        /// Immediate or cancel.
        ImmediateOrCancel = b'3',
        /// Extended hours, too (GTX).
        ExtendedHours = b'5',
        /// Until a time, in an element of the appendage (GTT).
        UntilTime = b'6',
        /// After hours.
        AfterHours = b'E',
    }

    /// Display of an order.
    Display {
        /// Displayed.
        Visible = b'Y',
        /// Not displayed.
        Hidden = b'N',
        /// Displayed with the participant's name.
        Attributable = b'A',
    }

    /// Capacity of the participant.
    Capacity {
        /// Agency.
        Agency = b'A',
        /// Principal.
        Principal = b'P',
        /// Riskless principal.
        RisklessPrincipal = b'R',
        /// Other.
        Other = b'O',
    }

    /// Cross for which an order is meant.
    CrossType {
        /// Continuous market.
        Continuous = b'N',
        /// Opening cross.
        Opening = b'O',
        /// Closing cross.
        Closing = b'C',
        /// Cross after a halt, or of an IPO.
        Halt = b'H',
        /// Supplemental order.
        Supplemental = b'S',
        /// Retail.
        Retail = b'R',
        /// Extended life.
        ExtendedLife = b'E',
        /// After hours close.
        AfterHoursClose = b'A',
    }
}

impl OrderSide {
    /// The side of the book.
    #[inline]
    pub fn side(self) -> Side {
        if self == Self::Buy { Side::Buy } else { Side::Sell }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_has_at_most_one_meaning_and_is_written_as_it_is_read() {
        for letter in 0..=u8::MAX {
            assert!(OrderSide::of(letter).is_none_or(|side| side.letter() == letter));
            assert!(TimeInForce::of(letter).is_none_or(|time| time.letter() == letter));
            assert!(Display::of(letter).is_none_or(|display| display.letter() == letter));
            assert!(Capacity::of(letter).is_none_or(|capacity| capacity.letter() == letter));
            assert!(CrossType::of(letter).is_none_or(|cross| cross.letter() == letter));
        }
        let count = |known: fn(u8) -> bool| (0..=u8::MAX).filter(|letter| known(*letter)).count();
        assert_eq!(count(|letter| OrderSide::of(letter).is_some()), 4);
        assert_eq!(count(|letter| TimeInForce::of(letter).is_some()), 5);
        assert_eq!(count(|letter| Display::of(letter).is_some()), 3);
        assert_eq!(count(|letter| Capacity::of(letter).is_some()), 4);
        assert_eq!(count(|letter| CrossType::of(letter).is_some()), 8);
    }

    #[test]
    fn all_but_a_buy_stand_on_the_sell_side() {
        assert_eq!(OrderSide::Buy.side(), Side::Buy);
        for side in [OrderSide::Sell, OrderSide::SellShort, OrderSide::SellShortExempt] {
            assert_eq!(side.side(), Side::Sell);
        }
    }
}
