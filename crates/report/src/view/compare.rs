//! Ratios: their baselines and their meaning.

use super::{is_stream, label};
use crate::number;
use crate::schema::{Document, Ratio, Row};

/// The path against itself.
pub(crate) fn is_control(ratio: &Ratio) -> bool {
    ratio.of == ratio.against
}

/// The ratio of `row` to its baseline, for the statistic `stat`.
pub(crate) fn against_baseline<'a>(document: &'a Document, row: &Row, stat: &str) -> Option<&'a Ratio> {
    document.ratios.iter().find(|ratio| !is_control(ratio) && ratio.of == label(row) && belongs(ratio, row, stat))
}

/// Returns whether `row` is a baseline of other paths.
fn is_baseline(document: &Document, row: &Row, stat: &str) -> bool {
    let mut ratios = document.ratios.iter();
    ratios.any(|ratio| !is_control(ratio) && ratio.against == label(row) && belongs(ratio, row, stat))
}

/// Returns the ratio of `row` to its baseline, for a cell: of the medians; for throughput, of the means.
pub(crate) fn standing(document: &Document, row: &Row) -> String {
    let stat = if is_stream(row) { "mean" } else { "p50" };
    match against_baseline(document, row, stat) {
        Some(ratio) => number::ratio(ratio.value),
        None if is_baseline(document, row, stat) => "baseline".into(),
        None => "-".into(),
    }
}

/// The controls among `ratios`, from the quietest to the noisiest.
pub(crate) fn controls<'a>(ratios: impl IntoIterator<Item = &'a Ratio>) -> Vec<&'a Ratio> {
    let mut controls: Vec<_> = ratios.into_iter().filter(|ratio| is_control(ratio) && is_usable(ratio)).collect();
    controls.sort_by(|a, b| noise_floor(a).total_cmp(&noise_floor(b)));
    controls
}

/// The control of `row`: its path against itself.
pub(crate) fn control<'a>(document: &'a Document, row: &Row) -> Option<&'a Ratio> {
    document.ratios.iter().find(|ratio| is_control(ratio) && ratio.of == label(row) && belongs(ratio, row, "p50"))
}

fn belongs(ratio: &Ratio, row: &Row, stat: &str) -> bool {
    let scenario = ratio.scenario.is_empty() || ratio.scenario == row.scenario;
    let transport = ratio.transport.is_empty() || ratio.transport == row.transport;
    // Only a scenario with several measures or paces names them in its ratios.
    let same = ratio.measure.is_empty()
        || (&ratio.measure, ratio.rate_offered, ratio.sessions) == (&row.measure, row.rate_offered, row.sessions);
    scenario
        && transport
        && same
        && ratio.stat == stat
        && (ratio.size == 0 || ratio.size == row.size)
        && is_usable(ratio)
}

fn is_usable(ratio: &Ratio) -> bool {
    let [low, high] = ratio.ci95;
    [ratio.value, low, high].iter().all(|value| value.is_finite() && *value > 0.0)
}

/// The noise floor as a share: how far from 1 the control's interval reaches.
pub(crate) fn noise_floor(control: &Ratio) -> f64 {
    let [low, high] = control.ci95;
    (1.0 - low).max(high - 1.0).max(0.0)
}

/// The ratio in words ("13.5 times below").
pub(crate) fn reading(ratio: &Ratio) -> String {
    let [low, high] = ratio.ci95;
    if !is_usable(ratio) {
        return "not usable".into();
    }
    if is_control(ratio) {
        return format!("noise floor {} %", number::percent(noise_floor(ratio)));
    }
    match ratio.value {
        _ if low <= 1.0 && high >= 1.0 => "no measurable difference".into(),
        value if value < 1.0 => format!("{} times below", number::times(1.0 / value)),
        value => format!("{} times above", number::up(value, 2)),
    }
}

/// The interval of "times below", grown on both sides.
pub(crate) fn times_interval(ratio: &Ratio) -> String {
    let [low, high] = ratio.ci95;
    format!("{}..{}", number::times(1.0 / high), number::up(1.0 / low, if low > 0.1 { 2 } else { 1 }))
}
