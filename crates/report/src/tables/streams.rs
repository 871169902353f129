//! How fast messages go one way: one line per path, one group per message size.

use super::rates::loss;
use super::{Line, Table, numbers, words};
use crate::number::{self, MISSING};
use crate::schema::{Document, Row};
use crate::view::{self, compare};

/// Below this a time in nanoseconds needs a decimal to be compared.
const DIGITS: usize = 1;

/// The table of `rows`; none where there are none.
pub(crate) fn table(document: &Document, rows: &[&Row]) -> Option<Table> {
    if rows.is_empty() {
        return None;
    }
    let mut lines = Vec::new();
    for group in view::by_circumstance(rows) {
        lines.push(Line::Heading(group.heading));
        let best = fastest(&group.rows).filter(|_| group.rows.len() > 1);
        for row in group.rows {
            let best = best.is_some_and(|best| std::ptr::eq(best, row));
            lines.push(Line::Cells { cells: cells(document, row), series: Some(view::label(row).into()), best });
        }
    }
    let columns = vec![
        words("path"),
        numbers("messages/s", 0),
        numbers("MB/s", 3),
        numbers("mean ns", 0),
        numbers("95 % interval", 4),
        numbers("p50 ns", 2),
        numbers("p99 ns", 2),
        numbers("lost %", 5),
        numbers("mean ratio", 0),
        numbers("95 % interval", 1),
    ];
    let note = "time per message at full speed, one message at a time, as its reader sees it over 256 messages; the ratio is \
                that of the means, above 1 is slower";
    Some(Table { columns, lines, notes: vec![note.into()] })
}

/// The row with the most messages per second.
pub(crate) fn fastest<'a>(rows: &[&'a Row]) -> Option<&'a Row> {
    let rate = |row: &Row| row.rate_achieved.filter(|rate| rate.is_finite());
    let measured = rows.iter().copied().filter(|row| rate(row).is_some());
    measured.max_by(|a, b| rate(a).partial_cmp(&rate(b)).unwrap_or(std::cmp::Ordering::Equal))
}

fn cells(document: &Document, row: &Row) -> Vec<String> {
    let d = &row.distribution;
    let ns = |value: Option<f64>| value.map_or_else(|| MISSING.into(), |ns| number::up(ns, DIGITS));
    let rate = |of: fn(f64, u32) -> f64| {
        row.rate_achieved.map_or_else(|| MISSING.into(), |achieved| number::rate(of(achieved, row.size)))
    };
    let interval = |[low, high]: [f64; 2]| format!("{}..{}", number::down(low, DIGITS), number::up(high, DIGITS));
    let ratio = compare::against_baseline(document, row, "mean");
    vec![
        view::label(row).to_owned(),
        rate(|achieved, _| achieved),
        rate(|achieved, size| achieved * f64::from(size) / 1e6),
        ns(d.mean),
        d.ci95.mean.map_or_else(|| MISSING.into(), interval),
        ns(d.p50),
        ns(d.p99),
        row.rate.as_ref().and_then(loss).map_or_else(|| MISSING.into(), number::percent),
        compare::standing(document, row),
        ratio.map_or_else(|| "-".into(), |ratio| number::ratio_interval(ratio.ci95)),
    ]
}
