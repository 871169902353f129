//! One run per side: the floor is the largest of the runs' own controls, the difference of their yardsticks, the spread of
//! the slices of one run, and 5 %.

use super::{NoisyRatio, circumstances, slices, spread, statistic};
use crate::stats::{self, Estimate};
use sidestep_report::schema::{Document, Row};

/// The least difference that is called one: 18 equal runs on a shared virtual machine differed by up to 3.7 % in the
/// median of their slices.
const FLOOR_MIN: f64 = 0.05;
/// The highest floor that controls can cause: a noisier run shows in its own intervals.
const CONTROL_MAX: f64 = 0.25;

pub(super) fn compare((before, first): (&Row, &Document), (after, second): (&Row, &Document)) -> NoisyRatio {
    let within = |row, document| control(row, document).min(CONTROL_MAX).max(spread(row));
    let change = circumstances::machine_change(std::slice::from_ref(first), std::slice::from_ref(second));
    let noise_floor = within(before, first).max(within(after, second)).max(change).max(FLOOR_MIN);
    NoisyRatio { estimate: ratio(before, after), noise_floor }
}

/// Ratio of the medians of the slices' medians. The two runs are independent: the half widths of their intervals add in squares.
/// `None` if the spread of one run's slices is so wide that its interval reaches zero.
fn ratio(before: &Row, after: &Row) -> Option<Estimate> {
    let (before, after) = (stats::median(&slices(before)?)?, stats::median(&slices(after)?)?);
    let value = after.value / before.value;
    let below = (after.value / after.ci95[0]).ln().hypot((before.ci95[1] / before.value).ln());
    let above = (after.ci95[1] / after.value).ln().hypot((before.value / before.ci95[0]).ln());
    let ci95 = [value * (-below).exp(), value * above.exp()];
    ci95.iter().all(|end| end.is_finite()).then_some(Estimate { value, ci95 })
}

/// Returns the distance of the row's own control from 1. Its value, not its interval: the uncertainty of the row is in the
/// interval of the comparison already.
fn control(row: &Row, document: &Document) -> f64 {
    let this = row.rung.as_ref().unwrap_or(&row.path);
    let controls = document.ratios.iter().filter(|ratio| {
        let is_control = ratio.of == ratio.against && &ratio.of == this && ratio.stat == statistic(row);
        // A ratio names measure and pace only in a scenario with several.
        let same = ratio.measure.is_empty()
            || (&ratio.measure, ratio.rate_offered, ratio.sessions) == (&row.measure, row.rate_offered, row.sessions);
        let alike = ratio.scenario == row.scenario && ratio.transport == row.transport && ratio.size == row.size;
        is_control && same && alike
    });
    controls.map(|ratio| if ratio.value > 0.0 { ratio.value.ln().abs().exp_m1() } else { 0.0 }).fold(0.0, f64::max)
}
