//! All numbers: one table of distributions that can be sorted, and the tables of each subject, folded.

use super::element::{folded, prose, remarks, scroll, section, table};
use super::paths::told;
use crate::findings::Findings;
use crate::findings::family;
use crate::findings::quantity::{self, ABSENT, precise_or_absent};
use crate::findings::versus::versus;
use crate::markup::escape;
use crate::schema::{Document, Row};
use crate::tables::{self, Table};
use crate::view::{self, compare, label, latency_sections, sweep, words};

/// A column of the sortable table: its name, its class, and a cell: the text and the value to sort by.
struct Column {
    name: &'static str,
    class: &'static str,
    cell: fn(&Document, &Row) -> (String, f64),
}

const COLUMNS: [Column; 9] = [
    Column {
        name: "Samples",
        class: "far",
        cell: |_, row| (quantity::samples(row.distribution.n), row.distribution.n as f64),
    },
    Column { name: "p50", class: "", cell: |_, row| time(row.distribution.p50) },
    Column { name: "p90", class: "far", cell: |_, row| time(row.distribution.p90) },
    Column { name: "p99", class: "", cell: |_, row| time(row.distribution.p99) },
    Column { name: "p99.9", class: "far", cell: |_, row| time(row.distribution.p99_9) },
    Column { name: "Worst", class: "far", cell: |_, row| time(row.distribution.max) },
    Column { name: "CPU", class: "far off", cell: |_, row| time(row.cpu.as_ref().map(|cpu| cpu.per_message_ns)) },
    Column { name: "Against", class: "w far off", cell: baseline },
    Column { name: "p50 against it", class: "w", cell: against },
];

fn time(ns: Option<f64>) -> (String, f64) {
    (precise_or_absent(ns), ns.unwrap_or(f64::INFINITY))
}

fn baseline(document: &Document, row: &Row) -> (String, f64) {
    let ratio = compare::against_baseline(document, row, "p50");
    (ratio.map_or_else(|| ABSENT.into(), |ratio| escape(&ratio.against)), f64::INFINITY)
}

fn against(document: &Document, row: &Row) -> (String, f64) {
    match compare::against_baseline(document, row, "p50") {
        Some(ratio) => (told(&versus(document, ratio)), ratio.value),
        None if compare::standing(document, row) == "baseline" => ("<em>baseline</em>".into(), 1.0),
        None => (ABSENT.into(), f64::INFINITY),
    }
}

/// The section.
pub(super) fn numbers(document: &Document, found: &Findings) -> String {
    let Some(one) = found.section("numbers") else { return String::new() };
    let sections = latency_sections(document);
    let rows: Vec<&Row> = sections.iter().flat_map(|section| section.rows.iter().copied()).collect();
    let mut body = if rows.is_empty() { String::new() } else { sortable(document, &rows) };
    body += &subjects(document, rows.is_empty());
    section(one, &body)
}

fn sortable(document: &Document, rows: &[&Row]) -> String {
    let has_cpu = rows.iter().any(|row| row.cpu.is_some());
    let has_ratio = !document.ratios.is_empty();
    let shown: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| (has_cpu || column.name != "CPU") && (has_ratio || !column.class.starts_with('w')))
        .collect();
    let head: String = shown
        .iter()
        .map(|column| format!("<th scope=\"col\" class=\"{}\">{}</th>", column.class, column.name))
        .collect();
    let differing = Differing::among(rows);
    let body: String = rows.iter().map(|row| line(document, row, differing, &shown)).collect();
    let mut notes = vec![format!(
        "{ABSENT}: not known. A percentile needs 100 samples beyond it; a ratio needs something in common. Times are rounded up."
    )];
    notes.extend(tables::latency::missing(rows));
    if has_cpu {
        notes.push("CPU: time of the measuring thread for a message; the columns below have the peer's, and what is not in it.".into());
    }
    format!(
        "{}<table class=\"sortable\">\n<thead><tr><th scope=\"col\" class=\"w\">Path</th><th scope=\"col\" class=\"w far\">Over</th>{head}</tr></thead>\n\
         <tbody>\n{body}</tbody>\n</table></div>\n{}",
        scroll("Distributions"),
        remarks(&notes)
    )
}

fn line(document: &Document, row: &Row, differing: Differing, shown: &[&Column]) -> String {
    let class = crate::svg::class(family::of(document, row));
    let cells: String = shown
        .iter()
        .map(|column| {
            let (text, value) = (column.cell)(document, row);
            // Infinity has no form in a number that a script reads: it is left out, and sorts last.
            let value = if value.is_finite() { format!(" data-v=\"{value}\"") } else { String::new() };
            format!("<td class=\"{}\"{value}>{text}</td>", column.class)
        })
        .collect();
    let over = over(row, differing);
    format!(
        "<tr><th scope=\"row\" class=\"w\"><i class=\"swatch {class}\"></i>{}<small class=\"near\">{}</small></th><td class=\"w far\">{}</td>{cells}</tr>\n",
        escape(label(row)),
        prose(&over),
        prose(&over)
    )
}

/// What differs between the rows.
#[derive(Clone, Copy)]
struct Differing {
    size: bool,
    measure: bool,
}

impl Differing {
    fn among(rows: &[&Row]) -> Self {
        // The floor has a size of its own.
        let mut sizes = rows.iter().filter(|row| !view::path::is_floor(&row.path)).map(|row| row.size);
        let first = sizes.next();
        Self {
            size: sizes.any(|size| Some(size) != first),
            measure: rows.windows(2).any(|pair| pair[0].measure != pair[1].measure),
        }
    }
}

/// The transport, and what else differs between the rows.
fn over(row: &Row, differing: Differing) -> String {
    let mut parts = vec![words::transport(&row.transport).to_owned()];
    if differing.size {
        parts.push(quantity::bytes(row.size));
    }
    if differing.measure {
        parts.push(words::measure(&row.measure).to_owned());
    }
    let extra = quantity::pace(row.rate_offered) + &words::sessions(row.sessions);
    parts.join(", ") + &extra
}

/// The tables of each subject; `open` where there is no other table.
fn subjects(document: &Document, open: bool) -> String {
    let mut body = String::new();
    let rows = |table: &Table| words::counted(table.lines.len(), "line", "lines");
    let mut add = |name: &str, found: Option<Table>, open: bool| {
        if let Some(found) = found.filter(|found| !found.lines.is_empty()) {
            body += &folded(name, &rows(&found), &table(name, &found), open);
        }
    };
    for one in latency_sections(document) {
        add(&format!("All columns: {}", one.title), Some(tables::latency::table(document, &one.rows)), false);
        add(tables::tick::TITLE, tables::tick::table(&one.rows), false);
        add(&format!("In clock cycles: {}", one.title), tables::cycles::table(document, &one.rows), false);
        add(&format!("Intervals of the percentiles: {}", one.title), tables::intervals::table(&one.rows), false);
    }
    add("Throughput", tables::streams::table(document, &view::streams(document)), open);
    for scenario in ["sizes", "open-loop", "rates"] {
        let rows = sweep(document, scenario);
        if rows.is_empty() {
            continue;
        }
        let found = match scenario {
            "sizes" => tables::sizes::table(document, &rows),
            "open-loop" => tables::open_loop::table(&rows),
            _ => tables::rates::table(&rows),
        };
        add(&words::scenario(scenario), Some(found), open);
    }
    add("Ratios and controls", tables::ratios::table(document), false);
    if tables::ratios::table(document).is_some() {
        body += "<p class=\"how\">In the table of ratios a value below 1 means that the path is faster than what it is compared with. \
                 A control is a path against itself in the same run; its interval is the noise floor.</p>\n";
    }
    body
}
