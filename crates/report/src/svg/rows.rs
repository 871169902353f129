//! One distribution as a row: a dot at the median, bars to p90 and p99, and below one tick for each slice.

use super::canvas::{Anchor, Canvas};
use super::scale::Scale;
use crate::findings::quantity;
use crate::schema::{Distribution, Row};

/// Round trips that a slice needs for its median to be shown.
const SLICE_MIN: u64 = 20;

/// Most ticks of slices in a row; of more, evenly many are left out.
const SLICES_MAX: usize = 240;

/// Heights in a row, per cent: the bar and the slices.
const BAR: f64 = 38.0;
const SLICES: (f64, f64) = (73.0, 90.0);

/// What a row is among the others.
#[derive(Clone, Copy, Default)]
pub(crate) struct Marks {
    /// The lowest median of its panel.
    pub(crate) best: bool,
    /// A limit.
    pub(crate) limit: bool,
    /// Which of the baselines it is.
    pub(crate) baseline: Option<usize>,
}

/// The axis of several rows; none where nothing can be drawn.
pub(crate) fn scale<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Option<Scale> {
    Scale::fit_log(rows.into_iter().flat_map(times), 0.0, 100.0)
}

/// A slice further out than so many times the furthest percentile is drawn at the edge, and presses nothing else flat.
const FAR: f64 = 3.0;

fn times(row: &Row) -> Vec<f64> {
    let d = &row.distribution;
    let known = || [d.p50, d.p90, d.p99, d.p99_9].into_iter().flatten().filter(|ns| ns.is_finite());
    let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
    known().chain(slices(row).map(|p50| p50.clamp(low / FAR, f64::max(low / FAR, high * FAR)))).collect()
}

fn slices(row: &Row) -> impl Iterator<Item = f64> {
    let every = row.blocks.len().div_ceil(SLICES_MAX).max(1);
    row.blocks.iter().filter(|block| block.n >= SLICE_MIN).map(|block| block.p50).step_by(every)
}

/// The ticks of an axis above the rows.
pub(crate) fn head(x: &Scale) -> String {
    let mut canvas = Canvas::default();
    let mut label = String::from("Axis, logarithmic: ");
    for tick in x.ticks(super::axis::ACROSS) {
        let (place, text) = (x.at(tick), quantity::tick(tick));
        let anchor = if place < 8.0 {
            Anchor::Start
        } else if place > 92.0 {
            Anchor::End
        } else {
            Anchor::Middle
        };
        canvas.text((place, 70.0), (0.0, 0.0), anchor, "tick", &text);
        label += &format!("{text} ");
    }
    canvas.finish("axis", label.trim_end())
}

/// The drawing of one row. `baselines`: the medians of the paths that others are compared with, where these are in the panel.
pub(crate) fn row(row: &Row, class: &str, x: &Scale, marks: Marks, baselines: &[Option<f64>]) -> String {
    let mut canvas = Canvas::default();
    body(&mut canvas, row, class, x, marks, baselines);
    canvas.finish("row", &label(&row.distribution))
}

/// The elements of [`row`].
pub(crate) fn body(canvas: &mut Canvas, row: &Row, class: &str, x: &Scale, marks: Marks, baselines: &[Option<f64>]) {
    for tick in x.ticks(super::axis::ACROSS) {
        canvas.line((x.at(tick), 0.0), (x.at(tick), 100.0), "gl");
    }
    for (i, p50) in baselines.iter().enumerate() {
        if let Some(p50) = p50.filter(|p50| p50.is_finite()) {
            canvas.line((x.at(p50), 0.0), (x.at(p50), 100.0), &format!("against against-{i}"));
        }
    }
    for p50 in slices(row).filter(|p50| p50.is_finite()) {
        canvas.line((x.at(p50), SLICES.0), (x.at(p50), SLICES.1), &format!("slice {class}"));
    }
    let weight = if marks.best { "best" } else { "" };
    distribution(canvas, &row.distribution, (class, weight), x);
    if let Some(p50) = row.distribution.p50.filter(|p50| p50.is_finite()) {
        let kind =
            if marks.limit { " hollow".into() } else { marks.baseline.map(|i| format!(" of-{i}")).unwrap_or_default() };
        canvas.circle((x.at(p50), BAR), 5.0, &format!("dot {class}{kind}"));
    }
}

/// Bars from p50 to p90, to p99 and to p99.9, as far as they are known; an open end where they are not.
fn distribution(canvas: &mut Canvas, d: &Distribution, (class, weight): (&str, &str), x: &Scale) {
    let known = |time: Option<f64>| time.filter(|ns| ns.is_finite()).map(|ns| x.at(ns));
    let Some(p50) = known(d.p50) else { return };
    let mut end = p50;
    if let Some(p90) = known(d.p90) {
        canvas.rect((p50, BAR - 13.0), (p90, BAR + 13.0), &format!("bar {class} {weight}"));
        end = p90;
        if let Some(p99) = known(d.p99) {
            canvas.rect((p90, BAR - 6.5), (p99, BAR + 6.5), &format!("bar outer {class} {weight}"));
            end = p99;
            if let Some(last) = known(d.p99_9) {
                canvas.line((p99, BAR), (last, BAR), &format!("hair {class}"));
                canvas.mark((last, BAR), "M0 -4v8", &format!("hair {class}"));
            }
        }
    }
    if d.p99.is_none() {
        // The radius of the dot lies before it where nothing but the median is known.
        let dx = if d.p90.is_none() { 8.0 } else { 3.0 };
        canvas.text((end, BAR), (dx, 4.0), Anchor::Start, &format!("open {class}"), "››");
    }
}

/// The figures in words.
pub(crate) fn label(d: &Distribution) -> String {
    let known = [("p50", d.p50), ("p90", d.p90), ("p99", d.p99), ("p99.9", d.p99_9)];
    let told: Vec<String> =
        known.iter().filter_map(|(name, time)| Some(format!("{name} {}", quantity::precise((*time)?)))).collect();
    let unknown = if d.p99.is_none() { "; too few samples for more" } else { "" };
    if told.is_empty() {
        "No percentile is known: too few samples".into()
    } else {
        format!("{}{unknown}", told.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn only_what_was_measured_is_drawn() {
        let mut one = sample::document().results[4].clone();
        let x = scale([&one]).unwrap();
        let draw = |one: &Row| row(one, "f-spin", &x, Marks::default(), &[]);
        let whole = draw(&one);
        assert_eq!((whole.matches("class=\"bar").count(), whole.matches("class=\"slice").count()), (2, 8));
        assert!(whole.contains("hair") && !whole.contains("››"));
        (one.distribution.p99, one.distribution.p99_9, one.distribution.p99_99) = (None, None, None);
        let short = draw(&one);
        assert_eq!(
            (short.matches("class=\"bar").count(), short.contains("hair"), short.contains("››")),
            (1, false, true)
        );
        assert!(short.contains("too few samples for more") && !short.contains("n/a"));
        one.distribution.p90 = None;
        assert_eq!(draw(&one).matches("class=\"bar").count(), 0);
        one.blocks.iter_mut().for_each(|block| block.n = 19);
        assert!(!draw(&one).contains("slice"));
        one.distribution.p50 = None;
        assert!(!draw(&one).contains("circle") && draw(&one).contains("No percentile is known"));
    }

    #[test]
    fn a_row_of_many_slices_stays_small() {
        let mut one = sample::document().results[4].clone();
        one.blocks = one.blocks.iter().cycle().take(100_000).cloned().collect();
        let x = scale([&one]).unwrap();
        assert!(row(&one, "f-spin", &x, Marks::default(), &[]).matches("class=\"slice").count() <= SLICES_MAX);
    }
}
