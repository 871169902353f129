//! The main table: one distribution per line.

use super::{Column, Line, Table, cpu, numbers, words};
use crate::number::{self, Unit};
use crate::schema::{Distribution, Document, Row};
use crate::view::{self, compare, words as words_of};

/// One column of a distribution.
struct Statistic {
    name: &'static str,
    expendable: u8,
    /// The samples that it needs, else `n/a`: 100 of them must lie beyond it. 0 if any sample gives it.
    needs: u64,
    of: fn(&Distribution) -> Option<f64>,
}

const STATISTICS: [Statistic; 9] = [
    Statistic { name: "min", expendable: 6, needs: 0, of: |d| d.min },
    Statistic { name: "p50", expendable: 0, needs: 200, of: |d| d.p50 },
    Statistic { name: "p90", expendable: 5, needs: 1_000, of: |d| d.p90 },
    Statistic { name: "p99", expendable: 0, needs: 10_000, of: |d| d.p99 },
    Statistic { name: "p99.9", expendable: 2, needs: 100_000, of: |d| d.p99_9 },
    Statistic { name: "p99.99", expendable: 4, needs: 1_000_000, of: |d| d.p99_99 },
    Statistic { name: "max", expendable: 3, needs: 0, of: |d| d.max },
    Statistic { name: "mean", expendable: 7, needs: 0, of: |d| d.mean },
    Statistic { name: "stddev", expendable: 8, needs: 0, of: |d| d.stddev },
];

/// The table of `rows`.
pub(crate) fn table(document: &Document, rows: &[&Row]) -> Table {
    let unit = unit(rows);
    let against = rows.iter().any(|row| compare::against_baseline(document, row, "p50").is_some());
    let mut lines = Vec::new();
    for group in view::by_circumstance(rows) {
        let baselines =
            group.rows.iter().filter_map(|row| compare::against_baseline(document, row, compare::shown_of(row)));
        let heading = match baselines.map(|ratio| &ratio.against).next() {
            Some(baseline) => format!("{}; ratios to {baseline}", group.heading),
            None => group.heading,
        };
        lines.push(Line::Heading(heading));
        let fastest = view::fastest(&group.rows).filter(|_| group.rows.len() > 1);
        for row in group.rows {
            let best = fastest.is_some_and(|fastest| std::ptr::eq(fastest, row));
            let mut cells = cells(document, row, unit, against);
            cpu::cells(rows, row, &mut cells);
            lines.push(Line::Cells { cells, series: Some(view::label(row).into()), best });
        }
    }
    let (mut columns, mut notes) = (columns(unit, against), missing(rows));
    notes.extend(words_of::closed_loop(rows));
    cpu::columns(rows, &mut columns, &mut notes);
    Table { columns, lines, notes }
}

/// The unit in which the medians of `rows` can be compared.
pub(crate) fn unit(rows: &[&Row]) -> Unit {
    Unit::for_times(rows.iter().filter_map(|row| row.distribution.p50.or(row.distribution.mean)))
}

fn columns(unit: Unit, against: bool) -> Vec<Column> {
    let mut columns = vec![words("path"), numbers("n", 1)];
    for statistic in &STATISTICS {
        columns.push(numbers(format!("{} {}", statistic.name, unit.name), statistic.expendable));
    }
    if against {
        columns.push(numbers("p50 ratio", 0));
    }
    columns
}

fn cells(document: &Document, row: &Row, unit: Unit, against: bool) -> Vec<String> {
    let mut cells = vec![view::label(row).to_owned(), number::count(row.distribution.n)];
    cells.extend(STATISTICS.iter().map(|statistic| unit.time_or_missing((statistic.of)(&row.distribution))));
    if against {
        cells.push(compare::standing(document, row));
    }
    cells
}

/// Explains n/a cells: one note per percentile for which a row has too few samples.
pub(crate) fn missing(rows: &[&Row]) -> Vec<String> {
    missing_among(rows, &STATISTICS.map(|statistic| statistic.name))
}

/// Like [`missing`], for a table that shows only the statistics `shown`.
pub(crate) fn missing_among(rows: &[&Row], shown: &[&str]) -> Vec<String> {
    let shown = STATISTICS.iter().filter(|statistic| shown.contains(&statistic.name));
    shown.flat_map(|statistic| [too_few(rows, statistic), too_few_beyond(rows, statistic)]).flatten().collect()
}

fn too_few(rows: &[&Row], Statistic { name, needs, of, .. }: &Statistic) -> Option<String> {
    let short = |d: &&Distribution| of(d).is_none() && d.n < *needs;
    let had: Vec<_> = rows.iter().map(|row| &row.distribution).filter(short).map(|d| d.n).collect();
    let (low, high) = (had.iter().min()?, had.iter().max()?);
    let had = if low == high { high.to_string() } else { format!("{low} to {high}") };
    Some(format!("{name} needs {needs} samples (had {had})"))
}

/// Enough samples in all, but a slice that was held up has few, and the percentile lies in it.
fn too_few_beyond(rows: &[&Row], Statistic { name, needs, of, .. }: &Statistic) -> Option<String> {
    let is_short = |row: &&&Row| {
        let d = &row.distribution;
        of(d).is_none() && *needs > 0 && d.n >= *needs && d.effective.is_some() && row.lost == 0
    };
    let names: Vec<String> = rows.iter().filter(is_short).map(|row| view::label(row).to_owned()).collect();
    (!names.is_empty()).then(|| {
        format!("{name} of {}: fewer than 100 samples lie there, in a slice that was held up", words_of::list(&names))
    })
}
