//! The sections on throughput, message sizes, load and rates.

use super::Section;
use super::family::is_limit;
use super::headline::against;
use super::panels::median;
use super::quantity::{brief, bytes, per_second, percent_above, share, whole};
use super::sections::section;
use super::versus::Kind;
use crate::knee::{Knee, knee};
use crate::number;
use crate::schema::{Document, Row};
use crate::tables::streams::fastest as fastest_stream;
use crate::view::{
    self, Group, by_circumstance, by_curve, by_load_chart, by_load_curve, by_transport, label, rates as reached,
    sentences, sweep, words,
};

use std::cmp::Ordering;

/// A sender is late where this share of the latency is its own lateness, at the median.
const LATE_SHARE: f64 = 0.1;

/// Most parts of a heading.
const NAMED_MAX: usize = 3;

pub(super) fn streams(document: &Document) -> Option<Section> {
    let rows = view::streams(document);
    let groups = by_circumstance(&rows);
    let told: Vec<String> = groups.iter().filter_map(|group| most(document, group)).collect();
    if rows.is_empty() {
        return None;
    }
    let more = told.len().saturating_sub(NAMED_MAX);
    let shown = told.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
    let heading = match (told.is_empty(), more) {
        (true, _) => "No rate is known".into(),
        (_, 0) => shown,
        (_, more) => format!("{shown}; {} below", words::counted(more, "other", "others")),
    };
    let mut section = section("streams", "Throughput", "How much fits through?", heading);
    section.text = sentences::streams(document);
    Some(section)
}

/// What carries most in a group.
fn most(document: &Document, group: &Group<'_>) -> Option<String> {
    let contestants: Vec<&Row> = group.rows.iter().copied().filter(|row| !is_limit(&row.path)).collect();
    let best = fastest_stream(&contestants)?;
    let rate = best.rate_achieved?;
    let bytes_per_second = per_second(rate * f64::from(best.size));
    let all = against(document, best, "mean");
    let rest = match all.iter().find(|one| one.is_claim()) {
        Some(one) => format!(", {} than {}", one.versus.finding, one.versus.against),
        None => all
            .iter()
            .find(|one| one.versus.kind == Kind::NoDifference)
            .map(|one| format!(", no measurable difference to {}", one.versus.against))
            .unwrap_or_default(),
    };
    let (direction, size) = (words::direction(&best.scenario).trim_start_matches(','), bytes(best.size));
    Some(format!(
        "{} carries {bytes_per_second}B/s{direction} in messages of {size} ({}/s){rest}",
        label(best),
        per_second(rate)
    ))
}

pub(super) fn sizes(document: &Document) -> Option<Section> {
    let rows = sweep(document, "sizes");
    if rows.is_empty() {
        return None;
    }
    let groups = by_transport(&rows);
    let grown: Vec<(String, String)> = groups.iter().filter_map(growth).take(NAMED_MAX).collect();
    let is_again = |at: usize| at > 0 && grown[at].0 == grown[at - 1].0;
    let told = |(at, (name, change)): (usize, &(String, String))| match is_again(at) {
        true => change.clone(),
        false => format!("{name} {change}"),
    };
    let told: Vec<String> = grown.iter().enumerate().map(told).collect();
    let (small, large) = (rows.iter().map(|row| row.size).min()?, rows.iter().map(|row| row.size).max()?);
    let heading = match told.is_empty() {
        true => "No median is known: too few samples".into(),
        false => format!("From {} to {}, {}", whole(small.into()), bytes(large), words::list(&told)),
    };
    let mut section = section("sizes", "Sizes", "Does the size of a message matter?", heading);
    section.text = sentences::sizes(document);
    Some(section)
}

/// From the smallest to the largest message, of the path with the lowest median at the smallest.
fn growth(group: &Group<'_>) -> Option<(String, String)> {
    let curves = by_curve(&group.rows);
    let ends = |curve: &Group<'_>| {
        Some([smallest(curve)?, largest(curve)?].map(|row| (median(row), row.distribution.ci95.p50)))
    };
    let known = curves.iter().filter(|curve| smallest(curve).and_then(median).is_some_and(|p50| p50 > 0.0));
    let first = known.min_by(|a, b| {
        smallest(a).and_then(median).partial_cmp(&smallest(b).and_then(median)).unwrap_or(Ordering::Equal)
    })?;
    let [(small, of_small), (large, of_large)] = ends(first)?;
    let (small, large) = (small?, large?);
    let apart = match (of_small, of_large) {
        (Some([_, high]), Some([low, _])) if large >= small => Some(low > high),
        (Some([low, _]), Some([_, high])) => Some(high < low),
        _ => None,
    };
    let (over, name) = (words::transport(&group.rows[0].transport), label(first.rows[0]));
    let change = match (apart, large / small) {
        (Some(false), _) => "shows no measurable growth".into(),
        (None, _) => {
            return Some((name.to_owned(), format!("takes {} and {} over {over}", brief(small), brief(large))));
        }
        (_, times) if times >= 1.0 => format!("grows by {}", percent_above(times)),
        (_, times) => format!("falls by {}", share(1.0 - times)),
    };
    Some((name.to_owned(), format!("{change} over {over} ({} to {})", brief(small), brief(large))))
}

fn smallest<'a>(curve: &Group<'a>) -> Option<&'a Row> {
    curve.rows.iter().copied().min_by_key(|row| row.size)
}

fn largest<'a>(curve: &Group<'a>) -> Option<&'a Row> {
    curve.rows.iter().copied().max_by_key(|row| row.size)
}

pub(super) fn load(document: &Document) -> Option<Section> {
    let rows = sweep(document, "open-loop");
    if rows.is_empty() {
        return None;
    }
    let told: Vec<String> = by_load_chart(&rows).iter().filter_map(carried).take(NAMED_MAX).collect();
    let heading = if told.is_empty() { "No knee is known".into() } else { told.join("; ") };
    let mut section = section("load", "Load", "How does the response time grow with load?", heading);
    section.text = view::open_loop::sentences(document);
    section.text.push(view::open_loop::rule());
    Some(section)
}

/// The knees of one chart: which paths carried the highest rate asked for, and the others.
fn carried(group: &Group<'_>) -> Option<String> {
    let curves = by_load_curve(&group.rows);
    let knees: Vec<(String, Knee)> =
        curves.iter().filter_map(|curve| Some((label(curve.rows[0]).to_owned(), knee(&curve.rows)?))).collect();
    if knees.is_empty() {
        return None;
    }
    let all = knees.len();
    let rate = |rate: f64| format!("{}/s", number::rate(rate));
    let beyond: Vec<&(String, Knee)> = knees.iter().filter(|(_, knee)| matches!(knee, Knee::Beyond(_))).collect();
    let highest =
        beyond.iter().map(|(_, knee)| if let Knee::Beyond(rate) = knee { *rate } else { 0.0 }).fold(0.0, f64::max);
    let others: Vec<String> = knees
        .iter()
        .filter_map(|(name, knee)| match knee {
            Knee::At(held, _) => Some(format!("{name} carries {}", rate(*held))),
            Knee::Below(first, _) => Some(format!("{name} less than {}", rate(*first))),
            Knee::Beyond(_) => None,
        })
        .take(NAMED_MAX)
        .collect();
    let first = match beyond.as_slice() {
        [] => String::new(),
        [one] => format!("{} carries {}, the highest rate asked for", one.0, rate(highest)),
        many if many.len() == all => format!("All {all} paths carry {}, the highest rate asked for", rate(highest)),
        many => format!("{} of {all} paths carry {}, the highest rate asked for", many.len(), rate(highest)),
    };
    let parts: Vec<String> = [first].into_iter().filter(|part| !part.is_empty()).chain(others).collect();
    Some(format!("{}: {}", group.heading, parts.join("; ")))
}

pub(super) fn rates(document: &Document) -> Option<Section> {
    let rows = sweep(document, "rates");
    if rows.is_empty() {
        return None;
    }
    let late = if rows.iter().any(|row| is_late(row)) {
        ", but the sender could not keep every rate, and latencies there are its own"
    } else {
        ""
    };
    let heading = match worst_loss(&rows) {
        None if rows.iter().all(|row| is_loss_known(row)) => format!("No message was lost at any rate{late}"),
        None => format!("Whether messages were lost is not known at every rate{late}"),
        Some((row, lost)) => format!(
            "Up to {} of the messages were lost: {} at {}/s{late}",
            share(lost),
            label(row),
            row.rate_offered.map(number::rate).unwrap_or_default()
        ),
    };
    let mut section = section("rates", "Rates", "How much gets through, and is it on time?", heading);
    section.text = reached::sentences(document);
    Some(section)
}

fn is_loss_known(row: &Row) -> bool {
    row.rate.as_ref().and_then(reached::loss).is_some()
}

/// The row that lost the largest share, and that share; none where nothing was lost.
pub(super) fn worst_loss<'a>(rows: &[&'a Row]) -> Option<(&'a Row, f64)> {
    let lost = |row: &&'a Row| Some((*row, row.rate.as_ref().and_then(reached::loss)?));
    rows.iter().filter_map(lost).filter(|(_, lost)| *lost > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns whether the sender was so late that the latency is its own.
pub fn is_late(row: &Row) -> bool {
    let late = row.rate.as_ref().and_then(|rate| rate.send_lateness.p50);
    matches!((late, median(row)), (Some(late), Some(p50)) if late > LATE_SHARE * p50)
}

#[cfg(test)]
mod tests {
    use super::super::of;
    use super::*;
    use crate::schema::{Distribution, RateDetail};

    fn row(scenario: &str, path: &str, size: u32, p50: f64) -> Row {
        let mut row =
            Row { scenario: scenario.into(), transport: "udp".into(), path: path.into(), size, ..Row::default() };
        row.distribution = Distribution { n: 1_000, p50: Some(p50), ..Distribution::default() };
        row
    }

    fn heading(results: Vec<Row>) -> String {
        of(&Document { results, ..Document::default() }).headline.replace('\u{a0}', " ")
    }

    #[test]
    fn a_growth_inside_the_intervals_is_called_so() {
        let mut rows = vec![row("sizes", "xdp", 16, 2_000.0), row("sizes", "xdp", 1472, 2_600.0)];
        let unknown = "From 16 to 1,472 B, xdp takes 2.0 µs and 2.6 µs over UDP";
        assert_eq!(heading(rows.clone()), unknown, "without intervals it is no growth");
        (rows[0].distribution.ci95.p50, rows[1].distribution.ci95.p50) = (Some([1.8e3, 2.4e3]), Some([2.3e3, 2.9e3]));
        assert!(heading(rows.clone()).contains("shows no measurable growth"));
        rows[1].distribution.ci95.p50 = Some([2.5e3, 2.9e3]);
        assert_eq!(heading(rows), "From 16 to 1,472 B, xdp grows by 30 % over UDP (2.0 µs to 2.6 µs)");
    }

    #[test]
    fn what_was_lost_and_a_late_sender_stand_in_the_heading() {
        let rated = |received: u64, late: f64| {
            let mut row = row("rates", "kernel-spin", 24, 9_000.0);
            let send_lateness = Distribution { p50: Some(late), ..Distribution::default() };
            row.rate_offered = Some(4e5);
            row.rate = Some(RateDetail { sent: 1_000, received, send_lateness, ..RateDetail::default() });
            row
        };
        assert_eq!(heading(vec![rated(1_000, 10.0)]), "No message was lost at any rate");
        let mut unknown = rated(0, 10.0);
        unknown.rate.as_mut().expect("it has one").sent = 0;
        assert!(heading(vec![unknown]).starts_with("Whether messages were lost is not known"));
        assert!(heading(vec![rated(1_000, 5_000.0)]).contains("the sender could not keep every rate"));
        assert_eq!(heading(vec![rated(970, 10.0)]), "Up to 3 % of the messages were lost: kernel-spin at 400,000/s");
    }

    #[test]
    fn knees_are_told_by_chart() {
        let offered = |path: &str, offered: f64, achieved: f64| {
            let mut row = row("open-loop", path, 64, 9_000.0);
            (row.rate_offered, row.rate_achieved) = (Some(offered), Some(achieved));
            row.rate = Some(RateDetail { received: 1_000, ..RateDetail::default() });
            row
        };
        let both = |second: f64| {
            vec![offered("a", 1e4, 1e4), offered("a", 2e4, 2e4), offered("b", 1e4, 1e4), offered("b", 2e4, second)]
        };
        assert_eq!(heading(both(2e4)), "UDP, 64 B: All 2 paths carry 20,000/s, the highest rate asked for");
        assert_eq!(heading(both(1e4)), "UDP, 64 B: a carries 20,000/s, the highest rate asked for; b carries 10,000/s");
    }

    #[test]
    fn the_fullest_stream_is_named() {
        let stream = |path: &str, rate: f64| {
            let mut row = row("bulk", path, 65_536, 1e9 / rate);
            (row.measure, row.rate_achieved) = ("per_message".into(), Some(rate));
            row
        };
        let told = heading(vec![stream("kernel-pinned", 60_451.0), stream("kernel-spin", 65_115.0)]);
        assert_eq!(told, "kernel-spin carries 4.3 GB/s to the peer in messages of 65,536 B (65 k/s)");
    }
}
