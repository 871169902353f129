//! Latency and loss by message rate: one line per offered rate, one group per curve.

use super::{Line, Table, cpu, latency, numbers, withheld};
use crate::number::{self, MISSING, Unit};
use crate::schema::{RateDetail, Row};
use crate::view::rates::{loss, not_sent};
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
        numbers("sent/s", 0),
        numbers("received/s", 0),
        numbers("loss %", 0),
        numbers("gaps", 5),
        numbers("reorder", 6),
        numbers("dup", 7),
        numbers("n", 8),
        numbers(head("p50 due"), 1),
        numbers(head("p99 due"), 0),
        numbers(head("p50 sent"), 3),
        numbers(head("p99 sent"), 2),
        numbers(head("p99 late"), 4),
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
        rate.map_or_else(|| MISSING.into(), |rate| format!("{}{}", number::rate(rate.rate_sent), mark(row))),
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

/// Marks a rate that the sender did not keep.
fn mark(row: &Row) -> &'static str {
    if not_sent(row).is_some() { " !" } else { "" }
}

fn notes(rows: &[&Row]) -> Vec<String> {
    let mut notes = Vec::new();
    if rows.iter().any(|row| not_sent(row).is_some()) {
        notes.push("!: the sender could not keep the rate; less than 99 % of what was offered was sent".into());
    }
    notes.extend(withheld::notes(rows, &["p50", "p99"]));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Document;
    use crate::terminal::{Style, render};

    #[test]
    fn a_sender_that_is_too_slow_is_seen_on_the_narrowest_terminal() {
        let row = |sent: u64| Row {
            scenario: "rates".into(),
            rate_offered: Some(1e4),
            rate: Some(RateDetail { sent, received: sent, rate_sent: sent as f64, ..RateDetail::default() }),
            ..Row::default()
        };
        let said = "the sender could not keep the rate";
        let text = |sent| {
            render(
                &Document { results: vec![row(sent)], ..Document::default() },
                Style { colour: false, width: 70, verbose: true },
            )
        };
        assert!(text(840).contains("840 !") && text(840).contains(said), "{}", text(840));
        assert!(text(9_990).contains("9990") && !text(9_990).contains(said));
    }
}
