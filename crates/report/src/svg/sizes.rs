//! Latency by message size: the median as a line, up to the 99th percentile as a band.

use super::Shape;
use super::axis::{self, Plot};
use super::canvas::Canvas;
use super::palette::Palette;
use super::scale::Scale;
use crate::schema::Row;
use crate::tables::latency;
use crate::view::{self, Group};

/// The chart of the rows of one transport; none where nothing can be drawn.
pub(crate) fn chart(group: &Group<'_>, palette: &Palette, measure: &str, shape: Shape) -> Option<String> {
    let plot = Plot::of(shape);
    let times = group.rows.iter().flat_map(|row| [row.distribution.p50, row.distribution.p99]).flatten();
    let y = Scale::fit(times, plot.bottom, plot.top)?;
    let mut sizes: Vec<u32> = group.rows.iter().map(|row| row.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let x = Scale::fit_log(sizes.iter().map(|size| f64::from(*size)), plot.left, plot.right)?;

    let mut canvas = Canvas::new(shape.width(), shape.height());
    axis::vertical_times(&mut canvas, plot, &y, latency::unit(&group.rows), measure);
    let places: Vec<_> = sizes.iter().map(|size| (x.at(f64::from(*size)), size.to_string())).collect();
    axis::horizontal(&mut canvas, plot, &places, "message size, bytes (log scale)");
    for curve in view::by_curve(&group.rows) {
        draw(&mut canvas, &curve.rows, &x, &y, &palette.class(view::label(curve.rows[0])));
    }
    Some(canvas.finish(shape, &format!("Latency by message size, {}", group.heading)))
}

fn draw(canvas: &mut Canvas, rows: &[&Row], x: &Scale, y: &Scale, class: &str) {
    let mut points: Vec<_> = rows
        .iter()
        .filter_map(|row| Some((x.at(f64::from(row.size)), row.distribution.p50?, row.distribution.p99)))
        .filter(|(_, p50, _)| p50.is_finite())
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let medians: Vec<_> = points.iter().map(|(x, p50, _)| (*x, y.at(*p50))).collect();
    let mut band: Vec<_> =
        points.iter().filter_map(|(x, _, p99)| Some((*x, y.at((*p99)?)))).filter(|(_, y)| y.is_finite()).collect();
    band.extend(medians.iter().rev());
    canvas.area(&band, &format!("band {class}"));
    canvas.curve(&medians, class);
    for point in medians {
        canvas.circle(point, 3.0, &format!("dot {class}"));
    }
}
