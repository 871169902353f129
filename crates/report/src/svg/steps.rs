//! Steps: from one median to the next, and ratios beside 1.

use super::canvas::{Anchor, Canvas};
use super::scale::Scale;
use crate::findings::quantity;
use crate::schema::Ratio;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It is faster.
    Faster,
    /// It is slower.
    Slower,
    /// No difference can be claimed.
    None,
}

impl Effect {
    fn class(self) -> &'static str {
        match self {
            Self::Faster => "gain",
            Self::Slower => "loss",
            Self::None => "same",
        }
    }
}

/// A step from the median `before` to `after`; a dot alone where there is none before.
pub(crate) fn step(before: Option<f64>, after: f64, effect: Effect, x: &Scale) -> String {
    let mut canvas = Canvas::default();
    grid(&mut canvas, x);
    let to = x.at(after);
    if let Some(before) = before {
        let from = x.at(before);
        canvas.line((from, 0.0), (from, 38.0), "connector");
        canvas.rect((from, 30.0), (to, 70.0), &format!("bar {}", effect.class()));
    }
    canvas.line((to, 62.0), (to, 100.0), "connector");
    canvas.circle((to, 50.0), 4.5, &format!("dot {}", effect.class()));
    let label = match before {
        Some(before) => format!("From {} to {}", quantity::precise(before), quantity::precise(after)),
        None => quantity::precise(after),
    };
    canvas.finish("row", &label)
}

/// A step that was not possible: the line goes on.
pub(crate) fn skipped(at: Option<f64>, x: &Scale) -> String {
    let mut canvas = Canvas::default();
    grid(&mut canvas, x);
    if let Some(at) = at {
        canvas.line((x.at(at), 0.0), (x.at(at), 100.0), "connector dotted");
    }
    canvas.finish("row", "Not measured")
}

fn grid(canvas: &mut Canvas, x: &Scale) {
    for tick in x.ticks(super::axis::ACROSS) {
        canvas.line((x.at(tick), 0.0), (x.at(tick), 100.0), "gl");
    }
}

/// The axis of ratios: symmetric around 1; none where nothing can be drawn.
pub(crate) fn ratio_scale<'a>(ratios: impl IntoIterator<Item = &'a Ratio>) -> Option<Scale> {
    let ends = ratios.into_iter().flat_map(|ratio| ratio.ci95).filter(|end| end.is_finite() && *end > 0.0);
    let far = ends
        .map(|end| end.max(1.0 / end))
        .fold(None, |far: Option<f64>, end| Some(far.map_or(end, |far| far.max(end))))?;
    Scale::fit_log([1.0 / far, far], 0.0, 100.0)
}

/// A ratio with its interval beside 1.
pub(crate) fn ratio(ratio: &Ratio, effect: Effect, x: &Scale) -> String {
    let mut canvas = Canvas::default();
    canvas.line((x.at(1.0), 0.0), (x.at(1.0), 100.0), "against");
    let [low, high] = ratio.ci95;
    if [ratio.value, low, high].iter().all(|end| end.is_finite() && *end > 0.0) {
        let class = effect.class();
        canvas.line((x.at(low), 50.0), (x.at(high), 50.0), &format!("whisker {class}"));
        canvas.circle((x.at(ratio.value), 50.0), 4.5, &format!("dot {class}"));
    }
    canvas.finish("row", &format!("Ratio {} of with to without", crate::number::ratio(ratio.value)))
}

/// The words above an axis of ratios.
pub(crate) fn ratio_head(x: &Scale) -> String {
    let mut canvas = Canvas::default();
    let middle = x.at(1.0);
    canvas.text((0.0, 70.0), (0.0, 0.0), Anchor::Start, "tick", "faster with it");
    canvas.text((middle, 70.0), (0.0, 0.0), Anchor::Middle, "tick", "1");
    canvas.text((100.0, 70.0), (0.0, 0.0), Anchor::End, "tick", "slower");
    canvas.finish("axis", "Axis of ratios, logarithmic: left of 1 is faster with the step")
}

/// A rate as a bar from zero.
pub(crate) fn rate(value: f64, most: f64, class: &str) -> String {
    let mut canvas = Canvas::default();
    let share = if most > 0.0 && value.is_finite() { (value / most).clamp(0.0, 1.0) } else { 0.0 };
    canvas.line((0.0, 10.0), (0.0, 90.0), "bl");
    canvas.rect((0.0, 28.0), (share * 99.0, 72.0), &format!("bar {class}"));
    canvas.finish("row", &format!("{} messages per second", quantity::whole(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_goes_from_one_median_to_the_next() {
        let x = Scale::fit_log([7e3, 17e3], 0.0, 100.0).unwrap();
        let first = step(None, 17e3, Effect::None, &x);
        let gain = step(Some(17e3), 7e3, Effect::Faster, &x);
        assert!(!first.contains("<rect") && gain.contains("bar gain") && gain.contains("From 17.0"));
        assert!(skipped(Some(7e3), &x).contains("dotted") && !skipped(None, &x).contains("dotted"));
    }

    #[test]
    fn ratios_lie_on_both_sides_of_one() {
        let one = Ratio { value: 0.5, ci95: [0.4, 0.6], ..Ratio::default() };
        let x = ratio_scale([&one]).unwrap();
        assert!((x.at(1.0) - 50.0).abs() < 0.1);
        assert!(ratio(&one, Effect::Faster, &x).contains("whisker gain"));
        assert!(ratio_scale([&Ratio::default()]).is_none());
        let odd = Ratio { value: f64::NAN, ci95: [f64::NAN, f64::INFINITY], ..Ratio::default() };
        assert!(!ratio(&odd, Effect::None, &x).contains("whisker"));
        assert!(rate(5.0, 10.0, "f-past").contains("width=\"49.50%\"") && rate(f64::NAN, 0.0, "").contains("0.00%"));
    }
}
