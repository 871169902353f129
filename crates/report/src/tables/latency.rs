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
            lines.push(Line::Cells { cells, best });
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
    let short: Vec<&Row> = rows.iter().copied().filter(|row| is_short(&row)).collect();
    let names = names(rows, &short);
    (!short.is_empty()).then(|| {
        format!(
            "{name} n/a for {}: fewer than 100 samples lie at or beyond it, in a slice that was held up",
            names.join(", ")
        )
    })
}

/// Each path of `some` once, with its transports, sizes and rates where these differ among `all`.
fn names(all: &[&Row], some: &[&Row]) -> Vec<String> {
    let differ = |of: fn(&Row) -> String| all.iter().any(|row| of(row) != of(all[0]));
    let transport: fn(&Row) -> String = |row| words_of::transport(&row.transport).into();
    let size: fn(&Row) -> String = |row| row.size.to_string();
    let rate: fn(&Row) -> String = |row| row.rate_offered.map(number::rate).unwrap_or_default();
    let (has_transports, has_sizes, has_rates) = (differ(transport), differ(size), differ(rate));
    let mut found: Vec<(String, Vec<String>, Vec<String>)> = Vec::new();
    for row in some {
        let over = if has_transports { format!(" over {}", transport(row)) } else { String::new() };
        let name = format!("{}{over}", view::label(row));
        let at = found.iter().position(|one| one.0 == name).unwrap_or_else(|| {
            found.push((name, Vec::new(), Vec::new()));
            found.len() - 1
        });
        let add = |list: &mut Vec<String>, one: String| {
            if !list.contains(&one) && !one.is_empty() {
                list.push(one);
            }
        };
        add(&mut found[at].1, size(row));
        add(&mut found[at].2, rate(row));
    }
    let told = |(name, sizes, rates): (String, Vec<String>, Vec<String>)| {
        let sizes = if has_sizes { format!(" at {} B", words_of::list(&sizes)) } else { String::new() };
        let rates =
            if has_rates && !rates.is_empty() { format!(" at {} /s", words_of::list(&rates)) } else { String::new() };
        format!("{name}{sizes}{rates}")
    };
    found.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_named_once_with_the_sizes_at_which_it_has_no_percentile() {
        let row = |path: &str, size, p99| {
            let mut row = Row { path: path.into(), size, ..Row::default() };
            row.distribution = Distribution { n: 20_000, p50: Some(9.0), p99, ..Distribution::default() };
            row.distribution.effective = Some(Default::default());
            row
        };
        let rows = [
            row("kernel-spin", 64, None),
            row("kernel-spin", 256, None),
            row("xdp", 64, None),
            row("xdp", 256, Some(9.0)),
        ];
        let told = |rows: &[Row]| missing_among(&rows.iter().collect::<Vec<_>>(), &["p99"]);
        let expected = "p99 n/a for kernel-spin at 64 and 256 B, xdp at 64 B: fewer than 100 samples lie at or beyond it, in a slice \
                        that was held up";
        assert_eq!(told(&rows), [expected]);
        assert!(told(&rows[2..3])[0].starts_with("p99 n/a for xdp: "));
    }
}
