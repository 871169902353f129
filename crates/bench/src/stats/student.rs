//! Student's t distribution.
//!
//! Its distribution function is a regularised incomplete beta function (Abramowitz and Stegun 26.7.1, 26.5.8).

/// Steps of the continued fraction; it converges within 60 for every freedom used here.
const FRACTION_STEPS: u32 = 300;
/// Relative change of the continued fraction that ends it.
const FRACTION_END: f64 = 1e-14;
/// Halvings of the interval in which a quantile lies.
const HALVINGS: u32 = 120;
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
