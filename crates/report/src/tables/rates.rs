//! Latency and loss by message rate: one line per offered rate, one group per curve.

use super::{Line, Table, cpu, latency, numbers, withheld};
use crate::number::{self, MISSING, Unit};
use crate::schema::{RateDetail, Row};
use crate::view::{self, words};

/// The table of `rows`.
pub(crate) fn table(rows: &[&Row]) -> Table {
    let unit = latency::unit(rows);
    let mut lines = Vec::new();
    for group in view::by_curve(rows) {
        let first = group.rows[0];
        let batch = first.rate.as_ref().map_or(1, |rate| rate.batch);
        let batches = if batch > 1 { format!(", batches of {batch}") } else { String::new() };
        lines.push(Line::Heading(format!(
            "{}, {}{batches}, {}",
            group.heading,
            number::bytes(first.size),
            words::measure(&first.measure)
        )));
        for row in group.rows {
            let mut cells = cells(row, unit);
            cpu::cells(rows, row, &mut cells);
            lines.push(Line::plain(cells));
        }
    }
    let head = |name: &str| format!("{name} {}", unit.name);
    let mut columns = vec![
        numbers("offered/s", 0),
        numbers("sent/s", 5),
        numbers("received/s", 0),
        numbers("loss %", 0),
        numbers("gaps", 4),
        numbers("reorder", 6),
        numbers("dup", 7),
        numbers("n", 8),
        numbers(head("p50 due"), 0),
        numbers(head("p99 due"), 0),
        numbers(head("p50 sent"), 2),
        numbers(head("p99 sent"), 1),
        numbers(head("p99 late"), 3),
    ];
    let mut notes = notes(rows);
    cpu::columns(rows, &mut columns, &mut notes);
    Table { columns, lines, notes }
}

fn cells(row: &Row, unit: Unit) -> Vec<String> {
    let d = &row.distribution;
    let rate = row.rate.as_ref();
    let count = |of: fn(&RateDetail) -> u64| rate.map_or_else(|| MISSING.into(), |rate| number::count(of(rate)));
    let time = |of: fn(&RateDetail) -> Option<f64>| unit.time_or_missing(rate.and_then(of));
    vec![
        row.rate_offered.map_or_else(|| MISSING.into(), number::rate),
        rate.map_or_else(|| MISSING.into(), |rate| number::rate(rate.rate_sent)),
        row.rate_achieved.map_or_else(|| MISSING.into(), number::rate),
        rate.and_then(loss).map_or_else(|| MISSING.into(), number::percent),
        count(|rate| rate.gaps),
        count(|rate| rate.reordered),
        count(|rate| rate.duplicates),
        number::count(d.n),
        unit.time_or_missing(d.p50),
        unit.time_or_missing(d.p99),
        time(|rate| rate.from_actual_send.p50),
        time(|rate| rate.from_actual_send.p99),
        time(|rate| rate.send_lateness.p99),
    ]
}

/// The share of the messages sent that did not arrive.
pub(crate) fn loss(rate: &RateDetail) -> Option<f64> {
    let lost = rate.sent.saturating_sub(rate.received);
    (rate.sent > 0).then(|| lost as f64 / rate.sent as f64)
}

fn notes(rows: &[&Row]) -> Vec<String> {
    let mut notes = withheld::notes(rows, &["p50", "p99"]);
    notes.extend(latency::missing_among(rows, &["p50", "p99"]));
    notes.push(
        "due: counted from the time at which a message was due, so that a late sender shows; sent: from the time \
         it left; late: how long after it was due it left"
            .into(),
    );
    let mut every: Vec<u64> = rows.iter().filter_map(|row| row.rate.as_ref()).map(|rate| rate.reflect_every).collect();
    every.sort_unstable();
    every.dedup();
    if let ([first, ..], Some(last)) = (every.as_slice(), every.last()) {
        let range = if first == last { first.to_string() } else { format!("{first} to {last}") };
        notes.push(format!("latency: one message in {range}, which the receiver sent back"));
    }
    notes
}
