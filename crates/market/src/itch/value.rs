//! The value of a field, whatever its type: for programs that print messages of any type.

use super::PRICE_DECIMALS;
use crate::units::{Alpha, Locate, OrderReference, Price, Side};
use std::fmt::{self, Display, Formatter};

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A Price(4): [`PRICE_DECIMALS`] decimals.
    Price(Price),
    /// One letter, whose meanings the specification lists.
    Code(u8),
    /// A name of up to eight letters.
    Name(Alpha<8>),
}

impl Display for Value {
    /// Numbers in decimal, prices with their point, codes and names without spaces behind them. Bytes that are not printable are escaped.
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(out),
            Self::Price(price) => price.display(PRICE_DECIMALS).fmt(out),
            Self::Code(b' ') => Ok(()),
            Self::Code(code) => code.escape_ascii().fmt(out),
            Self::Name(name) => name.0.trim_ascii_end().escape_ascii().fmt(out),
        }
    }
}

macro_rules! numbers {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Value {
            fn from(number: $integer) -> Self {
                Self::Number(u64::from(number))
            }
        }
    )*};
}

numbers!(u16, u32, u64);

impl From<u8> for Value {
    fn from(code: u8) -> Self {
        Self::Code(code)
    }
}

impl From<Price> for Value {
    fn from(price: Price) -> Self {
        Self::Price(price)
    }
}

impl From<Locate> for Value {
    fn from(locate: Locate) -> Self {
        Self::Number(locate.0.into())
    }
}

impl From<OrderReference> for Value {
    fn from(order: OrderReference) -> Self {
        Self::Number(order.0)
    }
}

/// A side that is none is shown as `?`.
impl From<Option<Side>> for Value {
    fn from(side: Option<Side>) -> Self {
        Self::Code(match side {
            Some(Side::Buy) => b'B',
            Some(Side::Sell) => b'S',
            None => b'?',
        })
    }
}

impl<const BYTES: usize> From<Alpha<BYTES>> for Value {
    fn from(name: Alpha<BYTES>) -> Self {
        let mut bytes = [b' '; 8];
        let shown = BYTES.min(bytes.len());
        bytes[..shown].copy_from_slice(&name.0[..shown]);
        Self::Name(Alpha(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed_as_a_reader_expects_them() {
        let text = |value: Value| value.to_string();
        assert_eq!(text(7_u32.into()), "7");
        assert_eq!(text(Price(630_200).into()), "63.0200");
        assert_eq!(
            (text(b'Q'.into()), text(b' '.into()), text(0_u8.into())),
            ("Q".into(), String::new(), "\\x00".into())
        );
        assert_eq!((text(Some(Side::Sell).into()), text(None.into())), ("S".into(), "?".into()));
        assert_eq!(text(Alpha(*b"LIME").into()), "LIME");
        assert_eq!(text(Alpha(*b"A\x1b[2J   ").into()), "A\\x1b[2J", "no terminal is told what to do");
    }
}
