//! The slowest samples: over the run, and the worst of them with what was in their time.

use super::axis;
use super::canvas::Canvas;
use super::scale::Scale;
use crate::findings::quantity;
use crate::number;
use crate::schema::{Causes, Outlier, OutlierEvent};

/// The kinds of causes in the order of a key, with their classes.
pub(crate) const CLASSES: [(&str, &str); 6] =
    [("interrupt", "k0"), ("softirq", "k1"), ("task", "k2"), ("idle", "k3"), ("event", "k4"), ("unknown", "k5")];

fn class(name: &str) -> &'static str {
    CLASSES.iter().find(|(known, _)| *known == name).map_or("k5", |(_, class)| class)
}

/// The samples over the run, each in the colour of its cause; none where there is nothing to draw.
pub(crate) fn timeline(causes: &Causes, title: &str) -> Option<String> {
    let is_drawn = |one: &&Outlier| one.ns.is_finite() && one.at_ms.is_finite() && one.at_ms >= 0.0;
    let drawn: Vec<&Outlier> = causes.outliers.iter().filter(is_drawn).collect();
    let last = drawn.iter().map(|one| one.at_ms).fold(0.0, f64::max);
    let x = Scale::exact(0.0, last / 1e3, 1.0, 99.0);
    let y = Scale::fit(drawn.iter().map(|one| one.ns), 100.0, 2.0)?;
    let mut canvas = Canvas::default();
    axis::up_times(&mut canvas, &y);
    let places: Vec<_> =
        x.ticks(axis::ACROSS).into_iter().map(|tick| (x.at(tick), format!("{} s", number::short(tick)))).collect();
    axis::across(&mut canvas, &places);
    // The slowest are drawn last, on top.
    for one in drawn.iter().rev() {
        canvas.circle((x.at(one.at_ms / 1e3), y.at(one.ns)), 3.6, &format!("dot {}", class(&one.class)));
    }
    let slowest = drawn.iter().map(|one| one.ns).fold(0.0, f64::max);
    let label = format!(
        "The {} slowest samples over the run by cause, {title}; the slowest {}",
        drawn.len(),
        quantity::brief(slowest)
    );
    Some(canvas.finish("plot", &label))
}

/// A worst sample with its events.
pub(crate) struct Strip {
    /// How long it took.
    pub(crate) time: String,
    /// Its cause, and the kind of that.
    pub(crate) cause: String,
    pub(crate) kind: String,
    /// What was in its time.
    pub(crate) drawing: String,
}

/// The worst samples with what was in their time; empty where nothing is known.
pub(crate) fn worst(causes: &Causes) -> Vec<Strip> {
    let is_drawn = |one: &&Outlier| !one.events.is_empty() && one.ns.is_finite() && one.ns > 0.0;
    causes.outliers.iter().filter(is_drawn).map(strip).collect()
}

fn strip(one: &Outlier) -> Strip {
    let mut canvas = Canvas::default();
    let x = Scale::exact(0.0, one.ns, 0.0, 100.0);
    canvas.line((0.0, 50.0), (100.0, 50.0), "bl");
    let is_drawn = |event: &&OutlierEvent| event.from_ns.is_finite() && event.ns.is_finite();
    for event in one.events.iter().filter(is_drawn) {
        let (from, to) = (x.at(event.from_ns), x.at(event.from_ns + event.ns));
        let class = class(&event.class);
        match event.ns > 0.0 {
            true => canvas.rect((from, 15.0), (to.max(from + 0.3), 85.0), &format!("bar {class}")),
            false => canvas.circle((from, 50.0), 3.0, &format!("dot hollow {class}")),
        }
    }
    let told: Vec<String> =
        one.events.iter().map(|event| format!("{} {}", event.what, quantity::brief(event.ns))).collect();
    let time = quantity::precise(one.ns);
    let drawing = canvas.finish("row", &format!("{time}, {}: {}", one.cause, told.join(", ")));
    Strip { time, cause: one.cause.clone(), kind: one.class.clone(), drawing }
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
        assert!(timeline(&causes, "").is_none() && worst(&causes).is_empty());
        causes.outliers = vec![outlier(f64::NAN, Vec::new()), outlier(0.0, vec![OutlierEvent::default()])];
        assert!(timeline(&causes, "").is_none() && worst(&causes).is_empty());
    }

    #[test]
    fn each_sample_has_its_mark_and_each_event_its_place() {
        let event = |from_ns, ns| OutlierEvent { class: "interrupt".into(), from_ns, ns, ..OutlierEvent::default() };
        let events = vec![event(10.0, 50.0), event(70.0, 0.0), event(f64::NAN, 1.0)];
        let causes = Causes { outliers: vec![outlier(100.0, events), outlier(90.0, Vec::new())], ..Causes::default() };
        let drawn = timeline(&causes, "xdp").unwrap();
        assert_eq!(drawn.matches("dot k2").count(), 2);
        let worst = worst(&causes);
        assert_eq!((worst.len(), worst[0].cause.as_str()), (1, "kworker"));
        let drawn = &worst[0].drawing;
        assert_eq!((drawn.matches("bar k0").count(), drawn.matches("hollow k0").count()), (1, 1));
    }
}
