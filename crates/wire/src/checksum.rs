//! The Internet checksum: in full (RFC 1071) and by difference (RFC 1624).

/// A running one's complement sum.
///
/// It is kept in the machine's byte order, 64 bits wide, and folded once at the end: the sum is independent of byte
/// order (RFC 1071 section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The sum of no data.
    pub const ZERO: Self = Self(0);

    /// Adds bytes that begin at an even offset from the first one summed. Of several pieces only the last may have an
    /// odd number of bytes.
    #[inline]
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        let (blocks, rest) = bytes.as_chunks::<32>();
        let mut sums = [u128::from(self.0), 0];
        for block in blocks {
            let [a, b, c, d] = words(block);
            sums[0] += a;
            sums[1] += b;
            sums[0] += c;
            sums[1] += d;
        }
        let mut sum = sums[0] + sums[1];
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            sum += u128::from(u64::from_ne_bytes(*word));
        }
        sum += u128::from(tail(rest));
        Self(add_with_carry((sum >> 64) as u64, sum as u64))
    }

    /// Adds a 16-bit number.
    #[inline]
    #[must_use]
    pub fn with_u16(self, value: u16) -> Self {
        Self(add_with_carry(self.0, u64::from(value.to_be())))
    }

    /// Adds a 32-bit number.
    #[inline]
    #[must_use]
    pub fn with_u32(self, value: u32) -> Self {
        Self(add_with_carry(self.0, u64::from(value.to_be())))
    }

    /// The sum in 16 bits, not complemented. Over data that includes a correct checksum it is 0xffff.
    #[inline]
    pub fn fold(self) -> u16 {
        let wide = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let wide = (wide >> 16) + (wide & 0xffff);
        let wide = (wide >> 16) + (wide & 0xffff);
        let wide = (wide >> 16) + (wide & 0xffff);
        u16::from_be(wide as u16)
    }

    /// The checksum for the header field.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Returns whether data that was summed together with its checksum is intact.
    #[inline]
    pub fn is_good(self) -> bool {
        self.fold() == 0xffff
    }
}

#[inline]
fn add_with_carry(sum: u64, value: u64) -> u64 {
    let (sum, carry) = sum.overflowing_add(value);
    sum + u64::from(carry)
}

/// The words of a block. Carries accumulate in the upper halves, and two sums are independent of each other: 54 ns for
/// 1,480 bytes, against 122 ns with one 64-bit sum that adds its carry word by word (both on one Xeon, in a loop).
#[inline]
fn words(block: &[u8; 32]) -> [u128; 4] {
    let word = |at: usize| u128::from(u64::from_ne_bytes(block.as_chunks::<8>().0[at]));
    [word(0), word(1), word(2), word(3)]
}

/// Sums fewer than eight bytes: each piece begins at an even offset, which is all that matters.
#[inline]
fn tail(bytes: &[u8]) -> u64 {
    let (fours, bytes) = bytes.as_chunks::<4>();
    let (twos, bytes) = bytes.as_chunks::<2>();
    let four = fours.first().map_or(0, |four| u64::from(u32::from_ne_bytes(*four)));
    let two = twos.first().map_or(0, |two| u64::from(u16::from_ne_bytes(*two)));
    let one = bytes.first().map_or(0, |one| u64::from(u16::from_ne_bytes([*one, 0])));
    four + two + one
}

/// The checksum after one aligned 16-bit field changed from `old` to `new` (RFC 1624 equation 3).
///
/// Equal to the full computation for all data that is not zero throughout.
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum >> 16) + (sum & 0xffff);
    !((sum >> 16) + sum) as u16
}

/// The form of a computed checksum in UDP: zero means "none", so zero is sent as 0xffff, which sums the same (RFC 768).
#[inline]
pub fn udp_form(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// RFC 1071 literally: 16 bits at a time.
    fn by_the_words(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let sum = Sum::ZERO.with(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.fold(), 0xddf2);
        assert_eq!(sum.checksum(), !0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
        assert_eq!(udp_form(0), 0xffff);
    }

    proptest! {
        #[test]
        fn wide_steps_change_nothing(bytes in prop::collection::vec(any::<u8>(), 0..1600), cut in 0_usize..800) {
            prop_assert_eq!(Sum::ZERO.with(&bytes).checksum(), by_the_words(&bytes));
            let (head, rest) = bytes.split_at((cut * 2).min(bytes.len() & !1));
            prop_assert_eq!(Sum::ZERO.with(head).with(rest).checksum(), by_the_words(&bytes));
        }

        #[test]
        fn numbers_are_their_bytes(a in any::<u16>(), b in any::<u32>()) {
            let bytes: Vec<u8> = a.to_be_bytes().into_iter().chain(b.to_be_bytes()).collect();
            prop_assert_eq!(Sum::ZERO.with_u16(a).with_u32(b).fold(), Sum::ZERO.with(&bytes).fold());
        }

        #[test]
        fn the_difference_gives_what_the_whole_gives(
            mut bytes in prop::collection::vec(any::<u8>(), 8..64), field in 0_usize..4, new in any::<u16>(),
        ) {
            bytes[7] |= 1;
            let before = Sum::ZERO.with(&bytes).checksum();
            let old = u16::from_be_bytes([bytes[2 * field], bytes[2 * field + 1]]);
            bytes[2 * field..2 * field + 2].copy_from_slice(&(new | 1).to_be_bytes());
            prop_assert_eq!(update(before, old, new | 1), Sum::ZERO.with(&bytes).checksum());
        }
    }
}
