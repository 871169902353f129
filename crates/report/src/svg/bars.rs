//! One bar per row from p50 to p99, its hair from the minimum to the last percentile that has enough samples.

use super::axis::{self, Plot};
use super::canvas::{Anchor, Canvas};
use super::palette::Palette;
use super::scale::Scale;
use super::{Shape, cut};
use crate::number::{self, Unit};
use crate::schema::Row;
use crate::tables::latency;
use crate::view;

/// Height of a group's heading.
const HEADING: f64 = 26.0;

/// The layout of a chart of one shape.
struct Layout {
    /// The plot; its top and bottom enclose all bars.
    plot: Plot,
    /// Height of one row.
    row: f64,
    /// From the top of a row to the middle of its bar.
    bar: f64,
    /// Set if names and numbers stand beside the bar, not above it.
    beside: bool,
}

/// The chart of `rows`; none where nothing can be drawn.
pub(crate) fn chart(rows: &[&Row], palette: &Palette, shape: Shape) -> Option<String> {
    let canvas = draw(rows, palette, shape)?;
    let names: Vec<_> = rows.iter().map(|row| view::label(row)).collect();
    Some(canvas.finish(shape, &format!("p50 to p99 of {}", names.join(", "))))
}

/// The drawing, for a page or for a picture of its own.
pub(crate) fn draw(rows: &[&Row], palette: &Palette, shape: Shape) -> Option<Canvas> {
    let groups = view::by_circumstance(rows);
    let layout = Layout::of(shape, rows.len(), groups.len());
    let plot = layout.plot;
    let times = rows.iter().flat_map(|row| ends(row)).flatten();
    let x = Scale::fit(times, plot.left, plot.right)?;
    let unit = latency::unit(rows);
    let mut canvas = Canvas::new(shape.width(), plot.bottom + 44.0);
    let places = axis::places(&x, 60.0, |tick| number::short(tick / unit.ns));
    for (place, _) in &places {
        canvas.line((*place, plot.top), (*place, plot.bottom), "grid");
    }
    let mut top = plot.top;
    for group in groups {
        canvas.text((0.0, top + 17.0), Anchor::Start, "heading", &cut(&group.heading, 46));
        top += HEADING;
        for row in group.rows {
            draw_row(&mut canvas, row, &palette.class(view::label(row)), &x, unit, (&layout, top, shape));
            top += layout.row;
        }
    }
    let name = format!("{}{}", unit.name, if x.log { " (log scale)" } else { "" });
    axis::horizontal(&mut canvas, plot, &places, &name);
    Some(canvas)
}

impl Layout {
    fn of(shape: Shape, rows: usize, groups: usize) -> Self {
        let beside = shape == Shape::Wide;
        let (row, bar, left, right) = if beside { (26.0, 13.0, 176.0, 176.0) } else { (38.0, 27.0, 6.0, 6.0) };
        let bottom = 2.0 + rows as f64 * row + groups as f64 * HEADING + 6.0;
        let plot = Plot { left, right: shape.width() - right, top: 2.0, bottom };
        Self { plot, row, bar, beside }
    }
}

/// The ends of the hair: the minimum and the last percentile that has enough samples.
fn ends(row: &Row) -> [Option<f64>; 2] {
    let d = &row.distribution;
    [d.min.or(d.p50), d.p99_99.or(d.p99_9).or(d.p99).or(d.p50)]
}

fn draw_row(
    canvas: &mut Canvas,
    row: &Row,
    class: &str,
    x: &Scale,
    unit: Unit,
    (layout, top, shape): (&Layout, f64, Shape),
) {
    let d = &row.distribution;
    let middle = top + layout.bar;
    let finite = |value: Option<f64>| value.filter(|ns| ns.is_finite()).map(|ns| x.at(ns));
    let (p50, p99) = (finite(d.p50), finite(d.p99));
    if let [Some(min), Some(last)] = ends(row).map(finite) {
        canvas.line((min, middle), (last, middle), &format!("hair {class}"));
    }
    if let (Some(p50), Some(p99)) = (p50, p99) {
        canvas.rect((p50, middle - 5.0), ((p99 - p50).max(1.0), 10.0), &format!("bar {class}"));
    }
    if let Some(p50) = p50 {
        canvas.circle((p50, middle), 5.0, &format!("dot {class}"));
    }
    let name = cut(view::label(row), shape.name_letters());
    let values = format!("{} to {} {}", unit.time_or_missing(d.p50), unit.time_or_missing(d.p99), unit.name);
    let base = if layout.beside { middle + 4.0 } else { top + 14.0 };
    canvas.text((0.0, base), Anchor::Start, "label", &name);
    canvas.text((canvas.width, base), Anchor::End, "tick", &values);
}
