//! The cumulative distribution on a percentile axis: x is 1/(1-q) on a logarithmic scale, so that each nine of the tail
//! takes as much room as the one before.

use super::axis::{self, Plot};
use super::canvas::Canvas;
use super::scale::Scale;
use super::{Shape, histogram::Series};
use crate::number::Unit;

/// The samples that must lie beyond the last point drawn: fewer are too random.
const BEYOND: f64 = 10.0;

/// More nines than any run has samples for: a file may say what it likes.
const NINES_MAX: f64 = 12.0;

/// The chart of `series`; none where nothing can be drawn.
pub(crate) fn chart(series: &[Series<'_>], measure: &str, shape: Shape) -> Option<String> {
    let steps = if shape == Shape::Wide { 180 } else { 100 };
    let curves: Vec<_> = series.iter().map(|one| (one, points(one, steps))).collect();
    let all = || curves.iter().flat_map(|(_, points)| points);
    let plot = Plot::of(shape);
    let nines = all().map(|(x, _)| *x).fold(1.0, f64::max);
    let x = Scale::exact(0.0, nines, plot.left, plot.right);
    let y = Scale::fit(all().map(|(_, ns)| *ns), plot.bottom, plot.top)?;
    let unit = Unit::for_times(series.iter().map(|one| one.histogram.value_at_quantile(0.5) as f64));

    let mut canvas = Canvas::new(shape.width(), shape.height());
    axis::vertical_times(&mut canvas, plot, &y, unit, measure);
    axis::horizontal(&mut canvas, plot, &percentiles(&x, nines), "percentile");
    for (one, points) in &curves {
        let places: Vec<_> = points.iter().map(|(nines, ns)| (x.at(*nines), y.at(*ns))).collect();
        canvas.curve(&places, &one.class);
    }
    let names: Vec<_> = series.iter().map(|one| one.name).collect();
    Some(canvas.finish(shape, &format!("Latency by percentile: {}", names.join(", "))))
}

/// Points (nines, nanoseconds), as far as enough samples lie beyond.
fn points(one: &Series<'_>, steps: u32) -> Vec<(f64, f64)> {
    let (histogram, distribution) = (&one.histogram, &one.row.distribution);
    // The counts of a histogram are weights, except in files of older builds.
    let beyond =
        distribution.effective.as_ref().map_or(BEYOND / histogram.len() as f64, |effective| effective.largest_ten);
    let end = (-beyond.log10()).min(NINES_MAX);
    if end.is_nan() || end <= 0.0 {
        return Vec::new();
    }
    let nines = move || (0..=steps).map(move |i| end * f64::from(i) / f64::from(steps));
    let values = histogram.value_at_quantiles(nines().map(|nines| 1.0 - 10_f64.powf(-nines)));
    nines().zip(values.map(|value| value as f64)).collect()
}

fn percentiles(x: &Scale, nines: f64) -> Vec<(f64, String)> {
    let mut places = vec![(x.at(0.0), "0".to_owned()), (x.at(0.5_f64.recip().log10()), "50".to_owned())];
    for n in 1..=nines.floor() as usize {
        let text = match n {
            1 => "90".into(),
            2 => "99".into(),
            n => format!("99.{}", "9".repeat(n - 2)),
        };
        places.push((x.at(n as f64), text));
    }
    places
}
