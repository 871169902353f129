//! The slowest samples: over the run, and the worst of them with what was in their time.

use super::axis::{self, Plot};
use super::canvas::{Anchor, Canvas};
use super::scale::Scale;
use super::{Shape, cut};
use crate::number::{self, Unit};
use crate::schema::{Causes, Outlier, OutlierEvent};

/// The kinds of causes in the order of the legend, with the colours of the charts.
pub(crate) const CLASSES: [(&str, &str); 6] =
    [("interrupt", "c0"), ("softirq", "c2"), ("task", "c1"), ("idle", "c4"), ("event", "c3"), ("unknown", "c7")];

/// Height of a strip, its text above it included, and of the strip itself.
const STRIP: f64 = 40.0;
const BAR: f64 = 14.0;

fn class(name: &str) -> &'static str {
    CLASSES.iter().find(|(known, _)| *known == name).map_or("c7", |(_, class)| class)
}

/// The samples over the run, each in the colour of its cause; none where there is nothing to draw.
pub(crate) fn timeline(causes: &Causes, shape: Shape) -> Option<String> {
    let plot = Plot::of(shape);
    let is_drawn = |one: &&Outlier| one.ns.is_finite() && one.at_ms.is_finite() && one.at_ms >= 0.0;
    let drawn: Vec<&Outlier> = causes.outliers.iter().filter(is_drawn).collect();
    let last = drawn.iter().map(|one| one.at_ms).fold(0.0, f64::max);
    let x = Scale::exact(0.0, last / 1e3, plot.left, plot.right);
    let y = Scale::fit(drawn.iter().map(|one| one.ns), plot.bottom, plot.top)?;
    let mut canvas = Canvas::new(shape.width(), shape.height());
    axis::vertical_times(&mut canvas, plot, &y, Unit::for_times(drawn.iter().map(|one| one.ns)), "round trip");
    axis::horizontal(&mut canvas, plot, &axis::places(&x, 60.0, number::short), "seconds since observing began");
    // The slowest are drawn last, on top.
    for one in drawn.iter().rev() {
        canvas.circle((x.at(one.at_ms / 1e3), y.at(one.ns)), 4.0, &format!("dot {}", class(&one.class)));
    }
    Some(canvas.finish(shape, "The slowest samples over the run, by cause"))
}

/// The worst samples, one strip each, with what was in their time; none where nothing is known.
pub(crate) fn worst(causes: &Causes, shape: Shape) -> Option<String> {
    let is_drawn = |one: &&Outlier| !one.events.is_empty() && one.ns.is_finite() && one.ns > 0.0;
    let drawn: Vec<&Outlier> = causes.outliers.iter().filter(is_drawn).collect();
    if drawn.is_empty() {
        return None;
    }
    let mut canvas = Canvas::new(shape.width(), 4.0 + STRIP * drawn.len() as f64);
    for (place, one) in drawn.iter().enumerate() {
        strip(&mut canvas, one, STRIP * place as f64, shape);
    }
    Some(canvas.finish(shape, "The worst samples and what was in their time"))
}

fn strip(canvas: &mut Canvas, one: &Outlier, top: f64, shape: Shape) {
    let (left, right) = (1.0, canvas.width - 1.0);
    let (text, bar) = (top + 14.0, top + 20.0);
    let x = Scale::exact(0.0, one.ns, left, right);
    canvas.text((left, text), Anchor::Start, "label", &number::time(one.ns));
    let cause = cut(&one.cause, 2 * shape.name_letters());
    canvas.text((right, text), Anchor::End, "tick", &cause);
    canvas.line((left, bar + BAR / 2.0), (right, bar + BAR / 2.0), "base");
    let is_drawn = |event: &&OutlierEvent| event.from_ns.is_finite() && event.ns.is_finite();
    for event in one.events.iter().filter(is_drawn) {
        let (from, to) = (x.at(event.from_ns), x.at(event.from_ns + event.ns));
        let class = class(&event.class);
        match event.ns > 0.0 {
            true => canvas.rect((from, bar), ((to - from).max(1.0), BAR), &format!("bar {class}")),
            false => canvas.circle((from, bar + BAR / 2.0), 3.0, &format!("ring {class}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlier(ns: f64, events: Vec<OutlierEvent>) -> Outlier {
        Outlier { ns, at_ms: 5.0, class: "task".into(), cause: "kworker".into(), events }
    }

    #[test]
    fn nothing_to_draw_is_no_chart() {
        let mut causes = Causes::default();
        assert!(timeline(&causes, Shape::Wide).is_none() && worst(&causes, Shape::Wide).is_none());
        causes.outliers = vec![outlier(f64::NAN, Vec::new()), outlier(0.0, vec![OutlierEvent::default()])];
        assert!(timeline(&causes, Shape::Narrow).is_none() && worst(&causes, Shape::Narrow).is_none());
    }

    #[test]
    fn each_sample_has_its_mark_and_each_event_its_place() {
        let event = |from_ns, ns| OutlierEvent { class: "interrupt".into(), from_ns, ns, ..OutlierEvent::default() };
        let events = vec![event(10.0, 50.0), event(70.0, 0.0), event(f64::NAN, 1.0)];
        let causes = Causes { outliers: vec![outlier(100.0, events), outlier(90.0, Vec::new())], ..Causes::default() };
        let drawn = timeline(&causes, Shape::Wide).unwrap();
        assert_eq!(drawn.matches("dot c1").count(), 2);
        let drawn = worst(&causes, Shape::Wide).unwrap();
        assert_eq!((drawn.matches("bar c0").count(), drawn.matches("ring c0").count()), (1, 1));
        assert!(drawn.contains("kworker"));
    }
}
