//! A difference between the sides, its error, and what is made of it: a verdict, corrected for the number of rows.

use super::{SIGNIFICANCE, Verdict};
use crate::stats::student;

/// A difference that would be found in this share of comparisons is one that can be detected.
const POWER: f64 = 0.8;
/// A comparison that would not see so large a change (a factor of two) is too noisy to say that there is none.
const USELESS: f64 = 1.0;

/// A difference of logarithms, second side minus first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Difference {
    pub(crate) log: f64,
    /// Its standard error downwards and upwards.
    pub(crate) errors: [f64; 2],
    /// Degrees of freedom of the errors.
    pub(crate) freedom: f64,
    /// Differences of logarithms up to this are noise.
    pub(crate) floor: f64,
}

impl Difference {
    /// The ratio with its 95 % interval; not corrected for the number of rows.
    pub(crate) fn ratio(&self) -> (f64, [f64; 2]) {
        let t = student::t95(self.freedom);
        let [below, above] = self.errors.map(|error| t * error);
        (self.log.exp(), [(self.log - below).exp(), (self.log + above).exp()])
    }

    /// Of two shares, whose difference has this error: losses are tested by how many more there are, and shown by how many times more.
    /// The logarithm of a side that lost nothing has no error of its own.
    pub(crate) fn of_shares(shares: [f64; 2], logs: [f64; 2], error: f64, freedom: f64, floor: f64) -> Self {
        let (apart, log) = ((shares[1] - shares[0]).abs(), logs[1] - logs[0]);
        let relative = if apart > 0.0 { log.abs() / apart * error } else { (error / shares[0].max(error)).ln_1p() };
        Self { log, errors: [relative; 2], freedom, floor }
    }

    /// The error towards no difference.
    fn error(&self) -> f64 {
        if self.log > 0.0 { self.errors[0] } else { self.errors[1] }
    }

    /// Returns the probability of a difference as far beyond the floor if there is none beyond it.
    pub(crate) fn p_value(&self) -> f64 {
        let beyond = (self.log.abs() - self.floor).max(0.0);
        if beyond == 0.0 { 1.0 } else { student::p_value(beyond / self.error(), self.freedom) }
    }

    /// The smallest change, as a share, that would have been found in four of five comparisons beside `tests` others.
    pub(crate) fn detectable(&self, tests: usize) -> f64 {
        let level = SIGNIFICANCE / tests.max(1) as f64;
        (self.floor + student::detectable(level, POWER, self.freedom) * self.error()).exp_m1()
    }

    /// The verdict by a corrected probability.
    pub(crate) fn verdict(&self, p_value: f64, detectable: f64, more_is_better: bool) -> Verdict {
        match p_value < SIGNIFICANCE {
            true if (self.log > 0.0) == more_is_better => Verdict::Better,
            true => Verdict::Worse,
            false if detectable < USELESS => Verdict::NoMeasurableDifference,
            false => Verdict::TooNoisy,
        }
    }
}

/// Corrects probabilities for their number (Holm 1979): the chance that any of them is called a difference by mistake stays below
/// the level of one.
pub(crate) fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut highest: f64 = 0.0;
    for (rank, place) in order.into_iter().enumerate() {
        highest = highest.max(p_values[place] * (p_values.len() - rank) as f64).min(1.0);
        corrected[place] = highest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_multiplies_the_smallest_most_and_keeps_the_order() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert_eq!(holm(&[]), Vec::<f64>::new());
    }

    #[test]
    fn a_difference_inside_the_floor_is_no_evidence_and_what_can_be_seen_grows_with_the_error() {
        let of = |error| Difference { log: 0.05, errors: [error; 2], freedom: 10.0, floor: 0.1 };
        assert_eq!(of(1e-6).p_value(), 1.0);
        assert!(of(0.01).detectable(1) < of(0.02).detectable(1));
        assert!(of(0.01).detectable(1) < of(0.01).detectable(20));
        assert!(of(0.01).detectable(1) > 0.1, "never less than the floor");
    }

    #[test]
    fn an_error_of_nought_gives_no_panic() {
        let sure = Difference { log: 0.5, errors: [0.0; 2], freedom: 1.0, floor: 0.02 };
        assert!(sure.p_value() < 0.05 && sure.detectable(3) < 0.03);
    }
}
