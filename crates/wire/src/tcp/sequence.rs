//! Sequence numbers, modulo 2^32 (RFC 9293 section 3.4).

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A sequence or acknowledgement number. It wraps at 2^32, so before and after are defined only within half of the
/// circle; `Ord` is left out on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SequenceNumber(pub u32);

impl SequenceNumber {
    /// The forward distance from `earlier` to this; 0 to 2^32 - 1.
    #[inline]
    pub fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The distance from `other`, in the shorter direction; negative if this is before it.
    #[inline]
    pub fn distance(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// this < other
    #[inline]
    pub fn is_before(self, other: Self) -> bool {
        self.distance(other) < 0
    }

    /// this =< other
    #[inline]
    pub fn is_at_or_before(self, other: Self) -> bool {
        self.distance(other) <= 0
    }

    /// this > other
    #[inline]
    pub fn is_after(self, other: Self) -> bool {
        self.distance(other) > 0
    }

    /// this >= other
    #[inline]
    pub fn is_at_or_after(self, other: Self) -> bool {
        self.distance(other) >= 0
    }

    /// Returns whether this is one of the `length` numbers from `start` on: start =< this < start + length.
    #[inline]
    pub fn is_within(self, start: Self, length: u32) -> bool {
        self.since(start) < length
    }

    /// The later of two.
    #[must_use]
    #[inline]
    pub fn later(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier of two.
    #[must_use]
    #[inline]
    pub fn earlier(self, other: Self) -> Self {
        if self.is_after(other) { other } else { self }
    }
}

impl Add<u32> for SequenceNumber {
    type Output = Self;

    #[inline]
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for SequenceNumber {
    #[inline]
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for SequenceNumber {
    type Output = Self;

    #[inline]
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_holds_over_the_wrap() {
        let (last, first) = (SequenceNumber(u32::MAX), SequenceNumber(0));
        assert!(last.is_before(first) && first.is_after(last) && first.is_at_or_after(first));
        assert_eq!(last + 1, first);
        assert_eq!(first - 1, last);
        assert_eq!(first.since(last), 1);
        assert_eq!(last.distance(first), -1);
        assert_eq!(last.later(first), first);
        assert_eq!(last.earlier(first), last);
        assert!(first.is_within(last, 2) && !first.is_within(last, 1) && !last.is_within(first, 5));
        assert!(!first.is_within(first, 0));
    }

    proptest! {
        #[test]
        fn anywhere_on_the_circle(start in any::<u32>(), ahead in 1..1_u32 << 31) {
            let start = SequenceNumber(start);
            let other = start + ahead;
            prop_assert!(start.is_before(other) && start.is_at_or_before(other) && !other.is_at_or_before(start));
            prop_assert_eq!(other.since(start), ahead);
            prop_assert_eq!(other - ahead, start);
        }
    }
}
