//! Statistics of samples.
//!
//! * Every slice of a row counts alike ([`mixture`]): columns, ratios, charts and `compare` are of that mixture.
//! * A percentile is said only with [`TAIL_SAMPLES`] samples beyond it.
//! * Intervals rest on the spread between slices, and on how alike slices are that follow each other ([`serial`]), never on
//!   single samples alone ([`estimate`]).
//! * What was lost counts as larger than everything that was seen ([`Censored`]).
//! * A path whose slices fall into groups far apart is named ([`modes`]).
//!
//! SPEC.md, "What is estimated", says what each figure assumes; docs/decisions/0038 how this was chosen.

mod censored;
mod distribution;
mod estimate;
mod mixture;
mod modes;
mod serial;
mod slice;
pub(crate) mod student;
mod warmup;

pub(crate) use censored::Censored;
pub(crate) use distribution::Accumulator;
pub(crate) use estimate::{Estimate, Statistic};
pub(crate) use serial::{MeanError, SERIES_MIN, freedom};
pub(crate) use slice::Slice;
pub(crate) use warmup::Warmup;

/// Samples that must lie beyond a percentile before it is printed: with 100 of them the percentile's rank is known to
/// about 20 % of the tail.
pub(crate) const TAIL_SAMPLES: f64 = 100.0;

#[cfg(test)]
mod coverage;
