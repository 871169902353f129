//! The main comparison as a picture of its own, for a README.

use super::{PALETTE_CSS, head};
use crate::markup::escape;
use crate::schema::Document;
use crate::svg::palette::Palette;
use crate::svg::{Shape, bars};
use crate::view;

/// Room around the drawing.
const MARGIN: f64 = 20.0;

/// Room above the drawing for the title.
const TITLE: f64 = 64.0;

/// One SVG file: p50 to p99 of each row of the main table, readable on light and on dark.
pub fn picture(document: &Document) -> String {
    let sections = view::latency_sections(document);
    let rows = sections.first().map(|section| section.rows.as_slice()).unwrap_or_default();
    let drawn = bars::draw(rows, &Palette::new(document), Shape::Wide);
    let (width, height) = drawn.as_ref().map_or((Shape::Wide.width(), 20.0), |canvas| (canvas.width, canvas.height));
    let body = match drawn {
        Some(canvas) => canvas.into_body(),
        None => "<text class=\"label\" y=\"14\">Nothing was measured.</text>".into(),
    };
    let (title, subtitle) = (escape(&head::title(document)), escape(&subtitle(document)));
    let (width, height) = (width + 2.0 * MARGIN, height + TITLE + MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>\n\
         <style>\n{PALETTE_CSS}.frame {{ fill: var(--paper); stroke: var(--rule) }} svg .title {{ font-size: 17px; \
         font-weight: 600; fill: var(--ink) }}\n</style>\n\
         <rect class=\"frame\" x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"31\">{title}</text><text x=\"{MARGIN}\" y=\"50\">{subtitle}</text>\n\
         <g transform=\"translate({MARGIN} {TITLE})\">{body}</g>\n</svg>\n",
        width - 1.0,
        height - 1.0,
    )
}

fn subtitle(document: &Document) -> String {
    let machine = if document.host.virtualised.is_some() { ", a virtual machine" } else { "" };
    format!("bar from p50 (dot) to p99, thin line from the minimum; {} CPUs{machine}", document.host.cpus)
}
