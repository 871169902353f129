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
        .map(|(x, p50, p99)| Point { x, p50: y.at(p50), p99: p99.map(|p99| y.at(p99)).filter(|y| y.is_finite()) })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    for band in bands(&points) {
        canvas.area(&band, &format!("band {class}"));
    }
    let medians: Vec<_> = points.iter().map(|point| (point.x, point.p50)).collect();
    canvas.curve(&medians, class);
    for point in medians {
        canvas.circle(point, 3.0, &format!("dot {class}"));
    }
}

/// A size of a curve, on the canvas.
struct Point {
    x: f64,
    p50: f64,
    p99: Option<f64>,
}

/// Outlines of the bands: one for each run of neighbouring sizes that were sampled often enough for a p99.
fn bands(points: &[Point]) -> Vec<Vec<(f64, f64)>> {
    let runs = points.chunk_by(|one, other| one.p99.is_some() == other.p99.is_some()).filter(|run| run.len() > 1);
    let outline = |run: &[Point]| {
        let upper: Option<Vec<_>> = run.iter().map(|point| Some((point.x, point.p99?))).collect();
        let lower = run.iter().rev().map(|point| (point.x, point.p50));
        upper.map(|upper| upper.into_iter().chain(lower).collect())
    };
    runs.filter_map(outline).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_is_drawn_only_where_there_is_a_p99() {
        let point = |x: f64, p99| Point { x, p50: 10.0, p99 };
        let some = [Some(5.0), Some(4.0), None, Some(3.0), None, None];
        let points: Vec<_> = some.into_iter().zip(0u8..).map(|(p99, x)| point(x.into(), p99)).collect();
        assert_eq!(bands(&points), [vec![(0.0, 5.0), (1.0, 4.0), (1.0, 10.0), (0.0, 10.0)]]);
        assert!(bands(&points[4..]).is_empty());
    }
}
