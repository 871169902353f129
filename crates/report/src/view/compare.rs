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

/// The statistic whose ratio stands in the main table.
pub(crate) fn shown_of(row: &Row) -> &'static str {
    if is_stream(row) { "mean" } else { "p50" }
}

/// Returns the ratio of `row` to its baseline, for a cell: of the medians; for throughput, of the means.
pub(crate) fn standing(document: &Document, row: &Row) -> String {
    let stat = shown_of(row);
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

/// The middle one of the noise floors of all paths' medians, floors of the machine aside.
pub(crate) fn typical_noise(document: &Document) -> Option<f64> {
    typical_noise_of(document, |_| true)
}

/// Like [`typical_noise`], of the paths that `select` lets through.
pub(crate) fn typical_noise_of(document: &Document, select: impl Fn(&str) -> bool) -> Option<f64> {
    let is_path = |ratio: &&Ratio| ratio.stat == "p50" && !super::path::is_floor(&ratio.of) && select(&ratio.of);
    let paths = document.ratios.iter().filter(is_path);
    let controls = controls(paths);
    Some(noise_floor(controls.get(controls.len() / 2)?))
}

/// The noise floor as a share: how far from 1 the control's interval reaches, to either side alike (1.25 and 1/1.25 are 25 %).
pub(crate) fn noise_floor(control: &Ratio) -> f64 {
    control.ci95.iter().map(|end| end.ln().abs()).fold(0.0, f64::max).exp_m1()
}

/// A control that reaches further than this is wide: what is compared with such a path is no headline.
const WIDE: f64 = 0.25;

/// What a ratio says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Standing<'a> {
    /// Its interval holds 1.
    None,
    /// Its interval does not, but a path, which is named, has too few rounds for a control.
    NoControl(&'a str),
    /// It lies inside the noise floor of one of its two paths, which is named.
    WithinNoise(&'a str, f64),
    /// Below, or above, by more than the noise.
    Below,
    Above,
}

/// Judges a ratio by its interval and by the controls of both its paths.
pub(crate) fn judge<'a>(document: &'a Document, ratio: &'a Ratio) -> Standing<'a> {
    let [low, high] = ratio.ci95;
    if low <= 1.0 && high >= 1.0 {
        return Standing::None;
    }
    let mut widest: (&str, f64) = ("", 0.0);
    for path in [&ratio.of, &ratio.against] {
        match floor_of(document, ratio, path) {
            None => return Standing::NoControl(path),
            Some(floor) if floor >= widest.1 => widest = (path, floor),
            Some(_) => {}
        }
    }
    let (path, floor) = widest;
    match ratio.value {
        value if value.ln().abs() <= floor.ln_1p() => Standing::WithinNoise(path, floor),
        value if value < 1.0 => Standing::Below,
        _ => Standing::Above,
    }
}

/// The noise floor of one of a ratio's paths; none if it has no control.
fn floor_of(document: &Document, ratio: &Ratio, path: &str) -> Option<f64> {
    let its = || {
        document.ratios.iter().filter(|control| {
            let same =
                (&control.scenario, &control.stat, &control.measure) == (&ratio.scenario, &ratio.stat, &ratio.measure);
            let paced = (control.rate_offered, control.sessions) == (ratio.rate_offered, ratio.sessions);
            is_control(control) && control.of == path && is_usable(control) && same && paced
        })
    };
    let alike = its().find(|control| (&control.transport, control.size) == (&ratio.transport, ratio.size));
    // A path over another medium is compared with a network path of another transport, a cache line with one of another size.
    let other = || its().next().filter(|_| path != ratio.of);
    alike.or_else(other).map(noise_floor)
}

/// The row of one of a ratio's paths.
fn row_of<'a>(document: &'a Document, ratio: &Ratio, path: &str) -> Option<&'a Row> {
    let its = || {
        document.results.iter().filter(|row| {
            let same = ratio.measure.is_empty()
                || (&ratio.measure, ratio.rate_offered, ratio.sessions)
                    == (&row.measure, row.rate_offered, row.sessions);
            label(row) == path && row.scenario == ratio.scenario && same
        })
    };
    let alike = its().find(|row| (&row.transport, row.size) == (&ratio.transport, ratio.size));
    alike.or_else(|| its().next().filter(|_| path != ratio.of))
}

/// Returns the reason why a ratio is no headline, if it is none: one of its paths has modes, or a control that is wide or missing.
pub(crate) fn unsteady(document: &Document, ratio: &Ratio) -> Option<String> {
    [&ratio.against, &ratio.of].into_iter().find_map(|path| {
        let modes = row_of(document, ratio, path).map_or(0, |row| row.modes.len());
        match floor_of(document, ratio, path) {
            _ if modes > 0 => Some(format!("{path} has {modes} modes")),
            None => Some(format!("{path} has too few rounds for a control")),
            Some(floor) if floor > WIDE => Some(format!("{path} differs from itself by {}", number::difference(floor))),
            Some(_) => None,
        }
    })
}

/// The ratios of `row` to other paths, for the statistic `stat`.
pub(crate) fn against_all<'a>(document: &'a Document, row: &Row, stat: &str) -> Vec<&'a Ratio> {
    let of_row = |ratio: &&Ratio| !is_control(ratio) && ratio.of == label(row) && belongs(ratio, row, stat);
    document.ratios.iter().filter(of_row).collect()
}

/// The ratio in words ("13.5 times below").
pub(crate) fn reading(document: &Document, ratio: &Ratio) -> String {
    if !is_usable(ratio) {
        return "not usable".into();
    }
    if is_control(ratio) {
        return format!("noise floor {}", number::difference(noise_floor(ratio)));
    }
    match judge(document, ratio) {
        Standing::None => "no measurable difference".into(),
        Standing::NoControl(path) => format!("not judged: {path} has too few rounds for a control"),
        Standing::WithinNoise(path, floor) => {
            format!("within the noise: {path} differs from itself by {}", number::difference(floor))
        }
        Standing::Below => format!("{} times below", number::times(1.0 / ratio.value)),
        Standing::Above => format!("{} times above", number::up(ratio.value, 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{ratio, round_trip};
    use crate::schema::Mode;
    use crate::view::sentences;

    /// kernel-default, kernel-spin and xdp; each with a control of that reach.
    fn document(floors: [f64; 3]) -> Document {
        let paths = ["kernel-default", "kernel-spin", "xdp"];
        let mut ratios: Vec<Ratio> =
            paths.iter().zip(floors).map(|(path, floor)| ratio(path, path, 1.0, floor)).collect();
        ratios.extend([ratio("xdp", "kernel-default", 0.1, 0.02), ratio("xdp", "kernel-spin", 0.9, 0.02)]);
        let results = paths.iter().zip([30_000.0, 3_300.0, 3_000.0]).map(|(path, p50)| round_trip(path, p50)).collect();
        Document { results, ratios, ..Document::default() }
    }

    #[test]
    fn a_ratio_inside_the_noise_of_either_path_is_no_difference() {
        let quiet = document([0.01; 3]);
        assert_eq!(reading(&quiet, &quiet.ratios[4]), "1.11 times below");
        for floors in [[0.01, 0.2, 0.01], [0.01, 0.01, 0.2]] {
            let noisy = document(floors);
            assert!(reading(&noisy, &noisy.ratios[4]).starts_with("within the noise: "), "{floors:?}");
            assert!(reading(&noisy, &noisy.ratios[3]).ends_with("times below"), "another baseline, another noise");
        }
        assert_eq!(reading(&quiet, &ratio("xdp", "kernel-spin", 1.0, 0.02)), "no measurable difference");
    }

    #[test]
    fn a_run_whose_paths_are_not_alike_to_themselves_compares_nothing() {
        let careful = |floors| sentences::too_noisy(&document(floors)).unwrap_or_default();
        assert!(!careful([0.01, 0.01, 0.9]).contains("can compare nothing"));
        let noisy = careful([0.01, 0.9, 0.9]);
        assert!(
            noisy.contains("can compare nothing: in the middle, a path differs from itself by a factor of 10."),
            "{noisy}"
        );
    }

    #[test]
    fn two_directions_with_modes_are_told_apart() {
        let mode = |share| Mode { slices: 10, share, p50: 9e3, one_cpu: None };
        let mut both = document([0.01; 3]);
        for (row, scenario) in both.results.iter_mut().zip(["bulk", "bulk-back"]) {
            (row.path, row.scenario, row.modes) =
                ("kernel-spin".into(), scenario.into(), vec![mode(0.333), mode(0.667)]);
        }
        let careful = sentences::modes(&both).concat();
        for part in
            ["64\u{a0}B, to the peer, has 2", "64\u{a0}B, from the peer, has 2", "in 33.3 % of its", "in 66.7 % of its"]
        {
            assert!(careful.contains(part), "{part}: {careful}");
        }
    }

    #[test]
    fn a_path_with_modes_or_a_wide_control_is_no_headline() {
        let against = |document: &Document| {
            let ratios = against_all(document, &document.results[2], "p50").into_iter();
            let steady = ratios.filter(|ratio| unsteady(document, ratio).is_none());
            steady.map(|ratio| ratio.against.clone()).collect::<Vec<_>>()
        };
        assert_eq!(against(&document([0.01; 3])), ["kernel-default", "kernel-spin"]);
        assert_eq!(against(&document([0.4, 0.01, 0.01])), ["kernel-spin"]);
        let mut bistable = document([0.01; 3]);
        let mode = |share, p50, one_cpu| Mode { slices: 10, share, p50, one_cpu: Some(one_cpu) };
        bistable.results[0].modes = vec![mode(0.4, 9_000.0, 1.0), mode(0.6, 70_000.0, 0.0)];
        assert_eq!(against(&bistable), ["kernel-spin"]);
        let careful = sentences::modes(&bistable).concat();
        assert!(careful.contains("both ends on one CPU in 100"), "{careful}");
    }
}
