//! Percentiles as curves: each further nine of the tail takes as much room as the one before.

use super::axis::{self, EndName};
use super::canvas::Canvas;
use super::scale::Scale;
use crate::findings::curve::{self, Point, at};
use crate::findings::quantity;

/// A curve with its name and class.
pub(crate) struct Curve {
    /// Its name.
    pub(crate) name: String,
    /// The class of its family, and what it is among the others.
    pub(crate) class: String,
    /// Its points.
    pub(crate) points: Vec<Point>,
}

/// Both axes, shared by the charts of a section.
pub(crate) struct Axes {
    x: Scale,
    y: Scale,
}

/// Strips that tell their values.
const PROBES: u32 = 32;

/// Shares beyond a percentile with their names.
const TICKS: [(f64, &str); 6] =
    [(0.5, "p50"), (0.1, "p90"), (0.01, "p99"), (0.001, "p99.9"), (0.000_1, "p99.99"), (0.000_01, "p99.999")];

/// The axes for `curves`; none where nothing can be drawn.
pub(crate) fn axes(curves: &[&Curve]) -> Option<Axes> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let nines = points().map(|(beyond, _)| nines(*beyond)).fold(0.0, f64::max);
    let y = Scale::fit_log(points().map(|(_, ns)| *ns), 100.0, 0.0)?;
    let first = nines_of_median();
    (nines > first).then(|| Axes { x: Scale::exact(first, nines, 0.0, 100.0), y })
}

fn nines(beyond: f64) -> f64 {
    -beyond.log10()
}

fn nines_of_median() -> f64 {
    nines(0.5)
}

/// The chart of `curves`, the last on top.
pub(crate) fn chart(curves: &[Curve], axes: &Axes, title: &str) -> String {
    let mut canvas = Canvas::default();
    let Axes { x, y } = axes;
    axis::up_times(&mut canvas, y);
    let shown = TICKS.iter().filter(|(beyond, _)| nines(*beyond) <= x.value_at(1.0) + 1e-9);
    let places: Vec<_> = shown.map(|(beyond, name)| (x.at(nines(*beyond)), (*name).to_owned())).collect();
    for (place, _) in &places {
        canvas.line((*place, 0.0), (*place, 100.0), "gl");
    }
    axis::across(&mut canvas, &places);
    let mut names = Vec::new();
    for curve in curves {
        let places: Vec<_> = curve.points.iter().map(|(beyond, ns)| (x.at(nines(*beyond)), y.at(*ns))).collect();
        let (Some(first), Some(last)) = (places.first(), places.last()) else { continue };
        canvas.curve(&places, &curve.class);
        canvas.circle(*first, 2.5, &format!("dot {}", curve.class));
        canvas.circle(*last, 2.5, &format!("dot {}", curve.class));
        names.push(EndName { end: *last, name: curve.name.clone(), class: curve.class.clone() });
    }
    axis::end_names(&mut canvas, names, axis::Height::Tall);
    probes(&mut canvas, curves, x);
    canvas.finish("plot tall", &label(curves, title))
}

fn probes(canvas: &mut Canvas, curves: &[Curve], x: &Scale) {
    let width = 100.0 / f64::from(PROBES);
    for i in 0..PROBES {
        let from = f64::from(i) * width;
        let beyond = 10_f64.powf(-x.value_at((from + width / 2.0) / 100.0));
        let mut values: Vec<(f64, &str)> =
            curves.iter().filter_map(|curve| Some((at(&curve.points, beyond)?, curve.name.as_str()))).collect();
        values.sort_by(|a, b| b.0.total_cmp(&a.0));
        let told: Vec<String> = values.iter().map(|(ns, name)| format!("{} {name}", quantity::precise(*ns))).collect();
        if !told.is_empty() {
            canvas.probe((from, from + width), &format!("{}\n{}", curve::name(beyond), told.join("\n")));
        }
    }
}

fn label(curves: &[Curve], title: &str) -> String {
    let told = curves.iter().filter_map(|curve| {
        let (first, last) = (curve.points.first()?, curve.points.last()?);
        let (from, to) = (quantity::brief(first.1), quantity::brief(last.1));
        Some(format!("{} from {from} at p50 to {to} at {}", curve.name, curve::name(last.0)))
    });
    format!("Percentiles, {title}: {}", told.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::curve::curve;
    use crate::sample;

    #[test]
    fn each_curve_ends_with_its_name() {
        let document = sample::document();
        let curves: Vec<Curve> = document.results[..3]
            .iter()
            .map(|row| Curve { name: row.path.clone(), class: "f-kernel".into(), points: curve(row) })
            .collect();
        let axes = axes(&curves.iter().collect::<Vec<_>>()).unwrap();
        let drawn = chart(&curves, &axes, "TCP");
        assert_eq!((drawn.matches("class=\"curve").count(), drawn.matches("class=\"end").count()), (3, 3));
        assert!(drawn.contains("p99.9") && drawn.contains("kernel-pinned from"));
        assert!(super::axes(&[&Curve { name: "x".into(), class: String::new(), points: Vec::new() }]).is_none());
    }
}
