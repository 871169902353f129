//! Axes: grid, ticks, and names at the ends of lines.

use super::canvas::{Anchor, Canvas};
use super::scale::Scale;
use crate::findings::quantity;

/// Ticks that a horizontal axis has room for on a phone.
pub(crate) const ACROSS: f64 = 6.0;
/// Ticks that the height of a chart has room for.
pub(crate) const UP: f64 = 6.0;

/// Grid and times of a vertical axis; the times stand left of the drawing.
pub(crate) fn up_times(canvas: &mut Canvas, scale: &Scale) {
    for tick in scale.ticks(UP) {
        up(canvas, scale.at(tick), &quantity::tick(tick));
    }
}

/// One line of the grid and its text, left of the drawing.
pub(crate) fn up(canvas: &mut Canvas, y: f64, text: &str) {
    canvas.line((0.0, y), (100.0, y), "gl");
    canvas.text((0.0, y), (-7.0, 4.0), Anchor::End, "tick", text);
}

/// The base line and texts below the drawing.
pub(crate) fn across(canvas: &mut Canvas, places: &[(f64, String)]) {
    canvas.line((0.0, 100.0), (100.0, 100.0), "bl");
    // In per cent, on a phone: a letter takes about two.
    let mut free_from = f64::NEG_INFINITY;
    for (x, text) in places {
        let half = text.chars().count() as f64 * 1.5;
        canvas.mark((*x, 100.0), "M0 0v4", "bl");
        if x - half >= free_from {
            canvas.text((*x, 100.0), (0.0, 17.0), Anchor::Middle, "tick", text);
            free_from = x + half + 3.0;
        }
    }
}

/// A name at the end of a line, right of the drawing.
pub(crate) struct EndName {
    /// Where the line ends.
    pub(crate) end: (f64, f64),
    /// The name.
    pub(crate) name: String,
    /// The class of the line.
    pub(crate) class: String,
}

/// Heights of charts, in pixels on a screen; the style sheet has the same.
#[derive(Clone, Copy)]
pub(crate) enum Height {
    Flat = 88,
    Usual = 208,
    Tall = 260,
}

/// Height that a name takes, in pixels.
const NAME_ROOM: f64 = 14.0;

/// Most letters of a name beside a chart.
const NAME_LETTERS: usize = 17;

/// Draws names in a column at the right, none upon another, each with a thin line to its end.
pub(crate) fn end_names(canvas: &mut Canvas, mut names: Vec<EndName>, height: Height) {
    names.sort_by(|a, b| a.end.1.total_cmp(&b.end.1));
    let wanted: Vec<f64> = names.iter().map(|one| one.end.1).collect();
    for (one, y) in names.iter().zip(relaxed(&wanted, 100.0 * NAME_ROOM / f64::from(height as u16))) {
        canvas.line(one.end, (100.0, y), "leader");
        let class = format!("end {}", one.class);
        canvas.text((100.0, y), (7.0, 4.0), Anchor::Start, &class, &super::cut(&one.name, NAME_LETTERS));
    }
}

/// Rounds in which neighbours that are too near are pushed apart.
const ROUNDS: usize = 60;

/// Places in order, pushed apart until each has `room`, and within the drawing as far as there is any.
pub(crate) fn relaxed(wanted: &[f64], room: f64) -> Vec<f64> {
    let room = room.min(104.0 / wanted.len().max(1) as f64);
    let mut places = wanted.to_vec();
    for _ in 0..ROUNDS {
        for i in 1..places.len() {
            let short = room - (places[i] - places[i - 1]);
            if short > 0.0 {
                places[i - 1] -= short / 2.0;
                places[i] += short / 2.0;
            }
        }
        if let (Some(first), Some(last)) = (places.first().copied(), places.last().copied()) {
            let shift = if first < -2.0 {
                -2.0 - first
            } else if last > 102.0 {
                102.0 - last
            } else {
                0.0
            };
            places.iter_mut().for_each(|place| *place += shift / 2.0);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_stand_upon_each_other() {
        let apart = relaxed(&[50.0, 50.5, 51.0, 80.0], 6.0);
        assert!(apart.windows(2).all(|two| two[1] - two[0] > 5.8), "{apart:?}");
        assert!((apart[1] - 50.5).abs() < 2.0 && (apart[3] - 80.0).abs() < 0.01, "{apart:?}");
        let low = relaxed(&[99.0, 100.0, 100.0], 6.0);
        assert!(low.iter().all(|place| *place < 103.0), "{low:?}");
        assert_eq!(relaxed(&[5.0; 100], 6.0).len(), 100);
        assert!(relaxed(&[], 6.0).is_empty());
    }
}
