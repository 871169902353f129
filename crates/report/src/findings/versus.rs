//! One path against another, in words.

use super::quantity::{factor, factors, percent_above, percents_above};
use crate::number::NO_BREAK;
use crate::schema::{Document, Ratio};
use crate::view::compare::{self, Standing};

/// Below this a factor is said in per cent.
const PERCENT_BELOW: f64 = 1.2;

/// An interval whose ends are further apart than this has no middle worth naming.
const WIDE: f64 = 1.5;

/// What may be said of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Faster, beyond the noise of both paths.
    Faster,
    /// Slower, beyond the noise of both paths.
    Slower,
    /// The interval holds 1.
    NoDifference,
    /// The interval excludes 1, but a path differs as much from itself.
    WithinNoise,
    /// The interval excludes 1, but a path has too few rounds to be compared with itself.
    NotJudged,
}

/// A comparison in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Versus {
    /// What may be said.
    pub kind: Kind,
    /// The other path.
    pub against: String,
    /// What was found: `2.0× faster`, `no measurable difference`.
    pub finding: String,
    /// The 95 % interval (`1.9–2.2×`); empty where the finding is the interval.
    pub interval: String,
    /// The reason why a difference is not called one; else empty.
    pub reason: String,
}

impl Versus {
    /// Finding and interval: `2.0× faster (1.9–2.2×)`.
    pub fn text(&self) -> String {
        match self.interval.as_str() {
            "" => self.finding.clone(),
            interval => format!("{} ({interval})", self.finding),
        }
    }

    /// Returns whether a difference was found.
    pub fn is_found(&self) -> bool {
        matches!(self.kind, Kind::Faster | Kind::Slower)
    }
}

/// The words for `ratio`, by its interval and by the controls of both its paths.
pub fn versus(document: &Document, ratio: &Ratio) -> Versus {
    let standing = compare::judge(document, ratio);
    let (kind, reason) = match standing {
        Standing::None => (Kind::NoDifference, String::new()),
        Standing::Below => (Kind::Faster, String::new()),
        Standing::Above => (Kind::Slower, String::new()),
        Standing::NoControl(path) => (Kind::NotJudged, format!("{path} has too few rounds to be compared with itself")),
        Standing::WithinNoise(path, floor) => {
            (Kind::WithinNoise, format!("{path} differs from itself by {}", crate::number::difference(floor)))
        }
    };
    let (finding, interval) = match kind {
        Kind::NoDifference => ("no measurable difference".into(), bare_interval(ratio)),
        Kind::WithinNoise => ("within the noise".into(), bare_interval(ratio)),
        _ => said(ratio.value, ratio.ci95),
    };
    Versus { kind, against: ratio.against.clone(), finding, interval, reason }
}

/// The interval of a ratio alone: `3.2–4.5× faster`, or `8 % faster to 4 % slower`.
pub fn bare_interval(ratio: &Ratio) -> String {
    let [low, high] = ratio.ci95;
    match low <= 1.0 && high >= 1.0 {
        true => spanning(ratio.ci95),
        false => whole_interval(ratio, &difference(ratio.value, ratio.ci95).1),
    }
}

/// An interval with its direction.
fn whole_interval(ratio: &Ratio, interval: &str) -> String {
    format!("{interval} {}", direction(ratio.value))
}

fn direction(ratio: f64) -> &'static str {
    if ratio < 1.0 { "faster" } else { "slower" }
}

/// Finding and interval; the interval alone where it is wide.
fn said(value: f64, ci95: [f64; 2]) -> (String, String) {
    let (middle, interval) = difference(value, ci95);
    let direction = direction(value);
    match ci95[1] / ci95[0] > WIDE {
        true => (format!("{interval}{NO_BREAK}{direction}"), String::new()),
        false => (format!("{middle}{NO_BREAK}{direction}"), interval),
    }
}

/// How far from 1, and its interval, both counted up from 1.
fn difference(value: f64, [low, high]: [f64; 2]) -> (String, String) {
    let (value, low, high) = if value < 1.0 { (1.0 / value, 1.0 / high, 1.0 / low) } else { (value, low, high) };
    match value < PERCENT_BELOW {
        true => (percent_above(value), percents_above(low, high)),
        false => (factor(value), factors(low, high)),
    }
}

/// An interval that holds 1: `8 % faster to 4 % slower`.
fn spanning([low, high]: [f64; 2]) -> String {
    let side = |times: f64, direction: &str| {
        let size = if times < PERCENT_BELOW { percents_above(1.0, times) } else { factors(1.0, times) };
        let (_, size) = size.split_once('–').unwrap_or(("", size.as_str()));
        format!("{size} {direction}")
    };
    format!("{} to {}", side(1.0 / low, "faster"), side(high, "slower"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64, ci95: [f64; 2]) -> Ratio {
        Ratio { of: "xdp".into(), against: "kernel-pinned".into(), stat: "p50".into(), value, ci95, ..Ratio::default() }
    }

    fn told(value: f64, ci95: [f64; 2], floor: Option<f64>) -> Versus {
        let control = |path: &str, floor: f64| Ratio {
            of: path.into(),
            against: path.into(),
            ..ratio(1.0, [1.0 / (1.0 + floor), 1.0 + floor])
        };
        let controls = floor.into_iter().flat_map(|floor| [control("xdp", floor), control("kernel-pinned", 0.01)]);
        let document = Document { ratios: controls.chain([ratio(value, ci95)]).collect(), ..Document::default() };
        versus(&document, document.ratios.last().unwrap())
    }

    fn text(versus: &Versus) -> String {
        versus.text().replace(NO_BREAK, " ")
    }

    #[test]
    fn faster_and_slower_count_up_from_one() {
        let quiet = Some(0.01);
        assert_eq!(text(&told(0.49, [0.45, 0.52], quiet)), "2.0× faster (1.9–2.3×)");
        assert_eq!(text(&told(6.91, [6.5, 7.2], quiet)), "6.9× slower (6.5–7.2×)");
        assert_eq!(text(&told(0.885, [0.86, 0.92], quiet)), "12 % faster (8.6–17 %)");
        assert_eq!(text(&told(0.261, [0.19, 0.31], quiet)), "3.2–5.3× faster");
    }

    #[test]
    fn what_may_not_be_called_a_difference_is_not() {
        let none = told(1.02, [0.93, 1.14], Some(0.01));
        assert_eq!(
            (none.kind, text(&none)),
            (Kind::NoDifference, "no measurable difference (7.6 % faster to 14 % slower)".into())
        );
        let noise = told(0.8, [0.75, 0.85], Some(0.4));
        assert_eq!((noise.kind, text(&noise)), (Kind::WithinNoise, "within the noise (1.1–1.4× faster)".into()));
        assert_eq!(noise.reason, "xdp differs from itself by 40.00 %");
        let unjudged = told(0.49, [0.45, 0.52], None);
        assert_eq!((unjudged.kind, unjudged.is_found()), (Kind::NotJudged, false));
        assert!(unjudged.reason.contains("too few rounds"));
    }
}
