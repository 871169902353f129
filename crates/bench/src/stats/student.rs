//! Student's t distribution.
//!
//! Its distribution function is a regularised incomplete beta function (Abramowitz and Stegun 26.7.1, 26.5.8).

/// Steps of the continued fraction; it converges within 60 for every freedom used here.
const FRACTION_STEPS: u32 = 300;
/// Relative change of the continued fraction that ends it.
const FRACTION_END: f64 = 1e-14;
/// Halvings of the interval in which a quantile lies.
const HALVINGS: u32 = 80;
/// No quantile that is asked for lies beyond it.
const T_MAX: f64 = 1e6;

/// Returns the half width of a 95 % interval in standard errors.
pub(crate) fn t95(freedom: f64) -> f64 {
    quantile(0.05, freedom)
}

/// Returns the t that is exceeded, on either side, with probability `two_sided`.
pub(crate) fn quantile(two_sided: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, T_MAX);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if p_value(middle, freedom) > two_sided { low = middle } else { high = middle }
    }
    high
}

/// Returns the probability of a t at least as far from zero, on either side.
pub(crate) fn p_value(t: f64, freedom: f64) -> f64 {
    if t.is_nan() || freedom < 1.0 {
        return 1.0;
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Returns the distance from zero, in true standard errors, of a mean that a test at the level `two_sided` finds with probability `power`:
/// the noncentrality of Student's t.
pub(crate) fn detectable(two_sided: f64, power: f64, freedom: f64) -> f64 {
    let critical = quantile(two_sided, freedom);
    let (mut low, mut high) = (0.0, 4.0 * critical + 10.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if found(middle, critical, freedom) < power { low = middle } else { high = middle }
    }
    high
}

/// The probability that t exceeds `critical` where the mean lies `distance` standard errors from zero: over the distribution of the
/// estimated error, relative to the true one.
fn found(distance: f64, critical: f64, freedom: f64) -> f64 {
    const STEPS: u32 = 400;
    let most = 1.0 + 8.0 / freedom.sqrt();
    let (mut weights, mut sum) = (0.0, 0.0);
    for step in 0..STEPS {
        let error = most * (f64::from(step) + 0.5) / f64::from(STEPS);
        // The density of chi over the root of its degrees of freedom, not normalised; its peak is about 1.
        let weight = ((freedom - 1.0) * error.ln() - freedom * (error * error - 1.0) / 2.0).exp();
        weights += weight;
        sum += weight * normal(distance - critical * error);
    }
    sum / weights
}

/// The normal distribution function (Abramowitz and Stegun 26.2.17, error below 1e-7).
fn normal(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let sum = t * series.iter().fold(0.0, |sum, factor| sum * t + factor);
    let tail = sum * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// The regularised incomplete beta function.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// Its continued fraction, by the method of Lentz.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_zero = |value: f64| if value.abs() < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for step in 1..=FRACTION_STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = result;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            result *= c * d;
        }
        if (result / before - 1.0).abs() < FRACTION_END {
            break;
        }
    }
    result
}

/// The logarithm of the gamma function of a positive number: Stirling's series, from 8 on (error below 1e-10).
fn log_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 8.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / x;
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let table =
            [(1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (4.0, 2.776), (9.0, 2.262), (39.0, 2.023), (1e6, 1.960)];
        for (freedom, t) in table {
            assert!((t95(freedom) / t - 1.0).abs() < 5e-4, "{freedom}: {}", t95(freedom));
        }
        assert!((quantile(0.002, 8.0) / 4.501 - 1.0).abs() < 5e-4);
        assert!((quantile(0.4, 10.0) / 0.879 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn what_is_found_with_that_power_is_the_noncentrality_of_the_tables() {
        // Power 0.8 at 5 %, two-sided: the normal limit, and few degrees of freedom.
        for (freedom, distance) in [(1e6, 2.802), (18.0, 2.963), (4.0, 3.761), (2.0, 5.653)] {
            let found = detectable(0.05, 0.8, freedom);
            assert!((found / distance - 1.0).abs() < 0.005, "{freedom}: {found}");
        }
    }

    #[test]
    fn p_values_are_the_inverse_and_nonsense_is_no_evidence() {
        for freedom in [1.0, 2.5, 8.0, 300.0] {
            assert!((p_value(t95(freedom), freedom) - 0.05).abs() < 1e-9);
        }
        assert_eq!(p_value(f64::NAN, 5.0), 1.0);
        assert_eq!(p_value(3.0, 0.0), 1.0);
        assert_eq!(p_value(0.0, 5.0), 1.0);
        assert!(p_value(f64::INFINITY, 5.0) < 1e-9);
    }
}
