//! The sections of one picture each: modes, tail, sizes, load, rates.

use super::element::{figure, grid, key, remarks, section};
use super::paths::{ROWS_MAX, families};
use crate::findings::curve::curve;
use crate::findings::family::{self, Family};
use crate::findings::panels::{Compared, Panel};
use crate::findings::{Findings, Section, quantity};
use crate::schema::{Document, Row};
use crate::svg::curves::{self, Curve};
use crate::svg::points::{self, Curves};
use crate::svg::slices;
use crate::view::{Group, by_curve, by_load_chart, by_load_curve, by_transport, compare, label, sweep, words};

/// Most rows whose slices are drawn, and most panels of curves.
const SLICES_MAX: usize = 3;
const PANELS_MAX: usize = 6;

/// Most charts of a sweep.
const CHARTS_MAX: usize = 8;

/// A section, if the findings have it, with a body made of it.
fn with(found: &Findings, id: &str, body: impl FnOnce(&Section) -> String) -> String {
    found.section(id).map(|one| section(one, &body(one))).unwrap_or_default()
}

/// Slices over time of the paths that have modes.
pub(super) fn modes(document: &Document, found: &Findings) -> String {
    with(found, "modes", |one| {
        let mut rows: Vec<&Row> = document.results.iter().filter(|row| row.modes.len() > 1).collect();
        // The one in the heading first.
        rows.sort_by_key(|row| !one.question.contains(&format!(" {} ", label(row))));
        let drawn: Vec<String> = rows.iter().take(SLICES_MAX).map(|row| slices_of(document, row)).collect();
        let cpus = rows.iter().take(SLICES_MAX).flat_map(|row| &row.blocks).any(|block| block.cpu.is_some());
        let cpus = if cpus { " Filled: both ends ended it on one CPU. Hollow: on two." } else { "" };
        let zone = rows.iter().take(SLICES_MAX).any(|row| pinned(document, row).is_some());
        let zone = if zone { " Grey ground: where the slices of kernel-pinned lie." } else { "" };
        let how = format!("Each dot is the median of one slice, in the order of the run.{cpus}{zone}");
        let more = rows.len().saturating_sub(SLICES_MAX);
        let more =
            (more > 0).then(|| format!("{} with modes not drawn.", words::counted(more, "more row", "more rows")));
        grid(&drawn, &how) + &remarks(one.text.iter().chain(&more))
    })
}

fn slices_of(document: &Document, row: &Row) -> String {
    let (transport, size) = (words::transport(&row.transport), quantity::bytes(row.size));
    let title = format!(
        "{}, {transport}, {size}{}{}",
        label(row),
        words::direction(&row.scenario),
        quantity::pace(row.rate_offered)
    );
    let class = crate::svg::class(family::of(document, row));
    figure(&title, &[slices::chart(row, class, pinned(document, row), &title)], "")
}

/// `kernel-pinned` in the same circumstances, if it is another row and has no modes.
fn pinned<'a>(document: &'a Document, row: &Row) -> Option<&'a Row> {
    let is_same = |other: &&Row| {
        (&other.scenario, &other.transport, other.size, &other.measure, other.rate_offered)
            == (&row.scenario, &row.transport, row.size, &row.measure, row.rate_offered)
    };
    let is_pinned = |other: &&Row| other.path == "kernel-pinned" && other.rung.is_none() && other.modes.is_empty();
    document.results.iter().filter(is_same).filter(|other| !std::ptr::eq(*other, row)).find(is_pinned)
}

/// Percentile curves, one chart for each panel.
pub(super) fn tail(document: &Document, found: &Findings, compared: &[Compared<'_>]) -> String {
    with(found, "tail", |one| {
        let panels: Vec<&Panel<'_>> = compared.iter().flat_map(|one| &one.panels).take(PANELS_MAX).collect();
        let drawn: Vec<Vec<Curve>> = panels.iter().map(|panel| curves_of(document, panel)).collect();
        // Panels within one host have an axis of their own.
        let is_local = |i: usize| family::is_local(&panels[i].rows[0].transport);
        let charts: Vec<String> = (0..panels.len())
            .map(|i| {
                let same: Vec<&Curve> =
                    (0..panels.len()).filter(|j| is_local(*j) == is_local(i)).flat_map(|j| &drawn[j]).collect();
                let axes = curves::axes(&same);
                let title = &panels[i].title;
                figure(title, &[axes.map(|axes| curves::chart(&drawn[i], &axes, title))], "")
            })
            .collect();
        let owned: Vec<Panel<'_>> = panels.iter().map(|panel| (*panel).clone()).collect();
        let how = "Heavy: the lowest median. Dashed in ink: what it is compared with. Dotted: a limit.";
        let how = format!("{how} {}", one.text.join(" "));
        key(&families(document, &owned)) + &grid(&charts, &how)
    })
}

/// The curves of a panel, the one that matters most last.
fn curves_of(document: &Document, panel: &Panel<'_>) -> Vec<Curve> {
    let best = panel.best();
    let first =
        best.and_then(|best| compare::against_baseline(document, best, "p50")).map(|ratio| ratio.against.as_str());
    let mut curves: Vec<(u8, Curve)> = panel
        .rows
        .iter()
        .take(ROWS_MAX / 2)
        .map(|row| {
            let is_best = best.is_some_and(|best| std::ptr::eq(best, *row));
            let (rank, kind) = match () {
                () if is_best => (3, "best"),
                () if first == Some(label(row)) => (2, "ref"),
                () if family::is_limit(&row.path) => (1, "limit"),
                () => (0, "thin"),
            };
            let class = format!("{} {kind}", crate::svg::class(family::of(document, row)));
            (rank, Curve { name: label(row).to_owned(), class, points: curve(row) })
        })
        .filter(|(_, curve)| curve.points.len() > 1)
        .collect();
    curves.sort_by_key(|(rank, _)| *rank);
    curves.into_iter().map(|(_, curve)| curve).collect()
}

/// Median by message size.
pub(super) fn sizes(document: &Document, found: &Findings) -> String {
    with(found, "sizes", |one| {
        let rows = sweep(document, "sizes");
        let charts: Vec<String> = by_transport(&rows)
            .iter()
            .take(CHARTS_MAX)
            .map(|group| {
                let curves = Curves::new(document, &by_curve(&group.rows), |row| f64::from(row.size));
                figure(&group.heading, &[points::sizes(&curves, &group.heading)], "")
            })
            .collect();
        let known = rows.iter().any(|row| row.distribution.p99.is_some());
        let rings = if known {
            " Rings: p99, where there are enough samples for it."
        } else {
            " There are too few samples for a p99."
        };
        let half = rows.iter().any(|row| row.measure == "half_rtt");
        let half = if half {
            " Half a round trip is not the one-way latency: the directions need not take equally long."
        } else {
            ""
        };
        let band =
            if rows.iter().any(|row| row.distribution.ci95.p50.is_some()) { "; band: its 95 % interval" } else { "" };
        let how = format!("Bytes across. Line and dots: median{band}.{rings}{half}");
        key(&families_of(document, &rows)) + &grid(&charts, &how) + &remarks(&one.text)
    })
}

/// Response time by load, of an open loop.
pub(super) fn load(document: &Document, found: &Findings) -> String {
    with(found, "load", |one| {
        let rows = sweep(document, "open-loop");
        by_rate(document, &by_load_chart(&rows), by_load_curve, "Upright line: the knee of the curve of its colour.")
            + &remarks(&one.text)
    })
}

/// What arrives and how late, of a sweep over rates.
pub(super) fn rates(document: &Document, found: &Findings) -> String {
    with(found, "rates", |one| {
        let rows = sweep(document, "rates");
        by_rate(document, &by_transport(&rows), by_curve, "Red: messages were lost there.") + &remarks(&one.text)
    })
}

fn by_rate<'a>(
    document: &Document,
    groups: &[Group<'a>],
    curves: fn(&[&'a Row]) -> Vec<Group<'a>>,
    also: &str,
) -> String {
    let charts: Vec<String> = groups
        .iter()
        .take(CHARTS_MAX)
        .map(|group| {
            let curves = Curves::new(document, &curves(&group.rows), |row| row.rate_offered.unwrap_or_default());
            figure(
                &group.heading,
                &[points::arrived(&curves, &group.heading), points::latency(&curves, &group.heading)],
                "",
            )
        })
        .collect();
    let rows: Vec<&Row> = groups.iter().flat_map(|group| group.rows.iter().copied()).collect();
    let how = format!(
        "Messages per second asked for, across. Above: the share of them that arrived. Below: latency from the moment a message was due; dot: \
         p50, bar: to p90, line: to p99 where it is known; wide dash: median lateness of the sender, where that is more than a tenth. {also}"
    );
    key(&families_of(document, &rows)) + &grid(&charts, &how)
}

fn families_of(document: &Document, rows: &[&Row]) -> Vec<Family> {
    Family::ALL.into_iter().filter(|family| rows.iter().any(|row| family::of(document, row) == *family)).collect()
}
