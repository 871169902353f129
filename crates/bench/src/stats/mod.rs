//! Statistics of samples.
//!
//! * A percentile is said only with [`TAIL_SAMPLES`] samples beyond it.
//! * Its interval comes from order statistics (the binomial spread of a rank), widened to the spread seen between slices,
//!   because consecutive round trips are not independent.
//! * What was lost counts as larger than everything that was seen ([`Censored`]).
//! * Means and ratios are bootstrapped over slices, never over single samples.

mod bootstrap;
mod censored;
mod distribution;
mod slice;
mod warmup;

pub(crate) use bootstrap::{Estimate, mean_of_logs, median};
pub(crate) use censored::Censored;
pub(crate) use distribution::Accumulator;
use distribution::QUANTILES;
pub(crate) use slice::Slice;
pub(crate) use warmup::Warmup;

/// Samples that must lie beyond a percentile before it is printed: with 100 of them the percentile's rank is known to
/// about 20 % of the tail.
pub(crate) const TAIL_SAMPLES: f64 = 100.0;

/// Quantile of Student's t distribution at 97.5 % with `freedom` degrees of freedom: the tables' values up to three, then the
/// Cornish-Fisher expansion (within 1 %).
pub(crate) fn student_t(freedom: usize) -> f64 {
    match freedom {
        0 | 1 => 12.706,
        2 => 4.303,
        3 => 3.182,
        _ => {
            let df = freedom as f64;
            1.96 + 2.37 / df + 2.82 / (df * df) + 2.2 / (df * df * df)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::student_t;

    #[test]
    fn t_is_close_to_the_tables() {
        for (freedom, table) in
            [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (19, 2.093), (39, 2.023), (1_000_000, 1.96)]
        {
            assert!((student_t(freedom) / table - 1.0).abs() < 0.01, "{freedom}: {}", student_t(freedom));
        }
    }
}
