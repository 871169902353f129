//! Paths and rungs that could not be measured here.

use super::{Line, Table, words};
use crate::schema::{Document, Unavailable};
use crate::view::words as names;

/// The table of those that `select` lets through; none when there are none.
pub(crate) fn table(document: &Document, select: impl Fn(&Unavailable) -> bool) -> Option<Table> {
    let lines: Vec<_> = document.unavailable.iter().filter(|missing| select(missing)).map(line).collect();
    let columns = vec![words("not measured"), words("transport"), words("why")];
    (!lines.is_empty()).then_some(Table { columns, lines, notes: Vec::new() })
}

fn line(missing: &Unavailable) -> Line {
    let name = missing.rung.as_ref().unwrap_or(&missing.path);
    let what = if missing.scenario == "rr" { name.clone() } else { format!("{name} ({})", missing.scenario) };
    Line::plain(vec![what, names::transport(&missing.transport).into(), missing.reason.clone()])
}
