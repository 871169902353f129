//! The rates that paths reached, in words: what was not sent and what was lost on the way are two things.

use super::{Group, by_curve, by_transport, label, sweep, words};
use crate::number;
use crate::schema::{Document, RateDetail, Row};
use std::cmp::Ordering;

/// Below this share of the offered rate a rate counts as not reached.
const REACHED_SHARE: f64 = 0.9;

/// A sender that sends less than this share of the offered rate does not keep it.
const KEPT_SHARE: f64 = 0.99;

/// One sentence per transport: the highest rate that each curve reached, and what was missing there and at the next one.
pub(crate) fn sentences(document: &Document) -> Vec<String> {
    let sentence = |group: &Group<'_>| {
        let curves: Vec<_> = by_curve(&group.rows).iter().map(|curve| highest_reached(&curve.rows)).collect();
        let transport = words::transport(&group.rows[0].transport);
        format!("{transport}, highest rate of which at least 90 % arrived: {}.", curves.join("; "))
    };
    by_transport(&sweep(document, "rates")).iter().map(sentence).collect()
}

/// The share of the messages sent that did not arrive.
pub(crate) fn loss(rate: &RateDetail) -> Option<f64> {
    let lost = rate.sent.saturating_sub(rate.received);
    (rate.sent > 0).then(|| lost as f64 / rate.sent as f64)
}

/// The share of the offered rate that was not sent, where the sender did not keep the rate.
pub(crate) fn not_sent(row: &Row) -> Option<f64> {
    let (offered, sent) = (row.rate_offered?, row.rate.as_ref()?.rate_sent);
    (sent < KEPT_SHARE * offered).then(|| 1.0 - sent / offered)
}

fn highest_reached(rows: &[&Row]) -> String {
    let by_rate = |a: &&&Row, b: &&&Row| a.rate_offered.partial_cmp(&b.rate_offered).unwrap_or(Ordering::Equal);
    let highest = rows.iter().filter(|row| is_reached(row)).max_by(by_rate);
    let reached = highest.and_then(|row| row.rate_offered);
    let next = rows.iter().filter(|row| row.rate_offered > reached).min_by(by_rate);
    let there = highest.map(|row| missing(row));
    let beyond = next.and_then(|row| Some(format!("at {}/s {}", number::rate(row.rate_offered?), missing(row))));
    let told: Vec<String> = [there, beyond].into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let told = if told.is_empty() { String::new() } else { format!(" ({})", told.join("; ")) };
    let rate = reached.map_or_else(|| "none".into(), |rate| format!("{}/s", number::rate(rate)));
    format!("{} {rate}{told}", label(rows[0]))
}

/// What of a rate is missing: not sent, and lost.
fn missing(row: &Row) -> String {
    let told = |share: Option<f64>, what| share.map(|share| format!("{} % {what}", number::percent(share)));
    let lost = row.rate.as_ref().and_then(loss);
    let lost = if lost == Some(0.0) { Some("none lost".to_owned()) } else { told(lost, "lost") };
    let parts = [told(not_sent(row), "not sent"), lost];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn is_reached(row: &Row) -> bool {
    matches!((row.rate_offered, row.rate_achieved), (Some(offered), Some(achieved)) if achieved >= REACHED_SHARE * offered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(offered: f64, sent: u64, received: u64) -> Row {
        Row {
            scenario: "rates".into(),
            transport: "udp".into(),
            path: "kernel-spin".into(),
            rate_offered: Some(offered),
            rate_achieved: Some(received as f64),
            rate: Some(RateDetail { sent, received, rate_sent: sent as f64, ..RateDetail::default() }),
            ..Row::default()
        }
    }

    #[test]
    fn what_was_not_sent_is_not_called_lost() {
        let told = |results| sentences(&Document { results, ..Document::default() }).concat();
        let all = told(vec![row(5e3, 5_000, 5_000), row(1e4, 840, 840)]);
        let expected = "UDP, highest rate of which at least 90 % arrived: kernel-spin 5000/s (none lost; at 10,000/s 91.60 % not sent, \
                        none lost).";
        assert_eq!(all, expected);
        let none = told(vec![row(1e4, 840, 420)]);
        assert!(none.ends_with("kernel-spin none (at 10,000/s 91.60 % not sent, 50.00 % lost)."), "{none}");
        assert_eq!(not_sent(&row(1e4, 9_950, 9_950)), None);
    }
}
