//! The causes of the tail: what the host did during the slowest samples of each row.

use super::{Line, Table, numbers, words};
use crate::number::{self, MISSING, Unit};
use crate::schema::{Cause, Causes, Document, Row};
use crate::view::{self, words as text};

/// The title of the table.
pub(crate) const TITLE: &str = "The tail, and its causes";
/// The causes of a row that a terminal shows.
pub(crate) const FEW: usize = 6;

/// What the columns mean.
const NOTES: [&str; 3] = [
    "in samples: slow samples in whose time it was, on the CPUs of both ends (of a remote peer: of this end); explains half: those \
     where it takes at least half of what they took above the median; share: of all that time, what it takes beyond its time in \
     ordinary samples",
    "shares overlap where both CPUs were busy: they can add up to more than 100 %",
    "usual %: random intervals of the same length in the same slices that have it, too (counters: slices); where this is as high as \
     its part of the slow samples, its presence is a coincidence, unless it explains half of one",
];

/// The rows that have causes.
pub(crate) fn rows(document: &Document) -> Vec<(&Row, &Causes)> {
    document.results.iter().filter_map(|row| Some((row, row.causes.as_deref()?))).collect()
}

/// The heading of a row.
pub(crate) fn heading(row: &Row) -> String {
    format!("{}, {}, {}", view::label(row), text::transport(&row.transport), number::bytes(row.size))
}

/// The table of at most `most` causes for each row; none if nothing was observed.
pub(crate) fn table(document: &Document, most: usize) -> Option<Table> {
    let rows = rows(document);
    let unit = Unit::for_times(rows.iter().flat_map(|(_, causes)| &causes.causes).filter_map(|cause| cause.mean_ns));
    let (mut lines, mut hidden) = (Vec::new(), 0);
    let mut notes: Vec<String> = NOTES.map(Into::into).to_vec();
    for (row, causes) in &rows {
        let heading = heading(row);
        let whole = if row.measure == "half_rtt" { "; times are of whole round trips" } else { "" };
        notes.push(format!("{heading}: {}{whole}", sentence(causes)));
        lines.push(Line::Heading(heading));
        let (known, unknown): (Vec<&Cause>, Vec<&Cause>) =
            causes.causes.iter().partition(|cause| cause.class != "unknown");
        let shown = known.iter().take(most).chain(&unknown);
        lines.extend(shown.map(|cause| line(cause, causes.slowest, unit)));
        hidden += known.len().saturating_sub(most);
    }
    if hidden > 0 {
        notes.push(format!("{hidden} more causes are in the result (--json, --html)"));
    }
    let mut missing: Vec<&String> = Vec::new();
    for reason in rows.iter().flat_map(|(_, causes)| &causes.missing) {
        if !missing.contains(&reason) {
            missing.push(reason);
        }
    }
    notes.extend(missing.into_iter().map(|reason| format!("not observed: {reason}")));
    let columns = vec![
        words("cause"),
        words("kind"),
        numbers("in samples", 1),
        numbers("explains half", 0),
        numbers(format!("mean {}", unit.name), 2),
        numbers("share %", 0),
        numbers("usual %", 0),
    ];
    (!rows.is_empty()).then_some(Table { columns, lines, notes })
}

fn line(cause: &Cause, slowest: u64, unit: Unit) -> Line {
    let percent = |share: Option<f64>| share.map_or_else(|| MISSING.into(), number::percent);
    let explains = match cause.class.as_str() {
        "unknown" | "counter" | "event" => MISSING.into(),
        _ => number::count(cause.explains),
    };
    Line::plain(vec![
        cause.what.clone(),
        cause.class.clone(),
        format!("{} of {}", number::count(cause.samples), number::count(slowest)),
        explains,
        unit.time_or_missing(cause.mean_ns),
        percent(cause.share),
        percent(cause.usual),
    ])
}

/// What was looked at, and how well it could be seen.
fn sentence(causes: &Causes) -> String {
    let Causes { n, p50, slowest, from_ns, uncovered, events, lost, clock_error_ns, .. } = causes;
    let mut text = format!(
        "the slowest {} of {} samples in observed slices, {} or more (p50 {})",
        number::count(*slowest),
        number::count(*n),
        number::time(*from_ns),
        number::time(*p50)
    );
    text += &match causes.source.as_str() {
        "tracepoints" => format!(
            "; {} events, {} lost; clocks of samples and events within {}",
            number::count(*events),
            number::count(*lost),
            number::time(*clock_error_ns)
        ),
        _ => "; no events, only counters of whole slices".into(),
    };
    if *uncovered > 0 {
        text += &format!("; {} of them without a complete record", number::count(*uncovered));
    }
    if let Some(effect) = &causes.observer {
        let (ratio, interval) = (number::ratio(effect.p50_ratio), number::ratio_interval(effect.ci95));
        text += &format!("; p50 with observing against without: {ratio} ({interval}); the row's figures are without");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_document_without_observation_has_no_table() {
        assert!(table(&Document::default(), FEW).is_none());
    }

    #[test]
    fn what_nothing_explains_stays_in_a_short_table() {
        let mut document = sample::document();
        document.results.retain(|row| row.causes.is_some());
        let all = table(&document, usize::MAX).unwrap();
        let short = table(&document, 1).unwrap();
        let cells = |table: &Table| -> Vec<Vec<String>> {
            let cells = |line: &Line| match line {
                Line::Cells { cells, .. } => Some(cells.clone()),
                Line::Heading(_) => None,
            };
            table.lines.iter().filter_map(cells).collect()
        };
        assert!(cells(&all).len() > 2 && cells(&short).len() == 2);
        assert_eq!(cells(&short)[1][1], "unknown");
        let slowest = document.results[0].causes.as_ref().expect("it was kept").slowest;
        assert!(cells(&all)[0][2].ends_with(&format!(" of {}", number::count(slowest))), "{:?}", cells(&all)[0]);
        assert!(short.notes.iter().any(|note| note.contains("more causes are in the result")));
        assert!(all.notes.iter().any(|note| note.contains("the row's figures are without")));
        assert!(all.notes.iter().any(|note| note.starts_with("not observed: SMIs")));
    }
}
