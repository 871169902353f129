//! Time, as the caller passes it in.

use std::fmt;

/// Nanoseconds in a millisecond.
pub(crate) const MILLISECOND_NS: u64 = 1_000_000;
/// Nanoseconds in a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// A point on the caller's monotonic clock, in nanoseconds from wherever that clock begins.
///
/// The stack reads no clock. A `now` that goes backward is taken as no time having passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Later than every deadline: "never".
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// The point `nanoseconds` after the clock's beginning.
    #[inline]
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the clock's beginning.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The point `nanoseconds` later, or the last one there is.
    #[must_use]
    #[inline]
    pub const fn after_ns(self, nanoseconds: u64) -> Self {
        Self(self.0.saturating_add(nanoseconds))
    }

    /// Nanoseconds from `earlier` to this point; 0 if that is not earlier.
    #[inline]
    pub const fn since_ns(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Instant {
    /// Seconds with nine places.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / SECOND_NS, self.0 % SECOND_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_neither_wraps_nor_goes_below_zero() {
        let (early, late) = (Instant::from_nanos(5), Instant::from_nanos(1_000_000_007));
        assert_eq!(late.since_ns(early), 1_000_000_002);
        assert_eq!(early.since_ns(late), 0);
        assert_eq!(late.after_ns(u64::MAX), Instant::NEVER);
        assert_eq!(late.to_string(), "1.000000007");
    }
}
