//! The error of the mean of values that follow each other in time, and are therefore alike.
//!
//! A series is whitened by an autoregression of the first order, whose coefficient is corrected for its bias in short series
//! (Kendall 1954, Marriott and Pope 1954); the long-run variance of what remains is the mean square of its lowest cosine
//! coefficients (Müller 2007; Lazarus, Lewis, Stock and Watson 2018), which gives an exact Student's t with as many degrees of freedom as
//! coefficients; and the error is coloured again. docs/decisions/0038 has the alternatives that were simulated.

/// A shorter series gives no error: its correlation is not known well enough.
pub(crate) const SERIES_MIN: usize = 8;
/// A shorter series has two cosine coefficients, and its intervals are wide: Student's t is 4.3.
const SERIES_LONG: usize = 12;
/// The strongest correlation that is believed: beyond it the series is a single drift.
const CORRELATION_MAX: f64 = 0.9;

/// The error of the mean of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MeanError {
    /// Standard error.
    pub(crate) error: f64,
    /// Degrees of freedom of the error.
    pub(crate) freedom: f64,
    /// Correlation of each value with the next, 0 if it is not positive.
    pub(crate) correlation: f64,
}

impl MeanError {
    /// Of a series in time order; none of fewer than [`SERIES_MIN`] values.
    pub(crate) fn of(series: &[f64]) -> Option<Self> {
        if series.len() < SERIES_MIN {
            return None;
        }
        let mean = series.iter().sum::<f64>() / series.len() as f64;
        let values: Vec<f64> = series.iter().map(|value| value - mean).collect();
        let correlation = correlation(&values);
        let white: Vec<f64> = values.windows(2).map(|pair| pair[1] - correlation * pair[0]).collect();
        let coefficients = coefficients(series.len());
        let variance = (1..=coefficients).map(|order| cosine(&white, order).powi(2)).sum::<f64>() / coefficients as f64;
        let error = (variance / series.len() as f64).sqrt() / (1.0 - correlation);
        Some(Self { error, freedom: freedom(series.len()), correlation })
    }

    /// Half the width of the 95 % interval of the mean.
    pub(crate) fn reach95(&self) -> f64 {
        super::student::t95(self.freedom) * self.error
    }
}

/// Returns the degrees of freedom of the error of a series of that length.
pub(crate) fn freedom(length: usize) -> f64 {
    coefficients(length) as f64
}

/// Returns how many independent slices say as much as `slices` of which each is correlated so with the next.
pub(crate) fn independent(slices: usize, correlation: f64) -> f64 {
    slices as f64 * (1.0 - correlation) / (1.0 + correlation)
}

/// Correlation with the next value, without its bias.
fn correlation(values: &[f64]) -> f64 {
    let squares: f64 = values.iter().map(|value| value * value).sum();
    if squares <= 0.0 {
        return 0.0;
    }
    let seen = values.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / squares;
    (seen + (1.0 + 4.0 * seen) / values.len() as f64).clamp(0.0, CORRELATION_MAX)
}

/// Cosine coefficients for a series of that length: 0.4 n^(2/3) balances bias and variance.
fn coefficients(length: usize) -> usize {
    let least = if length < SERIES_LONG { 2 } else { 3 };
    ((0.4 * (length as f64).powf(2.0 / 3.0)) as usize).max(least)
}

/// A cosine coefficient of the series (type II), scaled so that of white noise its variance is that of the noise.
fn cosine(series: &[f64], order: usize) -> f64 {
    let step = std::f64::consts::PI * order as f64 / series.len() as f64;
    let sum: f64 = series.iter().enumerate().map(|(at, value)| value * (step * (at as f64 + 0.5)).cos()).sum();
    (2.0 / series.len() as f64).sqrt() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_series_and_a_constant_one() {
        assert_eq!(MeanError::of(&[1.0; SERIES_MIN - 1]), None);
        let constant = MeanError::of(&[1.0; 40]).expect("long enough");
        assert_eq!((constant.error, constant.correlation), (0.0, 0.0));
    }

    #[test]
    fn white_noise_has_the_error_of_independent_values() {
        let mut random = fastrand::Rng::with_seed(3);
        let errors = (0..400).map(|_| {
            let series: Vec<f64> = (0..100).map(|_| random.f64()).collect();
            MeanError::of(&series).expect("long enough").error.powi(2)
        });
        let error = (errors.sum::<f64>() / 400.0).sqrt();
        assert!((error / (1.0_f64 / 12.0 / 100.0).sqrt() - 1.0).abs() < 0.15, "{error}");
    }

    #[test]
    fn a_drift_is_correlated_and_worth_few_slices() {
        let drift: Vec<f64> = (0..40).map(f64::from).collect();
        let error = MeanError::of(&drift).expect("long enough");
        assert!(error.correlation > 0.8, "{error:?}");
        assert!(independent(40, error.correlation) < 5.0);
    }
}
