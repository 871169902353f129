//! The first panel as a picture of its own, for a README: one file for light, one for dark.

use super::{CHARTS_CSS, DARK_CSS, LIGHT_CSS};
use crate::findings;
use crate::findings::family::{self, Family};
use crate::findings::panels::{compared, median};
use crate::findings::quantity::{brief_or_absent, precise};
use crate::markup::escape;
use crate::schema::{Document, Row};
use crate::svg::canvas::Canvas;
use crate::svg::rows::{self, Marks};
use crate::svg::scale::Scale;
use crate::svg::{class, cut};
use crate::view::{compare, label};

/// For which ground a picture is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// White.
    Light,
    /// Near black.
    Dark,
}

/// Width of the picture, and where its parts begin.
const WIDTH: f64 = 880.0;
const MARGIN: f64 = 20.0;
const CHART: f64 = 176.0;
const CHART_WIDTH: f64 = 500.0;
const ROW: f64 = 34.0;
const TOP: f64 = 114.0;

/// Most rows.
const ROWS_MAX: usize = 20;

/// One SVG file: the rows of the first panel of the report.
pub fn picture(document: &Document, theme: Theme) -> String {
    let compared = compared(document);
    let panel = compared.first().and_then(|one| one.panels.first());
    let rows: Vec<&Row> = panel.map(|panel| panel.rows.iter().copied().take(ROWS_MAX).collect()).unwrap_or_default();
    let height = TOP + ROW * rows.len() as f64 + 58.0;
    let found = findings::of(document);
    let title = escape(&cut(&found.headline, 96));
    let panel_title = panel.map(|panel| format!("{}, {}", panel.title, panel.measure)).unwrap_or_default();
    let body = match rows::scale(rows.iter().copied()) {
        Some(x) => draw(document, &rows, &x, panel.and_then(|panel| panel.best())),
        None => format!("<text x=\"{MARGIN}\" y=\"{TOP}\">Nothing was measured.</text>"),
    };
    let colours = if theme == Theme::Light { LIGHT_CSS } else { DARK_CSS };
    let panel_title = escape(&panel_title);
    let (when, what) = found.meta.split_at(found.meta.len().min(3));
    let host: String = [when, what]
        .iter()
        .zip([34.0, 16.0])
        .map(|(parts, up)| {
            format!("<text x=\"{MARGIN}\" y=\"{}\">{}</text>", height - up, escape(&cut(&parts.join(" · "), 120)))
        })
        .collect();
    let label = escape(&described(&rows));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"{label}\"><title>{title}</title>\n<style>\n:root {{\n--sans: system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif;\n{colours}}}\n\
         {CHARTS_CSS}.frame {{ fill: var(--ground); stroke: var(--rule) }} svg text.title {{ font-size: 17px; font-weight: 650; fill: var(--ink) }} \
         svg text.ink {{ fill: var(--ink) }} svg text.bold {{ font-weight: 650; fill: var(--ink) }} .mark {{ fill: var(--mark) }} .swatch {{ fill: var(--c) }}\n</style>\n\
         <rect class=\"frame\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n<text class=\"title\" x=\"{MARGIN}\" y=\"32\">{title}</text>\n\
         <text x=\"{MARGIN}\" y=\"52\">{panel_title}. Dot: p50, bars: to p90 and p99, line: to p99.9; ticks below: slices of the run.</text>\n{}{body}\n{host}\n</svg>\n",
        WIDTH - 1.0,
        height - 1.0,
        key(document, &rows),
    )
}

/// The colours of families.
fn key(document: &Document, rows: &[&Row]) -> String {
    let is_there = |one: &Family| rows.iter().any(|row| family::of(document, row) == *one);
    let mut x = MARGIN;
    let mut key = String::new();
    for one in Family::ALL.into_iter().filter(is_there) {
        let (class, name) = (class(one), one.name());
        key += &format!(
            "<g class=\"{class}\"><rect class=\"swatch\" x=\"{x}\" y=\"63\" width=\"10\" height=\"10\" rx=\"2\"/></g><text x=\"{}\" y=\"72\">{name}</text>",
            x + 16.0
        );
        // Letters of 12 pixels are about 7 wide.
        x += 36.0 + 7.0 * name.len() as f64;
    }
    key
}

fn draw(document: &Document, rows: &[&Row], x: &Scale, best: Option<&Row>) -> String {
    let first =
        best.and_then(|best| compare::against_baseline(document, best, "p50")).map(|ratio| ratio.against.as_str());
    let baseline = rows.iter().find(|row| Some(label(row)) == first).and_then(|row| median(row));
    let mut body = format!(
        "<svg x=\"{CHART}\" y=\"{}\" width=\"{CHART_WIDTH}\" height=\"22\">{}</svg>",
        TOP - 24.0,
        rows::head(x)
    );
    for (name, at) in [("p50", 752.0), ("p99", 846.0)] {
        body += &format!("<text x=\"{at}\" y=\"{}\" text-anchor=\"end\">{name}</text>", TOP - 9.0);
    }
    for (i, row) in rows.iter().enumerate() {
        let top = TOP + ROW * i as f64;
        let is_best = best.is_some_and(|best| std::ptr::eq(best, *row)) && rows.len() > 1;
        if is_best {
            body += &format!("<rect class=\"mark\" x=\"10\" y=\"{top}\" width=\"{}\" height=\"{ROW}\"/>", WIDTH - 20.0);
        }
        let mut canvas = Canvas::default();
        let marks = Marks {
            best: is_best,
            limit: family::is_limit(&row.path),
            baseline: (Some(label(row)) == first).then_some(0),
        };
        rows::body(&mut canvas, row, class(family::of(document, row)), x, marks, &[baseline]);
        let (name, text) = (escape(&cut(label(row), 22)), top + 18.0);
        let kind = if is_best { "bold" } else { "ink" };
        body += &format!(
            "<text class=\"{kind}\" x=\"{MARGIN}\" y=\"{text}\">{name}</text><svg x=\"{CHART}\" y=\"{top}\" width=\"{CHART_WIDTH}\" \
             height=\"{ROW}\">{}</svg><text class=\"bold\" x=\"752\" y=\"{text}\" text-anchor=\"end\">{}</text><text class=\"ink\" x=\"846\" \
             y=\"{text}\" text-anchor=\"end\">{}</text>",
            canvas.into_body(),
            brief_or_absent(row.distribution.p50),
            brief_or_absent(row.distribution.p99),
        );
    }
    body
}

/// The medians in words.
fn described(rows: &[&Row]) -> String {
    let told = rows.iter().filter_map(|row| Some(format!("{} {}", label(row), precise(median(row)?))));
    format!("Median of each path: {}", told.collect::<Vec<_>>().join(", "))
}
