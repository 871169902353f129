//! The frame of a chart with two axes.

use super::Shape;
use super::canvas::{Anchor, Canvas};
use super::scale::Scale;
use crate::number::{self, Unit};

/// The part of the drawing that the curves may use.
#[derive(Clone, Copy)]
pub(crate) struct Plot {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

impl Plot {
    /// Leaves room for the axes of a chart of this shape.
    pub(crate) fn of(shape: Shape) -> Self {
        let left = if shape == Shape::Wide { 56.0 } else { 44.0 };
        Self { left, right: shape.width() - 14.0, top: 30.0, bottom: shape.height() - 46.0 }
    }
}

/// The vertical axis of times: grid, ticks and its name above it.
pub(crate) fn vertical_times(canvas: &mut Canvas, plot: Plot, scale: &Scale, unit: Unit, name: &str) {
    vertical(canvas, plot, scale, |tick| number::short(tick / unit.ns), &format!("{name}, {}", unit.name));
}

/// Draws a vertical axis: grid, ticks, and its name above it, horizontally.
pub(crate) fn vertical(canvas: &mut Canvas, plot: Plot, scale: &Scale, write: impl Fn(f64) -> String, name: &str) {
    for tick in scale.ticks(40.0) {
        let y = scale.at(tick);
        canvas.line((plot.left, y), (plot.right, y), "grid");
        canvas.text((plot.left - 8.0, y + 4.0), Anchor::End, "tick", &write(tick));
    }
    let name = if scale.log { format!("{name} (log scale)") } else { name.into() };
    canvas.text((0.0, 14.0), Anchor::Start, "name", &name);
}

/// A horizontal axis: ticks at `places` (where, what) that do not touch each other, and its name below.
pub(crate) fn horizontal(canvas: &mut Canvas, plot: Plot, places: &[(f64, String)], name: &str) {
    canvas.line((plot.left, plot.bottom), (plot.right, plot.bottom), "base");
    let mut free_from = f64::NEG_INFINITY;
    for (x, text) in places {
        // Half the width of a text at this size, and the air that it needs beside another.
        let (half, air) = (text.chars().count() as f64 * 3.6, 4.0);
        canvas.line((*x, plot.bottom), (*x, plot.bottom + 4.0), "base");
        if x - half >= free_from.max(0.0) && x + half <= canvas.width {
            canvas.text((*x, plot.bottom + 18.0), Anchor::Middle, "tick", text);
            free_from = x + half + 2.0 * air;
        }
    }
    canvas.text((plot.right, plot.bottom + 38.0), Anchor::End, "name", name);
}

/// The ticks of a scale as places for [`horizontal`].
pub(crate) fn places(scale: &Scale, room: f64, write: impl Fn(f64) -> String) -> Vec<(f64, String)> {
    scale.ticks(room).into_iter().map(|tick| (scale.at(tick), write(tick))).collect()
}
