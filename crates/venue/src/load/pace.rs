//! Times between messages: a Poisson process whose rate follows a profile.

use crate::random::Random;

/// The course of the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The same rate all the time.
    Steady,
    /// An opening burst: eight times the rate at first, falling to once within `burst_ns`.
    Open {
        /// The length of the burst.
        burst_ns: u64,
    },
    /// A hundredth of the rate: idle connections and cold caches between messages.
    Sparse,
}

/// The rate at the beginning of the opening burst, in multiples of the rate.
pub const OPEN_FACTOR: u64 = 8;

/// Messages of the steady profile for one of the sparse one.
pub const SPARSE_DIVISOR: u64 = 100;

/// When the next message is due.
#[derive(Debug)]
pub struct Pace {
    random: Random,
    profile: Profile,
    /// ns between messages, times 1,024.
    mean: u64,
    /// ns since the start, times 1,024.
    now: u64,
}

/// Fractions of a ns that are counted.
const FRACTION: u64 = 1_024;

impl Pace {
    /// A pace of `rate` messages per second (1 to 10^9), the same for each `seed`.
    pub fn new(profile: Profile, rate: u64, seed: u64) -> Self {
        let divisor = if profile == Profile::Sparse { SPARSE_DIVISOR } else { 1 };
        let mean = 1_000_000_000 * FRACTION * divisor / rate.clamp(1, 1_000_000_000);
        Self { random: Random::new(seed ^ 0x7061_6365), profile, mean, now: 0 }
    }

    /// ns since the start at which the next message is due.
    pub fn next_due_ns(&mut self) -> u64 {
        let interval = (u128::from(self.random.exponential()) * u128::from(self.mean)) >> 32;
        let scaled = interval as u64 * FRACTION / self.factor();
        self.now = self.now.saturating_add(scaled);
        self.now / FRACTION
    }

    /// The rate now, in multiples of the rate, times 1,024.
    fn factor(&self) -> u64 {
        let Profile::Open { burst_ns } = self.profile else { return FRACTION };
        let left = burst_ns.saturating_sub(self.now / FRACTION);
        let part = (u128::from(left) * u128::from(FRACTION) / u128::from(burst_ns.max(1))) as u64;
        FRACTION + (OPEN_FACTOR - 1) * part * part / FRACTION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(profile: Profile, from_ns: u64, to_ns: u64) -> u64 {
        let mut pace = Pace::new(profile, 100_000, 5);
        let mut count = 0;
        loop {
            match pace.next_due_ns() {
                due if due >= to_ns => return count,
                due => count += u64::from(due >= from_ns),
            }
        }
    }

    #[test]
    fn a_steady_rate_is_kept() {
        let count = messages(Profile::Steady, 0, 1_000_000_000);
        assert!((98_500..101_500).contains(&count), "{count}");
    }

    #[test]
    fn the_opening_burst_falls_from_eight_times_the_rate_to_once() {
        let open = Profile::Open { burst_ns: 1_000_000_000 };
        let (first, last) = (messages(open, 0, 10_000_000), messages(open, 1_000_000_000, 1_100_000_000));
        assert!((7_300..8_300).contains(&first), "{first}");
        assert!((9_500..10_500).contains(&last), "{last}");
    }

    #[test]
    fn sparse_messages_are_a_hundredth() {
        let count = messages(Profile::Sparse, 0, 10_000_000_000);
        assert!((9_500..10_500).contains(&count), "{count}");
    }
}
