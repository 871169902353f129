//! One strip per path on a shared logarithmic time axis: nine distributions stay readable where nine overlaid ones
//! would not.

use hdrhistogram::Histogram;

use super::axis::{self, Plot};
use super::canvas::{Anchor, Canvas};
use super::scale::Scale;
use super::{Shape, cut};
use crate::number::{self, Unit};
use crate::schema::Row;

/// A row with its decoded histogram.
pub(crate) struct Series<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Its colour and dash.
    pub(crate) class: String,
    /// The row.
    pub(crate) row: &'a Row,
    /// Its samples; at least one.
    pub(crate) histogram: Histogram<u64>,
}

/// Height of the line that names a strip.
const NAME: f64 = 18.0;

/// Height of a strip.
const STRIP: f64 = 34.0;

/// Space under a strip.
const GAP: f64 = 10.0;

/// The share of samples beyond the right end of the axis, so that one stall does not press everything else flat.
const CUT_QUANTILE: f64 = 0.9995;

/// The chart of `series`; none where nothing can be drawn.
pub(crate) fn chart(series: &[Series<'_>], measure: &str, shape: Shape) -> Option<String> {
    let height = 8.0 + series.len() as f64 * (NAME + STRIP + GAP);
    let plot = Plot { left: 12.0, right: shape.width() - 12.0, top: 8.0, bottom: height };
    let ends = |one: &Series<'_>| [one.histogram.min(), one.histogram.value_at_quantile(CUT_QUANTILE)];
    let x = Scale::fit_log(series.iter().flat_map(ends).map(|ns| ns as f64), plot.left, plot.right)?;
    let unit = Unit::for_times(series.iter().map(|one| one.histogram.value_at_quantile(0.5) as f64));
    let mut canvas = Canvas::new(shape.width(), height + 46.0);
    let places = axis::places(&x, 60.0, |tick| number::short(tick / unit.ns));
    for (place, _) in &places {
        canvas.line((*place, plot.top), (*place, plot.bottom), "grid");
    }
    for (i, one) in series.iter().enumerate() {
        strip(&mut canvas, one, &x, unit, plot.top + i as f64 * (NAME + STRIP + GAP), shape);
    }
    axis::horizontal(&mut canvas, plot, &places, &format!("{measure}, {} (log scale)", unit.name));
    let names: Vec<_> = series.iter().map(|one| one.name).collect();
    Some(canvas.finish(shape, &format!("Histograms: {}", names.join(", "))))
}

fn strip(canvas: &mut Canvas, one: &Series<'_>, x: &Scale, unit: Unit, top: f64, shape: Shape) {
    let base = top + NAME + STRIP;
    let bins = if shape == Shape::Wide { 320 } else { 150 };
    let counts = bin(&one.histogram, x, bins);
    let highest = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let (start, width) = (x.at(0.0), (canvas.width - 2.0 * x.at(0.0)) / bins as f64);
    let mut points = Vec::new();
    for (i, count) in counts.iter().enumerate().filter(|(i, _)| touches(&counts, *i)) {
        let (left, y) = (start + i as f64 * width, base - *count as f64 / highest * STRIP);
        points.extend([(left, y), (left + width, y)]);
    }
    if let (Some((first, _)), Some((last, _))) = (points.first().copied(), points.last().copied()) {
        points.extend([(last, base), (first, base)]);
    }
    canvas.area(&points, &one.class);
    canvas.line((start, base), (canvas.width - start, base), "grid");
    let d = &one.row.distribution;
    let p50 = d.p50.filter(|ns| ns.is_finite());
    if let Some(ns) = p50 {
        canvas.line((x.at(ns), top + NAME), (x.at(ns), base + 3.0), "mark");
    }
    canvas.text((0.0, top + 12.0), Anchor::Start, "label", &cut(one.name, shape.name_letters()));
    let values = format!("p50 {} · p99 {} {}", unit.time_or_missing(d.p50), unit.time_or_missing(d.p99), unit.name);
    canvas.text((canvas.width, top + 12.0), Anchor::End, "tick", &values);
}

/// Returns whether a bin or a neighbour of it holds anything: long empty stretches are not drawn point by point.
fn touches(counts: &[u64], i: usize) -> bool {
    counts[i.saturating_sub(1)..counts.len().min(i + 2)].iter().any(|count| *count > 0)
}

/// Samples per bin, the bins equally wide on the axis; what lies beyond the axis is in its last bin.
fn bin(histogram: &Histogram<u64>, x: &Scale, bins: usize) -> Vec<u64> {
    let mut counts = vec![0_u64; bins];
    let (start, span) = (x.at(0.0), x.at(f64::MAX) - x.at(0.0));
    for value in histogram.iter_recorded() {
        let share = (x.at(value.value_iterated_to() as f64) - start) / span;
        let i = ((share * bins as f64) as usize).min(bins - 1);
        counts[i] = counts[i].saturating_add(value.count_at_value());
    }
    counts
}
