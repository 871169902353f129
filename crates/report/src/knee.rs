//! The knee of a curve of response time against load: the highest load that a path carries, by a stated rule.
//!
//! From the lowest offered rate upwards, the knee is the last one before the first that breaks the rule: at least
//! [`ACHIEVED_MIN`] of what was due per second was answered per second, less than [`LOST_MAX`] was lost, and the tail of the response
//! time is at most [`TAIL_TIMES`] that at the lowest rate. The tail is p99; where one of the two has too few samples for it, p90, and
//! then p50; where both have none of them, it is not judged.

use crate::schema::Row;

/// Share of the offered rate that is achieved at the least.
pub const ACHIEVED_MIN: f64 = 0.99;
/// Share of the messages below which losses are.
pub const LOST_MAX: f64 = 0.001;
/// Times the tail at the lowest rate that the tail is at the most.
pub const TAIL_TIMES: f64 = 10.0;

/// Why a rate is beyond the knee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Less was answered than [`ACHIEVED_MIN`] of what was due.
    Achieved,
    /// As much was lost as [`LOST_MAX`], or more.
    Lost,
    /// This percentile is longer than [`TAIL_TIMES`] that at the lowest rate.
    Tail(&'static str),
}

/// The knee of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Knee {
    /// At this rate; at the next one the rule is broken.
    At(f64, Broken),
    /// Not reached: the rule holds at this rate, the highest offered.
    Beyond(f64),
    /// Below this rate, the lowest offered.
    Below(f64, Broken),
}

/// The knee of the rows of one curve; none where no rate was offered.
pub fn knee(rows: &[&Row]) -> Option<Knee> {
    let mut rows: Vec<(f64, &Row)> = rows.iter().filter_map(|row| Some((row.rate_offered?, *row))).collect();
    rows.retain(|(rate, _)| rate.is_finite());
    rows.sort_by(|one, two| one.0.total_cmp(&two.0));
    let (lowest, first) = *rows.first()?;
    let mut held = None;
    for (rate, row) in rows {
        match (broken(row, first), held) {
            (None, _) => held = Some(rate),
            (Some(why), Some(held)) => return Some(Knee::At(held, why)),
            (Some(why), None) => return Some(Knee::Below(lowest, why)),
        }
    }
    held.map(Knee::Beyond)
}

/// Returns what of the rule a row breaks, if `lowest` is that of the lowest rate.
pub fn broken(row: &Row, lowest: &Row) -> Option<Broken> {
    let due = row.rate.as_ref().map(|rate| rate.rate_due).filter(|due| *due > 0.0);
    let (due, achieved) = (due.or(row.rate_offered).unwrap_or(0.0), row.rate_achieved.unwrap_or(0.0));
    if lost_share(row) >= LOST_MAX {
        return Some(Broken::Lost);
    }
    if achieved < ACHIEVED_MIN * due {
        return Some(Broken::Achieved);
    }
    tail_times(row, lowest).filter(|(_, times)| *times > TAIL_TIMES).map(|(name, _)| Broken::Tail(name))
}

/// The share of the messages that were due and were not answered, 0..1.
pub fn lost_share(row: &Row) -> f64 {
    let answered = row.rate.as_ref().map_or(row.distribution.n, |rate| rate.received);
    let due = answered.saturating_add(row.lost);
    if due == 0 { 0.0 } else { row.lost as f64 / due as f64 }
}

/// The tail of a row against that of another, by the highest percentile that both have.
fn tail_times(row: &Row, lowest: &Row) -> Option<(&'static str, f64)> {
    let (one, two) = (&row.distribution, &lowest.distribution);
    let pairs = [("p99", one.p99, two.p99), ("p90", one.p90, two.p90), ("p50", one.p50, two.p50)];
    pairs.into_iter().find_map(|(name, one, two)| Some((name, one? / two.filter(|two| *two > 0.0)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Distribution, RateDetail};

    fn row(offered: f64, achieved: f64, lost: u64, p99: Option<f64>) -> Row {
        let distribution = Distribution { n: 10_000 - lost, p50: Some(10.0), p99, ..Distribution::default() };
        let rate = Some(RateDetail { received: 10_000 - lost, ..RateDetail::default() });
        Row { rate_offered: Some(offered), rate_achieved: Some(achieved), lost, distribution, rate, ..Row::default() }
    }

    fn of(rows: &[Row]) -> Option<Knee> {
        knee(&rows.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_knee_is_the_last_rate_before_the_rule_is_broken() {
        let low = row(1e3, 1e3, 0, Some(20.0));
        let tail = row(4e3, 4e3, 0, Some(201.0));
        assert_eq!(
            of(&[low.clone(), row(2e3, 1.99e3, 9, Some(200.0)), tail]),
            Some(Knee::At(2e3, Broken::Tail("p99")))
        );
        assert_eq!(of(&[low.clone(), row(2e3, 1.97e3, 0, None)]), Some(Knee::At(1e3, Broken::Achieved)));
        assert_eq!(of(&[low.clone(), row(2e3, 2e3, 10, None)]), Some(Knee::At(1e3, Broken::Lost)));
        assert_eq!(of(&[row(2e3, 2e3, 0, Some(30.0)), low.clone()]), Some(Knee::Beyond(2e3)), "in whatever order");
        assert_eq!(of(&[row(1e3, 5e2, 0, None)]), Some(Knee::Below(1e3, Broken::Achieved)));
    }

    #[test]
    fn random_arrivals_are_held_against_what_was_due() {
        let mut few = row(1e3, 9.7e2, 0, None);
        assert_eq!(broken(&few, &few), Some(Broken::Achieved));
        few.rate.as_mut().expect("it has one").rate_due = 9.7e2;
        assert_eq!(broken(&few, &few), None, "fewer were due");
    }

    #[test]
    fn what_recovers_beyond_the_first_break_is_no_knee() {
        let rows = [row(1e3, 1e3, 0, Some(20.0)), row(2e3, 1e3, 0, None), row(4e3, 4e3, 0, Some(20.0))];
        assert_eq!(of(&rows), Some(Knee::At(1e3, Broken::Achieved)));
    }

    #[test]
    fn the_tail_is_judged_by_what_both_have() {
        let (mut low, mut high) = (row(1e3, 1e3, 0, None), row(2e3, 2e3, 0, Some(900.0)));
        assert_eq!(broken(&high, &low), None, "the medians are alike");
        (low.distribution.p90, high.distribution.p90) = (Some(1.0), Some(11.0));
        assert_eq!(broken(&high, &low), Some(Broken::Tail("p90")));
    }

    #[test]
    fn odd_rows_have_no_knee_or_an_odd_one_and_do_no_harm() {
        assert_eq!(of(&[Row::default()]), None);
        for odd in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            let mut odd = row(odd, odd, 3, Some(odd));
            odd.lost = u64::MAX;
            let _ = of(&[odd.clone(), row(1.0, 1.0, 0, Some(0.0)), odd]);
        }
    }
}
