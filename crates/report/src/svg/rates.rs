//! Charts of a rate sweep: achieved rate and latency per offered rate.

use super::Shape;
use super::axis::{self, Plot};
use super::canvas::Canvas;
use super::palette::Palette;
use super::scale::Scale;
use crate::number;
use crate::schema::Row;
use crate::tables::latency;
use crate::view::{self, Group};

/// A point of a curve: offered rate, and what the curve shows.
type Point = (f64, f64);

/// Achieved rate against offered rate; none where nothing can be drawn.
pub(crate) fn achieved(group: &Group<'_>, palette: &Palette, shape: Shape) -> Option<String> {
    let plot = Plot::of(shape);
    let rates = |row: &&Row| [row.rate_offered, row.rate_achieved];
    let y = Scale::fit(group.rows.iter().flat_map(rates).flatten(), plot.bottom, plot.top)?;
    let (mut canvas, x) = frame(group, plot, shape)?;
    axis::vertical(&mut canvas, plot, &y, number::short, "messages per second that arrived");
    let diagonal: Vec<_> = (0..=20).map(|i| x.value_at(f64::from(i) / 20.0)).map(|v| (x.at(v), y.at(v))).collect();
    canvas.curve(&diagonal, "ideal");
    for curve in view::by_curve(&group.rows) {
        let class = palette.class(view::label(curve.rows[0]));
        draw(&mut canvas, points(&curve.rows, |row| row.rate_achieved), &x, &y, &class, "dot");
    }
    Some(canvas.finish(shape, &format!("Achieved against offered rate, {}", group.heading)))
}

/// p50 and p99 against offered rate; none where nothing can be drawn. `knee` gives the rate at which a curve has its knee.
pub(crate) fn latency(
    group: &Group<'_>,
    palette: &Palette,
    measure: &str,
    knee: fn(&[&Row]) -> Option<f64>,
    shape: Shape,
) -> Option<String> {
    let plot = Plot::of(shape);
    let times = group.rows.iter().flat_map(|row| [row.distribution.p50, row.distribution.p99]).flatten();
    let y = Scale::fit(times, plot.bottom, plot.top)?;
    let (mut canvas, x) = frame(group, plot, shape)?;
    let name = format!("{measure} from due time");
    axis::vertical_times(&mut canvas, plot, &y, latency::unit(&group.rows), &name);
    for curve in view::by_curve(&group.rows) {
        let class = palette.class(view::label(curve.rows[0]));
        if let Some(rate) = knee(&curve.rows) {
            canvas.curve(&[(x.at(rate), plot.bottom), (x.at(rate), plot.top)], &format!("knee {class}"));
        }
        draw(&mut canvas, points(&curve.rows, |row| row.distribution.p99), &x, &y, &format!("thin {class}"), "ring");
        draw(&mut canvas, points(&curve.rows, |row| row.distribution.p50), &x, &y, &class, "dot");
    }
    Some(canvas.finish(shape, &format!("Latency against offered rate, {}", group.heading)))
}

fn frame(group: &Group<'_>, plot: Plot, shape: Shape) -> Option<(Canvas, Scale)> {
    let x = Scale::fit(group.rows.iter().filter_map(|row| row.rate_offered), plot.left, plot.right)?;
    let mut canvas = Canvas::new(shape.width(), shape.height());
    let name = format!("messages per second offered{}", if x.log { " (log scale)" } else { "" });
    axis::horizontal(&mut canvas, plot, &axis::places(&x, 60.0, number::short), &name);
    Some((canvas, x))
}

/// The points of one curve, from the lowest offered rate to the highest.
fn points(rows: &[&Row], of: impl Fn(&Row) -> Option<f64>) -> Vec<Point> {
    let both = rows.iter().filter_map(|row| Some((row.rate_offered?, of(row)?)));
    let mut points: Vec<_> = both.filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn draw(canvas: &mut Canvas, points: Vec<Point>, x: &Scale, y: &Scale, class: &str, mark: &str) {
    let places: Vec<_> = points.into_iter().map(|(offered, value)| (x.at(offered), y.at(value))).collect();
    canvas.curve(&places, class);
    for place in places {
        canvas.circle(place, 3.0, &format!("{mark} {class}"));
    }
}
