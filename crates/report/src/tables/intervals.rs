//! Intervals of the percentiles.

use super::{Line, Table, latency, numbers, words};
use crate::number::{self, MISSING};
use crate::schema::Row;
use crate::view;

/// What the last columns are.
const NOTES: [&str; 2] = [
    "correlation: of what a slice says of the median with what the next slice says; independent slices: as many of them would say as \
     much",
    "effective n: independent samples that would give the same interval",
];

/// The 95 % intervals of `rows`; none where no row has one.
pub(crate) fn table(rows: &[&Row]) -> Option<Table> {
    let known = |row: &Row| row.distribution.ci95.p50.is_some() || row.distribution.ci95.p99.is_some();
    if !rows.iter().any(|row| known(row)) {
        return None;
    }
    let unit = latency::unit(rows);
    let interval = |ci: Option<[f64; 2]>| ci.map_or_else(|| MISSING.into(), |ci| unit.interval(ci));
    let mut lines = Vec::new();
    for group in view::by_circumstance(rows) {
        lines.push(Line::Heading(group.heading));
        for row in group.rows {
            let d = &row.distribution;
            let p50 = [unit.time_or_missing(d.p50), interval(d.ci95.p50)];
            let p99 = [unit.time_or_missing(d.p99), interval(d.ci95.p99)];
            let effective = d.effective.as_ref();
            let count = |of: Option<f64>| of.map_or_else(|| MISSING.into(), |of| number::count(of as u64));
            let worth = [
                effective.map_or_else(|| MISSING.into(), |effective| format!("{:.2}", effective.correlation)),
                count(effective.map(|effective| effective.slices)),
                count(effective.and_then(|effective| effective.p50)),
                count(effective.and_then(|effective| effective.p99)),
            ];
            let cells = [vec![view::label(row).to_owned()], p50.into(), p99.into(), worth.into()].concat();
            lines.push(Line::Cells { cells, best: false });
        }
    }
    let head = |name: &str| format!("{name} {}", unit.name);
    let columns = vec![
        words("path"),
        numbers(head("p50"), 0),
        numbers(head("95 % interval"), 0),
        numbers(head("p99"), 0),
        numbers(head("95 % interval"), 0),
        numbers("correlation", 3),
        numbers("independent slices", 2),
        numbers("effective n, p50", 2),
        numbers("effective n, p99", 2),
    ];
    Some(Table { columns, lines, notes: NOTES.map(Into::into).into() })
}
