//! A distribution as a curve over percentiles, up to where too few samples lie beyond.

use crate::histogram;
use crate::schema::{Distribution, Row};

/// Samples that must lie beyond a percentile.
const BEYOND_MIN: f64 = 100.0;

/// Steps of a curve for each tenfold of the tail.
const STEPS: i32 = 20;

/// The known percentiles, with the share of samples beyond each.
type Known = (f64, fn(&Distribution) -> Option<f64>);
const KNOWN: [Known; 5] =
    [(0.5, |d| d.p50), (0.1, |d| d.p90), (0.01, |d| d.p99), (0.001, |d| d.p99_9), (0.000_1, |d| d.p99_99)];

/// One point: the share of samples beyond, and the time.
pub type Point = (f64, f64);

/// The curve from the median on; empty where there is none. The share beyond falls, the time does not.
pub fn curve(row: &Row) -> Vec<Point> {
    let d = &row.distribution;
    let Ok(histogram) = histogram::decode(&d.histogram) else { return Vec::new() };
    if histogram.is_empty() {
        return Vec::new();
    }
    let end = end(d);
    let at = |beyond: f64| (beyond, histogram.value_at_quantile(1.0 - beyond) as f64);
    let steps = (0..=6 * STEPS).map(|step| 0.5 * 10_f64.powf(-f64::from(step) / f64::from(STEPS)));
    let mut points: Vec<Point> = steps.take_while(|beyond| *beyond > end).map(at).collect();
    if end <= 0.5 && !points.is_empty() {
        points.push(at(end));
    }
    points
}

/// The share of samples beyond the end of the curve.
fn end(d: &Distribution) -> f64 {
    let samples = BEYOND_MIN / (d.n.max(1) as f64);
    // The ten largest may weigh more than others: they are from a slice with few samples.
    let weights = d.effective.as_ref().map_or(0.0, |effective| effective.largest_ten * BEYOND_MIN / 10.0);
    // A percentile that the result withholds is not read off a curve.
    let withheld = KNOWN.iter().find(|(_, of)| of(d).is_none()).map_or(0.0, |(beyond, _)| beyond * 1.02);
    [samples, weights, withheld].into_iter().filter(|share| share.is_finite()).fold(0.0, f64::max)
}

/// The time at a share beyond; none where the curve has ended.
pub fn at(points: &[Point], beyond: f64) -> Option<f64> {
    let last = points.last()?;
    if beyond < last.0 * 0.999 {
        return None;
    }
    points.iter().find(|(share, _)| *share <= beyond * 1.001).map(|(_, ns)| *ns)
}

/// The share beyond at which `one` rises above `other` for good, counted from the 90th percentile on; none where it does not.
pub fn crossing(one: &[Point], other: &[Point]) -> Option<f64> {
    let both: Vec<(f64, bool)> = one
        .iter()
        .filter(|(beyond, _)| *beyond <= 0.5)
        .filter_map(|(beyond, ns)| Some((*beyond, *ns > at(other, *beyond)?)))
        .collect();
    let above = both.iter().rev().take_while(|(_, above)| *above).count();
    let from = both.len() - above;
    let starts_below = both.first().is_some_and(|(_, above)| !above);
    (above > 0 && starts_below).then(|| both[from].0).filter(|beyond| *beyond <= 0.1)
}

/// The name of a percentile by the share beyond it: `p99.4`.
pub fn name(beyond: f64) -> String {
    let nines = (-beyond.log10()).floor().clamp(0.0, 6.0) as usize;
    let text = format!("{:.*}", nines.saturating_sub(1), 100.0 * (1.0 - beyond));
    format!("p{}", if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_curve_ends_where_the_result_knows_no_more() {
        let document = sample::document();
        let mut row = document.results[4].clone();
        let whole = curve(&row);
        let last = whole.last().unwrap().0;
        assert!(last >= 100.0 / row.distribution.n as f64 && last < 0.001, "{last}");
        assert!(whole.windows(2).all(|two| two[0].0 > two[1].0 && two[0].1 <= two[1].1));
        row.distribution.p99 = None;
        assert!(curve(&row).last().unwrap().0 > 0.01);
        row.distribution.p50 = None;
        assert!(curve(&row).is_empty());
        row.distribution.histogram = "!".into();
        assert!(curve(&row).is_empty());
    }

    #[test]
    fn curves_cross_where_one_stays_above() {
        let points = |times: [f64; 5]| -> Vec<Point> { [0.5, 0.1, 0.05, 0.01, 0.005].into_iter().zip(times).collect() };
        let flat = points([10.0; 5]);
        assert_eq!(crossing(&points([5.0, 6.0, 9.0, 20.0, 30.0]), &flat), Some(0.01));
        assert_eq!(crossing(&points([5.0, 6.0, 20.0, 9.0, 9.0]), &flat), None);
        assert_eq!(crossing(&points([20.0; 5]), &flat), None);
        assert_eq!(crossing(&points([5.0; 5]), &[]), None);
    }

    #[test]
    fn percentiles_have_their_names() {
        assert_eq!(
            [0.5, 0.1, 0.01, 0.006, 0.001, 0.000_1].map(name),
            ["p50", "p90", "p99", "p99.4", "p99.9", "p99.99"]
        );
    }
}
