//! Round trips through memory in clock cycles, the unit of many papers.

use super::{Line, Table, numbers, words};
use crate::number::{self, MISSING};
use crate::schema::{Distribution, Document, Row};
use crate::view;

/// A percentile of a distribution.
type Percentile = fn(&Distribution) -> Option<f64>;

/// The columns, and what each shows.
const SHOWN: [(&str, Percentile); 3] = [("p50", |d| d.p50), ("p99", |d| d.p99), ("p99.9", |d| d.p99_9)];

/// The table of `rows`; none where the clock is not the TSC, or for other rows than those of rings.
pub(crate) fn table(document: &Document, rows: &[&Row]) -> Option<Table> {
    let per_ns = document.host.tsc_hz.filter(|hz| hz.is_finite())? / 1e9;
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.scenario == "ring").collect();
    if rows.is_empty() {
        return None;
    }
    let mut lines = Vec::new();
    for group in view::by_circumstance(&rows) {
        lines.push(Line::Heading(group.heading));
        for row in group.rows {
            let times = SHOWN.map(|(_, of)| of(&row.distribution));
            let cycles = |ns: &Option<f64>| ns.map_or_else(|| MISSING.into(), |ns| number::grouped_up(ns * per_ns));
            let ns = |ns: &Option<f64>| ns.map_or_else(|| MISSING.into(), number::grouped_up);
            let mut cells = vec![view::label(row).to_owned()];
            cells.extend(times.iter().map(cycles));
            cells.extend(times.iter().map(ns));
            lines.push(Line::Cells { cells, best: false });
        }
    }
    let mut columns = vec![words("path")];
    columns.extend(SHOWN.map(|(name, _)| numbers(format!("{name} cycles"), 0)));
    columns.extend(SHOWN.map(|(name, _)| numbers(format!("{name} ns"), 1)));
    let note =
        format!("cycles of the TSC, {} MHz; the cores themselves run faster or slower", number::up(per_ns * 1e3, 1));
    Some(Table { columns, lines, notes: vec![note] })
}
