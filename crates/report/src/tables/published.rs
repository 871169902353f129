//! Figures of others beside those of the run.

use super::{Line, Table, numbers, words};
use crate::number;
use crate::schema::{Published, PublishedRow};

/// The table of what one source publishes, its remarks below; none where it has no rows.
pub(crate) fn table(published: &Published) -> Option<Table> {
    let baseline = published.rows.first()?;
    let of = |what: &str| format!("{what} {}", published.unit);
    let columns = vec![
        words("as published"),
        numbers(of("p50"), 0),
        numbers(of("p99"), 0),
        numbers(of("p99.9"), 1),
        numbers("p50 below the first", 2),
        numbers("p99 below the first", 2),
    ];
    let lines = published.rows.iter().map(|row| Line::plain(cells(row, baseline))).collect();
    Some(Table { columns, lines, notes: published.remarks.clone() })
}

/// The heading.
pub(crate) fn title(published: &Published) -> String {
    format!("Published by others: {}", published.source)
}

fn cells(row: &PublishedRow, baseline: &PublishedRow) -> Vec<String> {
    let figure = |value: f64| number::rate(value);
    let below = |of: fn(&PublishedRow) -> f64| match of(baseline) / of(row) {
        times if times.is_finite() => format!("{times:.1}x"),
        _ => number::MISSING.into(),
    };
    vec![
        row.name.clone(),
        figure(row.p50),
        figure(row.p99),
        figure(row.p99_9),
        below(|row| row.p50),
        below(|row| row.p99),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Document;
    use crate::terminal::Style;
    use crate::{html, terminal};

    #[test]
    fn both_forms_show_what_others_publish_as_theirs() {
        let row = |name: &str, p50| PublishedRow { name: name.into(), p50, p99: 2.0 * p50, p99_9: 0.0 };
        let published = Published {
            source: "somebody/<something>".into(),
            unit: "cycles".into(),
            rows: vec![row("blocking", 1000.0), row("ring", 10.0)],
            remarks: vec!["Its own figures.".into()],
        };
        let document = Document { published: vec![published], ..Document::default() };
        let text = terminal::render(&document, Style { verbose: true, ..Style::default() });
        for part in ["Published by others: somebody/<something>", "100.0x", "p50 cycles", "Its own figures."] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let page = html::render(&document);
        assert!(page.contains("somebody/&lt;something&gt;") && page.contains("100.0x"));
        assert!(table(&Published::default()).is_none());
    }
}
