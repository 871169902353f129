//! Throughput of streams: one line per path, one group per message size.

use super::{Line, Table, cpu, numbers, words};
use crate::number::{self, MISSING, Unit};
use crate::schema::{Document, Row};
use crate::view::rates::loss;
use crate::view::{self, compare};

/// The table of `rows`; none where there are none.
pub(crate) fn table(document: &Document, rows: &[&Row]) -> Option<Table> {
    if rows.is_empty() {
        return None;
    }
    let unit = Unit::for_messages(rows.iter().filter_map(|row| row.distribution.mean));
    let has_congestion = rows.iter().any(|row| row.congestion.is_some());
    let mut lines = Vec::new();
    for group in view::by_circumstance(rows) {
        lines.push(Line::Heading(group.heading));
        let best = fastest(&group.rows).filter(|_| group.rows.len() > 1);
        for row in group.rows {
            let best = best.is_some_and(|best| std::ptr::eq(best, row));
            let mut cells = cells(document, row, unit);
            if has_congestion {
                cells.push(row.congestion.clone().unwrap_or_else(|| MISSING.into()));
            }
            cpu::cells(rows, row, &mut cells);
            lines.push(Line::Cells { cells, best });
        }
    }
    let mut columns = vec![
        words("path"),
        numbers("messages/s", 0),
        numbers("MB/s", 3),
        numbers(format!("mean {}", unit.name), 0),
        numbers("95 % interval", 4),
        numbers(format!("p50 {}", unit.name), 2),
        numbers(format!("p99 {}", unit.name), 2),
        numbers("lost %", 5),
        numbers("mean ratio", 0),
        numbers("95 % interval", 1),
    ];
    let note = "time per message at full speed; through memory one sample is 256 messages as their reader sees them, in the kernel 4000, over a \
                network one message; the ratio is that of the means, above 1 is slower";
    let mut notes = vec![note.into()];
    if has_congestion {
        columns.push(words("congestion"));
        notes.push("congestion: congestion control of the end that sends".into());
    }
    cpu::columns(rows, &mut columns, &mut notes);
    Some(Table { columns, lines, notes })
}

/// The row with the most messages per second.
pub(crate) fn fastest<'a>(rows: &[&'a Row]) -> Option<&'a Row> {
    let rate = |row: &Row| row.rate_achieved.filter(|rate| rate.is_finite());
    let measured = rows.iter().copied().filter(|row| rate(row).is_some());
    measured.max_by(|a, b| rate(a).partial_cmp(&rate(b)).unwrap_or(std::cmp::Ordering::Equal))
}

fn cells(document: &Document, row: &Row, unit: Unit) -> Vec<String> {
    let d = &row.distribution;
    let rate = |of: fn(f64, u32) -> f64| {
        row.rate_achieved.map_or_else(|| MISSING.into(), |achieved| number::rate(of(achieved, row.size)))
    };
    let ratio = compare::against_baseline(document, row, "mean");
    vec![
        view::label(row).to_owned(),
        rate(|achieved, _| achieved),
        rate(|achieved, size| achieved * f64::from(size) / 1e6),
        unit.time_or_missing(d.mean),
        d.ci95.mean.map_or_else(|| MISSING.into(), |ends| unit.interval(ends)),
        unit.time_or_missing(d.p50),
        unit.time_or_missing(d.p99),
        row.rate.as_ref().and_then(loss).map_or_else(|| MISSING.into(), number::percent),
        compare::standing(document, row),
        ratio.map_or_else(|| "-".into(), |ratio| number::ratio_interval(ratio.ci95)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Distribution, RateDetail, Ratio};
    use crate::terminal::Style;
    use crate::{html, terminal};

    fn row(path: &str, measure: &str, ns: f64) -> Row {
        let (mean, p50) = (Some(ns), Some(ns));
        Row {
            scenario: "ring".into(),
            transport: "memory".into(),
            path: path.into(),
            size: 64,
            measure: measure.into(),
            rate_achieved: (measure == "per_message").then_some(1e9 / ns),
            rate: Some(RateDetail { sent: 100, received: 99, ..RateDetail::default() }),
            distribution: Distribution { n: 500, mean, p50, ..Distribution::default() },
            ..Row::default()
        }
    }

    fn ratio(of: &str, measure: &str, stat: &str, value: f64) -> Ratio {
        let (scenario, transport) = ("ring".into(), "memory".into());
        let (against, size, ci95) = ("ring".into(), 64, [value - 0.1, value + 0.1]);
        let (of, measure, stat) = (of.into(), measure.into(), stat.into());
        Ratio { scenario, transport, size, of, against, stat, value, ci95, measure, ..Ratio::default() }
    }

    fn document() -> Document {
        let mut document = Document {
            results: vec![
                row("floor", "rtt", 100.0),
                row("ring", "rtt", 150.0),
                row("pipe", "rtt", 9_000.0),
                row("ring", "per_message", 12.5),
                row("pipe", "per_message", 800.0),
            ],
            ratios: vec![ratio("pipe", "rtt", "p50", 60.0), ratio("pipe", "per_message", "mean", 64.0)],
            ..Document::default()
        };
        document.host.tsc_hz = Some(2e9);
        document
    }

    #[test]
    fn throughput_and_latency_do_not_get_each_others_ratios() {
        let document = document();
        let table = table(&document, &view::streams(&document)).expect("two rows stream");
        let lines: Vec<&Vec<String>> = table
            .lines
            .iter()
            .filter_map(|line| match line {
                Line::Cells { cells, .. } => Some(cells),
                Line::Heading(_) => None,
            })
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0][..4], ["ring", "80,000,000", "5120", "12.5"]);
        assert_eq!((lines[0][7].as_str(), lines[0][8].as_str()), ("1.00", "baseline"));
        assert_eq!(lines[1][8], "64.0");
        assert!(super::table(&document, &[]).is_none());
    }

    #[test]
    fn both_forms_show_rings_with_their_floor_apart() {
        let document = document();
        let text = terminal::render(&document, Style { colour: false, width: 140, verbose: true });
        for part in ["Throughput", "clock cycles", "lowest median is that of ring", "most is ring with 80,000,000"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let cycles = text.split("clock cycles").nth(1).expect("the table is there");
        assert!(cycles.contains("18,000"), "9 us are 18,000 cycles at 2 GHz: {text}");
        assert!(html::render(&document).contains("Throughput"));
    }
}
