//! Percentiles that are withheld because they may lie among what was lost.

use crate::knee::lost_share;
use crate::number;
use crate::schema::{Distribution, Row};
use crate::view::label;

/// A percentile: its name, the share beyond it, and its value.
type Percentile = (&'static str, f64, fn(&Distribution) -> Option<f64>);

const PERCENTILES: [Percentile; 4] =
    [("p50", 0.5, |d| d.p50), ("p90", 0.1, |d| d.p90), ("p99", 0.01, |d| d.p99), ("p99.9", 0.001, |d| d.p99_9)];

/// Most rows that a note names.
const NAMED_MAX: usize = 6;

/// One note for each percentile of those `shown` that a row lacks because as large a share as lies beyond it was lost.
pub(super) fn notes(rows: &[&Row], shown: &[&str]) -> Vec<String> {
    PERCENTILES.iter().filter(|(name, ..)| shown.contains(name)).filter_map(|one| note(rows, one)).collect()
}

fn note(rows: &[&Row], (name, beyond, of): &Percentile) -> Option<String> {
    let is_withheld = |row: &&&Row| {
        let lost = lost_share(row);
        of(&row.distribution).is_none() && lost >= *beyond && lost > 0.0
    };
    let mut where_to: Vec<String> = rows.iter().filter(is_withheld).map(|row| told(row)).collect();
    let more = where_to.len().saturating_sub(NAMED_MAX);
    where_to.truncate(NAMED_MAX);
    if more > 0 {
        where_to.push(format!("{more} more"));
    }
    (!where_to.is_empty()).then(|| {
        format!("{name} n/a: what is lost is longer than what was seen, and may hold it: {}", where_to.join("; "))
    })
}

fn told(row: &Row) -> String {
    let rate = row.rate_offered.map(|rate| format!(" at {}/s", number::rate(rate))).unwrap_or_default();
    format!("{}{rate}, {} % lost", label(row), number::percent(lost_share(row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_among_what_was_lost_is_explained() {
        let row = |n, lost, p99| Row {
            path: "kernel-spin".into(),
            rate_offered: Some(4e5),
            lost,
            distribution: Distribution { n, p50: Some(5.0), p99, ..Distribution::default() },
            ..Row::default()
        };
        let (whole, lossy) = (row(100_000, 0, Some(9.0)), row(98_700, 1_300, None));
        let found = notes(&[&whole, &lossy], &["p50", "p99"]);
        let expected = "p99 n/a: what is lost is longer than what was seen, and may hold it: kernel-spin at 400,000/s, 1.30 % lost";
        assert_eq!(found, [expected]);
        assert!(notes(&[&row(50, 0, None)], &["p99"]).is_empty(), "it has too few samples");
        let many = vec![&lossy; 9];
        assert!(notes(&many, &["p99"])[0].ends_with("; 3 more"));
    }
}
