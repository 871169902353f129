//! The schedule of an open loop: when each message is due, whatever has become of those before it.

/// The spacing of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// All alike.
    Constant,
    /// Exponential, as of a Poisson process: independent messages of many senders.
    Poisson {
        /// Of the random numbers; the same seed gives the same schedule.
        seed: u64,
    },
}

/// Due times in clock ticks from the beginning, ascending.
pub(crate) struct Schedule {
    interval: f64,
    random: Option<fastrand::Rng>,
    number: u64,
    due: f64,
}

impl Schedule {
    /// One message per `interval` ticks on average. The first is due at once, or after a random gap. `slice` tells the schedules of a
    /// row apart.
    pub(crate) fn new(arrival: Arrival, interval: f64, slice: u64) -> Self {
        let random = match arrival {
            Arrival::Constant => None,
            Arrival::Poisson { seed } => Some(fastrand::Rng::with_seed(seed.wrapping_add(slice))),
        };
        let mut schedule = Self { interval, random, number: 0, due: 0.0 };
        if schedule.random.is_some() {
            schedule.due = schedule.gap();
        }
        schedule
    }

    /// When the next message is due.
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        self.due as u64
    }

    /// Goes on to the message after it.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.number += 1;
        match self.random {
            // Not added up, so that rounding does not either.
            None => self.due = self.number as f64 * self.interval,
            Some(_) => self.due += self.gap(),
        }
    }

    /// Counts the messages that are still due before `end`, up to `most`.
    pub(crate) fn rest(mut self, end: u64, most: u64) -> u64 {
        let mut rest = 0;
        while self.due() < end && rest < most {
            rest += 1;
            self.advance();
        }
        rest
    }

    fn gap(&mut self) -> f64 {
        let share = self.random.as_mut().map_or(0.0, fastrand::Rng::f64);
        -(1.0 - share).ln() * self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(arrival: Arrival, slice: u64, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(arrival, 100.5, slice);
        let mut next = || {
            let due = schedule.due();
            schedule.advance();
            due
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn constant_spacing_does_not_drift() {
        assert_eq!(dues(Arrival::Constant, 7, 5), [0, 100, 201, 301, 402]);
        assert_eq!(dues(Arrival::Constant, 0, 200_001)[200_000], 20_100_000);
    }

    #[test]
    fn poisson_gaps_are_exponential_and_come_again_with_their_seed() {
        let poisson = Arrival::Poisson { seed: 3 };
        let dues_of_3 = dues(poisson, 0, 50_000);
        assert_eq!(dues_of_3, dues(poisson, 0, 50_000));
        assert_ne!(dues_of_3, dues(poisson, 1, 50_000), "slices differ");
        assert!(dues_of_3.is_sorted());
        let gaps: Vec<f64> = dues_of_3.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 100.5 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "an exponential deviates by its mean");
    }

    #[test]
    fn what_is_left_is_counted_and_has_a_bound() {
        let left = |end, most| Schedule::new(Arrival::Constant, 100.0, 0).rest(end, most);
        assert_eq!((left(1_000, u64::MAX), left(1_001, u64::MAX), left(0, 9)), (10, 11, 0));
        assert_eq!(left(u64::MAX, 50), 50);
    }
}
