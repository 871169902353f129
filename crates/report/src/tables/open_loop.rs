//! Response time by load: one line per offered rate, one group per curve.

use super::{Line, Table, cpu, latency, numbers, withheld};
use crate::knee::lost_share;
use crate::number::{self, MISSING, Unit};
use crate::schema::{Distribution, RateDetail, Row};
use crate::view::{self, open_loop, words};

/// The table of `rows`; the line of the knee stands out.
pub(crate) fn table(rows: &[&Row]) -> Table {
    let unit = latency::unit(rows);
    let mut lines = Vec::new();
    for group in view::by_load_curve(rows) {
        let knee = open_loop::rate(&group.rows);
        let measure = words::measure(&group.rows[0].measure);
        lines.push(Line::Heading(format!("{}, {measure}{}", group.heading, arrival(group.rows[0]))));
        for row in group.rows {
            let mut cells = cells(row, unit);
            cpu::cells(rows, row, &mut cells);
            let best = knee.is_some() && knee == row.rate_offered;
            lines.push(Line::Cells { cells, best });
        }
    }
    let head = |name: &str| format!("{name} {}", unit.name);
    let mut columns = vec![
        numbers("offered/s", 0),
        numbers("sent/s", 7),
        numbers("answered/s", 0),
        numbers("lost %", 0),
        numbers("late %", 2),
        numbers("n", 8),
        numbers(head("p50 due"), 0),
        numbers(head("p90 due"), 6),
        numbers(head("p99 due"), 0),
        numbers(head("p99.9 due"), 5),
        numbers(head("p50 sent"), 3),
        numbers(head("p99 sent"), 1),
        numbers(head("p99 late"), 4),
    ];
    let mut notes = notes(rows);
    cpu::columns(rows, &mut columns, &mut notes);
    Table { columns, lines, notes }
}

fn arrival(row: &Row) -> String {
    match row.rate.as_ref() {
        Some(RateDetail { arrival, seed: Some(seed), .. }) if arrival == "poisson" => {
            format!(", Poisson arrivals (seed {seed})")
        }
        _ => ", constant spacing".into(),
    }
}

fn cells(row: &Row, unit: Unit) -> Vec<String> {
    let (d, rate) = (&row.distribution, row.rate.as_ref());
    let late = rate.filter(|rate| rate.sent > 0).map(|rate| rate.late as f64 / rate.sent as f64);
    let time = |of: fn(&RateDetail) -> Option<f64>| unit.time_or_missing(rate.and_then(of));
    let response = |of: fn(&Distribution) -> Option<f64>| unit.time_or_missing(of(d));
    let or_missing = |text: Option<String>| text.unwrap_or_else(|| MISSING.into());
    vec![
        or_missing(row.rate_offered.map(number::rate)),
        or_missing(rate.map(|rate| number::rate(rate.rate_sent))),
        or_missing(row.rate_achieved.map(number::rate)),
        number::percent(lost_share(row)),
        or_missing(late.map(number::percent)),
        number::count(d.n),
        response(|d| d.p50),
        response(|d| d.p90),
        response(|d| d.p99),
        response(|d| d.p99_9),
        time(|rate| rate.from_actual_send.p50),
        time(|rate| rate.from_actual_send.p99),
        time(|rate| rate.send_lateness.p99),
    ]
}

fn notes(rows: &[&Row]) -> Vec<String> {
    let shown = ["p50", "p90", "p99", "p99.9"];
    let mut notes = withheld::notes(rows, &shown);
    notes.extend(latency::missing_among(rows, &shown));
    notes.push(
        "open loop: a message leaves when it is due, whatever has become of those before it. due: response time, from when a message \
         was due to its answer; sent: service time, from when it left; late: left more than 10 \u{b5}s after it was due; lost: no \
         answer, or not able to leave, until 200 ms after its slice"
            .into(),
    );
    notes.push(
        "the measuring end spins, whatever the path: it keeps the schedule, and sees an answer without being woken. How a receive waits \
         is the peer's part"
            .into(),
    );
    notes.push(open_loop::rule());
    notes.extend(odd_answers(rows));
    notes
}

/// What came back besides one answer for each message, in order.
fn odd_answers(rows: &[&Row]) -> Option<String> {
    let sum = |of: fn(&RateDetail) -> u64| -> u64 {
        rows.iter().filter_map(|row| row.rate.as_ref()).fold(0, |sum, rate| sum.saturating_add(of(rate)))
    };
    let counts = [
        (sum(|rate| rate.duplicates), "came twice"),
        (sum(|rate| rate.reordered), "came after the answer to a later message"),
        (sum(|rate| rate.unknown), "were for no message that was sent"),
    ];
    let told = counts.iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = told.map(|(count, what)| format!("{} {what}", number::count(*count))).collect();
    (!told.is_empty()).then(|| format!("answers: {}", words::list(&told)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(offered: f64, achieved: f64, lost: u64) -> Row {
        let time = |p: f64| Distribution { n: 20_000, p50: Some(p), p99: Some(2.0 * p), ..Distribution::default() };
        let rate = RateDetail {
            sent: 20_000 + lost,
            received: 20_000,
            late: 200,
            unknown: 3,
            arrival: "poisson".into(),
            seed: Some(7),
            from_actual_send: time(9e3),
            ..RateDetail::default()
        };
        Row {
            scenario: "open-loop".into(),
            transport: "udp".into(),
            path: "kernel-spin".into(),
            size: 64,
            measure: "rtt".into(),
            rate_offered: Some(offered),
            rate_achieved: Some(achieved),
            lost,
            distribution: time(1e4),
            rate: Some(rate),
            ..Row::default()
        }
    }

    #[test]
    fn response_stands_beside_service_and_the_knee_stands_out() {
        let rows = [row(1e4, 1e4, 0), row(2e4, 2e4, 0), row(4e4, 3e4, 5_000)];
        let table = table(&rows.iter().collect::<Vec<_>>());
        let heads: Vec<_> = table.columns.iter().map(|column| column.head.as_str()).collect();
        assert!(heads.contains(&"p99 due \u{b5}s") && heads.contains(&"p99 sent \u{b5}s"), "{heads:?}");
        let knees: Vec<bool> = table
            .lines
            .iter()
            .filter_map(|line| if let Line::Cells { best, .. } = line { Some(*best) } else { None })
            .collect();
        assert_eq!(knees, [false, true, false]);
        let Line::Heading(heading) = &table.lines[0] else { panic!("a heading") };
        assert!(heading.ends_with("Poisson arrivals (seed 7)"), "{heading}");
        let notes = table.notes.join("\n");
        assert!(
            notes.contains("open loop:") && notes.contains("knee: ") && notes.contains("9 were for no message"),
            "{notes}"
        );
    }

    #[test]
    fn any_row_has_its_cells() {
        let table = table(&[&Row::default()]);
        let is_whole = |line: &Line| !matches!(line, Line::Cells { cells, .. } if cells.len() != table.columns.len());
        assert!(table.lines.iter().all(is_whole));
    }
}
