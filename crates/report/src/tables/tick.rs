//! Tick to trade: what became of the ticks, and the times from the other two moments at which a tick leaves.

use super::{Line, Table, latency, numbers, words};
use crate::number::{self, MISSING, Unit};
use crate::schema::{Distribution, LineDetail, Row, TickDetail};
use crate::view::label;

/// The title.
pub(crate) const TITLE: &str = "Ticks and orders";

/// The table of the rows that have details; none where none has.
pub(crate) fn table(rows: &[&Row]) -> Option<Table> {
    let of: Vec<(&Row, &TickDetail)> = rows.iter().filter_map(|row| Some((*row, row.tick.as_deref()?))).collect();
    let whole: Vec<&Row> = of.iter().map(|(row, _)| *row).collect();
    let unit = latency::unit(&whole);
    let head = |name: &str| format!("{name} {}", unit.name);
    let columns = vec![
        words("path"),
        numbers("answered", 0),
        numbers("missed", 0),
        numbers("late", 3),
        numbers("datagrams/s", 5),
        numbers(head("p50 due"), 0),
        numbers(head("p50 left"), 1),
        numbers(head("p99 left"), 2),
        numbers(head("p50 handed over"), 4),
        numbers("lost of A", 6),
        numbers("lost of B", 7),
        numbers("recovered", 8),
        numbers("dropped", 9),
    ];
    let lines: Vec<Line> = of.iter().map(|(row, tick)| Line::plain(cells(row, tick, unit))).collect();
    (!lines.is_empty()).then(|| Table { columns, lines, notes: notes(&of) })
}

fn cells(row: &Row, tick: &TickDetail, unit: Unit) -> Vec<String> {
    let p50 = |distribution: &Distribution| unit.time_or_missing(distribution.p50);
    let rate = row.rate.as_ref();
    let left = rate.map(|rate| &rate.from_actual_send);
    let lost = |name: &str| {
        let line = tick.line.iter().find(|line: &&LineDetail| line.name == name);
        line.map_or_else(|| MISSING.into(), |line| number::count(line.lost))
    };
    vec![
        label(row).to_owned(),
        number::count(tick.answered),
        number::count(tick.missed),
        number::count(tick.late),
        rate.map_or_else(|| MISSING.into(), |rate| number::rate(rate.rate_sent)),
        p50(&row.distribution),
        left.map_or_else(|| MISSING.into(), p50),
        unit.time_or_missing(left.and_then(|left| left.p99)),
        p50(&tick.from_handed_over),
        lost("A"),
        lost("B"),
        number::count(tick.recovered),
        number::count(tick.dropped),
    ]
}

fn notes(of: &[(&Row, &TickDetail)]) -> Vec<String> {
    let Some((_, first)) = of.first() else { return Vec::new() };
    let load = format!(
        "the feed: {}, {} messages a second at single speed, {} in a datagram, {} instruments; one message in {} is a tick, {} in its \
         datagram; seed {}",
        first.profile,
        number::count(first.rate),
        first.messages_per_packet,
        number::count(first.symbols.into()),
        number::count(first.trigger_every),
        first.trigger_at,
        first.seed
    );
    vec![
        load,
        "all times end when the exchange has seen the first byte of the order. due: since the datagram of the tick was due; left: since just \
         before it was handed over; handed over: since just after its last byte was. Over a veth the sender's own call carries a frame to \
         the receiver, so that the last one leaves out most of the way"
            .into(),
        "every order was judged after its slice: a wrong one, a second one, one before its tick or one without a tick ends the run. missed: \
         no order came, also not in the 200 ms after the slice, or the exchange was too far behind to send the tick; late: the order came \
         more than 10 ms after its tick. lost, recovered: messages that a line did not bring, and that another line did; dropped: \
         datagrams that the trader's host dropped, as far as it tells"
            .into(),
    ]
}

/// One sentence on the orders of a run; none where there are none.
pub(crate) fn sentence(rows: &[&Row]) -> Option<String> {
    let sum = |of: fn(&TickDetail) -> u64| -> u64 {
        rows.iter().filter_map(|row| row.tick.as_deref()).fold(0, |sum, tick| sum.saturating_add(of(tick)))
    };
    let (answered, missed, late) = (sum(|tick| tick.answered), sum(|tick| tick.missed), sum(|tick| tick.late));
    let late = if late > 0 { format!(", {} of them later than 10 ms", number::count(late)) } else { String::new() };
    (answered + missed > 0).then(|| match missed {
        0 => format!("All {} ticks were answered{late}; no order was wrong.", number::count(answered)),
        _ => {
            let all = number::count(answered.saturating_add(missed));
            format!(
                "{} of {all} ticks were answered{late}, {} were not; no order was wrong.",
                number::count(answered),
                number::count(missed)
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::RateDetail;

    fn row(missed: u64) -> Row {
        let line = |name: &str, lost| LineDetail { name: name.into(), lost, ..LineDetail::default() };
        let tick = TickDetail {
            answered: 9_000,
            missed,
            line: vec![line("A", 40), line("B", 0)],
            profile: "steady".into(),
            from_handed_over: Distribution { p50: Some(5e3), ..Distribution::default() },
            ..TickDetail::default()
        };
        Row {
            scenario: "tick".into(),
            path: "xdp book fix".into(),
            distribution: Distribution { n: 9_000, p50: Some(9e3), ..Distribution::default() },
            rate: Some(RateDetail::default()),
            tick: Some(Box::new(tick)),
            ..Row::default()
        }
    }

    #[test]
    fn ticks_are_counted_beside_the_three_moments() {
        let (one, floor) = (row(0), Row::default());
        let table = table(&[&one, &floor]).expect("one row has details");
        assert_eq!(table.lines.len(), 1, "the floor has no ticks");
        let Line::Cells { cells, .. } = &table.lines[0] else { panic!("cells") };
        assert_eq!(cells.len(), table.columns.len());
        assert!(cells.contains(&"40".into()) && cells[1] == "9000", "{cells:?}");
        assert!(super::table(&[&floor]).is_none());
    }

    #[test]
    fn what_was_missed_is_said() {
        assert_eq!(sentence(&[&row(0)]).as_deref(), Some("All 9000 ticks were answered; no order was wrong."));
        let told = sentence(&[&row(1_000), &Row::default()]).expect("it has ticks");
        assert_eq!(told, "9000 of 10,000 ticks were answered, 1000 were not; no order was wrong.");
        assert!(sentence(&[&Row::default()]).is_none());
    }
}
