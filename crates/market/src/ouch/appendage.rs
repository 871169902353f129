//! The appendage: optional fields behind the fixed part of a message.
//!
//! ```text
//!  0        1     2
//!  | length | tag | value (length - 1) |      length: u8, without itself; then the next element
//! ```

use super::wire::{Put, Wire};
use crate::units::{Alpha, Mpid, OrderReference, Price};

/// Bytes in front of the value: length and tag.
const HEADER_BYTES: usize = 2;
/// The longest value that the length can tell, bytes.
const VALUE_BYTES_MAX: usize = 254;

macro_rules! elements {
    ($($(#[$note:meta])* $name:ident($value:ty) = $tag:literal,)*) => {
        /// An optional field.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Element<'a> {
            $($(#[$note])* $name($value),)*
            /// A tag that this version does not have, or a known one with a value of another length.
            Other {
                /// The tag.
                tag: u8,
                /// The value.
                value: &'a [u8],
            },
        }

        impl<'a> Element<'a> {
            /// The tag on the wire.
            pub fn tag(&self) -> u8 {
                match self {
                    $(Self::$name(_) => $tag,)*
                    Self::Other { tag, .. } => *tag,
                }
            }

            fn value_bytes(&self) -> usize {
                match self {
                    $(Self::$name(_) => <$value as Wire>::BYTES,)*
                    Self::Other { value, .. } => value.len(),
                }
            }

            fn put_value(&self, out: &mut [u8]) {
                match self {
                    $(Self::$name(value) => value.put(out, 0),)*
                    Self::Other { value, .. } => out.copy_from_slice(value),
                }
            }

            fn of(tag: u8, value: &'a [u8]) -> Self {
                match tag {
                    $($tag if value.len() == <$value as Wire>::BYTES => Self::$name(<$value as Wire>::read(value, 0)),)*
                    _ => Self::Other { tag, value },
                }
            }
        }
    };
}

elements! {
    /// Another order reference: of the displayed part after it was refreshed.
    SecondaryOrderReference(OrderReference) = 1,
    /// The firm, if it is not that of the port.
    Firm(Mpid) = 2,
    /// Minimum quantity, shares.
    MinQuantity(u32) = 3,
    /// Customer type: `R` retail, `N` not.
    CustomerType(u8) = 4,
    /// Most shares displayed.
    MaxFloor(u32) = 5,
    /// Price type: `L` limit, `P` market peg, `M` midpoint peg, `R` primary peg and others.
    PriceType(u8) = 6,
    /// Offset of a pegged price, with [`super::PRICE_DECIMALS`] decimals, signed.
    PegOffset(i32) = 7,
    /// Discretion price.
    DiscretionPrice(Price) = 9,
    /// Post only: `P`, `N`.
    PostOnly(u8) = 12,
    /// Route.
    Route(Alpha<4>) = 14,
    /// Seconds to live.
    ExpireTime(u32) = 15,
    /// Trade now: `Y`, `N`.
    TradeNow(u8) = 16,
    /// Handling instruction.
    HandlingInstruction(u8) = 17,
    /// Displayed quantity, shares.
    DisplayQuantity(u32) = 22,
    /// Displayed price.
    DisplayPrice(Price) = 23,
    /// Group of orders.
    GroupId(u16) = 24,
    /// Shares located for a short sale: `Y`, `N`.
    SharesLocated(u8) = 25,
}

/// Bytes of these elements; nothing if they do not fit the length fields.
pub(super) fn bytes_of(elements: &[Element<'_>]) -> Option<u16> {
    let bytes = elements.iter().map(|element| HEADER_BYTES + element.value_bytes()).sum::<usize>();
    let fits = elements.iter().all(|element| element.value_bytes() <= VALUE_BYTES_MAX);
    u16::try_from(bytes).ok().filter(|_| fits)
}

/// Writes these elements into a buffer of exactly [`bytes_of`] them.
pub(super) fn write(elements: &[Element<'_>], mut out: &mut [u8]) {
    for element in elements {
        let bytes = element.value_bytes();
        let (front, rest) = out.split_at_mut(HEADER_BYTES + bytes);
        (front[0], front[1]) = (bytes as u8 + 1, element.tag());
        element.put_value(&mut front[HEADER_BYTES..]);
        out = rest;
    }
}

/// The appendage of a message. Its elements were checked: all of them are inside of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appendage<'a>(&'a [u8]);

impl<'a> Appendage<'a> {
    /// Checks the lengths of the elements; nothing if one is 0 or extends beyond the end.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        while let Some((length, behind)) = rest.split_first() {
            let length = usize::from(*length);
            rest = behind.get(length..).filter(|_| length > 0)?;
        }
        Some(Self(bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Its elements, in order.
    pub fn elements(&self) -> Elements<'a> {
        Elements { rest: self.0 }
    }
}

/// The elements of an appendage.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (length, rest) = self.rest.split_first()?;
        let (element, rest) = rest.split_at_checked(usize::from(*length))?;
        let (tag, value) = element.split_first()?;
        self.rest = rest;
        Some(Element::of(*tag, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_stand_one_behind_the_other_and_unknown_ones_are_handed_out() {
        let bytes = b"\x05\x02LIME\x05\x07\xFF\xFF\xFF\x9C\x01\x63\x03\x18\x01\x02\x03\x04AB";
        let found: Vec<_> = Appendage::of(bytes).unwrap().elements().collect();
        let expected = [
            Element::Firm(Mpid::new("LIME").unwrap()),
            Element::PegOffset(-100),
            Element::Other { tag: 99, value: b"" },
            Element::GroupId(0x0102),
            Element::Other { tag: 4, value: b"AB" },
        ];
        assert_eq!(found, expected, "a customer type has one byte, and this one two");
        let mut out = [0; 22];
        assert_eq!(bytes_of(&expected), Some(22));
        write(&expected, &mut out);
        assert_eq!(&out, bytes);
    }

    #[test]
    fn every_tag_has_the_length_of_the_specification() {
        let lengths = [
            (1, 8),
            (2, 4),
            (3, 4),
            (4, 1),
            (5, 4),
            (6, 1),
            (7, 4),
            (9, 8),
            (12, 1),
            (14, 4),
            (15, 4),
            (16, 1),
            (17, 1),
            (22, 4),
            (23, 8),
            (24, 2),
            (25, 1),
        ];
        for tag in 0..=u8::MAX {
            let known = (0..=12).find(|bytes| !matches!(Element::of(tag, &[0; 12][..*bytes]), Element::Other { .. }));
            assert_eq!(known, lengths.iter().find(|(one, _)| *one == tag).map(|(_, bytes)| *bytes), "tag {tag}");
        }
    }

    #[test]
    fn an_element_of_length_0_or_beyond_the_end_is_refused() {
        assert_eq!(Appendage::of(b"\0"), None);
        assert_eq!(Appendage::of(b"\x02\x02"), None);
        assert_eq!(Appendage::of(b"\x01\x02\x03\x04\x05"), None);
        assert_eq!(Appendage::of(b""), Some(Appendage(b"")));
    }

    #[test]
    fn a_value_beyond_its_length_field_is_refused() {
        let other = |value| [Element::Other { tag: 200, value }];
        assert_eq!(bytes_of(&other(&[0; 254])), Some(256));
        assert_eq!(bytes_of(&other(&[0; 255])), None);
        assert_eq!(bytes_of(&other(&[0; 254]).repeat(256)), None, "65,536 bytes");
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_to_their_end_or_refused(bytes in prop::collection::vec(0_u8..30, 0..200)) {
            if let Some(appendage) = Appendage::of(&bytes) {
                let elements: Vec<_> = appendage.elements().collect();
                prop_assert_eq!(bytes_of(&elements).map(usize::from), Some(bytes.len()));
                let mut out = vec![0; bytes.len()];
                write(&elements, &mut out);
                // A price beyond its range is not written as it came.
                let has_price = elements.iter().any(|one| matches!(one, Element::DiscretionPrice(Price(i64::MAX)) | Element::DisplayPrice(Price(i64::MAX))));
                prop_assert!(has_price || out == bytes);
            }
        }
    }
}
