//! The knees of open loops, in words.

use super::{Group, by_load_chart, by_load_curve, label, sweep};
use crate::knee::{self, ACHIEVED_MIN, Broken, Knee, LOST_MAX, TAIL_TIMES};
use crate::number;
use crate::schema::{Document, Row};

/// One sentence for each transport and size: the knee of each curve.
pub(crate) fn sentences(document: &Document) -> Vec<String> {
    let sentence = |group: &Group<'_>| {
        let curves = by_load_curve(&group.rows);
        let knees: Vec<_> = curves.iter().filter_map(|curve| told(&curve.rows)).collect();
        (!knees.is_empty())
            .then(|| format!("{}, the highest load carried (knee): {}.", group.heading, knees.join("; ")))
    };
    by_load_chart(&sweep(document, "open-loop")).iter().filter_map(sentence).collect()
}

/// The rule, for a note beside a table.
pub(crate) fn rule() -> String {
    format!(
        "knee: from the lowest rate upwards the last one at which at least {:.0} % of the offered rate is answered, less than {} % is \
         lost, and p99 of the response time is at most {TAIL_TIMES:.0} times that at the lowest rate (p90 or p50 where there are too few \
         samples for it)",
        ACHIEVED_MIN * 100.0,
        LOST_MAX * 100.0
    )
}

/// The knee of a curve, with its name.
fn told(rows: &[&Row]) -> Option<String> {
    let (name, rate) = (label(rows.first()?), |rate: f64| format!("{}/s", number::rate(rate)));
    Some(match knee::knee(rows)? {
        Knee::At(held, why) => format!("{name} {} (at the next rate {})", rate(held), reason(why)),
        Knee::Beyond(last) => format!("{name} {} or more: it was not reached", rate(last)),
        Knee::Below(first, why) => format!("{name} below {} ({})", rate(first), reason(why)),
    })
}

fn reason(why: Broken) -> String {
    match why {
        Broken::Achieved => "it falls behind".into(),
        Broken::Lost => "messages are lost or not answered".into(),
        Broken::Tail(percentile) => format!("{percentile} grows more than tenfold"),
    }
}

/// Returns the rate of the knee, if there is one.
pub(crate) fn rate(rows: &[&Row]) -> Option<f64> {
    match knee::knee(rows)? {
        Knee::At(rate, _) => Some(rate),
        Knee::Beyond(_) | Knee::Below(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Distribution, RateDetail};

    fn row(path: &str, offered: f64, achieved: f64) -> Row {
        Row {
            scenario: "open-loop".into(),
            transport: "udp".into(),
            path: path.into(),
            size: 64,
            rate_offered: Some(offered),
            rate_achieved: Some(achieved),
            distribution: Distribution { n: 1_000, p99: Some(9.0), ..Distribution::default() },
            rate: Some(RateDetail { received: 1_000, ..RateDetail::default() }),
            ..Row::default()
        }
    }

    #[test]
    fn each_curve_has_its_knee() {
        let results = vec![
            row("kernel-spin", 1e4, 1e4),
            row("kernel-spin", 2e4, 1.5e4),
            row("xdp", 1e4, 1e4),
            row("xdp", 2e4, 2e4),
            row("uring", 1e4, 1e3),
        ];
        let told = sentences(&Document { results, ..Document::default() });
        let expected = "UDP, 64\u{a0}B, the highest load carried (knee): kernel-spin 10,000/s (at the next rate it falls behind); \
                        xdp 20,000/s or more: it was not reached; uring below 10,000/s (it falls behind).";
        assert_eq!(told, [expected]);
        assert!(sentences(&Document::default()).is_empty());
    }

    #[test]
    fn the_rule_says_its_numbers() {
        assert!(
            rule().contains("at least 99 %")
                && rule().contains("less than 0.1 %")
                && rule().contains("at most 10 times")
        );
    }
}
