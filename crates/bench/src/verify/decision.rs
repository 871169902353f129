//! The decision on a step: kept, dropped, unseen or impossible.

use crate::scenario::Findings;
use sidestep_report::schema::Ratio;

/// The decision on a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) outcome: Outcome,
    pub(super) reason: String,
}

/// What becomes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It helps, and stays for the steps that follow.
    Kept,
    /// It does not help.
    Dropped,
    /// Its effect could not have been seen in the time of the measurement.
    Unseen,
    /// It cannot be made here.
    Impossible,
    /// It was not allowed.
    NotTried,
}

/// One statistic with the step against the same without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Better,
    Worse,
    /// Inside its interval, or inside the noise floor of the arms.
    None,
    /// Too few samples.
    Unknown,
}

impl Decision {
    /// Returns that a step cannot be made, with the reason.
    pub(super) fn impossible(reason: impl Into<String>) -> Self {
        Self { outcome: Outcome::Impossible, reason: reason.into() }
    }

    /// Returns that a step was not tried, as a flag is missing.
    pub(super) fn not_tried(flag: &str) -> Self {
        Self { outcome: Outcome::NotTried, reason: format!("needs {flag}") }
    }

    /// Decides by a run of two arms: without the step, and with it.
    pub(super) fn of(findings: &Findings, [without, with]: &[String; 2]) -> Self {
        let is_it = |name: &Option<String>| name.as_ref() == Some(with);
        if let Some(missing) = findings.unavailable.iter().find(|missing| is_it(&missing.rung)) {
            return Self::impossible(&missing.reason);
        }
        let effect = |stat| effect(&findings.ratios, stat, without, with);
        let (is_kept, reason) = match (effect("p50"), effect("p99")) {
            (Effect::Unknown, _) => (false, "not enough data: measure for longer (--duration)"),
            (Effect::Better, Effect::Worse) => (false, "the median is better here, and the 99th percentile worse"),
            (Effect::None, Effect::Worse) => (false, "the 99th percentile is worse here"),
            (Effect::Worse, Effect::Better) => {
                (false, "the median is worse here, though the 99th percentile is better")
            }
            (Effect::Worse, _) => (false, "worse here"),
            (Effect::Better, Effect::Better) => (true, "median and 99th percentile are better here"),
            (Effect::Better, _) => (true, "the median is better here"),
            (Effect::None, Effect::Better) => (true, "the 99th percentile is better here"),
            (Effect::None, _) => (false, "no measurable difference here"),
        };
        Self { outcome: if is_kept { Outcome::Kept } else { Outcome::Dropped }, reason: reason.into() }
    }

    /// Returns the word of the result file.
    pub(super) fn word(&self) -> &'static str {
        match self.outcome {
            Outcome::Kept => "kept",
            Outcome::Dropped => "dropped",
            Outcome::Unseen => "unseen",
            Outcome::Impossible => "impossible",
            Outcome::NotTried => "not tried",
        }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.outcome == Outcome::Kept
    }
}

/// Returns better or worse only if the interval excludes 1 and the ratio exceeds the noise floor: the interval of either
/// arm against itself.
fn effect(ratios: &[Ratio], stat: &str, without: &str, with: &str) -> Effect {
    let find = |of: &str, against: &str| {
        ratios.iter().find(|ratio| ratio.stat == stat && ratio.of == of && ratio.against == against)
    };
    let Some(ratio) = find(with, without) else { return Effect::Unknown };
    let reach = |control: &Ratio| control.ci95.iter().map(|end| end.ln().abs()).fold(0.0, f64::max);
    let floor = [without, with].iter().filter_map(|arm| find(arm, arm)).map(reach).fold(0.0, f64::max);
    let [low, high] = ratio.ci95;
    match ratio.value.ln().abs() > floor {
        true if high < 1.0 => Effect::Better,
        true if low > 1.0 => Effect::Worse,
        _ => Effect::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_report::schema::Unavailable;

    fn ratio(stat: &str, of: &str, against: &str, value: f64, spread: f64) -> Ratio {
        let ci95 = [value - spread, value + spread];
        Ratio { stat: stat.into(), of: of.into(), against: against.into(), value, ci95, ..Ratio::default() }
    }

    /// Decides by a median, a 99th percentile (none: too few samples), and the noise floor.
    fn decided(p50: f64, p99: Option<f64>, control: f64) -> Decision {
        let mut ratios = vec![ratio("p50", "b", "a", p50, 0.02), ratio("p50", "a", "a", 1.0, control)];
        ratios.extend(p99.map(|p99| ratio("p99", "b", "a", p99, 0.02)));
        Decision::of(&Findings { ratios, ..Findings::default() }, &["a".into(), "b".into()])
    }

    #[test]
    fn kept_where_something_is_better_and_nothing_worse() {
        assert!(decided(0.9, None, 0.01).is_kept());
        assert!(decided(0.9, Some(0.8), 0.01).is_kept());
        assert!(decided(1.0, Some(0.8), 0.01).is_kept());
        for (p50, p99) in [(0.9, 1.2), (1.0, 1.2), (1.1, 0.8), (1.1, 1.0)] {
            let decision = decided(p50, Some(p99), 0.01);
            assert!(!decision.is_kept() && decision.reason.contains("worse"), "{decision:?}");
        }
    }

    #[test]
    fn what_the_noise_can_explain_is_no_effect() {
        assert_eq!(decided(0.99, None, 0.01).reason, "no measurable difference here");
        assert_eq!(decided(0.9, None, 0.2).reason, "no measurable difference here", "inside the noise floor");
        assert_eq!(decided(f64::NAN, None, 0.2).word(), "dropped");
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let names = ["a".to_owned(), "b".to_owned()];
        let nothing = Decision::of(&Findings::default(), &names);
        assert!(nothing.reason.contains("not enough data") && nothing.word() == "dropped");
        let unavailable =
            vec![Unavailable { rung: Some("b".into()), reason: "no root".into(), ..Unavailable::default() }];
        let refused = Decision::of(&Findings { unavailable, ..Findings::default() }, &names);
        assert_eq!((refused.word(), refused.reason.as_str()), ("impossible", "no root"));
    }
}
