//! Ratios between paths, and the controls. The ratios of a sweep over sizes are in the table of that sweep.

use super::{Column, Line, Table, numbers, words};
use crate::number::{self, MISSING};
use crate::schema::{Document, Ratio};
use crate::view::{compare, words as names};

/// The table of the ratios of the run, the controls last in each group; none where there are none.
pub(crate) fn table(document: &Document) -> Option<Table> {
    let ratios: Vec<&Ratio> = document.ratios.iter().filter(|ratio| ratio.scenario != "sizes").collect();
    let statistics = distinct(ratios.iter().map(|ratio| ratio.stat.clone()));
    let mut lines = Vec::new();
    for title in distinct(ratios.iter().map(|ratio| heading(ratio))) {
        let of_group: Vec<_> = ratios.iter().copied().filter(|ratio| heading(ratio) == title).collect();
        lines.push(Line::Heading(title));
        for control in [false, true] {
            let pairs = of_group.iter().filter(|ratio| compare::is_control(ratio) == control);
            for (of, against) in distinct(pairs.map(|ratio| (&ratio.of, &ratio.against))) {
                let of_pair: Vec<_> = of_group.iter().filter(|r| r.of == *of && r.against == *against).collect();
                lines.push(line(document, &of_pair, &statistics));
            }
        }
    }
    (!lines.is_empty()).then(|| Table { columns: columns(&statistics), lines, notes: Vec::new() })
}

/// Each value once, in the order of first appearance.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

fn heading(ratio: &Ratio) -> String {
    let mut parts = Vec::new();
    if !ratio.scenario.is_empty() {
        parts.push(names::scenario(&ratio.scenario));
    }
    if !ratio.transport.is_empty() {
        parts.push(names::transport(&ratio.transport).to_owned());
    }
    if ratio.size > 0 {
        parts.push(number::bytes(ratio.size));
    }
    if !ratio.measure.is_empty() {
        let (pace, sessions) = (names::pace(ratio.rate_offered), names::sessions(ratio.sessions));
        parts.push(format!("{}{pace}{sessions}", names::measure(&ratio.measure)));
    }
    parts.join(", ")
}

/// A ratio and its interval for each statistic; on a narrow terminal the later statistics go first.
fn columns(statistics: &[String]) -> Vec<Column> {
    let mut columns = vec![words("path"), words("against")];
    for (i, statistic) in statistics.iter().enumerate() {
        let expendable = 2 * u8::try_from(i).unwrap_or(100).min(100);
        columns.push(numbers(format!("{statistic} ratio"), expendable));
        columns.push(numbers(format!("{statistic} interval"), expendable + 1));
    }
    columns.push(words("that is"));
    columns
}

/// One path against one other, or against itself.
fn line(document: &Document, ratios: &[&&Ratio], statistics: &[String]) -> Line {
    let Some(first) = ratios.first() else {
        return Line::plain(Vec::new());
    };
    let against = if compare::is_control(first) { "itself (control)" } else { &first.against };
    let mut cells = vec![first.of.clone(), against.into()];
    for statistic in statistics {
        cells.extend(match ratios.iter().find(|ratio| ratio.stat == *statistic) {
            Some(ratio) => [number::ratio(ratio.value), number::ratio_interval(ratio.ci95)],
            None => [MISSING, MISSING].map(Into::into),
        });
    }
    cells.push(compare::reading(document, first));
    Line::plain(cells)
}
