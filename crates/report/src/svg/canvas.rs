//! The few SVG elements that the charts need.

use std::fmt::Write as _;

use super::Shape;
use crate::markup::escape;

/// The position of a text relative to its point.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing that grows.
pub(crate) struct Canvas {
    pub(crate) width: f64,
    pub(crate) height: f64,
    body: String,
}

impl Canvas {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.push(format_args!(r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#));
    }

    pub(crate) fn rect(&mut self, corner: (f64, f64), size: (f64, f64), class: &str) {
        let ((x, y), (w, h)) = (corner, size);
        self.push(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}" rx="2"/>"#
        ));
    }

    pub(crate) fn circle(&mut self, (x, y): (f64, f64), radius: f64, class: &str) {
        self.push(format_args!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius}"/>"#));
    }

    pub(crate) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.push(format_args!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#));
    }

    /// A line through all points.
    pub(crate) fn curve(&mut self, points: &[(f64, f64)], class: &str) {
        if points.len() > 1 {
            let path = path(points);
            self.push(format_args!(r#"<path class="curve {class}" d="{path}"/>"#));
        }
    }

    /// The area inside all points.
    pub(crate) fn area(&mut self, points: &[(f64, f64)], class: &str) {
        if points.len() > 2 {
            let path = path(points);
            self.push(format_args!(r#"<path class="area {class}" d="{path}Z"/>"#));
        }
    }

    /// Returns the whole drawing; `label` describes it for screen readers.
    pub(crate) fn finish(self, shape: Shape, label: &str) -> String {
        let Self { width, height, body } = self;
        let (class, label) = (shape.class(), escape(label));
        format!(
            r#"<svg class="chart {class}" viewBox="0 0 {width:.0} {height:.0}" role="img" aria-label="{label}"><title>{label}</title>{body}</svg>"#
        )
    }

    /// The elements alone, for a picture with a frame of its own.
    pub(crate) fn into_body(self) -> String {
        self.body
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.body.write_fmt(element);
    }
}

fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
    }
    path
}
