//! Points over a message size or a rate: medians as lines or dots, what is beyond them as far as it is known.

use super::axis::{self, EndName, Height};
use super::canvas::{Canvas, Place};
use super::class;
use super::scale::Scale;
use crate::findings::family::{self, Family};
use crate::findings::load::is_late;
use crate::findings::panels::median;
use crate::findings::quantity;
use crate::knee;
use crate::schema::{Document, Row};
use crate::view::{Group, label, rates};

/// Pixels between the points of neighbouring curves at one rate.
const APART: f64 = 7.0;

/// Most names beside a flat chart.
const NAMES_MAX: usize = 5;

/// The curves of one chart with their families.
pub(crate) struct Curves<'a> {
    /// Rows of one path, from the smallest to the largest.
    curves: Vec<(&'a str, Family, Vec<&'a Row>)>,
}

impl<'a> Curves<'a> {
    /// The curves of `groups`, ordered by `key`.
    pub(crate) fn new(document: &Document, groups: &[Group<'a>], key: fn(&Row) -> f64) -> Self {
        let sorted = |group: &Group<'a>| {
            let mut rows = group.rows.clone();
            rows.sort_by(|a, b| key(a).total_cmp(&key(b)));
            (label(rows[0]), family::of(document, rows[0]), rows)
        };
        Self { curves: groups.iter().map(sorted).collect() }
    }

    fn rows(&self) -> impl Iterator<Item = &'a Row> {
        self.curves.iter().flat_map(|(.., rows)| rows.iter().copied())
    }

    /// Class of the `i`-th curve: its family, and a dash where the family has come before.
    fn class(&self, i: usize) -> String {
        let family = self.curves[i].1;
        let before = self.curves[..i].iter().filter(|(_, other, _)| *other == family).count();
        format!("{} d{}", class(family), before % 4)
    }
}

/// Medians by message size with their 95 % intervals, and p99 where it is known; none where nothing can be drawn.
pub(crate) fn sizes(curves: &Curves<'_>, title: &str) -> Option<String> {
    let x = Scale::fit_log(curves.rows().map(|row| f64::from(row.size)), 2.0, 98.0)?;
    let times = |row: &Row| [row.distribution.p50, row.distribution.p99, row.distribution.ci95.p50.map(|ci| ci[1])];
    let y = Scale::fit(curves.rows().flat_map(times).flatten(), 100.0, 0.0)?;
    let mut canvas = Canvas::default();
    axis::up_times(&mut canvas, &y);
    let mut sizes: Vec<u32> = curves.rows().map(|row| row.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let places: Vec<_> = sizes.iter().map(|size| (x.at(f64::from(*size)), quantity::whole(f64::from(*size)))).collect();
    axis::across(&mut canvas, &places);
    let (mut names, mut told) = (Vec::new(), Vec::new());
    for (i, (name, _, rows)) in curves.curves.iter().enumerate() {
        let class = curves.class(i);
        let at =
            |row: &Row, time: Option<f64>| Some((x.at(f64::from(row.size)), y.at(time.filter(|ns| ns.is_finite())?)));
        for run in known_runs(rows) {
            let side =
                |end: usize| run.iter().filter_map(move |row| at(row, row.distribution.ci95.p50.map(|ci| ci[end])));
            let outline: Vec<Place> = side(1).chain(side(0).collect::<Vec<_>>().into_iter().rev()).collect();
            canvas.area(&outline, &class);
        }
        let medians: Vec<Place> = rows.iter().filter_map(|row| at(row, row.distribution.p50)).collect();
        canvas.curve(&medians, &class);
        rows.iter().for_each(|row| {
            at(row, row.distribution.p99)
                .into_iter()
                .for_each(|place| canvas.circle(place, 3.0, &format!("dot hollow {class}")));
            at(row, row.distribution.p50)
                .into_iter()
                .for_each(|place| canvas.circle(place, 3.0, &format!("dot {class}")));
        });
        let last = rows.iter().rev().find_map(|row| Some((at(row, row.distribution.p50)?, median(row)?)));
        if let Some((end, p50)) = last {
            names.push(EndName { end, name: (*name).to_owned(), class });
            let first = rows.iter().find_map(|row| median(row)).unwrap_or(p50);
            told.push(format!("{name} {} to {}", quantity::brief(first), quantity::brief(p50)));
        }
    }
    axis::end_names(&mut canvas, names, Height::Usual);
    probes(&mut canvas, curves, &x, |row| f64::from(row.size), |size| format!("{} B", quantity::whole(size)));
    Some(canvas.finish("plot", &format!("Median by message size, {title}: {}", told.join("; "))))
}

/// Neighbouring rows that have an interval.
fn known_runs<'a, 'r>(rows: &'r [&'a Row]) -> impl Iterator<Item = &'r [&'a Row]> {
    let known = |row: &Row| row.distribution.ci95.p50.is_some_and(|ci| ci.iter().all(|end| end.is_finite()));
    rows.chunk_by(move |one, other| known(one) == known(other)).filter(move |run| known(run[0]) && run.len() > 1)
}

/// The share of what was asked for that arrived, by rate; none where nothing can be drawn.
pub(crate) fn arrived(curves: &Curves<'_>, title: &str) -> Option<String> {
    let x = rate_scale(curves)?;
    let share =
        |row: &Row| Some((row.rate_achieved? / row.rate_offered?).clamp(0.0, 1.0)).filter(|share| share.is_finite());
    let y = Scale::exact(0.0, 1.0, 100.0, 4.0);
    let mut canvas = Canvas::default();
    for part in [0.0, 0.5, 1.0] {
        axis::up(&mut canvas, y.at(part), &quantity::part(part));
    }
    axis::across(&mut canvas, &rate_places(curves, &x));
    let (mut names, mut told) = (Vec::new(), Vec::new());
    for (i, (name, _, rows)) in curves.curves.iter().enumerate() {
        let class = curves.class(i);
        let point = |row: &&Row| Some((x.at(row.rate_offered?), y.at(share(row)?)));
        let places: Vec<Place> = rows.iter().filter_map(point).collect();
        canvas.curve(&places, &class);
        for row in rows {
            let Some(place) = point(row) else { continue };
            let lost = row.rate.as_ref().and_then(rates::loss).unwrap_or(0.0);
            canvas.circle(place, 3.0, &format!("dot {class}{}", if lost > 0.0 { " lost" } else { "" }));
        }
        if let (Some(end), Some(row)) = (places.last(), rows.last()) {
            names.push(EndName { end: *end, name: (*name).to_owned(), class });
            let arrived = share(row).map(quantity::part).unwrap_or_default();
            told.push(format!("{name} {arrived} at {}/s", quantity::per_second(row.rate_offered.unwrap_or_default())));
        }
    }
    // The chart below has the names; here they would stand upon each other.
    if names.len() <= NAMES_MAX {
        axis::end_names(&mut canvas, names, Height::Flat);
    }
    rate_probes(&mut canvas, curves, &x);
    Some(canvas.finish("plot flat", &format!("Share that arrived by rate, {title}: {}", told.join("; "))))
}

/// Latency from the due time, by rate: a dot at p50, bars to p90 and p99, a dash at the median lateness of the sender; the knee of a
/// curve as a line. None where nothing can be drawn.
pub(crate) fn latency(curves: &Curves<'_>, title: &str) -> Option<String> {
    let x = rate_scale(curves)?;
    let times = |row: &Row| [row.distribution.p50, row.distribution.p90, row.distribution.p99];
    let y = Scale::fit_log(curves.rows().flat_map(times).flatten(), 96.0, 4.0)?;
    let mut canvas = Canvas::default();
    axis::up_times(&mut canvas, &y);
    axis::across(&mut canvas, &rate_places(curves, &x));
    let (mut names, mut told) = (Vec::new(), Vec::new());
    let middle = (curves.curves.len() as f64 - 1.0) / 2.0;
    for (i, (name, _, rows)) in curves.curves.iter().enumerate() {
        let class = curves.class(i);
        canvas.group(&class, (i as f64 - middle) * APART.min(40.0 / curves.curves.len() as f64));
        if let Some(knee::Knee::At(rate, _)) = knee::knee(rows).filter(|_| rows[0].scenario == "open-loop") {
            canvas.line((x.at(rate), 0.0), (x.at(rate), 100.0), &format!("knee {class}"));
        }
        for row in rows {
            point(&mut canvas, row, &class, &x, &y);
        }
        canvas.end_group();
        let last = rows.iter().rev().find_map(|row| Some((*row, row.rate_offered?, median(row)?)));
        if let Some((_, rate, p50)) = last {
            names.push(EndName { end: (x.at(rate), y.at(p50)), name: (*name).to_owned(), class });
            told.push(format!("{name} {} at {}/s", quantity::brief(p50), quantity::per_second(rate)));
        }
    }
    axis::end_names(&mut canvas, names, Height::Usual);
    rate_probes(&mut canvas, curves, &x);
    Some(canvas.finish("plot", &format!("Latency from the due time by rate, {title}: median of {}", told.join("; "))))
}

fn point(canvas: &mut Canvas, row: &Row, class: &str, x: &Scale, y: &Scale) {
    let d = &row.distribution;
    let Some(at) = row.rate_offered.map(|rate| x.at(rate)) else { return };
    let known = |time: Option<f64>| time.filter(|ns| ns.is_finite()).map(|ns| (at, y.at(ns)));
    let Some(p50) = known(d.p50) else { return };
    if let Some(p90) = known(d.p90) {
        canvas.line(p50, p90, &format!("whisker {class}"));
        if let Some(p99) = known(d.p99) {
            canvas.line(p90, p99, &format!("hair {class}"));
            canvas.mark(p99, "M-3 0h6", &format!("hair {class}"));
        }
    }
    let late = row.rate.as_ref().and_then(|rate| rate.send_lateness.p50);
    if is_late(row)
        && let Some(late) = known(late)
    {
        canvas.mark(late, "M-6 0h12", "late");
    }
    canvas.circle(p50, 3.6, &format!("dot {class}"));
}

fn rate_scale(curves: &Curves<'_>) -> Option<Scale> {
    Scale::fit_log(curves.rows().filter_map(|row| row.rate_offered), 6.0, 94.0)
}

fn rate_places(curves: &Curves<'_>, x: &Scale) -> Vec<(f64, String)> {
    let mut rates: Vec<f64> =
        curves.rows().filter_map(|row| row.rate_offered).filter(|rate| rate.is_finite()).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates.iter().map(|rate| (x.at(*rate), crate::number::short(*rate))).collect()
}

fn rate_probes(canvas: &mut Canvas, curves: &Curves<'_>, x: &Scale) {
    let rate = |row: &Row| row.rate_offered.unwrap_or_default();
    probes(canvas, curves, x, rate, |rate| format!("{}/s", quantity::whole(rate)));
}

/// Strips around each value on the horizontal axis, with the medians there.
fn probes(canvas: &mut Canvas, curves: &Curves<'_>, x: &Scale, key: fn(&Row) -> f64, name: impl Fn(f64) -> String) {
    let mut keys: Vec<f64> = curves.rows().map(key).filter(|key| key.is_finite()).collect();
    keys.sort_by(f64::total_cmp);
    keys.dedup();
    let width = (90.0 / keys.len().max(1) as f64).min(12.0);
    for value in keys {
        let rows = curves.rows().filter(|row| key(row) == value);
        let told: Vec<String> = rows
            .map(|row| {
                let (p50, p99) = (row.distribution.p50, row.distribution.p99);
                let p99 = p99.map(|p99| format!(", p99 {}", quantity::precise(p99))).unwrap_or_default();
                let lost = row.rate.as_ref().and_then(rates::loss).filter(|lost| *lost > 0.0);
                let lost = lost.map(|lost| format!(", {} lost", quantity::share(lost))).unwrap_or_default();
                format!("{} p50 {}{p99}{lost}", label(row), quantity::precise_or_absent(p50))
            })
            .collect();
        canvas.probe(
            (x.at(value) - width / 2.0, x.at(value) + width / 2.0),
            &format!("{}\n{}", name(value), told.join("\n")),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::view::{by_curve, by_transport, sweep};

    #[test]
    fn a_band_is_an_interval_and_p99_a_ring_where_it_is_known() {
        let mut document = sample::document();
        let draw = |document: &Document| {
            let rows = sweep(document, "sizes");
            let group = by_transport(&rows).remove(0);
            sizes(&Curves::new(document, &by_curve(&group.rows), |row| f64::from(row.size)), "TCP").unwrap()
        };
        let whole = draw(&document);
        assert!(whole.contains("class=\"area") && whole.contains("hollow") && whole.contains("kernel-spin"));
        for row in &mut document.results {
            (row.distribution.p99, row.distribution.ci95.p50) = (None, None);
        }
        let short = draw(&document);
        assert!(!short.contains("class=\"area") && !short.contains("hollow"));
    }

    #[test]
    fn a_rate_shows_what_arrived_and_who_was_late() {
        let mut document = sample::document();
        document.results.retain(|row| row.scenario == "rates");
        let both = |document: &Document| {
            let rows = sweep(document, "rates");
            let curves = Curves::new(document, &by_curve(&rows), |row| row.rate_offered.unwrap_or_default());
            (arrived(&curves, "UDP").unwrap(), latency(&curves, "UDP").unwrap())
        };
        let (share, time) = both(&document);
        assert!(share.contains("100\u{a0}%") && share.contains(" lost\"") && time.contains("whisker"));
        for row in &mut document.results {
            if let Some(rate) = &mut row.rate {
                rate.received = rate.sent;
                rate.send_lateness.p50 = Some(1.0);
            }
        }
        let (share, time) = both(&document);
        assert!(!share.contains(" lost\"") && !time.contains("class=\"late\""));
    }
}
