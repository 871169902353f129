//! Latency by message size: one line per size, one group per curve.

use super::{Line, Table, cpu, latency, numbers};
use crate::number::{self, Unit};
use crate::schema::{Document, Row};
use crate::view::{self, compare, words};

/// The table of `rows`.
pub(crate) fn table(document: &Document, rows: &[&Row]) -> Table {
    let unit = latency::unit(rows);
    let against = rows.iter().any(|row| compare::against_baseline(document, row, "p50").is_some());
    let mut lines = Vec::new();
    for group in view::by_curve(rows) {
        let measure = words::measure(&group.rows[0].measure);
        lines.push(Line::Heading(format!("{}, {measure}", group.heading)));
        for row in group.rows {
            let mut cells = cells(document, row, unit, against);
            cpu::cells(rows, row, &mut cells);
            lines.push(Line::plain(cells));
        }
    }
    let head = |name: &str| format!("{name} {}", unit.name);
    let mut columns = vec![
        numbers("size B", 0),
        numbers("n", 1),
        numbers(head("min"), 2),
        numbers(head("median"), 0),
        numbers(head("mean"), 3),
        numbers(head("p99"), 0),
        numbers(head("std dev"), 4),
    ];
    if against {
        columns.extend([numbers("p50 ratio", 0), numbers("95% interval", 5)]);
    }
    let mut notes = notes(rows, against);
    notes.extend(words::closed_loop(rows));
    cpu::columns(rows, &mut columns, &mut notes);
    Table { columns, lines, notes }
}

fn cells(document: &Document, row: &Row, unit: Unit, against: bool) -> Vec<String> {
    let d = &row.distribution;
    let mut cells = vec![row.size.to_string(), number::count(d.n)];
    cells.extend([d.min, d.p50, d.mean, d.p99, d.stddev].map(|time| unit.time_or_missing(time)));
    if against {
        let interval = compare::against_baseline(document, row, "p50").map(|r| number::ratio_interval(r.ci95));
        cells.extend([compare::standing(document, row), interval.unwrap_or_else(|| "-".into())]);
    }
    cells
}

fn notes(rows: &[&Row], against: bool) -> Vec<String> {
    let mut notes = latency::missing_among(rows, &["p50", "p99"]);
    if against {
        notes.push("the ratio is that of the median to the baseline, at the same size in the same run".into());
    }
    notes
}
