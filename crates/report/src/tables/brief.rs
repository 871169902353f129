//! The paths of a small run: median, p99 and the comparison of each, in words.

use super::{Line, Table, numbers, words};
use crate::findings::panels::{self, Panel};
use crate::findings::{quantity, versus};
use crate::schema::{Document, Row};
use crate::view::{self, compare};

/// More rows than this are no summary.
const ROWS_MAX: usize = 8;

/// The table; none where there are no paths, or too many.
pub(crate) fn table(document: &Document) -> Option<Table> {
    let compared = panels::compared(document);
    let ladders = panels::ladders(document);
    let panels: Vec<&Panel<'_>> = compared.iter().flat_map(|one| &one.panels).chain(&ladders).collect();
    let rows: usize = panels.iter().map(|panel| panel.rows.len()).sum();
    if rows == 0 || rows > ROWS_MAX {
        return None;
    }
    let mut lines = Vec::new();
    for panel in panels {
        lines.push(Line::Heading(format!("{}, {}", panel.title, panel.measure)));
        let best = panel.best().filter(|_| panel.rows.len() > 1);
        lines.extend(panel.rows.iter().map(|row| Line::Cells {
            cells: cells(document, row),
            best: best.is_some_and(|best| std::ptr::eq(best, *row)),
        }));
    }
    let columns = vec![words("path"), numbers("p50", 0), numbers("p99", 0), words("p50 against")];
    Some(Table { columns, lines, notes: Vec::new() })
}

fn cells(document: &Document, row: &Row) -> Vec<String> {
    let distribution = &row.distribution;
    let compared = compare::against_baseline(document, row, "p50").map(|ratio| {
        let versus = versus::versus(document, ratio);
        format!("{}: {}", versus.against, versus.text())
    });
    vec![
        view::label(row).into(),
        quantity::precise_or_absent(distribution.p50),
        quantity::precise_or_absent(distribution.p99),
        compared.unwrap_or_default(),
    ]
}
