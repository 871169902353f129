//! The few SVG elements that the charts need.
//!
//! A drawing has no viewBox: places are in per cent of whatever room the page gives it, marks and letters in pixels. One drawing fits a
//! phone, a screen and paper, and its letters never scale.

use std::fmt::Write as _;

use crate::markup::escape;

/// A place in a drawing: per cent from the left, per cent from the top.
pub(crate) type Place = (f64, f64);

/// The position of a text relative to its place.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing that grows.
#[derive(Default)]
pub(crate) struct Canvas {
    body: String,
}

impl Canvas {
    pub(crate) fn line(&mut self, (x1, y1): Place, (x2, y2): Place, class: &str) {
        self.push(format_args!(r#"<line class="{class}" x1="{x1:.2}%" y1="{y1:.2}%" x2="{x2:.2}%" y2="{y2:.2}%"/>"#));
    }

    /// A rectangle between two places.
    pub(crate) fn rect(&mut self, (x1, y1): Place, (x2, y2): Place, class: &str) {
        let (x, y, w, h) = (x1.min(x2), y1.min(y2), (x2 - x1).abs(), (y2 - y1).abs());
        self.push(format_args!(r#"<rect class="{class}" x="{x:.2}%" y="{y:.2}%" width="{w:.2}%" height="{h:.2}%"/>"#));
    }

    /// A circle with a radius in pixels.
    pub(crate) fn circle(&mut self, (x, y): Place, radius: f64, class: &str) {
        self.push(format_args!(r#"<circle class="{class}" cx="{x:.2}%" cy="{y:.2}%" r="{radius}"/>"#));
    }

    /// A path in pixels around a place.
    pub(crate) fn mark(&mut self, (x, y): Place, path: &str, class: &str) {
        self.push(format_args!(r#"<svg class="at" x="{x:.2}%" y="{y:.2}%"><path class="{class}" d="{path}"/></svg>"#));
    }

    /// A text, moved by pixels from its place.
    pub(crate) fn text(&mut self, (x, y): Place, (dx, dy): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.push(format_args!(
            r#"<text class="{class}" x="{x:.2}%" y="{y:.2}%" dx="{dx}" dy="{dy}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// A line through all places.
    pub(crate) fn curve(&mut self, places: &[Place], class: &str) {
        if places.len() > 1 {
            self.shape(places, &format!("curve {class}"), "");
        }
    }

    /// The area inside all places.
    pub(crate) fn area(&mut self, places: &[Place], class: &str) {
        if places.len() > 2 {
            self.shape(places, &format!("area {class}"), "Z");
        }
    }

    /// Lines cannot be given in per cent: they are drawn in a unit square that is stretched, their strokes are not.
    fn shape(&mut self, places: &[Place], class: &str, end: &str) {
        let mut path = String::new();
        for (i, (x, y)) in places.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = write!(path, "{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, x * 10.0, y * 10.0);
        }
        self.push(format_args!(
            r#"<svg viewBox="0 0 1000 1000" preserveAspectRatio="none"><path class="{class}" d="{path}{end}"/></svg>"#
        ));
    }

    /// A strip of the whole height, with a line in its middle and a text for who points there.
    pub(crate) fn probe(&mut self, (from, to): (f64, f64), tip: &str) {
        let (width, middle, tip) = (to - from, f64::midpoint(from, to), escape_lines(tip));
        self.push(format_args!(
            r#"<g class="probe" data-tip="{tip}"><rect x="{from:.2}%" width="{width:.2}%" height="100%"/><line x1="{middle:.2}%" x2="{middle:.2}%" y2="100%"/></g>"#
        ));
    }

    /// All that follows belongs to a group, moved to the side by pixels, until [`Self::end_group`].
    pub(crate) fn group(&mut self, class: &str, dx: f64) {
        self.push(format_args!(r#"<g class="{class}" transform="translate({dx} 0)">"#));
    }

    pub(crate) fn end_group(&mut self) {
        self.body.push_str("</g>");
    }

    /// The whole drawing; `label` says in words what it shows.
    pub(crate) fn finish(self, class: &str, label: &str) -> String {
        let (body, label) = (self.body, escape(label));
        format!(r#"<svg class="{class}" role="img" aria-label="{label}">{body}</svg>"#)
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

/// Text of several lines in an attribute.
pub(crate) fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("&#10;")
}
